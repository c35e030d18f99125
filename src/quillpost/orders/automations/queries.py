"""Automations and the people due for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, tzinfo
from typing import Any, Self

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import items, recipients
from quillpost.core.database.tables.notifications import automation_due, automation_sent, automations, visits
from quillpost.core.errors import NotFound
from quillpost.core.paging import Page, PageRequest, equal_conditions, read_newest_page
from quillpost.orders.audience.queries import PERSON_COLUMNS, read_person
from quillpost.orders.automations import rules
from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.recipients.models import Person
from quillpost.recipients.queries import lacks_address_parts_sql
from quillpost.recipients.rules import SAMPLE_ADDRESS

COUNT_DUE = sa.text("select * from automations_waiting(:automations)")
DELETE_DUE = sa.text("select forget_automation_due(:automation)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationPlan:
    """What its owner decides. `send` is the body as given; `piece` is its product in URLs."""

    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    daily_limit: int
    enabled: bool
    sub_account_id: int | None
    piece: str
    send: str
    message_template_id: int | None
    image_template_id: int | None

    @classmethod
    def of(cls, automation: "Automation") -> "AutomationPlan":
        return AutomationPlan(**{field.name: getattr(automation, field.name) for field in fields(AutomationPlan)})

    def column_values(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(AutomationPlan)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Automation(AutomationPlan):
    id: int
    account_id: int
    mode: str
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

    @classmethod
    def of_row(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)

    def has_plan_of(self, other: "Automation") -> bool:
        """Whether its owner has changed nothing in between."""
        same_start = self.enabled_at == other.enabled_at
        return same_start and AutomationPlan.of(self) == AutomationPlan.of(other)


COLUMNS = [automations.c[field.name] for field in fields(Automation)]


def read_automation(tx: Tx, automation_id: int, *, locked: bool = False) -> Automation:
    """`locked`, no other transaction changes it before this one ends; its key stays free, as people may become due."""
    query = sa.select(*COLUMNS).where(automations.c.id == automation_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Automation.of_row(row)


def list_automations(
    tx: Tx, page_request: PageRequest, *, sub_account_id: int | None, mailing_list_id: int | None
) -> Page[Automation]:
    """Newest first."""
    conditions = equal_conditions(automations, sub_account_id=sub_account_id, mailing_list_id=mailing_list_id)
    return read_newest_page(tx, sa.select(*COLUMNS).where(*conditions), page_request, Automation.of_row)


def count_automations(tx: Tx, mode: str) -> int:
    query = sa.select(sa.func.count()).select_from(automations).where(automations.c.mode == mode)
    return int(tx.execute(query).scalar_one())


def insert_automation(tx: Tx, values: Mapping[str, Any]) -> Automation:
    statement = sa.insert(automations).values(**{"tries": 0, "sent_count": 0, **values}).returning(*COLUMNS)
    return Automation.of_row(tx.execute(statement).one())


def update_automation(tx: Tx, automation_id: int, values: Mapping[str, Any]) -> Automation:
    statement = sa.update(automations).where(automations.c.id == automation_id).values(**values).returning(*COLUMNS)
    row = tx.execute(statement).first()
    if row is None:
        raise NotFound
    return Automation.of_row(row)


def delete_automation(tx: Tx, automation_id: int) -> None:
    """With everyone due for it, and its record of mailings."""
    if tx.execute(sa.delete(automations).where(automations.c.id == automation_id)).rowcount == 0:
        raise NotFound


def count_due(tx: Tx, automation_ids: Iterable[int]) -> dict[int, int]:
    """By automation; those without anyone due are left out."""
    rows = tx.execute(COUNT_DUE, {"automations": list(automation_ids)})
    return {row.automation_id: row.people for row in rows}


SEND_TASK = "automations.send_due"
FIND_DATES_TASK = "automations.find_due_dates"

# One key for a person, here and in Python: `DueRecipient.person_key`. Of erased people a digest of it is stored.
_PERSON_KEY_SQL = "coalesce(r.address_key, 'email ' || r.email_key)"


def _celebrating_sql(field: str) -> str:
    """People on the lists of automations on this field, with the occasion and day; without those already mailed for it,
    born later, or without a full address."""
    return f"""
      from unnest(cast(:days as date[]), cast(:ons as date[]), cast(:month_days as integer[]))
           as o (day, occasion, month_day)
      join automations a on {{which}}
      join recipients r on r.mailing_list_id = a.mailing_list_id and r.{field} is not null
       and (extract(month from r.{field}) * 100 + extract(day from r.{field}))::integer = o.month_day
       and r.{field} <= o.occasion and r.address is not null and not {lacks_address_parts_sql("r")}
     where not exists (select 1 from automation_sent s where s.automation_id = a.id
                          and s.person_key = any(array[{_PERSON_KEY_SQL}, erased_key(a.id, {_PERSON_KEY_SQL})])
                          and s.year = extract(year from o.occasion)::integer)
       and not exists (select 1 from automation_sent s where s.automation_id = a.id
                          and s.recipient_id = r.id and s.year = extract(year from o.occasion)::integer)
    """


_SAME_DATE_AND_OFFSET = (
    "a.enabled and a.trigger = 'date' and a.date_field = '{field}' and a.days_offset = :offset"
    " and a.enabled_on <= o.day"
)

_INSERT_DUE = {
    field: sa.text(
        f"""
        insert into automation_due (automation_id, recipient_id, since, year)
        select a.id, r.id, :now, extract(year from o.occasion)
        {_celebrating_sql(field).format(which=_SAME_DATE_AND_OFFSET.format(field=field))}
         order by o.day, a.id, r.id
        on conflict do nothing
        """
    )
    for field in rules.DATE_FIELDS
}

_COUNT_UPCOMING = {
    field: sa.text(
        f"""
        select o.day, count(*) as people, min(r.id) as first
        {_celebrating_sql(field).format(which="a.id = :automation")}
         group by o.day order by o.day
        """
    )
    for field in rules.DATE_FIELDS
}

_SELECT_DATE_KINDS = sa.select(automations.c.date_field, automations.c.days_offset).distinct()

_SELECT_ALREADY_SENT = sa.text("""
    select p.place
      from unnest(cast(:keys as text[]), cast(:people as bigint[]), cast(:years as integer[]))
           with ordinality as p (key, recipient_id, year, place)
     where exists (select 1 from automation_sent s where s.automation_id = :automation
                      and s.person_key = any(array[p.key, erased_key(:automation, p.key)])
                      and s.year = p.year)
        or exists (select 1 from automation_sent s where s.automation_id = :automation
                      and s.recipient_id = p.recipient_id and s.year = p.year)
