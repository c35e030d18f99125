"""`quillpost print held`, `release` and `refuse`: orders that wait for a person's word."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from quillpost.accounts.audit.service import record_for_operators
from quillpost.accounts.billing.rules import format_dollars
from quillpost.app.bootstrap import open_container
from quillpost.app.container import Container
from quillpost.cli.print_files import MAX_LISTED, JsonOption, ModeOption, print_json
from quillpost.core.clock import format_iso
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import MAX_REASON_LENGTH, PausedOrder, list_paused_orders
from quillpost.orders.queries import read_order
from quillpost.web.rendering import pluralize

OrderArgument = Annotated[
    int, typer.Argument(metavar="ORDER", min=1, max=2**63 - 1, help="The order's number.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    app.command("held")(show_held)
    app.command("release")(release)
    app.command("refuse")(refuse)


def show_held(mode: ModeOption = "live", machine: JsonOption = False) -> None:
    """List the paused orders of every account, oldest first."""
    with open_container() as (_, container), container.db.system_transaction() as tx:
        page = list_paused_orders(tx, mode, PageRequest(per_page=MAX_LISTED))
    if machine:
        time_fields = ("created_at", "paused_at")
        print_json([asdict(order) | {at: format_iso(getattr(order, at)) for at in time_fields} for order in page.rows])
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
    clean_reason = _clean_reason(reason)
    with open_container() as (_, container), container.db.system_transaction() as tx:
        environment = _find_environment(tx, container, order)
        now = container.clock()
        review_service.release_order(tx, environment, order, operator_id=None, reason=clean_reason, now=now)
        record_for_operators(tx, "order.released", about=_audit_details(order, environment, clean_reason), now=now)
    typer.echo(f"Order {order} is released.")


def refuse(
    order: OrderArgument, reason: Annotated[str, typer.Option(help="Why it is not printed; the sender reads it.")]
) -> None:
    """End an order that is paused or under review; the sender has the money back."""
    clean_reason = _clean_reason(reason)
    if not clean_reason:
        raise Refused("Give a --reason: the sender reads it.")
    with open_container() as (_, container), container.db.system_transaction() as tx:
        environment = _find_environment(tx, container, order)
        now = container.clock()
        review_service.refuse_order(tx, environment, order, operator_id=None, reason=clean_reason, now=now)
        record_for_operators(tx, "order.refused", about=_audit_details(order, environment, clean_reason), now=now)
    typer.echo(f"Order {order} is refused.")


def _find_environment(tx: Tx, container: Container, order_id: int) -> Environment:
    """An order's number is enough, whatever its mode."""
    try:
        return container.environments[read_order(tx, order_id).mode]
    except NotFound:
        raise Refused(f"There is no order {order_id}.") from None


def _audit_details(order_id: int, environment: Environment, reason: str) -> dict[str, Any]:
    return {"name": f"order {order_id}", "mode": environment.mode, "reason": reason}


def _clean_reason(reason: str) -> str:
    if len(reason) > MAX_REASON_LENGTH:
        raise Refused(f"The --reason is too long: at most {MAX_REASON_LENGTH} characters, please.")
    if not reason.isascii() and any("\ud800" <= char <= "\udfff" for char in reason):
        # So Python hands on what a terminal sent in another encoding.
        raise Refused("The --reason is no UTF-8: write it in another way, please.")
    return reason.strip()


def _order_text(order: PausedOrder) -> Text:
    """No table: it would cut the reasons."""
    summary = f"{order.type}, {pluralize(order.pieces, 'piece')}, {format_dollars(order.grand_total)}"
    text = Text(f"Order {order.id}: {summary}, of {order.account_email}, since {format_iso(order.paused_at)}", "bold")
    for reason in order.reasons:
        text.append(f"\n  {reason}", "not bold")
    return text
