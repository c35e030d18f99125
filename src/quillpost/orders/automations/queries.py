"""Automations as they are read, and the queries that read and write them.

Under a tenant's transaction they see that tenant's automations alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, tzinfo
from typing import Any

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import items, recipients
from quillpost.core.database.tables.notifications import automation_due, automation_sent, automations, visits
from quillpost.core.errors import NotFound
from quillpost.core.paging import Page, PageRequest
from quillpost.orders.audience import PERSON_COLUMNS, lacks_parts, person_of
from quillpost.orders.automations import rules
from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.rules import SAMPLE, Person

WAITING = sa.text("select * from automations_waiting(:automations)")
FORGET_DUE = sa.text("select forget_automation_due(:automation)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Automation:
    """`send` is the body of its sends as it was given; `piece` is what it sends, by its name in addresses."""

    id: int
    account_id: int
    sub_account_id: int | None
    mode: str
    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    piece: str
    send: str
    message_template_id: int | None
    image_template_id: int | None
    daily_limit: int
    enabled: bool
    enabled_at: datetime | None
    enabled_on: date | None
    next_at: datetime
    tries: int
    failing_since: datetime | None
    sent_count: int
    last_sent_at: datetime | None
    last_order_id: int | None
    held_until: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def plan(self) -> tuple[object, ...]:
        """All that its owner decides: while it stays the same, nobody has changed the automation."""
        return tuple(getattr(self, name) for name in PLAN)


PLAN = (
    "sub_account_id", "name", "trigger", "mailing_list_id", "date_field", "days_offset", "piece", "send",
    "daily_limit", "enabled", "enabled_at",
)  # fmt: skip

COLUMNS = [automations.c[field.name] for field in fields(Automation)]


def automation_of(row: sa.Row[Any]) -> Automation:
    return Automation(**row._mapping)


def read_automation(tx: Tx, automation_id: int, *, locked: bool = False) -> Automation:
    """The automation; `locked`, nobody else changes it before this transaction ends.

    Its key stays free: people may be put on its list meanwhile, and become due.
    """
    query = sa.select(*COLUMNS).where(automations.c.id == automation_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return automation_of(row)


def list_automations(
    tx: Tx, asked: PageRequest, *, sub_account_id: int | None, mailing_list_id: int | None
) -> Page[Automation]:
    """Newest first."""
    filters = {"sub_account_id": sub_account_id, "mailing_list_id": mailing_list_id}
    wanted = [automations.c[name] == value for name, value in filters.items() if value is not None]
    rows = tx.execute(
        sa.select(*COLUMNS)
        .where(*wanted)
        .order_by(automations.c.id.desc())
        .limit(asked.per_page)
        .offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(automations).where(*wanted)).scalar_one()
    return Page([automation_of(row) for row in rows], total, asked)


def count_automations(tx: Tx, mode: str) -> int:
    found = sa.select(sa.func.count()).select_from(automations).where(automations.c.mode == mode)
    return int(tx.execute(found).scalar_one())


def insert_automation(tx: Tx, values: Mapping[str, Any]) -> Automation:
    made = sa.insert(automations).values(**{"tries": 0, "sent_count": 0, **values}).returning(*COLUMNS)
    return automation_of(tx.execute(made).one())


def update_automation(tx: Tx, automation_id: int, values: Mapping[str, Any]) -> Automation:
    changed = (
        sa.update(automations).where(automations.c.id == automation_id).values(**values).returning(*COLUMNS)
    )
    row = tx.execute(changed).first()
    if row is None:
        raise NotFound
    return automation_of(row)


def delete_automation(tx: Tx, automation_id: int) -> None:
    """With everyone who waits for it, and what it knows of those whom it has mailed."""
    if tx.execute(sa.delete(automations).where(automations.c.id == automation_id)).rowcount == 0:
        raise NotFound


def forget_due(tx: Tx, automation_id: int) -> None:
    """Nobody waits for it any more."""
    tx.execute(FORGET_DUE, {"automation": automation_id})


def waiting(tx: Tx, automation_ids: Iterable[int]) -> dict[int, int]:
    """How many people are due for each of them; those for whom nobody is are not in it."""
    rows = tx.execute(WAITING, {"automations": list(automation_ids)})
    return {row.automation_id: row.people for row in rows}


SEND = "automations.send"
FIND_DATES = "automations.find_dates"

# One key for a person, here and in Python: `Waiting.key`. Of whoever was erased a digest of it is known.
_KEY = "coalesce(r.address_key, 'email ' || r.email_key)"


def _celebrating(field: str) -> str:
    """Those on the lists of automations on this field, with the occasion that is mailed for and the day.

    Nobody has a birthday before they are born; once it was mailed for, an occasion is over; and without an
    address that mail can go to there is nothing to do yet.
    """
    return f"""
      from unnest(cast(:days as date[]), cast(:ons as date[]), cast(:month_days as integer[]))
           as o (day, occasion, month_day)
      join automations a on {{which}}
      join recipients r on r.mailing_list_id = a.mailing_list_id and r.{field} is not null
       and (extract(month from r.{field}) * 100 + extract(day from r.{field}))::integer = o.month_day
       and r.{field} <= o.occasion and r.address is not null and not {lacks_parts("r")}
     where not exists (select 1 from automation_sent s where s.automation_id = a.id
                          and s.person_key = any(array[{_KEY}, erased_key(a.id, {_KEY})])
                          and s.year = extract(year from o.occasion)::integer)
       and not exists (select 1 from automation_sent s where s.automation_id = a.id
                          and s.recipient_id = r.id and s.year = extract(year from o.occasion)::integer)
    """


_ALL_OF_A_KIND = (
    "a.enabled and a.trigger = 'date' and a.date_field = '{field}' and a.days_offset = :offset"
    " and a.enabled_on <= o.day"
)

_FIND = {
    field: sa.text(
        f"""
        insert into automation_due (automation_id, recipient_id, since, year)
        select a.id, r.id, :now, extract(year from o.occasion)
        {_celebrating(field).format(which=_ALL_OF_A_KIND.format(field=field))}
         order by o.day, a.id, r.id
        on conflict do nothing
        """
    )
    for field in rules.DATE_FIELDS
}

_COMING = {
    field: sa.text(
        f"""
        select o.day, count(*) as people, min(r.id) as first
        {_celebrating(field).format(which="a.id = :automation")}
         group by o.day order by o.day
        """
    )
    for field in rules.DATE_FIELDS
}

_KINDS = sa.select(automations.c.date_field, automations.c.days_offset).distinct()

_SENT = sa.text(
    """
    select p.place
      from unnest(cast(:keys as text[]), cast(:people as bigint[]), cast(:years as integer[]))
           with ordinality as p (key, recipient_id, year, place)
     where exists (select 1 from automation_sent s where s.automation_id = :automation
                      and s.person_key = any(array[p.key, erased_key(:automation, p.key)])
                      and s.year = p.year)
        or exists (select 1 from automation_sent s where s.automation_id = :automation
                      and s.recipient_id = p.recipient_id and s.year = p.year)
    """
)

_HOLD = sa.text("select id from automation_due where id = any(:due) order by id for update")
_SETTLE = sa.text("delete from automation_due where id = any(:due)")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Someone who is due, and the year for which it counts."""

    due_id: int
    recipient_id: int | None
    year: int
    person: Person

    @property
    def key(self) -> str:
        """Who it is: the address, or the e-mail where there is none."""
        return self.person.address_key or f"email {(self.person.email or '').lower()}"