""")

_LOCK_DUE = sa.text("select id from automation_due where id = any(:due) order by id for update")
_DELETE_DUE_ROWS = sa.text("delete from automation_due where id = any(:due)")


@dataclass(frozen=True, slots=True)
class DueRecipient:
    """Someone who is due, and the year it counts for."""

    due_id: int
    recipient_id: int | None
    year: int
    person: Person

    @property
    def person_key(self) -> str:
        """The address, or the email where there is none."""
        return self.person.address_key or f"email {(self.person.email or '').lower()}"


@dataclass(frozen=True, slots=True)
class UpcomingMailing:
    day: date
    people: int
    recipient_id: int


def insert_due_dates(db: Database, *, zone: tzinfo, now: datetime) -> None:
    """Everyone whose day is today, or was missed, becomes due once."""
    days = rules.list_days_to_check(rules.local_date(now, zone))
    with db.system_transaction() as tx:
        kinds = tx.execute(_SELECT_DATE_KINDS.where(automations.c.enabled, automations.c.trigger == "date")).all()
    for field, offset in kinds:
        with db.system_transaction() as tx:
            result = tx.execute(_INSERT_DUE[field], _occasion_params(days, offset) | {"offset": offset, "now": now})
            if result.rowcount:
                jobs.enqueue_unique(tx, SEND_TASK, at=now)


def list_upcoming(tx: Tx, automation: Automation, days: Sequence[date]) -> list[UpcomingMailing]:
    """Who it would mail on these days. Needs the worker's transaction."""
    assert automation.date_field is not None
    query_params = _occasion_params(days, automation.days_offset) | {"automation": automation.id}
    return [UpcomingMailing(*row) for row in tx.execute(_COUNT_UPCOMING[automation.date_field], query_params)]


