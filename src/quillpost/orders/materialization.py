"""The job that turns an order's lists into items, in one transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing import credit, ledger
from quillpost.accounts.billing.prices import read_tariff
from quillpost.core import events, jobs
from quillpost.core.database import Database, Tx, search
from quillpost.core.database.tables.base import items, orders, recipients
from quillpost.orders import audience
from quillpost.orders import items as order_items
from quillpost.orders.audience import PERSON_COLUMNS, AudienceCriteria, lacks_address_parts_sql
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK, ItemStatus, OrderStatus
from quillpost.recipients.rules import CUSTOM_FIELDS, Person

log = structlog.get_logger(__name__)

ORDERS_PER_RUN = 1_000

SET_ACCOUNT = sa.text("select set_config('app.account_id', :account, true)")

# Sorted apart, the refusal is found once for each; and items lie in the order of their lists.
INSERT_ITEMS = sa.text(
    f"""
    with {audience.CLASSIFIED_SQL}
    insert into items (account_id, sub_account_id, mode, order_id, creative_key, mailing_list_id,
                       status, failure, scans, price_cents, gift_cents, code, {", ".join(PERSON_COLUMNS)},
                       moved_key, created_at, updated_at)
    select :account_id, cast(:sub_account_id as bigint), :mode, :order_id,
           cast(:creative_key as uuid), c.mailing_list_id,
           case when c.refusal is null then 'Processing' else 'Failed' end, c.refusal, 0,
           case when c.refusal is null then c.cents else 0 end,
           case when c.refusal is null then cast(:gift_cents as integer) else 0 end,
           case when c.refusal is null then new_short_code() end,
           {", ".join(f"c.{name}" for name in PERSON_COLUMNS)}, c.moved_key, :now, :now
      from (select * from classified order by mailing_list_id, id) c
    """
)


def materialize_order(db: Database, order_id: int, *, needs_credit: Collection[str] = (), now: datetime) -> None:
    """Make the order's lists items, once; an order that was cancelled meanwhile gets none.

    In the modes that need credit an order that has outgrown its account's waits for an operator.
    Two pieces that drew the same short code undo it all: the job is tried again, and draws others.
    """
    with db.system_transaction() as tx:
        order = _claim_order(tx, order_id, now=now)
        if order is None:
            return
        if not OrderStatus(order.status).is_held_back:
            tx.execute(order_items.COUNT_ITEMS, {"order_id": order_id})
            return
        tx.execute(SET_ACCOUNT, {"account": str(order.account_id)})
        criteria = _audience_criteria(tx, order)
        audience.lock_creative(tx, criteria)
        inserted = tx.execute(
            INSERT_ITEMS, audience.query_values(criteria) | {"gift_cents": order.giftcard_amount or 0, "now": now}
        )
        tx.execute(order_items.COUNT_ITEMS, {"order_id": order_id})
        cost = order_items.read_live_cost(tx, order_id)
        totals = {"order_total": cost.item_cents, "gift_total": cost.gift_cents, "updated_at": now}
        tx.execute(sa.update(orders).where(orders.c.id == order_id).values(**totals))
        order_items.append_first_item_facts(tx, order_id, only_listed=True, now=now)
        # Last of all: the account's other sends wait for us from here on.
        if order.mode in needs_credit:
            _pause_unless_covered(tx, order, cost.total_cents, now=now)
        # Held even so: what is owed for it can be seen, and nothing else is sent on it.
        ledger.set_order_hold(tx, order_id, cents=cost.total_cents, reason="audience", now=now)
        jobs.enqueue_unique(tx, SWEEP_TASK, at=max(order.due_at, now))
        jobs.enqueue_unique(tx, search.INDEX_TASK, at=now)
    log.info("orders.materialized", order=order_id, items=inserted.rowcount)


def enqueue_missing_materializations(db: Database) -> None:
    """Book the job for every order that waits for its items and that no job is booked for."""
    with db.system_transaction() as tx:
        pending_orders = tx.execute(
            sa.select(orders.c.id).where(orders.c.audience_pending).order_by(orders.c.id).limit(ORDERS_PER_RUN)
        )
        for order_id in pending_orders.scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_unfinished(tx, MATERIALIZE_TASK, order_id=order_id):
                jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order_id)


def _claim_order(tx: Tx, order_id: int, *, now: datetime) -> sa.Row[Any] | None:
    """The order, if its lists were still to become items; from here on they are taken care of."""
    return tx.execute(
        sa.update(orders)
        .where(orders.c.id == order_id, orders.c.audience_pending)
        .values(audience_pending=False, updated_at=now)
        .returning(orders)
    ).first()


def _pause_unless_covered(tx: Tx, order: sa.Row[Any], total: int, *, now: datetime) -> None:
    """Pause the order where its account's credit does not cover what it costs beyond what is held for it."""
    extra_cents = total - ledger.read_held_cents(tx, order.id)
    if extra_cents <= 0:
        return
    credit.lock_credit(tx, order.account_id, order.mode)
    available_credit = credit.read_credit(tx, order.mode)
    if available_credit >= extra_cents:
        return
    reason = sa.cast(
        [credit.format_insufficient_credit_for_growth(available_credit, extra_cents)], orders.c.hold_reasons.type
    )
    tx.execute(
        sa.update(orders)
        .where(orders.c.id == order.id)
        .values(status=OrderStatus.PAUSED.value, hold_reasons=orders.c.hold_reasons + reason, updated_at=now)
    )
    if order.status != OrderStatus.PAUSED:
        events.record_order_status_change(tx, [order.id], previous=order.status, now=now)


