"""The job that turns an order's lists into items, in one transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing import credit, ledger
from quillpost.accounts.billing.prices import tariff_on
from quillpost.core import events, jobs
from quillpost.core.database import Database, Tx, search
from quillpost.core.database.tables.base import items, orders, recipients
from quillpost.orders import audience
from quillpost.orders import items as store
from quillpost.orders.audience import PERSON_COLUMNS, Reach, lacks_parts
from quillpost.orders.create import SWEEP
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.rejudging import is_under_way, judge_lists, judge_suppressions
from quillpost.recipients.rules import CUSTOM, Person

log = structlog.get_logger(__name__)

MATERIALISE = "audience.materialise"
ORDERS_AT_ONCE = 1_000

ACT_FOR = sa.text("select set_config('app.account_id', :account, true)")

# Sorted apart, the refusal is found once for each; and items lie in the order of their lists.
INSERT_ITEMS = sa.text(
    f"""
    with {audience.CLASSIFIED}
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


def materialise(db: Database, order_id: int, *, needs_credit: Collection[str] = (), now: datetime) -> None:
    """Make the order's lists items, once; an order that was cancelled meanwhile gets none.

    In the modes that need credit an order that has outgrown its account's waits for an operator.
    Two pieces that drew the same short code undo it all: the job is tried again, and draws others.
    """
    if is_under_way(db):
        _judge_its_lists(db, order_id)
    with db.work() as tx:
        order = _take(tx, order_id, now=now)
        if order is None:
            return
        if not OrderStatus(order.status).is_held_back:
            tx.execute(store.COUNT_ITEMS, {"order_id": order_id})
            return
        tx.execute(ACT_FOR, {"account": str(order.account_id)})
        reach = _reach(tx, order)
        audience.take_turns(tx, reach)
        made = tx.execute(
            INSERT_ITEMS, audience.values(reach) | {"gift_cents": order.giftcard_amount or 0, "now": now}
        )
        tx.execute(store.COUNT_ITEMS, {"order_id": order_id})
        cost = store.live_cents(tx, order_id)
        totals = {"order_total": cost.pieces, "gift_total": cost.gifts, "updated_at": now}
        tx.execute(sa.update(orders).where(orders.c.id == order_id).values(**totals))
        store.append_first_item_facts(tx, order_id, listed=True, now=now)
        # Last of all: the account's other sends wait for us from here on.
        if order.mode in needs_credit:
            _wait_unless_covered(tx, order, cost.total, now=now)
        # Held even so: what is owed for it can be seen, and nothing else is sent on it.
        ledger.hold_exactly(tx, order_id, cents=cost.total, why="audience", now=now)
        jobs.wake(tx, SWEEP, at=max(order.due_at, now))
        jobs.wake(tx, search.INDEX, at=now)
    log.info("audience.materialised", order=order_id, items=made.rowcount)


def _judge_its_lists(db: Database, order_id: int) -> None:
    """After an upgrade the people of lists are judged anew: those of this order now, and whom it must not
    reach, so that doors are told by the same keys."""
    judge_suppressions(db)
    with db.work() as tx:
        lists = tx.execute(sa.select(orders.c.mailing_list_ids).where(orders.c.id == order_id)).scalar()
    judge_lists(db, lists or [])


def materialise_again(db: Database) -> None:
    """Book the job for every order that waits for its items and that no job is booked for."""
    with db.work() as tx:
        waiting = tx.execute(
            sa.select(orders.c.id)
            .where(orders.c.audience_pending)
            .order_by(orders.c.id)
            .limit(ORDERS_AT_ONCE)
        )
        for order_id in waiting.scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_known(tx, MATERIALISE, order_id=order_id):
                jobs.defer(tx, MATERIALISE, order_id=order_id)


def _take(tx: Tx, order_id: int, *, now: datetime) -> sa.Row[Any] | None:
    """The order, if its lists were still to become items; from here on they are taken care of."""
    return tx.execute(
        sa.update(orders)
        .where(orders.c.id == order_id, orders.c.audience_pending)
        .values(audience_pending=False, updated_at=now)
        .returning(orders)
    ).first()


def _wait_unless_covered(tx: Tx, order: sa.Row[Any], total: int, *, now: datetime) -> None:
    """Pause the order where its account's credit does not cover what it costs beyond what is held for it."""
    more = total - ledger.held_for(tx, order.id)
    if more <= 0:
        return
    credit.take_turns(tx, order.account_id, order.mode)
    has = credit.credit(tx, order.mode)
    if has >= more:
        return
    reason = sa.cast([credit.growth_short_of(has, more)], orders.c.hold_reasons.type)
    tx.execute(
        sa.update(orders)
        .where(orders.c.id == order.id)
        .values(status=OrderStatus.PAUSED.value, hold_reasons=orders.c.hold_reasons + reason, updated_at=now)
    )
    if order.status != OrderStatus.PAUSED:
        events.order_status_changed(tx, [order.id], previous=order.status, now=now)


