"""Addresses that an older release judged, or nobody, are judged by the rules of this one.

A job goes through all rows in portions; whoever is about to mail to a list, or to let an order go, has its
rows judged first. Nobody is removed: where two of a list turn out to be one door, both have its key, so that
whatever holds for the door holds for both. One is told apart by its id, until the list's owner has doubles
removed.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.addresses import address_passes
from quillpost.core.database.tables.base import mailing_lists, recipients
from quillpost.recipients.addresses.keys import extract_surname
from quillpost.recipients.addresses.service import ADDRESS_PARTS, HOME_COUNTRY, StandardizedAddress, standardize
from quillpost.recipients.lists.queries import lock_lists

ADDRESS_RULES = 1
"""The number of the rules by which addresses are judged. A release that changes how one is spelt, keyed or
judged raises it by one, and the columns' default with it in its migration: then all are judged anew."""

NAMES = ("recipients", "items")
"""The passes, named after their tables."""

REJUDGE = "audience.rejudge"
AT_ONCE = 2_000
PORTIONS = 20
"""So many portions before others have a turn at the worker."""

UNJUDGED = """
    (abs({row}.address_rules) is distinct from cast(:rules as integer) or {row}.deliverability is null)
"""
"""Whether a row's address is yet to be judged by our rules; not by its number alone, for a process of the
release before may have written it beside us."""

_COLUMNS = """
    r.id, r.mailing_list_id, r.name, r.email, r.country,
    r.address, r.address2, r.city, r.province, r.postal_code
"""
_NEXT = sa.text(
    f"""
    select {_COLUMNS} from recipients r
     where r.id > :last and r.id <= :until and {UNJUDGED.format(row="r")} order by r.id limit :most
    """
)
_ON_LISTS = sa.text(
    f"""
    select {_COLUMNS} from recipients r
     where r.mailing_list_id = any(:lists) and r.id > :last and {UNJUDGED.format(row="r")}
     order by r.id limit :most
    """
)
_DOUBLES = sa.text(
    f"""
    select {_COLUMNS} from recipients r
     where r.mailing_list_id = :list and r.address_rules < 0 order by r.id
    """
)

NEW = """
    unnest(cast(:ids as bigint[]), cast(:surnames as text[]), cast(:keys as text[]),
           cast(:standards as text[]), cast(:verdicts as text[]), cast(:reasons as text[]))
    as new (id, surname, key, standard, deliverability, reasons)
"""
"""What was found out about rows, as the tables that `written` makes."""

# At a door that another has, or that an older one here gets, this one is a double. The lists are in our
# hands.
_WRITE = sa.text(
    f"""
    with new as (
        select r.id, r.mailing_list_id, r.address_key as had, r.told_apart as was_apart,
               new.surname, new.key, new.standard, new.deliverability, new.reasons,
               told_apart(l.suppress_by, new.surname, r.email) as apart
          from {NEW} join recipients r on r.id = new.id join mailing_lists l on l.id = r.mailing_list_id),
    judged as (
        select new.*, coalesce(
               (had, was_apart) is distinct from (key, apart)
               and (row_number() over (partition by mailing_list_id, key, apart order by id) > 1
                    or exists (select from recipients o
                                where o.mailing_list_id = new.mailing_list_id and o.address_key = new.key
                                  and o.told_apart = new.apart and o.id <> new.id))
               and key is not null, false) as is_double
          from new)
    update recipients r
       set surname = new.surname, standard = texts_of(new.standard), deliverability = new.deliverability,
           reasons = texts_of(new.reasons),
           address_key = new.key, moved_key = null,
           told_apart = case when new.is_double then 'double ' || r.id else new.apart end,
           address_rules = cast(:rules as integer) * case when new.is_double then -1 else 1 end
      from judged new where r.id = new.id
    """
)
_TWINS = sa.text(
    f"""
    select r.id, h.id as holder
      from {NEW}
      join recipients r on r.id = new.id and r.address_rules < 0
      join mailing_lists l on l.id = r.mailing_list_id
      join recipients h on h.mailing_list_id = r.mailing_list_id and h.address_key = new.key and h.id <> r.id
                       and h.told_apart = told_apart(l.suppress_by, new.surname, r.email)
    """
)
# What a verifier said is said again, from what is kept of it: our own verdict has taken its place.
_VERIFY_AGAIN = sa.text("update address_passes set begun_at = null where name = 'verify'")
# What is not begun begins, what is begun is locked; rules that have changed since begin it anew.
_BEGIN = {
    name: sa.text(
        f"""
        insert into address_passes as pass (name, rules, last_id, until_id)
        select :name, cast(:rules as integer), 0, coalesce(max(id), 0) from {name}
        on conflict (name) do update
           set last_id = case when pass.rules = excluded.rules then pass.last_id else 0 end,
               until_id = case when pass.rules = excluded.rules then pass.until_id else excluded.until_id end,
               done_at = case when pass.rules = excluded.rules then pass.done_at end,
               rules = excluded.rules
        returning last_id, until_id, done_at
        """
    )
    for name in NAMES
}
_QUIETLY = sa.text("select set_config('app.rejudging', 'yes', true)")


