"""The people of all lists are verified once they are there, and again when answers have grown old."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.addresses import address_passes, recipients_to_verify
from quillpost.recipients.addresses.keys import surname_of
from quillpost.recipients.addresses.service import HOME, PARTS, judge
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.verification.ports import AskedAddress, AskedPerson
from quillpost.recipients.verification.service import (
    FITS,
    FOUND_BY_EMAIL,
    HOLDS,
    LEASE,
    TAKE_OVER,
    Question,
    Verifying,
    ask,
)

VERIFY = "audience.verify"
AT_ONCE = 2_000
_VERIFY = address_passes.c.name == "verify"
SLICES = 20
"""Portions of so many people before whoever is due has a turn again."""

# Whom nobody mails to nobody need find: entries of suppression lists, and samples, are not asked about.
_ASKED = f"""
    select r.id, r.mailing_list_id, r.address_key, r.email_key, mover_of(r.name, r.company) as mover,
           r.name, r.company, r.standard,
           coalesce(r.country, '{HOME}') = '{HOME}' and not l.is_suppression_list and not r.is_sample
           and not exists (select from address_verdicts v
                            where {HOLDS.format(key="coalesce(r.address_key, '@' || r.email_key)", who="r")})
           as is_asked
      from recipients r join mailing_lists l on l.id = r.mailing_list_id
