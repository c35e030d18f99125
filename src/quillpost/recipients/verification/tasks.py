"""Jobs that verify the people of all lists, once they are added and again when results expire."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.recipients import address_passes, recipients_to_verify
from quillpost.recipients.addresses.rules import ADDRESS_PARTS, HOME_COUNTRY, standardize
from quillpost.recipients.addresses.text import extract_surname
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.verification.ports import AddressQuery, PersonQuery
from quillpost.recipients.verification.service import (
    APPLY_RESULT_ASSIGNMENTS,
    FOUND_BY_EMAIL,
    LEASE_DURATION,
    MATCHES_RESULT_CONDITION,
    VALID_RESULT_CONDITION,
    VerificationContext,
    VerificationQuestion,
    verify_questions,
)

VERIFY_TASK = "verification.verify_addresses"
BATCH_SIZE = 2_000
_IS_VERIFY_PASS = address_passes.c.name == "verify"
BATCHES_PER_RUN = 20
"""Batches before those who changed are verified again."""

_HAS_VALID_RESULT = VALID_RESULT_CONDITION.format(key="coalesce(r.address_key, '@' || r.email_key)", alias="r")
# Entries of suppression lists, and samples, are never mailed to, so they are not verified.
_SELECT_RECIPIENTS = f"""
    select r.id, r.mailing_list_id, r.address_key, r.email_key, mover_of(r.name, r.company) as mover,
           r.name, r.company, r.standard,
           coalesce(r.country, '{HOME_COUNTRY}') = '{HOME_COUNTRY}' and not l.is_suppression_list and not r.is_sample
           and not exists (select from address_verdicts v
                            where {_HAS_VALID_RESULT})
           as needs_verification
      from recipients r join mailing_lists l on l.id = r.mailing_list_id