@dataclass(frozen=True, slots=True)
class Coming:
    """A day on which so many are mailed, and one of them."""

    day: date
    people: int
    recipient_id: int


def find_dates(db: Database, *, zone: tzinfo, now: datetime) -> None:
    """Everyone whose day is today, or was when nobody looked, is due: once, however often this runs."""
    days = rules.days_to_look_at(rules.day_of(now, zone))
    with db.work() as tx:
        kinds = tx.execute(_KINDS.where(automations.c.enabled, automations.c.trigger == "date")).all()
    for field, offset in kinds:
        with db.work() as tx:
            found = tx.execute(_FIND[field], _days(days, offset) | {"offset": offset, "now": now})
            if found.rowcount:
                jobs.wake(tx, SEND, at=now)


def coming(tx: Tx, automation: Automation, days: Sequence[date]) -> list[Coming]:
    """Whom an automation on a date would mail on these days, as its list is now. Takes the worker's
    transaction, of an automation that its owner has read."""
    assert automation.date_field is not None
    asked = _days(days, automation.days_offset) | {"automation": automation.id}
    return [Coming(*row) for row in tx.execute(_COMING[automation.date_field], asked)]


def _days(days: Sequence[date], offset: int) -> dict[str, Any]:
    found = rules.occasions(list(days), offset)
    return {
        "days": [each.day for each in found],
        "ons": [each.on for each in found],
        "month_days": [each.month_day for each in found],
    }


