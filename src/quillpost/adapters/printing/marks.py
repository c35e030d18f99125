"""What a printer says of a job, in JSON that a person may have typed: `{"at": "2026-05-04T12:00:00Z"}`."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from quillpost.kit import exact_json
from quillpost.kit.tokens import hide_secrets
from quillpost.ports.printing import PartnerDown

LARGEST_MARK = 2_000_000
"""Bytes: a whole batch spoiled, with a long reason for each piece."""

EARLY = timedelta(days=1)
"""Clocks differ, and people write local times; what lies further ahead is a slip."""

LARGEST_ID = 2**63 - 1
LONGEST_REASON = 200
EXAMPLE = '{"at": "2026-05-04T12:00:00Z"}'


def read_object(data: bytes, *, source: str) -> dict[str, Any]:
    """The JSON object, or `PartnerDown` with a sentence that names the source."""
    try:
        found = exact_json.read(data)
    except exact_json.NotJson as wrong:
        raise _unusable(source, str(wrong)) from None
    if not isinstance(found, dict):
        raise _unusable(source, f"It must be an object such as {EXAMPLE}.")
    return found


def read_moment(value: object, *, now: datetime, source: str) -> datetime:
    """A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise _unusable(source, f"It must say when, as in {EXAMPLE}.")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if not datetime.min.replace(tzinfo=UTC) + EARLY < moment <= now + EARLY:
        raise _unusable(source, "Its time lies in the future.")
    return moment.astimezone(UTC)


def read_spoiled(value: object, *, source: str) -> dict[int, str]:
    """`{"17": "Torn"}` or `[{"item_id": 17, "reason": "Torn"}]`: the reason by the item's id."""
    if value is None:
        return {}
    try:
        return dict(_spoiled(value))
    except (ValueError, KeyError, TypeError, AttributeError):
        example = '{"17": "Torn"} or [{"item_id": 17, "reason": "Torn"}]'
        raise _unusable(source, f"Its spoiled pieces must be written as {example}.") from None


def _spoiled(value: object) -> Iterator[tuple[int, str]]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(piece["item_id"], piece.get("reason")) for piece in value]
    else:
        raise TypeError
    for item, reason in pairs:
        if not isinstance(reason, str | None):
            raise TypeError
        yield _item_id(item), one_line(reason or "")


def _item_id(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 < number <= LARGEST_ID:
        raise ValueError
    return number


def one_line(text: str, *, longest: int = LONGEST_REASON) -> str:
    """Others' words as we keep and show them: they may quote a file that they were given."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 10 * longest])
    return hide_secrets(" ".join(plain.split()))[:longest]


def _unusable(source: str, why: str) -> PartnerDown:
    return PartnerDown(f"{source} cannot be used: it is put right by writing it again. {why}")
