"""What a verifier's results mean for mail, and where they are stored. A result belongs to an address and the people
there, whichever lists and orders they are in, so no one is verified twice while it is valid."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import sqlalchemy as sa

from quillpost.core.database import Database
from quillpost.core.text import Clock
from quillpost.recipients.addresses.rules import (
    ADDRESS_PARTS,
    DELIVERABLE,
    DOUBTFUL,
    HOME_COUNTRY,
    UNDELIVERABLE,
    standardize,
)
from quillpost.recipients.verification.ports import (
    AddressQuery,
    AddressVerification,
    AddressVerifier,
    PersonQuery,
    PostalParts,
)

T = TypeVar("T")

NOT_DELIVERED_TO = "The postal service does not deliver to this address."
MISSING_UNIT = "The postal service knows this building, but the apartment or suite is missing."
UNKNOWN_UNIT = "The postal service knows this building, but not this apartment or suite."
VACANT = "The postal service says that nobody has lived there for 90 days or more."
MOVED_AWAY = "They have moved and left no new address."
MOVED = "They have moved: mail goes to their new address in {}."
FOUND_BY_EMAIL = "The address was found by the e-mail."

QUESTIONS_PER_CALL = 500
NO_RESULT_LIFETIME = timedelta(days=1)
LEASE_DURATION = timedelta(minutes=2)
"""Renewed with each result; a call takes half a minute at most."""

_UPSERT_RESULTS = sa.text(
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
_RENEW_LEASE = sa.text("update address_passes set leased_until = :until where name = 'verify'")
_DELETE_EXPIRED = sa.text("delete from address_verdicts where expires_at <= :now")

VALID_RESULT_CONDITION = (
    """v.address_key = {key} and v.mover = mover_of({alias}.name, {alias}.company) and v.expires_at > :now"""
)
"""Which result is about a row: `key` is its address key, `alias` the row."""

MATCHES_RESULT_CONDITION = """
    ({row}.standard, {row}.moved_key, {row}.deliverability, {row}.reasons) is not distinct from
    (coalesce(v.standard, {row}.standard),
     case when v.standard is null then {row}.moved_key else v.moved_key end, v.deliverability, v.reasons)
"""
"""Whether a row equals its result; else it takes these values over."""

APPLY_RESULT_ASSIGNMENTS = """
    standard = coalesce(v.standard, {row}.standard),
    moved_key = case when v.standard is null then {row}.moved_key else v.moved_key end,
    deliverability = v.deliverability, reasons = v.reasons
"""


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Without a deliverability there is no result, and everything stays."""

    deliverability: str | None = None
    standard: PostalParts | None = None
    reasons: tuple[str, ...] = ()
    dpv: str | None = None
    has_moved: bool = False

    @property
    def moved_key(self) -> str | None:
        """The key of the address that they moved to: what suppresses that one suppresses them."""
        if not self.has_moved or self.standard is None:
            return None
        return standardize(dict(zip(ADDRESS_PARTS, self.standard, strict=True)), HOME_COUNTRY).key


class VerificationQuestion(NamedTuple):
    """A person at an address, or with only an e-mail."""

    key: str
    mover: bytes
    query: AddressQuery | PersonQuery


@dataclass(frozen=True, slots=True)
class VerificationContext:
    db: Database
    verifier: AddressVerifier
    valid_for: timedelta
    clock: Clock


def evaluate_verification(verification: AddressVerification) -> VerificationResult:
    """A move matters before all else: no one is at the old address."""
    if verification.moved is not None:
        new_address = verification.moved.new_address
        if new_address is None:
            return VerificationResult(UNDELIVERABLE, None, (MOVED_AWAY,), verification.dpv, has_moved=True)
        _, _, city, state, _ = new_address
        return VerificationResult(
            DELIVERABLE, new_address, (MOVED.format(f"{city} {state}"),), verification.dpv, has_moved=True
        )
    match verification.dpv:
        case "N":
            return VerificationResult(UNDELIVERABLE, verification.corrected, (NOT_DELIVERED_TO,), "N")
        case "D" | "S" as unit:
            reason = MISSING_UNIT if unit == "D" else UNKNOWN_UNIT
            return VerificationResult(DOUBTFUL, verification.corrected, (reason,), unit)
        case "Y" if verification.is_vacant:
            return VerificationResult(DOUBTFUL, verification.corrected, (VACANT,), "Y")
        case "Y":
            return VerificationResult(DELIVERABLE, verification.corrected, (), "Y")
    return VerificationResult()


def evaluate_found_address(address: PostalParts | None) -> VerificationResult:
    return VerificationResult() if address is None else VerificationResult(DELIVERABLE, address, (FOUND_BY_EMAIL,))


def verify_questions(context: VerificationContext, questions: Iterable[VerificationQuestion]) -> None:
    """Verify each once, and store results as they come; or `VerifierDown`. No transaction is open meanwhile."""
    distinct = {(question.key, question.mover): question for question in questions}.values()
    addresses = [(question, question.query) for question in distinct if isinstance(question.query, AddressQuery)]
    people = [(question, question.query) for question in distinct if isinstance(question.query, PersonQuery)]
    for address_call in _split_into_calls(addresses):
        verifications = context.verifier.verify([query for _, query in address_call])
        _store_results(context, [question for question, _ in address_call], map(evaluate_verification, verifications))
    for person_call in _split_into_calls(people):
        found_addresses = context.verifier.append([query for _, query in person_call])
        _store_results(context, [question for question, _ in person_call], map(evaluate_found_address, found_addresses))


def _split_into_calls(questions: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(questions), QUESTIONS_PER_CALL):
        yield questions[start : start + QUESTIONS_PER_CALL]


def _store_results(
    context: VerificationContext, questions: Sequence[VerificationQuestion], results: Iterable[VerificationResult]
) -> None:
    now = context.clock()
    pairs = list(zip(questions, results, strict=True))
    with context.db.system_transaction() as tx:
        tx.execute(
            _UPSERT_RESULTS,
            {
                "keys": [question.key for question, _ in pairs],
                "movers": [question.mover for question, _ in pairs],
                "dpvs": [result.dpv for _, result in pairs],
                "verdicts": [result.deliverability for _, result in pairs],
                "standards": [_to_json(result.standard) for _, result in pairs],
                "reasons": [_to_json(result.reasons) for _, result in pairs],
                "moved": [result.moved_key for _, result in pairs],
                "now": now,
                "expires": now + context.valid_for,
                "asked_again": now + min(NO_RESULT_LIFETIME, context.valid_for),
            },
        )
        tx.execute(_RENEW_LEASE, {"until": now + LEASE_DURATION})


def _to_json(texts: Sequence[str | None] | None) -> str | None:
    return None if texts is None else json.dumps(texts)


def delete_expired_results(db: Database, *, now: datetime) -> None:
    """The license limits how long we may store them."""
    with db.system_transaction() as tx:
        tx.execute(_DELETE_EXPIRED, {"now": now})
