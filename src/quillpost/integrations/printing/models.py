"""A print job as files in a folder: `ticket.json` is written last, so a folder with a ticket is complete. The printer
reports by marks beside it: `acknowledged.json`, `printed.json` with spoiled items, `mailed.json`. A mark that cannot be
read is an error in the print room; the job waits."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from quillpost.core import exact_json
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import hide_secrets
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.integrations.folders.models import FolderDown, FolderFileTooLarge, OpenFolder, RemoteFolder

MAX_MARK_BYTES = 2_000_000  # a whole batch spoiled, with a long reason for each item
MAX_CLOCK_SKEW = timedelta(days=1)  # clocks differ, and people write local times
MAX_ID = 2**63 - 1
MAX_REASON_LENGTH = 200
EXAMPLE_MARK = '{"at": "2026-05-04T12:00:00Z"}'


def read_object(data: bytes, *, source: str) -> dict[str, Any]:
    """The JSON object, or `PartnerDown` with a sentence that names the source."""
    try:
        value = exact_json.parse_json(data)
    except exact_json.InvalidJson as failure:
        raise _build_unusable_error(source, str(failure)) from None
    if not isinstance(value, dict):
        raise _build_unusable_error(source, f"It must be an object such as {EXAMPLE_MARK}.")
    return value


def read_time(value: object, *, now: datetime, source: str) -> datetime:
    """A time without a zone is UTC."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None:
        raise _build_unusable_error(source, f"It must say when, as in {EXAMPLE_MARK}.")
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if not datetime.min.replace(tzinfo=UTC) + MAX_CLOCK_SKEW < time <= now + MAX_CLOCK_SKEW:
        raise _build_unusable_error(source, "Its time lies in the future.")
    return time.astimezone(UTC)


def read_spoiled(value: object, *, source: str) -> dict[int, str]:
    """`{"17": "Torn"}` or `[{"item_id": 17, "reason": "Torn"}]`: the reason by the item's id."""
    if value is None:
        return {}
    try:
        return dict(_read_spoiled_items(value))
    except (ValueError, KeyError, TypeError, AttributeError):
        example = '{"17": "Torn"} or [{"item_id": 17, "reason": "Torn"}]'
        raise _build_unusable_error(source, f"Its spoiled pieces must be written as {example}.") from None


def _read_spoiled_items(value: object) -> Iterator[tuple[int, str]]:
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(item["item_id"], item.get("reason")) for item in value]
    else:
        raise TypeError
    for item_value, reason in pairs:
        if not isinstance(reason, str | None):
            raise TypeError
        yield _read_item_id(item_value), to_one_line(reason or "")


def _read_item_id(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if type(number) is not int or not 0 < number <= MAX_ID:
        raise ValueError
    return number


def to_one_line(text: str, *, max_length: int = MAX_REASON_LENGTH) -> str:
    """A partner's text as it is stored and shown, without secrets that it may quote."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 10 * max_length])
    return hide_secrets(" ".join(printable.split()))[:max_length]


def _build_unusable_error(source: str, reason: str) -> PartnerDown:
    return PartnerDown(f"{source} cannot be used: it is put right by writing it again. {reason}")


TICKET_FILE = "ticket.json"
ACKNOWLEDGED_FILE, PRINTED_FILE, MAILED_FILE = "acknowledged.json", "printed.json", "mailed.json"


class JobFolders:
    def __init__(self, folder: RemoteFolder) -> None:
        self._folder = folder

    @property
    def label(self) -> str:
        return self._folder.label

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        with self.open_folder() as folder:
            acknowledged, printed, mailed = (
                self._read_mark(folder, reference, name) for name in (ACKNOWLEDGED_FILE, PRINTED_FILE, MAILED_FILE)
            )
        return PrintProgress(
            acknowledged_at=self._read_mark_time(acknowledged, reference, ACKNOWLEDGED_FILE, now=now),
            printed_at=self._read_mark_time(printed, reference, PRINTED_FILE, now=now),
            mailed_at=self._read_mark_time(mailed, reference, MAILED_FILE, now=now),
            spoiled=read_spoiled((printed or {}).get("spoiled"), source=self._describe_file(reference, PRINTED_FILE)),
        )

    def mark_printed(self, reference: str, *, spoiled: Mapping[int, str], now: datetime) -> None:
        reasons = {str(item_id): reason for item_id, reason in spoiled.items()}
        self._write_mark(reference, PRINTED_FILE, {"at": now.isoformat(), "spoiled": reasons})

    def mark_mailed(self, reference: str, *, now: datetime) -> None:
        self._write_mark(reference, MAILED_FILE, {"at": now.isoformat()})

    def read_ticket(self, reference: str) -> Mapping[str, object] | None:
        with self.open_folder() as folder:
            return self._read_mark(folder, reference, TICKET_FILE)

    def read_manifest(self, reference: str) -> list[dict[str, object]]:
        with self.open_folder() as folder:
            try:
                data = folder.get(f"{reference}/manifest.json")
            except FileMissing:
                return []
        items: list[dict[str, object]] = json.loads(data)["pieces"]
        return items

    @contextmanager
    def open_folder(self) -> Iterator[OpenFolder]:
        try:
            with self._folder.open() as folder:
                yield folder
        except (FolderDown, FolderFileTooLarge) as error:
            raise PartnerDown(str(error)) from error

    def _read_mark(self, folder: OpenFolder, reference: str, name: str) -> dict[str, object] | None:
        try:
            data = folder.get(f"{reference}/{name}", max_bytes=MAX_MARK_BYTES)
        except FileMissing:
            return None
        return read_object(data, source=self._describe_file(reference, name))

    def _read_mark_time(
        self, mark: Mapping[str, object] | None, reference: str, name: str, *, now: datetime
    ) -> datetime | None:
        if mark is None:
            return None
        return read_time(mark.get("at"), now=now, source=self._describe_file(reference, name))

    def _write_mark(self, reference: str, name: str, value: Mapping[str, object]) -> None:
        with self.open_folder() as folder:
            folder.put(f"{reference}/{name}", json.dumps(value, indent=1).encode())

    def _describe_file(self, reference: str, name: str) -> str:
        return f"{name} of {reference} in {self._folder.label}"


def build_job_files(job: PrintJob, *, now: datetime) -> dict[str, bytes]:
    """In the order in which they are written."""
    ticket = json.dumps({**job.ticket, "submitted_at": now.isoformat()}, ensure_ascii=False, indent=1)
    return {name: data for name, data in job.files.items() if name != TICKET_FILE} | {TICKET_FILE: ticket.encode()}