def take_waiting(tx: Tx, automation: Automation, *, zone: tzinfo, most: int) -> list[Waiting]:
    """Those who have waited longest."""
    people = items if automation.trigger == "scan" else recipients
    link = automation_due.c.item_id if people is items else automation_due.c.recipient_id
    rows = tx.execute(
        sa.select(
            automation_due.c.id.label("due_id"),
            automation_due.c.recipient_id,
            automation_due.c.since,
            automation_due.c.year,
            *(people.c[name] for name in PERSON_COLUMNS),
            sa.false().label("is_sample") if people is items else recipients.c.is_sample,
        )
        .join(people, people.c.id == link)
        .where(automation_due.c.automation_id == automation.id)
        .order_by(automation_due.c.id)
        .limit(most)
    )
    return [
        Waiting(
            row.due_id,
            row.recipient_id,
            row.year or rules.day_of(row.since, zone).year,
            _person(row, automation),
        )
        for row in rows
    ]


def _person(row: Any, automation: Automation) -> Person:
    person = person_of({**row._mapping, "country": row.country or HOME})
    return replace(person, refusal=SAMPLE) if row.is_sample and automation.mode == "live" else person


def not_yet_mailed(tx: Tx, automation_id: int, waiting: Sequence[Waiting]) -> list[Waiting]:
    """Those whose turn it is this year, each once. Whoever has lost their address meanwhile has none: they
    are noted again when there is one."""
    done = {
        place - 1
        for place in tx.execute(
            _SENT,
            {
                "automation": automation_id,
                "keys": [one.key for one in waiting],
                "people": [one.recipient_id for one in waiting],
                "years": [one.year for one in waiting],
            },
        ).scalars()
    }
    fresh = {
        (one.key, one.year): one
        for place, one in reversed(list(enumerate(waiting)))
        if place not in done and one.person.can_be_mailed
    }
    return sorted(fresh.values(), key=lambda one: one.due_id)


def mailed_since(tx: Tx, automation_id: int, moment: datetime) -> int:
    """How many it has taken care of since then."""
    found = sa.select(sa.func.count()).where(
        automation_sent.c.automation_id == automation_id, automation_sent.c.at >= moment
    )
    return int(tx.execute(found).scalar_one())


def hold(tx: Tx, due_ids: Sequence[int]) -> bool:
    """Whether all of them still wait; from here on they are this transaction's."""
    return len(tx.execute(_HOLD, {"due": list(due_ids)}).all()) == len(due_ids)


def settle(tx: Tx, due_ids: Iterable[int]) -> None:
    """They wait no longer."""
    tx.execute(_SETTLE, {"due": list(due_ids)})


def someone(tx: Tx, automation: Automation) -> Person | None:
    """Whom a picture of its piece may be made for while nobody is due: the first on the list who can be
    mailed to or, of scans, whose piece was scanned last."""
    people = items if automation.trigger == "scan" else recipients
    wanted = sa.select(*(people.c[name] for name in PERSON_COLUMNS)).where(people.c.address.is_not(None))
    if people is recipients:
        wanted = wanted.where(recipients.c.mailing_list_id == automation.mailing_list_id)
        wanted = wanted.where(sa.text(f"not {lacks_parts('recipients')}")).order_by(recipients.c.id)
    else:
        wanted = wanted.join(visits, visits.c.item_id == items.c.id).order_by(visits.c.id.desc())
        wanted = wanted.where(
            visits.c.account_id == automation.account_id,
            visits.c.mode == automation.mode,
            visits.c.kind == "person",
        )
        if automation.sub_account_id is not None:
            wanted = wanted.where(visits.c.sub_account_id == automation.sub_account_id)
        if automation.mailing_list_id is not None:
            wanted = wanted.where(visits.c.mailing_list_id == automation.mailing_list_id)
    row = tx.execute(wanted.limit(1)).first()
    return None if row is None else person_of({**row._mapping, "country": row.country or HOME})