"""
_SELECT_CHANGED = sa.text(
    f"""
    {_SELECT_RECIPIENTS}
     where r.id in (select recipient_id from recipients_to_verify order by 1 limit :most) order by r.id
    """
)
_SELECT_NEXT = sa.text(f"{_SELECT_RECIPIENTS} where r.id > :last order by r.id limit :most")
_APPLY_RESULTS = sa.text(
    f"""
    update recipients r
       set {APPLY_RESULT_ASSIGNMENTS.format(row="r")}, updated_at = :now
      from address_verdicts v
     where r.id = any(:ids) and {VALID_RESULT_CONDITION.format(key="r.address_key", alias="r")}
       and v.deliverability is not null and r.standard is not null and not {MATCHES_RESULT_CONDITION.format(row="r")}
    """
)
_SELECT_FOUND_ADDRESSES = sa.text(
    f"""
    select r.id, r.mailing_list_id, r.name, r.email, v.standard
      from recipients r join address_verdicts v on {VALID_RESULT_CONDITION.format(key="'@' || r.email_key", alias="r")}
     where r.id = any(:ids) and r.address is null and v.standard is not null
     order by r.id
    """
)
# An address that is on the list already stays with its recipient there; of two who come to it one gets it.
_UPDATE_FOUND_ADDRESSES = sa.text(
    f"""
    with new as (
        select found.*, r.mailing_list_id,
               row_number() over (partition by r.mailing_list_id, found.key order by found.id) as place
          from unnest(cast(:ids as bigint[]), {", ".join(f"cast(:{name} as text[])" for name in ADDRESS_PARTS)},
                      cast(:surnames as text[]), cast(:keys as text[]), cast(:standards as text[]),
                      cast(:verdicts as text[]), cast(:reasons as text[]))
               as found (id, {", ".join(ADDRESS_PARTS)}, surname, key, standard, deliverability, reasons)
          join recipients r on r.id = found.id)
    update recipients r
       set {", ".join(f"{name} = new.{name}" for name in ADDRESS_PARTS)},
           country = '{HOME_COUNTRY}', surname = new.surname,
           address_key = new.key, standard = texts_of(new.standard), deliverability = new.deliverability,
           reasons = texts_of(new.reasons), updated_at = :now
      from new
     where r.id = new.id and r.address is null and new.place = 1
       and not exists (select from recipients o
                        where o.mailing_list_id = new.mailing_list_id and o.address_key = new.key)
    """
)
_SET_VERIFYING = sa.text("select set_config('app.verifying', 'yes', true)")
_RESTART_PASS = sa.text(
    """
    update address_passes set last_id = 0, begun_at = :now, done_at = null
     where name = 'verify' and (begun_at is null or begun_at <= :stale and done_at is not null)
    """
)
_ACQUIRE_LEASE = sa.text(
    """
    insert into address_passes as pass (name, last_id, leased_until)
    values ('verify', 0, :until)
    on conflict (name) do update set leased_until = :until
     where pass.leased_until is null or pass.leased_until <= :now
    """
)
_RELEASE_LEASE = sa.text(
    """
    update address_passes
       set leased_until = null, trouble = cast(:trouble as text),
           trouble_at = case when cast(:trouble as text) is not null then coalesce(trouble_at, :now) end
     where name = 'verify'
    """
)


def acquire_lease(db: Database, *, now: datetime) -> bool:
    """Whether no other worker verifies: two would pay for every result twice."""
    with db.system_transaction() as tx:
        return tx.execute(_ACQUIRE_LEASE, {"now": now, "until": now + LEASE_DURATION}).rowcount == 1


def release_lease(db: Database, error: str | None, *, now: datetime) -> None:
    """`error` is stored for the operator."""
    with db.system_transaction() as tx:
        tx.execute(_RELEASE_LEASE, {"trouble": error, "now": now})


def verify_recipients(context: VerificationContext) -> bool:
    """Verify some batches; whether there may be more."""
    now = context.clock()
    with context.db.system_transaction() as tx:
        tx.execute(_RESTART_PASS, {"now": now, "stale": now - context.valid_for})
    while _verify_batch(context, only_changed=True):
        pass
    return all(_verify_batch(context, only_changed=False) for _ in range(BATCHES_PER_RUN))


def _verify_batch(context: VerificationContext, *, only_changed: bool) -> bool:
    """Whether there was anyone."""
    with context.db.system_transaction() as tx:
        last_id = tx.execute(sa.select(address_passes.c.last_id).where(_IS_VERIFY_PASS)).scalar_one()
        bind_values = {"most": BATCH_SIZE, "now": context.clock(), "last": last_id}
        rows = tx.execute(_SELECT_CHANGED if only_changed else _SELECT_NEXT, bind_values).all()
    verify_questions(context, [question for row in rows if (question := _build_question(context, row))])
    ids = [row.id for row in rows]
    with context.db.system_transaction() as tx:
        lock_lists(tx, {row.mailing_list_id for row in rows})
        _record_progress(tx, ids, only_changed=only_changed, now=context.clock())
        if rows:
            tx.execute(_SET_VERIFYING)
            tx.execute(_APPLY_RESULTS, {"ids": ids, "now": context.clock()})
            _fill_in_addresses(tx, ids, now=context.clock())
    return bool(rows)


def _build_question(context: VerificationContext, row: sa.Row[Any]) -> VerificationQuestion | None:
    if not row.needs_verification:
        return None
    if row.standard is not None:
        return VerificationQuestion(
            row.address_key, row.mover, AddressQuery(row.name, row.company, tuple(row.standard))
        )
    if row.address_key is None and row.email_key is not None and context.verifier.can_append:
        return VerificationQuestion(f"@{row.email_key}", row.mover, PersonQuery(row.name, row.company, row.email_key))
    return None


def _record_progress(tx: Tx, ids: Sequence[int], *, only_changed: bool, now: datetime) -> None:
    """Recorded first: people who get another address below are verified again."""
    if only_changed:
        tx.execute(sa.delete(recipients_to_verify).where(recipients_to_verify.c.recipient_id.in_(ids)))
    elif ids:
        tx.execute(sa.update(address_passes).where(_IS_VERIFY_PASS).values(last_id=ids[-1]))
    else:
        tx.execute(sa.update(address_passes).where(_IS_VERIFY_PASS).values(done_at=now))


def _fill_in_addresses(tx: Tx, ids: Sequence[int], *, now: datetime) -> None:
    rows = tx.execute(_SELECT_FOUND_ADDRESSES, {"ids": list(ids), "now": now}).all()
    if not rows:
        return
    addresses = [dict(zip(ADDRESS_PARTS, row.standard, strict=True)) for row in rows]
    standardized_addresses = [
        standardize(parts, HOME_COUNTRY, email=row.email, name=row.name)
        for row, parts in zip(rows, addresses, strict=True)
    ]
    bind_values: dict[str, object] = {name: [parts[name] for parts in addresses] for name in ADDRESS_PARTS}
    bind_values |= {
        "ids": [row.id for row in rows],
        "surnames": [extract_surname(row.name) for row in rows],
        "keys": [standardized.key for standardized in standardized_addresses],
        "standards": [json.dumps(standardized.standard) for standardized in standardized_addresses],
        "verdicts": [standardized.deliverability for standardized in standardized_addresses],
        "reasons": [json.dumps([FOUND_BY_EMAIL, *standardized.reasons]) for standardized in standardized_addresses],
    }
    tx.execute(_UPDATE_FOUND_ADDRESSES, bind_values | {"now": now})