def _reach(tx: Tx, order: sa.Row[Any]) -> Reach:
    """As when it was sent, at the prices of that day."""
    inline = sa.select(items.c.address_key).where(
        items.c.order_id == order.id, items.c.status != ItemStatus.FAILED.value
    )
    return Reach(
        account_id=order.account_id,
        sub_account_id=order.sub_account_id,
        mode=order.mode,
        list_ids=order.mailing_list_ids,
        creative_key=order.creative_key,
        allow_duplicates=audience.may_repeat(order.type, allow_duplicates=order.allow_duplicates),
        mails_at=order.due_at,
        tariff=tariff_on(
            tx,
            type=order.type,
            size=order.size,
            mail_class=order.mail_class,
            on=order.created_at.date(),
        ),
        inline_keys=list(tx.execute(inline).scalars()),
        order_id=order.id,
    )


FIELDS = {
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
    **{name.upper(): name for name in CUSTOM},
}
DAYS = {"DOB": "dob", "ANNIVERSARY": "anniversary"}
"""Where a person keeps what a variable shows; names are taken apart."""

ADDRESS_FIELDS = ("company", "address", "address2", "city", "province", "postal_code")
NAME_PARTS: Mapping[str, Callable[[list[str]], str]] = {
    "FIRST_NAME": lambda words: words[0],
    "LAST_NAME": lambda words: words[-1],
    "FULL_NAME": " ".join,
    "NAME": " ".join,
}
"""What a variable shows of the words of a name, nearly."""


def longest_people(tx: Tx, list_ids: Sequence[int], variables: Collection[str]) -> list[Person]:
    """People, at least one, who between them have the longest value of every variable named that the lists
    hold.

    Nobody on the lists need be like them: each has the longest of everything, only their names differ.
    """
    whole = sa.text(f"not {lacks_parts('recipients')}")
    mailed = sa.and_(recipients.c.mailing_list_id.in_(list_ids), recipients.c.address.is_not(None), whole)
    return _longest_of(tx, recipients, mailed, variables)


def longest_among(people: Sequence[Person], variables: Collection[str]) -> list[Person]:
    """The same of these people, of whom nothing is known but their names and addresses."""
    fields = {FIELDS[name] for name in variables if name in FIELDS} & set(ADDRESS_FIELDS)
    everyones: dict[str, Any] = {
        field: max((getattr(one, field) or "" for one in people), key=len, default=None) for field in fields
    }
    parts = [part for name, part in NAME_PARTS.items() if name in variables]
    names = dict.fromkeys(_longest_name(people, part) for part in parts) or {None: None}
    return [Person(name=name, **everyones) for name in names]


def _longest_name(people: Sequence[Person], part: Callable[[list[str]], str]) -> str | None:
    names = [one.name for one in people if one.name]
    return max(names, key=lambda name: len(part(name.split() or [""])), default=None)


def longest_mailed(tx: Tx, order_id: int, variables: Collection[str]) -> list[Person]:
    """The same of those whom an order has taken over from its lists."""
    taken = (items.c.order_id == order_id) & (items.c.status == ItemStatus.PROCESSING.value)
    return _longest_of(tx, items, taken & items.c.mailing_list_id.is_not(None), variables)


def _longest_of(
    tx: Tx, people: sa.Table, wanted_ones: sa.ColumnElement[bool], variables: Collection[str]
) -> list[Person]:
    fields = {FIELDS[name] for name in variables if name in FIELDS}
    days = {DAYS[name] for name in variables if name in DAYS}
    names = {name: shown for name, shown in _names(people).items() if name in variables}
    wanted = [
        *(_longest(people.c[field], people.c[field]).label(field) for field in fields),
        *(sa.func.max(people.c[day]).label(day) for day in days),
        *(_longest(people.c.name, shown).label(name) for name, shown in names.items()),
    ]
    if not wanted:
        return [Person()]
    found = tx.execute(sa.select(*wanted).where(wanted_ones)).one()._mapping
    everyones = {name: found[name] for name in fields | days if name not in CUSTOM}
    custom = tuple(found[name] if name in fields else None for name in CUSTOM)
    whole_names = dict.fromkeys(found[name] for name in names) or {None: None}
    return [Person(name=name, **everyones, custom=custom) for name in whole_names]


def _names(people: sa.Table) -> dict[str, sa.ColumnElement[str]]:
    """The part of a name that a variable shows, nearly: titles and the like are left to composition."""
    whole = sa.func.btrim(people.c.name)
    return {
        "FIRST_NAME": sa.func.split_part(whole, " ", 1),
        "LAST_NAME": sa.func.split_part(whole, " ", -1),
        "FULL_NAME": whole,
        "NAME": whole,
    }


def _longest(value: sa.ColumnElement[Any], measured: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The value of whom the measured text is longest, in one pass: lengths of six digits sort as text."""
    length = sa.func.lpad(sa.cast(sa.func.length(measured), sa.Text), 6, "0")
    return sa.func.substr(sa.func.max((length + value).collate("C")), 7)
