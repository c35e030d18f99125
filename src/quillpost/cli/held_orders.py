"""`quillpost print held`, `release` and `refuse`: orders that wait for a person's word."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from quillpost.accounts.audit.service import note_for_operators
from quillpost.accounts.billing.rules import dollars
from quillpost.app.container import Parts
from quillpost.cli.container import opened
from quillpost.cli.print_files import MOST_LISTED, Machine, Mode, write
from quillpost.core.clock import iso
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import PageRequest
from quillpost.fulfillment import review
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.review import LONGEST_REASON, HeldOrder, list_held
from quillpost.orders.items import read_order
from quillpost.web.rendering import plural

Which = Annotated[
    int, typer.Argument(metavar="ORDER", min=1, max=2**63 - 1, help="The order's number.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    app.command("held")(show_held)
    app.command("release")(release)
    app.command("refuse")(refuse)


def show_held(mode: Mode = "live", machine: Machine = False) -> None:
    """List the paused orders of every account, oldest first."""
    with opened() as (_, parts), parts.db.work() as tx:
        page = list_held(tx, mode, PageRequest(per_page=MOST_LISTED))
    if machine:
        moments = ("created_at", "paused_at")
        write([asdict(order) | {at: iso(getattr(order, at)) for at in moments} for order in page.rows])
        return
    out = Console()
    for order in page.rows:
        out.print(_shown(order), soft_wrap=True)
    if not page.rows:
        typer.echo("No order is held.")
    if page.total > len(page.rows):
        typer.echo(f"These are the oldest {len(page.rows):,} of {page.total:,}.")


def release(
    order: Which,
    reason: Annotated[str, typer.Option(help="Why it may be printed all the same; kept for operators.")] = "",
) -> None:
    """Let a paused order go to the press, past the checks that held it."""
    why = _plain(reason)
    with opened() as (_, parts), parts.db.work() as tx:
        world = _world_of(tx, parts, order)
        now = parts.clock()
        review.release(tx, world, order, operator_id=None, reason=why, now=now)
        note_for_operators(tx, "order.released", about=_about(order, world, why), now=now)
    typer.echo(f"Order {order} is released.")


def refuse(
    order: Which, reason: Annotated[str, typer.Option(help="Why it is not printed; the sender reads it.")]
) -> None:
    """End an order that is paused or under review; the sender has the money back."""
    why = _plain(reason)
    if not why:
        raise Refused("Give a --reason: the sender reads it.")
    with opened() as (_, parts), parts.db.work() as tx:
        world = _world_of(tx, parts, order)
        now = parts.clock()
        review.refuse(tx, world, order, operator_id=None, reason=why, now=now)
        note_for_operators(tx, "order.refused", about=_about(order, world, why), now=now)
    typer.echo(f"Order {order} is refused.")


def _world_of(tx: Tx, parts: Parts, order_id: int) -> World:
    """At the command line an order's number is enough, whatever its mode."""
    try:
        return parts.worlds[read_order(tx, order_id).mode]
    except NotFound:
        raise Refused(f"There is no order {order_id}.") from None


def _about(order_id: int, world: World, reason: str) -> dict[str, Any]:
    return {"name": f"order {order_id}", "mode": world.mode, "reason": reason}


def _plain(reason: str) -> str:
    """The reason without blanks around it, as it can be kept."""
    if len(reason) > LONGEST_REASON:
        raise Refused(f"The --reason is too long: at most {LONGEST_REASON} characters, please.")
    if not reason.isascii() and any("\ud800" <= letter <= "\udfff" for letter in reason):
        # So Python hands on what a terminal sent in another encoding.
        raise Refused("The --reason is no UTF-8: write it in another way, please.")
    return reason.strip()


def _shown(order: HeldOrder) -> Text:
    """A line on the order and one for each reason: a table would cut what matters."""
    what = f"{order.type}, {plural(order.pieces, 'piece')}, {dollars(order.grand_total)}"
    shown = Text(f"Order {order.id}: {what}, of {order.account_email}, since {iso(order.paused_at)}", "bold")
    for reason in order.reasons:
        shown.append(f"\n  {reason}", "not bold")
    return shown
