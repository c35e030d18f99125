"""Orders placed without a call, by real sends or written straight into the tables, and what is in the books of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, items, ledger_moves, orders
from quillpost.core.database.tables.fulfillment import batches
from quillpost.orders import designs
from quillpost.orders import service as order_service
from quillpost.orders.audience.service import EMPTY_AUDIENCE_COUNT, Audience
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.handwriting.models import NO_OWN_HANDWRITING
from quillpost.orders.models import Order, ResolvedRequest
from quillpost.orders.products import POSTCARD
from quillpost.orders.queries import change_status
from quillpost.orders.requests.files import Artwork
from quillpost.orders.rules import OrderStatus
from quillpost.orders.service import NewItem
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.models import ReturnAddress, SenderName
from support.factories import Account, Clock, people, person, run_jobs_for
from support.rows import Where, execute, run

REVIEW = timedelta(seconds=10)
CENTS = 109


def open_account(container: Container, email: str = "owner@example.com", mode: str = "test") -> Caller:
    with container.db.system_transaction() as tx:
        account_id = account_service.create_account(tx, email=email, name="Dana Whitfield", now=container.clock())
    return Caller(account_id, mode)


def create_order(
    container: Container,
    caller: Caller,
    people: Sequence[dict[str, Any]] | None = None,
    *,
    size: str = "4x6",
    cents: int = CENTS,
    needs_credit: bool = False,
    **order_request: Any,
) -> Order:
    """An order of these people; one of them whom the audience refuses is free."""
    everyone = validate_recipients(people if people is not None else [person()])
    values: dict[str, Any] = {
        "product": POSTCARD,
        "size": size,
        "message": "Hi %FIRST_NAME%!",
        "style": 1,
        "handwriting_color": "rgba(0,0,255,1)",
        "handwriting_manner": "neat",
        "font_size": "medium",
    } | order_request
    request = ResolvedRequest(**values)
    sender = SenderName("Dana Whitfield", None)
    address = ReturnAddress(name="Dana", address="1 Elm St", city="Austin", province="TX", postal_code="78702")
    design = designs.build_design(
        request, own_handwriting=NO_OWN_HANDWRITING, sender=sender, return_address=address, indicia=()
    )
    draft = OrderDraft(request, everyone, Tariff({}), address, Artwork(), design, None, [])  # type: ignore[arg-type]
    pieces = [NewItem(someone, 0 if someone.refusal else cents) for someone in everyone]
    mailed = sum(not someone.refusal for someone in everyone)
    reached = Audience(
        everyone,
        EMPTY_AUDIENCE_COUNT,
        recipient_count=len(everyone),
        mailed_items=mailed,
        total_cents=sum(piece.cents for piece in pieces),
        gift_total=0,
        warnings=[],
    )
    due_at = max(container.clock() + REVIEW, request.schedule_for or container.clock())
    with container.db.transaction(account_service.build_tenant(caller)) as tx:
        return order_service.store_order(
            tx,
            caller,
            draft,
            reached,
            pieces,
            order_service.OrderFiles(),
            due_at=due_at,
            needs_credit=needs_credit,
            now=container.clock(),
        )


def end_review(container: Container, order: Order | int) -> None:
    """The order's status alone: no batch is made."""
    ends: dict[str, Any] = {"expected": [OrderStatus.REVIEWING], "new_status": OrderStatus.PROCESSING}
    run(container, change_status, [id_of(order)], now=container.clock(), **ends)


def item_ids(where: Where, order: Order | int) -> list[int]:
    return [row.id for row in item_rows(where, order)]


def item_rows(where: Where, order: Order | int) -> list[sa.Row[Any]]:
    return execute(where, sa.select(items).where(items.c.order_id == id_of(order)).order_by(items.c.id))


def order_row(where: Where, order: Order | int) -> sa.Row[Any]:
    found: list[sa.Row[Any]] = execute(where, sa.select(orders).where(orders.c.id == id_of(order)))
    return found[0]


