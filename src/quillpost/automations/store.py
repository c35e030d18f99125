"""Automations as they are read, and the queries that read and write them.

Under a tenant's transaction they see that tenant's automations alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.event_tables import automations
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest

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