def _audience_criteria(tx: Tx, order: sa.Row[Any]) -> AudienceCriteria:
    """As when it was sent, at the prices of that day."""
    inline_keys_query = sa.select(items.c.address_key).where(
        items.c.order_id == order.id, items.c.status != ItemStatus.FAILED.value
    )
    tariff = read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=order.created_at.date())
    return AudienceCriteria.for_order(order, tariff=tariff, inline_keys=list(tx.execute(inline_keys_query).scalars()))


VARIABLE_FIELDS = {
    "COMPANY": "company",
    "ADDRESS": "address",
    "ADDRESS2": "address2",
    "CITY": "city",
    "STATE": "province",
    "PROVINCE": "province",
    "ZIP": "postal_code",
    "POSTAL_CODE": "postal_code",
    "EMAIL": "email",
    "PHONE": "phone",
    **{name.upper(): name for name in CUSTOM_FIELDS},
}
DATE_VARIABLE_FIELDS = {"DOB": "dob", "ANNIVERSARY": "anniversary"}
"""Where a person keeps what a variable shows; names are taken apart."""

ADDRESS_FIELDS = ("company", "address", "address2", "city", "province", "postal_code")
NAME_PARTS: Mapping[str, Callable[[list[str]], str]] = {
    "FIRST_NAME": lambda words: words[0],
    "LAST_NAME": lambda words: words[-1],
    "FULL_NAME": " ".join,
    "NAME": " ".join,
}
"""What a variable shows of the words of a name, nearly."""


def longest_on_lists(tx: Tx, list_ids: Sequence[int], variables: Collection[str]) -> list[Person]:
    """People, at least one, who between them have the longest value of every variable named that the lists
    hold.

    Nobody on the lists need be like them: each has the longest of everything, only their names differ.
    """
    has_full_address = sa.text(f"not {lacks_address_parts_sql('recipients')}")
    is_mailed = sa.and_(recipients.c.mailing_list_id.in_(list_ids), recipients.c.address.is_not(None), has_full_address)
    return _select_longest(tx, recipients, is_mailed, variables)


def longest_of_people(people: Sequence[Person], variables: Collection[str]) -> list[Person]:
    """The same of these people, of whom nothing is known but their names and addresses."""
    fields = {VARIABLE_FIELDS[name] for name in variables if name in VARIABLE_FIELDS} & set(ADDRESS_FIELDS)
    longest_values: dict[str, Any] = {
        field: max((getattr(person, field) or "" for person in people), key=len, default=None) for field in fields
    }
    parts = [extract for name, extract in NAME_PARTS.items() if name in variables]
    names = dict.fromkeys(_longest_name(people, extract) for extract in parts) or {None: None}
    return [Person(name=name, **longest_values) for name in names]


def _longest_name(people: Sequence[Person], extract: Callable[[list[str]], str]) -> str | None:
    names = [person.name for person in people if person.name]
    return max(names, key=lambda name: len(extract(name.split() or [""])), default=None)


def longest_in_order(tx: Tx, order_id: int, variables: Collection[str]) -> list[Person]:
    """The same of those whom an order has taken over from its lists."""
    is_processing = (items.c.order_id == order_id) & (items.c.status == ItemStatus.PROCESSING.value)
    return _select_longest(tx, items, is_processing & items.c.mailing_list_id.is_not(None), variables)


def _select_longest(
    tx: Tx, people_table: sa.Table, condition: sa.ColumnElement[bool], variables: Collection[str]
) -> list[Person]:
    fields = {VARIABLE_FIELDS[name] for name in variables if name in VARIABLE_FIELDS}
    days = {DATE_VARIABLE_FIELDS[name] for name in variables if name in DATE_VARIABLE_FIELDS}
    name_columns = {
        name: name_part for name, name_part in _name_part_columns(people_table).items() if name in variables
    }
    columns = [
        *(_longest_value(people_table.c[field], people_table.c[field]).label(field) for field in fields),
        *(sa.func.max(people_table.c[day]).label(day) for day in days),
        *(_longest_value(people_table.c.name, name_part).label(name) for name, name_part in name_columns.items()),
    ]
    if not columns:
        return [Person()]
    longest_row = tx.execute(sa.select(*columns).where(condition)).one()._mapping
    shared_values = {name: longest_row[name] for name in fields | days if name not in CUSTOM_FIELDS}
    custom = tuple(longest_row[name] if name in fields else None for name in CUSTOM_FIELDS)
    full_names = dict.fromkeys(longest_row[name] for name in name_columns) or {None: None}
    return [Person(name=name, **shared_values, custom=custom) for name in full_names]


def _name_part_columns(people_table: sa.Table) -> dict[str, sa.ColumnElement[str]]:
    """The part of a name that a variable shows, nearly: titles and the like are left to composition."""
    full_name = sa.func.btrim(people_table.c.name)
    return {
        "FIRST_NAME": sa.func.split_part(full_name, " ", 1),
        "LAST_NAME": sa.func.split_part(full_name, " ", -1),
        "FULL_NAME": full_name,
        "NAME": full_name,
    }


def _longest_value(value: sa.ColumnElement[Any], measured_text: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The value of whom the measured text is longest, in one pass: lengths of six digits sort as text."""
    length = sa.func.lpad(sa.cast(sa.func.length(measured_text), sa.Text), 6, "0")
    return sa.func.substr(sa.func.max((length + value).collate("C")), 7)
