"""`quillpost giftcards`: brands, an operator's own stock, and the cards of items."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.accounts.audit.service import record_for_operators
from quillpost.accounts.billing.rules import format_dollars
from quillpost.app.runtime import open_core_services
from quillpost.cli.console import (
    MAX_LISTED,
    JsonOption,
    ModeOption,
    create_table,
    fixed_column,
    format_count,
    format_day,
    print_json,
    wrapped_column,
)
from quillpost.core.errors import Invalid, NotFound, NotReady
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.queries import CardFilter, ListedCard, list_cards
from quillpost.orders.giftcards.rules import BRAND_GROUPS, DEFAULT_ACCENT, GiftcardBrand
from quillpost.orders.giftcards.stock import (
    InvalidStockFile,
    StockLoadResult,
    count_stock,
    list_all_brands,
    load_stock,
    release_set_aside,
)

OPTION_NAMES = {"available_amounts": "--amounts", "brand_code": "BRAND"}  # where they differ from their fields

giftcards = typer.Typer(help="Gift cards: brands, your own cards, and what became of them.", no_args_is_help=True)

BrandArgument = Annotated[
    str, typer.Argument(metavar="BRAND", help="The brand's code, as `giftcards brands` shows it.")
]


@giftcards.command("brands")
def show_brands(machine: JsonOption = False) -> None:
    """Show the brands that can be given, and those that are offered no more."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        brands = list_all_brands(tx)
    if machine:
        print_json(brands)
        return
    table = create_table(
        wrapped_column("brand\nissuer's code", [name for b in brands for name in (b.code, b.issuer_code or "")]),
        wrapped_column("title\ngroup"),
        wrapped_column("amounts"),
        fixed_column("offered"),
    )
    for brand in brands:
        codes = f"{brand.code}\n{brand.issuer_code}" if brand.issuer_code else brand.code
        amounts = ", ".join(map(format_dollars, brand.amounts))
        is_offered = "yes" if brand.is_offered else "no"
        table.add_row(*map(Text, (codes, f"{brand.title}\n{brand.section}", amounts, is_offered)))
    Console().print(table if brands else "There are no brands yet: see `quillpost giftcards brand --help`.")


@giftcards.command("brand")
def put_brand(
    name: BrandArgument,
    title: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    group: Annotated[str | None, typer.Option(help=f"One of {', '.join(BRAND_GROUPS)}.")] = None,
    amounts: Annotated[str | None, typer.Option(help="In cents, with commas: 1000,2500.")] = None,
    color: Annotated[str | None, typer.Option(help="What its picture is drawn in, as #rrggbb.")] = None,
    issuer_code: Annotated[
        str | None, typer.Option(help="What a live issuer calls it, where that is not BRAND; '' for none.")
    ] = None,
) -> None:
    """Add a brand, or change what is said of one; one that was retired is offered again."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        existing = giftcard_queries.find_brands(tx, [name], locked=True).get(name)
        if existing is None and None in (title, group, amounts):
            raise NotReady(f"There is no brand {name} yet: to add it, give --title, --group and --amounts.")
        before = existing or GiftcardBrand(name, "", "", (), DEFAULT_ACCENT)
        changed = replace(
            before,
            title=before.title if title is None else title,
            section=before.section if group is None else group,
            amounts=before.amounts if amounts is None else _parse_amounts(amounts),
            accent=before.accent if color is None else color.lower(),
            issuer_code=before.issuer_code if issuer_code is None else issuer_code or None,
            is_offered=True,
        )
        try:
            is_changed = giftcard_queries.save_brand(tx, changed, now=runtime.clock())
        except Invalid as error:
            raise NotReady(_error_text(error)) from None
        if is_changed:
            record_for_operators(tx, "brand.changed", about={"name": name}, now=runtime.clock())
    outcome = "new" if existing is None else "changed" if is_changed else "as it was"
    typer.echo(f"{name} is {outcome}: {', '.join(map(format_dollars, changed.amounts))}.")


@giftcards.command("retire")
def retire(name: BrandArgument) -> None:
    """Offer a brand no more. Orders that have it go on, and its cards can be claimed."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        try:
            was_offered = giftcard_queries.retire_brand(tx, name, now=runtime.clock())
        except NotFound:
            raise NotReady(f"There is no brand {name}: see `quillpost giftcards brands`.") from None
        if was_offered:
            record_for_operators(tx, "brand.retired", about={"name": name}, now=runtime.clock())
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
    with open_core_services() as runtime:
        try:
            result = load_stock(runtime.db, runtime.encryptor, file, now=runtime.clock())
        except InvalidStockFile as error:
            _print_errors(error.result)
            raise
    skipped = f", {format_count(result.already_loaded, 'card')} passed over as known" if result.already_loaded else ""
    typer.echo(f"{file.name}: {format_count(result.added, 'card')} loaded{skipped}.")


