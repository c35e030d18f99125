"""Saved lists and orders that go to them, written straight into the tables."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.engine import insert_rows
from quillpost.core.database.tables.base import items, ledger_moves, mailing_lists, orders, recipients, sub_accounts
from quillpost.orders.audience.queries import PERSON_COLUMNS, AudienceCriteria
from quillpost.orders.items import queries as item_queries
from quillpost.orders.rules import MATERIALIZE_TASK
from quillpost.recipients.models import DERIVED_COLUMNS
from quillpost.recipients.rules import validate_recipient

CREATIVE = UUID("5a6f1c52-9d0e-4c57-8f6f-3f6a35b8a001")
REVIEW = timedelta(seconds=10)
CENTS = 109


def make_list(
    container: Container, caller: Caller, whom: Sequence[dict[str, Any]] = (), *,
    sub_account_id: int | None = None, suppresses: bool = False,
) -> int:  # fmt: skip
    """A list of these people, in their order."""
    now = container.clock()
    made = sa.insert(mailing_lists).values(
        account_id=caller.account_id, sub_account_id=sub_account_id, type="manual", description="People",
        is_suppression_list=suppresses, created_at=now, updated_at=now,
    )  # fmt: skip
    with container.db.system_transaction() as tx:
        list_id = int(tx.execute(made.returning(mailing_lists.c.id)).scalar_one())
    add_people(container, list_id, whom)
    return list_id


def make_sub_account(container: Container, caller: Caller) -> int:
    """A sub account of theirs."""
    now = container.clock()
    made = sa.insert(sub_accounts).values(
        account_id=caller.account_id, title="Branch", branding={}, backgrounds={}, created_at=now, updated_at=now
    )
    with container.db.system_transaction() as tx:
        return int(tx.execute(made.returning(sub_accounts.c.id)).scalar_one())


def add_people(container: Container, list_id: int, whom: Sequence[dict[str, Any]]) -> None:
    now = container.clock()
    with container.db.system_transaction() as tx:
        home = tx.execute(sa.select(mailing_lists).where(mailing_lists.c.id == list_id)).one()
        rows = [
            (home.account_id, home.sub_account_id, list_id, *recipient_columns(row).values(), now, now) for row in whom
        ]
        names = ("account_id", "sub_account_id", "mailing_list_id", *PERSON_COLUMNS)
        insert_rows(tx, recipients, (*names, "created_at", "updated_at"), rows)


def recipient_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A person as the columns of a recipient or of an item."""
    someone = validate_recipient(row)
    custom = {f"custom{place}": text for place, text in enumerate(someone.custom, start=1)}
    known = custom | dict(zip(DERIVED_COLUMNS, someone.derived_values, strict=True))
    return {name: known[name] if name in known else getattr(someone, name) for name in PERSON_COLUMNS}


def audience_criteria(container: Container, caller: Caller, *list_ids: int, **changes: Any) -> AudienceCriteria:
    """A postcard within the US at 109 cents, due at the end of the review, but for the changes."""
    known: dict[str, Any] = {
        "account_id": caller.account_id, "sub_account_id": caller.sub_account_id, "mode": caller.mode,
        "list_ids": list_ids, "creative_key": CREATIVE, "allows_repeats": False, "inline_keys": (),
        "mails_at": container.clock() + REVIEW, "tariff": Tariff({"US": CENTS}),
    }  # fmt: skip
    return AudienceCriteria(**known | changes)


def make_order(
    container: Container,
    caller: Caller,
    *list_ids: int,
    inline: Sequence[dict[str, Any]] = (),
    authorised: int = 0,
    **values: Any,
) -> int:
    """A postcard to lists whose items are yet to be made, with its job booked; inline people are items."""
    now = container.clock()
    owner = {"account_id": caller.account_id, "sub_account_id": caller.sub_account_id, "mode": caller.mode}
    columns_of_order: dict[str, Any] = {
        "type": "postcard", "size": "4x6", "piece": "postcard-4x6", "mail_class": "first", "status": "reviewing",
        "method": "api", "message": "Hi %FIRST_NAME%!", "style": 1, "handwriting_color": "rgba(0,0,255,1)",
        "handwriting_realism": False, "font_size": "medium", "sender_name": "Dana Whitfield",
        "mailing_list_ids": list(list_ids), "total_estimated_recipients": 0, "authorization_total": authorised,
        "order_total": authorised, "creative_key": CREATIVE, "audience_pending": True, "due_at": now + REVIEW,
        "created_at": now, "updated_at": now,
    }  # fmt: skip
    with container.db.system_transaction() as tx:
        made = tx.execute(sa.insert(orders).values(**owner | columns_of_order | values).returning(orders.c.id))
        order_id = int(made.scalar_one())
        for row in inline:
            insert_item(tx, order_id, row, now=now)
        billing_service.set_order_hold(tx, order_id, cents=authorised, reason="creation", now=now)
        item_queries.record_order_status_change(tx, [order_id], previous=None, now=now)
        jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order_id)
    return order_id


def insert_item(tx: Tx, order_id: int, row: dict[str, Any], *, now: datetime) -> None:
    """An inline recipient's item."""
    order = tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()
    made = sa.insert(items).values(
        **recipient_columns(row), account_id=order.account_id, sub_account_id=order.sub_account_id, mode=order.mode,
        order_id=order_id, status="Processing", price_cents=CENTS, creative_key=CREATIVE, created_at=now,
        updated_at=now,
    )  # fmt: skip
    tx.execute(made)


def ledger_entries(container: Container, order_id: int) -> list[tuple[str, int, str]]:
    """The ledger of an order: kind, cents and key of each entry, in order."""
    found = sa.select(ledger_moves.c.kind, ledger_moves.c.cents, ledger_moves.c.key)
    with container.db.system_transaction() as tx:
        rows = tx.execute(found.where(ledger_moves.c.order_id == order_id).order_by(ledger_moves.c.id))
        return [(row.kind, row.cents, row.key) for row in rows]