def _occasion_params(days: Sequence[date], offset: int) -> dict[str, Any]:
    occasions = rules.find_occasions(list(days), offset)
    return {
        "days": [occasion.mailing_date for occasion in occasions],
        "ons": [occasion.occasion_date for occasion in occasions],
        "month_days": [occasion.month_day for occasion in occasions],
    }


def read_longest_due(tx: Tx, automation: Automation, *, zone: tzinfo, limit: int) -> list[DueRecipient]:
    """In the order in which they became due."""
    people_table = items if automation.trigger == "scan" else recipients
    due_column = automation_due.c.item_id if people_table is items else automation_due.c.recipient_id
    rows = tx.execute(
        sa.select(
            automation_due.c.id.label("due_id"),
            automation_due.c.recipient_id,
            automation_due.c.since,
            automation_due.c.year,
            *(people_table.c[name] for name in PERSON_COLUMNS),
            sa.false().label("is_sample") if people_table is items else recipients.c.is_sample,
        )
        .join(people_table, people_table.c.id == due_column)
        .where(automation_due.c.automation_id == automation.id)
        .order_by(automation_due.c.id)
        .limit(limit)
    )
    return [
        DueRecipient(
            row.due_id,
            row.recipient_id,
            row.year or rules.local_date(row.since, zone).year,
            replace(
                read_person({**row._mapping, "country": row.country or HOME_COUNTRY}),
                refusal=SAMPLE_ADDRESS if row.is_sample and automation.mode == "live" else None,
            ),
        )
        for row in rows
    ]


def filter_not_yet_mailed(tx: Tx, automation_id: int, due_recipients: Sequence[DueRecipient]) -> list[DueRecipient]:
    """Those not yet mailed this year, each once, who can be mailed."""
    sent_indexes = {
        position - 1
        for position in tx.execute(
            _SELECT_ALREADY_SENT,
            {
                "automation": automation_id,
                "keys": [recipient.person_key for recipient in due_recipients],
                "people": [recipient.recipient_id for recipient in due_recipients],
                "years": [recipient.year for recipient in due_recipients],
            },
        ).scalars()
    }
    recipients_by_key = {
        (recipient.person_key, recipient.year): recipient
        for position, recipient in reversed(list(enumerate(due_recipients)))
        if position not in sent_indexes and recipient.person.can_be_mailed
    }
    return sorted(recipients_by_key.values(), key=lambda recipient: recipient.due_id)


def count_mailed_since(tx: Tx, automation_id: int, since: datetime) -> int:
    query = sa.select(sa.func.count()).where(
        automation_sent.c.automation_id == automation_id, automation_sent.c.at >= since
    )
    return int(tx.execute(query).scalar_one())


def lock_due(tx: Tx, due_ids: Sequence[int]) -> bool:
    """Whether all are still due; they are locked."""
    return len(tx.execute(_LOCK_DUE, {"due": list(due_ids)}).all()) == len(due_ids)


def delete_due_rows(tx: Tx, due_ids: Iterable[int]) -> None:
    tx.execute(_DELETE_DUE_ROWS, {"due": list(due_ids)})


def find_sample_person(tx: Tx, automation: Automation) -> Person | None:
    """For a preview while there are no due people: the first on the list, or whose item was scanned last."""
    people_table = items if automation.trigger == "scan" else recipients
    query = sa.select(*(people_table.c[name] for name in PERSON_COLUMNS)).where(people_table.c.address.is_not(None))
    if people_table is recipients:
        query = query.where(recipients.c.mailing_list_id == automation.mailing_list_id)
        query = query.where(sa.text(f"not {lacks_address_parts_sql('recipients')}")).order_by(recipients.c.id)
    else:
        query = query.join(visits, visits.c.item_id == items.c.id).order_by(visits.c.id.desc())
        query = query.where(
            visits.c.account_id == automation.account_id, visits.c.mode == automation.mode, visits.c.kind == "person"
        )
        if automation.sub_account_id is not None:
            query = query.where(visits.c.sub_account_id == automation.sub_account_id)
        if automation.mailing_list_id is not None:
            query = query.where(visits.c.mailing_list_id == automation.mailing_list_id)
    row = tx.execute(query.limit(1)).first()
    return None if row is None else read_person({**row._mapping, "country": row.country or HOME_COUNTRY})