@giftcards.command("stock")
def show_stock(machine: JsonOption = False) -> None:
    """Show how many of your own cards there are, by brand and amount."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        stock_counts = count_stock(tx, now=runtime.clock())
    if machine:
        print_json(stock_counts)
        return
    number_columns = map(fixed_column, ("amount", "free", "taken", "expiring", "set\naside", "first\nexpires"))
    table = create_table(wrapped_column("brand", [storage.brand for storage in stock_counts]), *number_columns)
    for storage in stock_counts:
        counts = (f"{count:,}" for count in (storage.free, storage.taken, storage.expiring, storage.set_aside))
        table.add_row(storage.brand, format_dollars(storage.cents), *counts, str(storage.first_expires_on or ""))
    Console().print(table if stock_counts else "There are no cards: see `quillpost giftcards load --help`.")


@giftcards.command("release-stock")
def release_stock(
    brand: Annotated[str | None, typer.Option(metavar="BRAND", help="Those of this brand alone.")] = None,
) -> None:
    """Give your own cards again that a restore has set aside.

    What was mailed since the backup is not known any more: some of them may be on pieces that are in the
    mail, and would be given twice. Release them if no gift card was printed since, or make sure otherwise.
    """
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        if brand is not None and not giftcard_queries.find_brands(tx, [brand]):
            raise NotReady(f"There is no brand {brand}: see `quillpost giftcards brands`.")
        released_count = release_set_aside(tx, brand, now=runtime.clock())
    typer.echo(f"{format_count(released_count, 'card')} released.")


@giftcards.command("list")
def show_cards(
    mode: ModeOption = "live",
    reported: Annotated[bool, typer.Option("--reported", help="Those that somebody complained of.")] = False,
    void: Annotated[bool, typer.Option("--void", help="Those that nobody may claim any more.")] = False,
    unclaimed: Annotated[bool, typer.Option("--unclaimed", help="Those whose code nobody has seen.")] = False,
    most: Annotated[int, typer.Option(help="So many, the newest.", min=1)] = MAX_LISTED,
    machine: JsonOption = False,
) -> None:
    """Show the cards of pieces, of every account, without anything that they are redeemed with."""
    filters: dict[CardFilter, bool] = {"reported": reported, "void": void, "unclaimed": unclaimed}
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        cards = list_cards(tx, mode, [which for which, is_active in filters.items() if is_active], limit=most)
    if machine:
        print_json(cards)
        return
    Console().print(_card_table(cards) if cards else "There are no such cards.")
    if len(cards) == most:
        typer.echo(f"These are the newest {most:,}: --most shows more.", err=True)


def _card_table(cards: Sequence[ListedCard]) -> Table:
    numbers, money, days = map(fixed_column, ("item\norder", "amount\nstatus", "issued\nclaimed"))
    table = create_table(
        numbers, fixed_column("account"), wrapped_column("brand\nissuer"), money, days, wrapped_column("note")
    )
    for card in cards:
        row = (
            f"{card.item_id}\n{card.order_id}",
            str(card.account_id),
            f"{card.brand}\n{card.issuer or ''}",
            f"{format_dollars(card.cents)}\n{card.status}",
            f"{format_day(card.issued_at) or ''}\n{format_day(card.claimed_at) or ''}",
            _card_note(card),
        )
        table.add_row(*map(Text, row))
    return table


def _card_note(card: ListedCard) -> str:
    notes = [f"reported: {card.report or 'no reason given'}"] if card.reported_at else []
    if card.voided_at:
        issuer_status = "its issuer was told" if card.given_back_at else "its issuer was not told yet"
        notes.append(f"{card.void_reason or 'void'}{f'; {issuer_status}' if card.issuer else ''}")
    return ", ".join(notes)


def _parse_amounts(amounts: str) -> tuple[int, ...]:
    amount_texts = [amount.strip() for amount in amounts.split(",")]
    if not all(amount.isascii() and amount.isdigit() and len(amount) < 10 for amount in amount_texts):
        raise NotReady("--amounts must be whole cents with commas, such as 1000,2500.")
    return tuple(sorted({int(amount) for amount in amount_texts}))


def _error_text(invalid: Invalid) -> str:
    return " ".join(
        f"{OPTION_NAMES.get(name) or '--' + name.replace('_', '-')}: {error}"
        for name, errors in invalid.fields.items()
        for error in errors
    )


def _print_errors(loaded: StockLoadResult) -> None:
    for row in loaded.invalid_rows:
        typer.echo(f"line {row.line:,}: {row.reason}", err=True)
    if loaded.invalid_count > len(loaded.invalid_rows):
        typer.echo(f"and {loaded.invalid_count - len(loaded.invalid_rows):,} more", err=True)
