"""`quillpost print held`, `release`, `refuse`, `rush` and `pool`: orders that wait to be printed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from quillpost.accounts.audit.service import record_for_operators
from quillpost.accounts.billing.rules import format_dollars
from quillpost.app.bootstrap import open_container
from quillpost.app.container import Container
from quillpost.cli.console import MAX_LISTED, JsonOption, ModeOption, format_count, print_json
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.core.text import format_iso
from quillpost.fulfillment.batches.service import WaitingOrders
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.service import CountAuditCallback
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import MAX_REASON_LENGTH, PausedOrder, list_paused_orders
from quillpost.orders.queries import read_order

OrderArgument = Annotated[
    int, typer.Argument(metavar="ORDER", min=1, max=2**63 - 1, help="The order's number.", show_default=False)
]


def show_held(mode: ModeOption = "live", machine: JsonOption = False) -> None:
    """List the paused orders of every account, oldest first."""
    with open_container() as (_, container), container.db.system_transaction() as tx:
        page = list_paused_orders(tx, mode, PageRequest(per_page=MAX_LISTED))
    if machine:
        print_json(page.rows)
        return
    out = Console()
    for order in page.rows:
        out.print(_order_text(order), soft_wrap=True)
    if not page.rows:
        typer.echo("No order is held.")
    if page.total > len(page.rows):
        typer.echo(f"These are the oldest {len(page.rows):,} of {page.total:,}.")


def release(
    order: OrderArgument,
    reason: Annotated[str, typer.Option(help="Why it may be printed all the same; kept for operators.")] = "",
) -> None:
    """Let a paused order go to the press, past the checks that held it."""
    _decide(order, review_service.release_order, "order.released", _clean_reason(reason))
    typer.echo(f"Order {order} is released.")


def refuse(
    order: OrderArgument, reason: Annotated[str, typer.Option(help="Why it is not printed; the sender reads it.")]
) -> None:
    """End an order that is paused or under review; the sender has the money back."""
    clean_reason = _clean_reason(reason)
    if not clean_reason:
        raise Refused("Give a --reason: the sender reads it.")
    _decide(order, review_service.refuse_order, "order.refused", clean_reason)
    typer.echo(f"Order {order} is refused.")


def _decide(order_id: int, decide: Callable[..., object], act: str, reason: str) -> None:
    with open_container() as (_, container), container.db.system_transaction() as tx:
        environment, now = _find_environment(tx, container, order_id), container.clock()
        decide(tx, environment, order_id, operator_id=None, reason=reason, now=now)
        about = {"name": f"order {order_id}", "mode": environment.mode, "reason": reason}
        record_for_operators(tx, act, about=about, now=now)


def _find_environment(tx: Tx, container: Container, order_id: int) -> Environment:
    """An order's number is enough, whatever its mode."""
    try:
        return container.environments[read_order(tx, order_id).mode]
    except NotFound:
        raise Refused(f"There is no order {order_id}.") from None


def _clean_reason(reason: str) -> str:
    if len(reason) > MAX_REASON_LENGTH:
        raise Refused(f"The --reason is too long: at most {MAX_REASON_LENGTH} characters, please.")
    if not reason.isascii() and any("\ud800" <= char <= "\udfff" for char in reason):
        # So Python hands on what a terminal sent in another encoding.
        raise Refused("The --reason is no UTF-8: write it in another way, please.")
    return reason.strip()


def _order_text(order: PausedOrder) -> Text:
    """No table: it would cut the reasons."""
    summary = f"{order.type}, {format_count(order.pieces, 'piece')}, {format_dollars(order.grand_total)}"
    text = Text(f"Order {order.id}: {summary}, of {order.account_email}, since {format_iso(order.paused_at)}", "bold")
    for reason in order.reasons:
        text.append(f"\n  {reason}", "not bold")
    return text


def rush(
    orders: Annotated[list[int], typer.Argument(metavar="ORDER", help="Numbers of orders.")], mode: ModeOption = "live"
) -> None:
    """Let orders go before the others, and without waiting for the cut-off."""
    with open_container() as (_, container):
        try:
            now = container.clock()
            record_audit = _counting_audit_recorder("orders.rushed", mode, now)
            rushed = print_room_service.rush_orders(
                container.db, mode, orders, operator_id=None, write_audit=record_audit, now=now
            )
        except Refused as error:
            raise Refused(f"{error.message.removesuffix('.')} in {mode} mode.") from None
    typer.echo(f"Rushed: {', '.join(map(str, rushed)) or 'none, they are in batches or rushed already'}.")


def pool(mode: ModeOption = "live") -> None:
    """Make batches of what waits, without waiting for the cut-off."""
    with open_container() as (_, container):
        now = container.clock()
        order_count = print_room_service.pool_orders_now(
            container.db, mode, write_audit=_counting_audit_recorder("orders.pooled", mode, now), now=now
        )
    typer.echo(f"No longer waiting for the cut-off: {format_count(order_count, 'order')}.")


def _counting_audit_recorder(act: str, mode: str, now: datetime) -> CountAuditCallback:
    return lambda tx, how_many: record_for_operators(tx, act, about={"mode": mode, "how_many": how_many}, now=now)


def format_waiting(groups: Sequence[WaitingOrders], mode: str, *, zone: tzinfo, now: datetime) -> str:
    order_label = "order" if mode == "live" else "test order"

    def describe(waiting_groups: Sequence[WaitingOrders]) -> str:
        pieces, orders = (sum(getattr(each, name) for each in waiting_groups) for name in ("pieces", "orders"))
        return f"{format_count(pieces, 'piece')} of {format_count(orders, order_label)}"

    first, later = groups[0], groups[1:]
    is_soon = first.until - now < timedelta(days=1)
    until = first.until.astimezone(zone).strftime("%H:%M" if is_soon else "%Y-%m-%d %H:%M")
    wait = "waits" if first.pieces == 1 else "wait"
    later_text = f", {describe(later)} longer" if later else ""
    return f"{describe([first])} {wait} until {until} ({zone}){later_text}."