"""
_CHANGED = sa.text(
    f"""
    {_ASKED}
     where r.id in (select recipient_id from recipients_to_verify order by 1 limit :most) order by r.id
    """
)
_NEXT = sa.text(f"{_ASKED} where r.id > :last order by r.id limit :most")
_APPLY = sa.text(
    f"""
    update recipients r
       set {TAKE_OVER.format(row="r")}, updated_at = :now
      from address_verdicts v
     where r.id = any(:ids) and {HOLDS.format(key="r.address_key", who="r")}
       and v.deliverability is not null and r.standard is not null and not {FITS.format(row="r")}
    """
)
_FOUND = sa.text(
    f"""
    select r.id, r.mailing_list_id, r.name, r.email, v.standard
      from recipients r join address_verdicts v on {HOLDS.format(key="'@' || r.email_key", who="r")}
     where r.id = any(:ids) and r.address is null and v.standard is not null
     order by r.id
    """
)
# An address that is on the list already is somebody's there, and stays so; of two who come to it one does.
_FILL_IN = sa.text(
    f"""
    with new as (
        select found.*, r.mailing_list_id,
               row_number() over (partition by r.mailing_list_id, found.key order by found.id) as place
          from unnest(cast(:ids as bigint[]), {", ".join(f"cast(:{name} as text[])" for name in PARTS)},
                      cast(:surnames as text[]), cast(:keys as text[]), cast(:standards as text[]),
                      cast(:verdicts as text[]), cast(:reasons as text[]))
               as found (id, {", ".join(PARTS)}, surname, key, standard, deliverability, reasons)
          join recipients r on r.id = found.id)
    update recipients r
       set {", ".join(f"{name} = new.{name}" for name in PARTS)}, country = '{HOME}', surname = new.surname,
           address_key = new.key, standard = texts_of(new.standard), deliverability = new.deliverability,
           reasons = texts_of(new.reasons), updated_at = :now
      from new
     where r.id = new.id and r.address is null and new.place = 1
       and not exists (select from recipients o
                        where o.mailing_list_id = new.mailing_list_id and o.address_key = new.key)
    """
)
_SAYS_SO = sa.text("select set_config('app.verifying', 'yes', true)")
_BEGIN_AGAIN = sa.text(
    """
    update address_passes set last_id = 0, begun_at = :now, done_at = null
     where name = 'verify' and (begun_at is null or begun_at <= :stale and done_at is not null)
    """
)
_TAKE_TURN = sa.text(
    """
    insert into address_passes as pass (name, rules, last_id, until_id, leased_until)
    values ('verify', 0, 0, 0, :until)
    on conflict (name) do update set leased_until = :until
     where pass.leased_until is null or pass.leased_until <= :now
    """
)
_LEAVE = sa.text(
    """
    update address_passes
       set leased_until = null, trouble = cast(:trouble as text),
           trouble_at = case when cast(:trouble as text) is not null then coalesce(trouble_at, :now) end
     where name = 'verify'
    """
)


def take_turn(db: Database, *, now: datetime) -> bool:
    """Whether nobody else asks at present: two at once would pay for every answer twice."""
    with db.work() as tx:
        return tx.execute(_TAKE_TURN, {"now": now, "until": now + LEASE}).rowcount == 1


def leave_turn(db: Database, trouble: str | None, *, now: datetime) -> None:
    """Others may ask; what stopped us is noted for the operator, and since when."""
    with db.work() as tx:
        tx.execute(_LEAVE, {"trouble": trouble, "now": now})


def verify_recipients(means: Verifying) -> bool:
    """Some portions of those who changed or are new; whether there may be more."""
    now = means.clock()
    with means.db.work() as tx:
        tx.execute(_BEGIN_AGAIN, {"now": now, "stale": now - means.valid_for})
    while _portion(means, changed=True):
        pass
    return all(_portion(means, changed=False) for _ in range(SLICES))


def _portion(means: Verifying, *, changed: bool) -> bool:
    """Two thousand of them; whether there was anyone."""
    with means.db.work() as tx:
        last = tx.execute(sa.select(address_passes.c.last_id).where(_VERIFY)).scalar_one()
        asked = {"most": AT_ONCE, "now": means.clock(), "last": last}
        people = tx.execute(_CHANGED if changed else _NEXT, asked).all()
    ask(means, [question for row in people if (question := _question(means, row))])
    ids = [row.id for row in people]
    with means.db.work() as tx:
        lock_lists(tx, {row.mailing_list_id for row in people})
        _settle(tx, ids, changed=changed, now=means.clock())
        if people:
            tx.execute(_SAYS_SO)
            tx.execute(_APPLY, {"ids": ids, "now": means.clock()})
            _fill_in(tx, ids, now=means.clock())
    return bool(people)


def _question(means: Verifying, row: sa.Row[Any]) -> Question | None:
    if not row.is_asked:
        return None
    if row.standard is not None:
        return Question(row.address_key, row.mover, AskedAddress(row.name, row.company, tuple(row.standard)))
    if row.address_key is None and row.email_key is not None and means.verifier.appends:
        return Question(f"@{row.email_key}", row.mover, AskedPerson(row.name, row.company, row.email_key))
    return None


def _settle(tx: Tx, ids: Sequence[int], *, changed: bool, now: datetime) -> None:
    """These had their turn. It is noted first: whoever gets another address below is to be asked about."""
    if changed:
        tx.execute(sa.delete(recipients_to_verify).where(recipients_to_verify.c.recipient_id.in_(ids)))
    elif ids:
        tx.execute(sa.update(address_passes).where(_VERIFY).values(last_id=ids[-1]))
    else:
        tx.execute(sa.update(address_passes).where(_VERIFY).values(done_at=now))


def _fill_in(tx: Tx, ids: Sequence[int], *, now: datetime) -> None:
    """An address for whoever had none."""
    rows = tx.execute(_FOUND, {"ids": list(ids), "now": now}).all()
    if not rows:
        return
    places = [dict(zip(PARTS, row.standard, strict=True)) for row in rows]
    judged = [
        judge(parts, HOME, email=row.email, name=row.name) for row, parts in zip(rows, places, strict=True)
    ]
    found: dict[str, object] = {name: [parts[name] for parts in places] for name in PARTS}
    found |= {
        "ids": [row.id for row in rows],
        "surnames": [surname_of(row.name) for row in rows],
        "keys": [each.key for each in judged],
        "standards": [json.dumps(each.standard) for each in judged],
        "verdicts": [each.deliverability for each in judged],
        "reasons": [json.dumps([FOUND_BY_EMAIL, *each.reasons]) for each in judged],
    }
    tx.execute(_FILL_IN, found | {"now": now})
