"""Gift cards: what can be given, an operator's own cards, and what became of those that were sent."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from quillpost.accounts.audit.service import note_for_operators
from quillpost.accounts.billing.rules import dollars
from quillpost.cli.print_files import MOST_LISTED, Machine, Mode, are_short, counted, on_day, write
from quillpost.cli.runtime import standing
from quillpost.core.clock import iso
from quillpost.core.errors import Invalid, NotFound, NotReady
from quillpost.orders.giftcards import brands as catalogue
from quillpost.orders.giftcards.queries import MOMENTS, ListedCard, Which, list_cards
from quillpost.orders.giftcards.rules import GROUPS, HOUSE_ACCENT, Brand
from quillpost.orders.giftcards.stock import BadFile, Loaded, count_stock, every_brand, load, release

OPTIONS = {"available_amounts": "--amounts", "brand_code": "BRAND"}
"""Where an option is called otherwise than what it fills."""

giftcards = typer.Typer(
    help="Gift cards: brands, your own cards, and what became of them.", no_args_is_help=True
)

Name = Annotated[
    str, typer.Argument(metavar="BRAND", help="The brand's code, as `giftcards brands` shows it.")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(giftcards, name="giftcards")


@giftcards.command("brands")
def show_brands(machine: Machine = False) -> None:
    """Show the brands that can be given, and those that are offered no more."""
    with standing() as ground, ground.db.work() as tx:
        brands = every_brand(tx)
    if machine:
        write([asdict(brand) for brand in brands])
        return
    table = _table(
        _folded("brand\nissuer's code", [name for b in brands for name in (b.code, b.issuer_code or "")]),
        _folded("title\ngroup"),
        _folded("amounts"),
        _whole("offered"),
    )
    for brand in brands:
        codes = f"{brand.code}\n{brand.issuer_code}" if brand.issuer_code else brand.code
        amounts = ", ".join(map(dollars, brand.amounts))
        is_offered = "yes" if brand.is_offered else "no"
        table.add_row(*map(Text, (codes, f"{brand.title}\n{brand.section}", amounts, is_offered)))
    Console().print(table if brands else "There are no brands yet: see `quillpost giftcards brand --help`.")


@giftcards.command("brand")
def put_brand(
    name: Name,
    title: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    group: Annotated[str | None, typer.Option(help=f"One of {', '.join(GROUPS)}.")] = None,
    amounts: Annotated[str | None, typer.Option(help="In cents, with commas: 1000,2500.")] = None,
    color: Annotated[str | None, typer.Option(help="What its picture is drawn in, as #rrggbb.")] = None,
    issuer_code: Annotated[
        str | None, typer.Option(help="What a live issuer calls it, where that is not BRAND; '' for none.")
    ] = None,
) -> None:
    """Add a brand, or change what is said of one; one that was retired is offered again."""
    with standing() as ground, ground.db.work() as tx:
        known = catalogue.find_brands(tx, [name], locked=True).get(name)
        if known is None and None in (title, group, amounts):
            raise NotReady(f"There is no brand {name} yet: to add it, give --title, --group and --amounts.")
        before = known or Brand(name, "", "", (), HOUSE_ACCENT)
        changed = replace(
            before,
            title=before.title if title is None else title,
            section=before.section if group is None else group,
            amounts=before.amounts if amounts is None else _cents(amounts),
            accent=before.accent if color is None else color.lower(),
            issuer_code=before.issuer_code if issuer_code is None else issuer_code or None,
            is_offered=True,
        )
        try:
            is_other = catalogue.put_brand(tx, changed, now=ground.clock())
        except Invalid as wrong:
            raise NotReady(_faults(wrong)) from None
        if is_other:
            note_for_operators(tx, "brand.changed", about={"name": name}, now=ground.clock())
    became = "new" if known is None else "changed" if is_other else "as it was"
    typer.echo(f"{name} is {became}: {', '.join(map(dollars, changed.amounts))}.")


@giftcards.command("retire")
def retire(name: Name) -> None:
    """Offer a brand no more. Orders that have it go on, and its cards can be claimed."""
    with standing() as ground, ground.db.work() as tx:
        try:
            was_offered = catalogue.retire(tx, name, now=ground.clock())
        except NotFound:
            raise NotReady(f"There is no brand {name}: see `quillpost giftcards brands`.") from None
        if was_offered:
            note_for_operators(tx, "brand.retired", about={"name": name}, now=ground.clock())
    typer.echo(f"{name} is offered no more.")


@giftcards.command("load")
def load_cards(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, in UTF-8.", show_default=False)],
) -> None:
    """Load cards that you have bought, for live mail: all of the file, or nothing.

    The first line names the columns: brand; amount (25.00) or amount_cents (2500); code, or url, or both; pin
    and expires_on (2030-12-31) where there are any. A card that is there already is passed over. The codes
    are sealed: remove the file afterwards.
    """
    with standing() as ground:
        try:
            done = load(ground.db, ground.sealer, file, now=ground.clock())
        except BadFile as wrong:
            _tell_faults(wrong.loaded)
            raise
    there = f", {counted(done.known, 'card')} passed over as known" if done.known else ""
    typer.echo(f"{file.name}: {counted(done.added, 'card')} loaded{there}.")


@giftcards.command("stock")
def show_stock(machine: Machine = False) -> None:
    """Show how many of your own cards there are, by brand and amount."""
    with standing() as ground, ground.db.work() as tx:
        shelves = count_stock(tx, now=ground.clock())
    if machine:
        days = [shelf.first_expires_on for shelf in shelves]
        written = [day.isoformat() if day else None for day in days]
        write([asdict(s) | {"first_expires_on": day} for s, day in zip(shelves, written, strict=True)])
        return
    counts_of = map(_whole, ("amount", "free", "taken", "expiring", "set\naside", "first\nexpires"))
    table = _table(_folded("brand", [shelf.brand for shelf in shelves]), *counts_of)
    for shelf in shelves:
        counts = (f"{count:,}" for count in (shelf.free, shelf.taken, shelf.expiring, shelf.set_aside))
        table.add_row(shelf.brand, dollars(shelf.cents), *counts, str(shelf.first_expires_on or ""))
    Console().print(table if shelves else "There are no cards: see `quillpost giftcards load --help`.")


@giftcards.command("release-stock")
def release_stock(
    brand: Annotated[str | None, typer.Option(metavar="BRAND", help="Those of this brand alone.")] = None,
) -> None:
    """Give your own cards again that a restore has set aside.

    What was mailed since the backup is not known any more: some of them may be on pieces that are in the
    mail, and would be given twice. Release them if no gift card was printed since, or make sure otherwise.
    """
    with standing() as ground, ground.db.work() as tx:
        if brand is not None and not catalogue.find_brands(tx, [brand]):
            raise NotReady(f"There is no brand {brand}: see `quillpost giftcards brands`.")
        released = release(tx, brand, now=ground.clock())
    typer.echo(f"{counted(released, 'card')} released.")


@giftcards.command("list")
def show_cards(
    mode: Mode = "live",
    reported: Annotated[bool, typer.Option("--reported", help="Those that somebody complained of.")] = False,
    void: Annotated[bool, typer.Option("--void", help="Those that nobody may claim any more.")] = False,
    unclaimed: Annotated[bool, typer.Option("--unclaimed", help="Those whose code nobody has seen.")] = False,
    most: Annotated[int, typer.Option(help="So many, the newest.", min=1)] = MOST_LISTED,
    machine: Machine = False,
) -> None:
    """Show the cards of pieces, of every account, without anything that they are redeemed with."""
    asked: dict[Which, bool] = {"reported": reported, "void": void, "unclaimed": unclaimed}
    with standing() as ground, ground.db.work() as tx:
        cards = list_cards(tx, mode, [which for which, is_asked in asked.items() if is_asked], most=most)
    if machine:
        write([asdict(card) | {at: iso(getattr(card, at)) for at in MOMENTS} for card in cards])
        return
    Console().print(_listed(cards) if cards else "There are no such cards.")
    if len(cards) == most:
        typer.echo(f"These are the newest {most:,}: --most shows more.", err=True)


def _listed(cards: Sequence[ListedCard]) -> Table:
    numbers, money, days = map(_whole, ("item\norder", "amount\nstatus", "issued\nclaimed"))
    table = _table(numbers, _whole("account"), _folded("brand\nissuer"), money, days, _folded("note"))
    for card in cards:
        row = (
            f"{card.item_id}\n{card.order_id}",
            str(card.account_id),
            f"{card.brand}\n{card.issuer or ''}",
            f"{dollars(card.cents)}\n{card.status}",
            f"{on_day(card.issued_at) or ''}\n{on_day(card.claimed_at) or ''}",
            _note(card),
        )
        table.add_row(*map(Text, row))
    return table


def _table(*columns: Column) -> Table:
    """One in which nothing is left out on a terminal of 80 letters: what does not fit is broken."""
    return Table(*columns, box=None, pad_edge=False)


def _whole(name: str) -> Column:
    """For what is short: it is on one line."""
    return Column(name, no_wrap=True)


def _folded(name: str, words: Sequence[str] | None = None) -> Column:
    """For what may be long; where `words` tells all that is in it, and they are short, it is on one line."""
    return Column(name, overflow="fold", no_wrap=words is not None and are_short(words))


def _note(card: ListedCard) -> str:
    said = [f"reported: {card.report or 'no reason given'}"] if card.reported_at else []
    if card.voided_at:
        told = "its issuer was told" if card.given_back_at else "its issuer was not told yet"
        said.append(f"{card.void_reason or 'void'}{f'; {told}' if card.issuer else ''}")
    return ", ".join(said)


def _cents(amounts: str) -> tuple[int, ...]:
    written = [amount.strip() for amount in amounts.split(",")]
    if not all(amount.isascii() and amount.isdigit() and len(amount) < 10 for amount in written):
        raise NotReady("--amounts must be whole cents with commas, such as 1000,2500.")
    return tuple(sorted({int(amount) for amount in written}))


def _faults(wrong: Invalid) -> str:
    return " ".join(
        f"{OPTIONS.get(name) or '--' + name.replace('_', '-')}: {fault}"
        for name, faults in wrong.fields.items()
        for fault in faults
    )


def _tell_faults(loaded: Loaded) -> None:
    for row in loaded.bad:
        typer.echo(f"line {row.line:,}: {row.why}", err=True)
    if loaded.bad_count > len(loaded.bad):
        typer.echo(f"and {loaded.bad_count - len(loaded.bad):,} more", err=True)