def fact_rows(where: Where, order: Order | int) -> list[sa.Row[Any]]:
    return execute(where, sa.select(facts).where(facts.c.order_id == id_of(order)).order_by(facts.c.id))


def balances(where: Where, order: Order | int) -> dict[str, int]:
    """What each book holds of the order's money: what came in less what went out."""
    books = {"credit": 0, "held": 0, "earned": 0}
    for move in execute(where, sa.select(ledger_moves).where(ledger_moves.c.order_id == id_of(order))):
        books[move.source] -= move.cents
        books[move.target] += move.cents
    return books


def id_of(order: Order | int) -> int:
    return order if isinstance(order, int) else order.id


HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip


def hand_over_batch(sender: Account, container: Container, clock: Clock, how_many: int = 3, **changes: Any) -> int:
    """The batch of an order to so many, with the printer."""
    sent = sender.send(recipients=people(how_many), **HOME | changes)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=4)
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.select(batches).order_by(batches.c.id.desc()).limit(1)).one()
    assert found.status == "handed", found
    return int(found.id)


UNFILLED = "Hello %COMPANY%!"
"""A message for which the people of these tests have nothing: the review holds it."""


def create_held_orders(sender: Account, container: Container, clock: Clock, how_many: int, **changes: Any) -> list[int]:
    """Orders that wait for an operator."""
    made = [int(sender.send(**{"message": UNFILLED} | changes).json()["id"]) for _ in range(how_many)]
    run_jobs_for(container, clock, seconds=11)
    assert {sender.get(f"/orders/{order_id}").json()["status"] for order_id in made} == {"Paused"}
    return made


def create_held_order(sender: Account, container: Container, clock: Clock, **changes: Any) -> int:
    return create_held_orders(sender, container, clock, 1, **changes)[0]


WRITE = sa.text(
    """
    insert into orders (account_id, sub_account_id, mode, type, size, piece, mail_class, status, method,
                        message, style, handwriting_color, handwriting_manner, font_size,
                        total_estimated_recipients, recipient_count, n_delivered, authorization_total,
                        order_total, due_at, created_at, updated_at)
    select :account_id, cast(:sub_account_id as bigint), :mode, :type, :size, :piece, 'first', :status, 'api',
           'Hi', 1, 'rgba(0,0,255,1)', 'natural', 'auto',
           :pieces, :pieces, :pieces, 109 * :pieces, 109 * :pieces, :at, :at, :at
      from generate_series(1, :how_many)
    returning id
    """
)
WRITE_ITEMS = sa.text(
    """
    insert into items (account_id, sub_account_id, mode, order_id, status, price_cents, name, country,
                       created_at, updated_at)
    select o.account_id, o.sub_account_id, o.mode, o.id, 'Delivered', 109, 'Person ' || n, 'US', o.created_at,
           o.created_at
      from orders o, generate_series(1, o.recipient_count) n
     where o.id = any(:orders) order by o.id, n
    """
)


def insert_orders(
    container: Container,
    account_id: int,
    how_many: int,
    *,
    type: str = "postcard",  # noqa: A002
    size: str | None = "4x6",
    at: datetime | None = None,
    **changes: Any,
) -> list[int]:
    """Fulfilled orders of one account; `pieces` says how many delivered items each of them has."""
    values = {
        "account_id": account_id,
        "sub_account_id": None,
        "mode": "test",
        "status": "fulfilled",
        "pieces": 0,
        "type": type,
        "size": size,
        "piece": f"postcard-{size}" if size else type,
        "at": at or container.clock(),
        "how_many": how_many,
    } | changes
    with container.db.system_transaction() as tx:
        made = list(tx.execute(WRITE, values).scalars())
        if values["pieces"]:
            tx.execute(WRITE_ITEMS, {"orders": made})
    return made