class Pass(NamedTuple):
    last_id: int
    until_id: int


def rejudge_recipients(db: Database, *, now: datetime) -> bool:
    """Some portions of those who are yet to be judged; whether there are more."""
    for _ in range(PORTIONS):
        with db.system_transaction() as tx:
            if (place := open_pass(tx, "recipients")) is None:
                return False
            rows = tx.execute(_NEXT, _asked(last=place.last_id, until=place.until_id)).all()
            _write(tx, rows)
            go_on(tx, "recipients", rows, now=now)
            if not rows:
                tx.execute(_VERIFY_AGAIN)
    return True


def judge_lists(db: Database, list_ids: Sequence[int]) -> None:
    """Everyone on these lists is judged by our rules from here on."""
    last = 0
    while is_under_way(db) and list_ids:
        with db.system_transaction() as tx:
            rows = tx.execute(_ON_LISTS, _asked(lists=list(list_ids), last=last)).all()
            if not rows:
                return
            _write(tx, rows)
            last = rows[-1].id


def judge_suppressions(db: Database) -> None:
    """First of all: whom nobody may mail to must be known by the key that people have now."""
    if not is_under_way(db):
        return
    with db.system_transaction() as tx:
        barring = sa.select(mailing_lists.c.id).where(mailing_lists.c.is_suppression_list)
        lists = list(tx.execute(barring).scalars())
    judge_lists(db, lists)


def is_under_way(db: Database) -> bool:
    """Whether there may be rows yet that our rules have not judged."""
    passes = address_passes.c
    through = passes.name.in_(NAMES), passes.rules == ADDRESS_RULES, passes.done_at.is_not(None)
    with db.system_transaction() as tx:
        return len(tx.execute(sa.select(passes.name).where(*through)).all()) < len(NAMES)


def open_pass(tx: Tx, name: str) -> Pass | None:
    """Where the pass goes on, begun anew for rules that are new; None: it is through. Others wait for us."""
    row = tx.execute(_BEGIN[name], {"name": name, "rules": ADDRESS_RULES}).one()
    return None if row.done_at is not None else Pass(row.last_id, row.until_id)


def go_on(tx: Tx, name: str, rows: Sequence[sa.Row[Any]], *, now: datetime) -> None:
    """These are done; without any, all are."""
    here = sa.update(address_passes).where(address_passes.c.name == name)
    tx.execute(here.values(last_id=rows[-1].id) if rows else here.values(done_at=now))


def take_doors(tx: Tx, list_id: int) -> int:
    """Of those of this list, which is in the caller's hands, who turned out to be at one door the oldest
    stays; how many were removed. Who has no double any more is told apart from nobody."""
    rows = tx.execute(_DOUBLES, {"list": list_id}).all()
    if not rows:
        return 0
    _write(tx, rows)
    at_doors: dict[int, list[int]] = {}
    for twin in tx.execute(_TWINS, written(rows)):
        at_doors.setdefault(twin.holder, [twin.holder]).append(twin.id)
    gone = [id_ for ids in at_doors.values() for id_ in ids if id_ != min(ids)]
    if gone:
        tx.execute(sa.delete(recipients).where(recipients.c.id.in_(gone)))
        _write(tx, [row for row in rows if row.id not in set(gone)])
    return len(gone)


def written(rows: Sequence[sa.Row[Any]]) -> dict[str, Any]:
    """What we find out about these rows, for `NEW`."""
    judged = [_judged(row._mapping) for row in rows]
    return {
        "ids": [row.id for row in rows],
        "surnames": [extract_surname(row.name) for row in rows],
        "keys": [each.key for each in judged],
        "standards": [None if each.standard is None else json.dumps(each.standard) for each in judged],
        "verdicts": [each.deliverability for each in judged],
        "reasons": [json.dumps(each.reasons) for each in judged],
        "rules": ADDRESS_RULES,
    }


def _judged(row: Mapping[Any, Any]) -> StandardizedAddress:
    parts = {name: row[name] for name in ADDRESS_PARTS}
    return standardize(parts, row["country"] or HOME_COUNTRY, email=row["email"], name=row["name"])


def _write(tx: Tx, rows: Sequence[sa.Row[Any]]) -> None:
    if rows:
        lock_lists(tx, {row.mailing_list_id for row in rows})
        tx.execute(_QUIETLY)
        tx.execute(_WRITE, written(rows))


def _asked(**values: object) -> dict[str, object]:
    return {"rules": ADDRESS_RULES, "most": AT_ONCE, **values}
