"""Orders placed without a call, and what is in the books about them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, items, ledger_moves, orders
from quillpost.orders import designs
from quillpost.orders import service as order_service
from quillpost.orders.audience.service import EMPTY_AUDIENCE_COUNT, Audience
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import Order, ResolvedRequest
from quillpost.orders.products import POSTCARD
from quillpost.orders.queries import change_status
from quillpost.orders.requests.files import Artwork
from quillpost.orders.rules import OrderStatus
from quillpost.orders.service import NewItem
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.models import ReturnAddress, SenderName
from support.factories import person
from support.rows import Where, execute

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
        "handwriting_realism": False,
        "font_size": "medium",
    } | order_request
    request = ResolvedRequest(**values)
    sender = SenderName("Dana Whitfield", None)
    address = ReturnAddress(name="Dana", address="1 Elm St", city="Austin", province="TX", postal_code="78702")
    design = designs.build_design(request, sender=sender, return_address=address, indicia=())
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


def end_review(container: Container, order: Order) -> None:
    """The order's status alone: no batch is made."""
    with container.db.system_transaction() as tx:
        change_status(
            tx, [order.id], expected=[OrderStatus.REVIEWING], new_status=OrderStatus.PROCESSING, now=container.clock()
        )


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
