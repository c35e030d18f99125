"""What a verifier's answer means for a piece of mail, and where answers are kept.

An answer belongs to an address and whoever is to be found there, whichever lists and orders they are in: so
nobody is asked about twice while it holds.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import sqlalchemy as sa

from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.recipients.addresses.service import DELIVERABLE, DOUBTFUL, HOME, PARTS, UNDELIVERABLE, judge
from quillpost.recipients.verification.ports import (
    AddressAnswer,
    AddressVerifier,
    AskedAddress,
    AskedPerson,
    PostalParts,
)

NOT_DELIVERED_TO = "The postal service does not deliver to this address."
LACKS_UNIT = "The postal service knows this building, but the apartment or suite is missing."
UNKNOWN_UNIT = "The postal service knows this building, but not this apartment or suite."
VACANT = "The postal service says that nobody has lived there for 90 days or more."
MOVED_AWAY = "They have moved and left no new address."
MOVED = "They have moved: mail goes to their new address in {}."
FOUND_BY_EMAIL = "The address was found by the e-mail."

A_CALL = 500
"""Questions in one call."""
NO_ANSWER_LASTS = timedelta(days=1)
LEASE = timedelta(minutes=2)
"""So long nobody else asks, from each answer on; a call takes half a minute at most."""

_KEEP = sa.text(
    """
    insert into address_verdicts (address_key, mover, dpv, deliverability, standard, reasons, moved_key,
                                  answered_at, expires_at)
    select key, mover, dpv, deliverability, texts_of(standard), texts_of(reasons), moved_key, :now,
           case when deliverability is null then :asked_again else :expires end
      from unnest(cast(:keys as text[]), cast(:movers as bytea[]), cast(:dpvs as text[]),
                  cast(:verdicts as text[]), cast(:standards as text[]), cast(:reasons as text[]),
                  cast(:moved as text[]))
           as said (key, mover, dpv, deliverability, standard, reasons, moved_key)
    on conflict (address_key, mover) do update
       set dpv = excluded.dpv, deliverability = excluded.deliverability, standard = excluded.standard,
           reasons = excluded.reasons, moved_key = excluded.moved_key,
           answered_at = excluded.answered_at, expires_at = excluded.expires_at
    """
)
_RENEW = sa.text("update address_passes set leased_until = :until where name = 'verify'")
_FORGET_EXPIRED = sa.text("delete from address_verdicts where expires_at <= :now")

HOLDS = """v.address_key = {key} and v.mover = mover_of({who}.name, {who}.company) and v.expires_at > :now"""
"""Which verdict is about a row: `key` is its address's, `who` the row."""

FITS = """
    ({row}.standard, {row}.moved_key, {row}.deliverability, {row}.reasons) is not distinct from
    (coalesce(v.standard, {row}.standard),
     case when v.standard is null then {row}.moved_key else v.moved_key end, v.deliverability, v.reasons)
"""
"""Whether a row is as its verdict has it; else it takes these over."""

TAKE_OVER = """
    standard = coalesce(v.standard, {row}.standard),
    moved_key = case when v.standard is null then {row}.moved_key else v.moved_key end,
    deliverability = v.deliverability, reasons = v.reasons
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer comes to. Without a deliverability there was none, and all stays as it was."""

    deliverability: str | None = None
    standard: PostalParts | None = None
    reasons: tuple[str, ...] = ()
    dpv: str | None = None
    has_moved: bool = False

    @property
    def moved_key(self) -> str | None:
        """The key of the address that they have moved to: what bars that one bars them."""
        if not self.has_moved or self.standard is None:
            return None
        return judge(dict(zip(PARTS, self.standard, strict=True)), HOME).key


class Question(NamedTuple):
    """Somebody at an address, or whose e-mail is all that is known."""

    key: str
    mover: bytes
    asked: AskedAddress | AskedPerson


@dataclass(frozen=True, slots=True)
class Verifying:
    """What it takes to ask: answers hold for so long."""

    db: Database
    verifier: AddressVerifier
    valid_for: timedelta
    clock: Clock


def verdict_of(answer: AddressAnswer) -> Verdict:
    """A move counts before all else: whatever is to be said of the old address, nobody is there any more."""
    if answer.moved is not None:
        to = answer.moved.to
        if to is None:
            return Verdict(UNDELIVERABLE, None, (MOVED_AWAY,), answer.dpv, has_moved=True)
        _, _, city, state, _ = to
        return Verdict(DELIVERABLE, to, (MOVED.format(f"{city} {state}"),), answer.dpv, has_moved=True)
    match answer.dpv:
        case "N":
            return Verdict(UNDELIVERABLE, answer.corrected, (NOT_DELIVERED_TO,), "N")
        case "D" | "S" as unit:
            why = LACKS_UNIT if unit == "D" else UNKNOWN_UNIT
            return Verdict(DOUBTFUL, answer.corrected, (why,), unit)
        case "Y" if answer.is_vacant:
            return Verdict(DOUBTFUL, answer.corrected, (VACANT,), "Y")
        case "Y":
            return Verdict(DELIVERABLE, answer.corrected, (), "Y")
    return Verdict()


def found_verdict(found: PostalParts | None) -> Verdict:
    return Verdict() if found is None else Verdict(DELIVERABLE, found, (FOUND_BY_EMAIL,))


def ask(means: Verifying, questions: Iterable[Question]) -> None:
    """Have each answered once, and the answers kept as they come; or `VerifierDown`.

    No transaction is open while the verifier thinks.
    """
    distinct = {(question.key, question.mover): question for question in questions}
    addresses = [each for each in distinct.values() if isinstance(each.asked, AskedAddress)]
    people = [each for each in distinct.values() if isinstance(each.asked, AskedPerson)]
    for some in _calls(addresses):
        said = means.verifier.verify([each.asked for each in some if isinstance(each.asked, AskedAddress)])
        _keep(means, some, [verdict_of(answer) for answer in said])
    for some in _calls(people):
        found = means.verifier.append([each.asked for each in some if isinstance(each.asked, AskedPerson)])
        _keep(means, some, [found_verdict(parts) for parts in found])


def _calls(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for start in range(0, len(questions), A_CALL):
        yield questions[start : start + A_CALL]


def _keep(means: Verifying, asked: Sequence[Question], verdicts: Sequence[Verdict]) -> None:
    now = means.clock()
    said = list(zip(asked, verdicts, strict=True))
    with means.db.work() as tx:
        tx.execute(
            _KEEP,
            {
                "keys": [question.key for question, _ in said],
                "movers": [question.mover for question, _ in said],
                "dpvs": [verdict.dpv for _, verdict in said],
                "verdicts": [verdict.deliverability for _, verdict in said],
                "standards": [_json(verdict.standard) for _, verdict in said],
                "reasons": [_json(verdict.reasons) for _, verdict in said],
                "moved": [verdict.moved_key for _, verdict in said],
                "now": now,
                "expires": now + means.valid_for,
                "asked_again": now + min(NO_ANSWER_LASTS, means.valid_for),
            },
        )
        tx.execute(_RENEW, {"until": now + LEASE})


def _json(texts: Sequence[str | None] | None) -> str | None:
    return None if texts is None else json.dumps(texts)


def forget_expired(db: Database, *, now: datetime) -> None:
    """What a licence lets us keep for some time alone."""
    with db.work() as tx:
        tx.execute(_FORGET_EXPIRED, {"now": now})
