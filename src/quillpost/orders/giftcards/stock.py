"""Loads gift cards from files into stock, and counts them."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TextIO

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing.rules import format_dollars
from quillpost.core.database import Database, Tx, driver_connection
from quillpost.core.database.tables.orders import giftcard_brands
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import NotReady
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.queries import BRAND_ORDERING, read_brand
from quillpost.orders.giftcards.rules import GiftcardBrand

COLUMNS = ("brand", "amount", "amount_cents", "code", "pin", "url", "expires_on")
MAX_CODE_LENGTH, MAX_PIN_LENGTH, MAX_URL_LENGTH = 200, 50, 2_048

_DOLLARS = re.compile(r"\$?(\d{1,7})(?:\.(\d\d))?")
_CENTS = re.compile(r"\d{1,9}")

UNKNOWN_BRAND = "there is no such brand"


@dataclass(frozen=True, slots=True)
class CardRow:
    brand: str
    cents: int
    card: CardSecret = field(repr=False)


@dataclass(frozen=True, slots=True)
class InvalidCardRow:
    line: int
    reason: str


def card_identity(card: CardSecret) -> str:
    """Codes are compared by letters and digits, in any case; pages as they are."""
    if card.code is None:
        return card.url or ""
    return "".join(filter(str.isalnum, card.code.casefold())) or card.code


class _InvalidRow(Exception):
    """What is wrong with a row, as the end of a sentence."""


def read_rows(
    file: TextIO, brands: Mapping[str, GiftcardBrand], *, valid_until: date
) -> Iterator[CardRow | InvalidCardRow]:
    """Each row as a card or an error; `NotReady` where it is no such file."""
    rows = csv.reader(file, strict=True)
    try:
        filled_rows = (row for row in rows if any(cell.strip() for cell in row))
        header = [name.strip().lower() for name in next(filled_rows, [])]
        _check_header(header)
        for row in filled_rows:
            try:
                yield _read_row(header, row, brands, valid_until)
            except _InvalidRow as invalid:
                yield InvalidCardRow(rows.line_num, str(invalid))
    except (csv.Error, UnicodeDecodeError):
        position_text = f"after line {rows.line_num}"
    else:
        return
    raise NotReady(f"The file is no CSV in UTF-8 {position_text}.")  # out here: the fault would show what it read


def _check_header(header: Sequence[str]) -> None:
    if not header:
        raise NotReady("The file is empty.")
    if any(separator in name for name in header for separator in ";\t"):
        raise NotReady("The columns of the file must be separated by commas.")
    if len(set(header)) < len(header):
        raise NotReady("The first line of the file names a column twice.")
    # By their numbers: in a file without such a line, these are cards.
    if unknown_columns := [str(number) for number, name in enumerate(header, start=1) if name not in COLUMNS]:
        count_text = "a column" if len(unknown_columns) == 1 else f"{len(unknown_columns)} columns"
        raise NotReady(
            f"The first line of the file has {count_text} that we do not know "
            f"(from the left: {', '.join(unknown_columns)}): name them {', '.join(COLUMNS)}, and leave out any other."
        )
    if ("amount" in header) == ("amount_cents" in header):
        raise NotReady("The file needs one of the columns amount (25.00) and amount_cents (2500).")
    if "brand" not in header or not {"code", "url"} & set(header):
        raise NotReady("The file needs the columns brand, and code or url.")


def _read_row(
    header: Sequence[str], row: Sequence[str], brands: Mapping[str, GiftcardBrand], valid_until: date
) -> CardRow:
    if len(row) != len(header):
        raise _InvalidRow(f"it has {len(row)} columns, and the first line {len(header)}")
    cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
    brand = brands.get(cells["brand"])
    if brand is None:
        raise _InvalidRow(UNKNOWN_BRAND)
    cents = _read_cents(cells, brand)
    card = CardSecret(
        code=_read_text(cells, "code", MAX_CODE_LENGTH),
        pin=_read_text(cells, "pin", MAX_PIN_LENGTH),
        url=_read_url(cells),
        expires_on=_read_expiry(cells, valid_until),
    )
    if card.code is None and card.url is None:
        raise _InvalidRow("it has neither a code nor a url")
    return CardRow(brand.code, cents, card)


def _read_cents(cells: Mapping[str, str], brand: GiftcardBrand) -> int:
    if "amount_cents" in cells:
        if not _CENTS.fullmatch(cells["amount_cents"]):
            raise _InvalidRow("amount_cents must be whole cents, such as 2500")
        cents = int(cells["amount_cents"])
    else:
        match = _DOLLARS.fullmatch(cells["amount"])
        if match is None:
            raise _InvalidRow("amount must be in dollars, such as 25.00")
        cents = int(match[1]) * 100 + int(match[2] or 0)
    if cents not in brand.amounts:
        raise _InvalidRow(f"the amount is none of {brand.code}: {', '.join(map(format_dollars, brand.amounts))}")
    return cents


def _read_text(cells: Mapping[str, str], name: str, max_length: int) -> str | None:
    value = cells.get(name, "")
    if not value.isprintable() or len(value) > max_length:
        raise _InvalidRow(f"{name} must be one line of up to {max_length} characters")
    return value or None


def _read_url(cells: Mapping[str, str]) -> str | None:
    url = _read_text(cells, "url", MAX_URL_LENGTH)
    if url is not None and (not url.startswith("https://") or " " in url):
        raise _InvalidRow("url must begin with https://")
    return url


def _read_expiry(cells: Mapping[str, str], valid_until: date) -> date | None:
    value = cells.get("expires_on", "")
    if not value:
        return None
    try:
        expires_on = date.fromisoformat(value)
    except ValueError:
        expires_on = None
    if expires_on is None:
        raise _InvalidRow("expires_on must be a day such as 2030-12-31")
    if expires_on < valid_until:
        raise _InvalidRow(f"it expires before {valid_until}, too soon to be mailed")
    return expires_on


MIN_VALIDITY = timedelta(days=30)
"""Cards that expire earlier are not given: a piece is days in the mail."""

ROWS_PER_CHUNK = 2_000
MAX_LISTED_ROWS = 50
"""Rows that are named; of the others it is said how many there are."""

_LOCK_STOCK_LOAD = sa.text("select pg_advisory_xact_lock(hashtextextended('giftcard stock load', 0))")
_NEXT_IDS = sa.text("select nextval('giftcard_stock_id_seq') from generate_series(1, :n)")
_COPY_STOCK = """
    copy giftcard_stock (id, mode, brand, cents, card_sealed, expires_on, source, loaded_at)
    from stdin (format binary)
"""
_COPY_TYPES = ("int8", "text", "text", "int4", "bytea", "date", "text", "timestamptz")
_SELECT_STOCK = sa.text("select id, card_sealed from giftcard_stock where mode = 'live'")

_COUNT_STOCK = sa.text("""
    select brand, cents,
           count(*) filter (where is_there and coalesce(expires_on >= :good_on, true)) as free,
           count(*) filter (where is_there and expires_on < :good_on) as expiring,
           count(*) filter (where taken_by is not null) as taken,
           count(*) filter (where taken_by is null and set_aside_at is not null) as set_aside,
           min(expires_on) filter (where is_there and expires_on >= :good_on) as first_expires_on
      from giftcard_stock, lateral (select taken_by is null and set_aside_at is null as is_there) there
     where mode = 'live' group by brand, cents order by brand, cents
""")

# Of each brand's amounts, as many as are worth counting: a shelf may hold a million cards.
_COUNT_FREE = sa.text("""
    select b.code as brand, a.cents, s.free
      from giftcard_brands b cross join lateral unnest(b.amounts) as a (cents)
     cross join lateral (
            select count(*) as free from (
                select 1 from giftcard_stock
                 where mode = 'live' and brand = b.code and cents = a.cents and taken_by is null
                   and set_aside_at is null and coalesce(expires_on >= :good_on, true) limit :most) c) s
     where s.free > 0 order by b.code, a.cents
""")
MAX_FREE_COUNT = 1_000

# Those that pieces have are set aside, too, in case that they come back.
_RELEASE_SET_ASIDE = sa.text("""
    with mine as (
        select id from giftcard_stock
         where mode = 'live' and set_aside_at is not null and brand = coalesce(:brand, brand)
         order by id for no key update),
    released as (
        update giftcard_stock s set set_aside_at = null from mine where s.id = mine.id returning s.taken_by)
    select count(*) from released where taken_by is null
""")


@dataclass(slots=True)
class StockLoadResult:
    """What has become of a file: how many cards are new, and how many were there already."""

    added: int = 0
    already_loaded: int = 0
    invalid_rows: list[InvalidCardRow] = field(default_factory=list)
    invalid_count: int = 0


@dataclass(frozen=True, slots=True)
class StockCount:
    """How many cards of a brand and an amount there are; `expiring` are given no more, and those that are
    `set_aside` not before they are released."""

    brand: str
    cents: int
    free: int
    expiring: int
    taken: int
    set_aside: int
    first_expires_on: date | None


class InvalidStockFile(NotReady):
    """Rows of it cannot be used, so that none was: `result` says which."""

    def __init__(self, message: str, result: StockLoadResult) -> None:
        super().__init__(message)
        self.result = result


def load_stock(db: Database, encryptor: Encryptor, path: Path, *, now: datetime) -> StockLoadResult:
    """All cards of the file that are not there yet, or none: then `InvalidStockFile` says which rows are wrong."""
    result = StockLoadResult()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file, db.system_transaction() as tx:
            tx.execute(_LOCK_STOCK_LOAD)
            brands = {brand.code: brand for brand in list_all_brands(tx)}
            rows = read_rows(file, brands, valid_until=(now + MIN_VALIDITY).date())
            _insert_new_cards(tx, encryptor, rows, result, source=path.name, now=now)
            if result.invalid_count:
                raise InvalidStockFile(_invalid_file_message(path, result, brands), result)
            if result.added:
                audit_details = {"name": path.name, "count": result.added}
                audit_service.record_for_operators(tx, "stock.loaded", about=audit_details, now=now)
    except OSError as error:
        raise NotReady(f"{path} cannot be read: {error.strerror}.") from None
    return result


def _invalid_file_message(path: Path, result: StockLoadResult, brands: Iterable[str]) -> str:
    verb = "is" if result.invalid_count == 1 else "are"
    message = f"{path} was not loaded: {result.invalid_count:,} of its rows {verb} wrong."
    if any(row.reason == UNKNOWN_BRAND for row in result.invalid_rows):
        message += f" The brands are {', '.join(brands)}."
    return message


def list_all_brands(tx: Tx) -> list[GiftcardBrand]:
    """Those that are offered no more, too, in the order in which they are shown."""
    return [read_brand(row) for row in tx.execute(sa.select(giftcard_brands).order_by(*BRAND_ORDERING))]


def count_stock(tx: Tx, *, now: datetime) -> list[StockCount]:
    rows = tx.execute(_COUNT_STOCK, {"good_on": (now + MIN_VALIDITY).date()})
    return [StockCount(**row._mapping) for row in rows]


def count_free_cards(tx: Tx, *, now: datetime) -> dict[str, dict[int, int]]:
    """How many can be given of each brand, by its amounts; `MAX_FREE_COUNT` stands for that or more."""
    free_by_brand = dict[str, dict[int, int]]()
    for row in tx.execute(_COUNT_FREE, {"good_on": (now + MIN_VALIDITY).date(), "most": MAX_FREE_COUNT}):
        free_by_brand.setdefault(row.brand, {})[row.cents] = row.free
    return free_by_brand


def release_set_aside(tx: Tx, brand: str | None, *, now: datetime) -> int:
    """Give the cards again that a restore has set aside, of one brand or of all; how many are free again."""
    released_count = int(tx.execute(_RELEASE_SET_ASIDE, {"brand": brand}).scalar_one())
    if released_count:
        audit_details = {"name": brand or "all brands", "count": released_count}
        audit_service.record_for_operators(tx, "stock.released", about=audit_details, now=now)
    return released_count


def _insert_new_cards(
    tx: Tx,
    encryptor: Encryptor,
    rows: Iterator[CardRow | InvalidCardRow],
    result: StockLoadResult,
    *,
    source: str,
    now: datetime,
) -> None:
    known_cards: set[int] | None = None
    while chunk := list(islice(rows, ROWS_PER_CHUNK)):
        card_rows = [row for row in chunk if isinstance(row, CardRow)]
        invalid_rows = [row for row in chunk if isinstance(row, InvalidCardRow)]
        result.invalid_rows += invalid_rows[: MAX_LISTED_ROWS - len(result.invalid_rows)]
        result.invalid_count += len(invalid_rows)
        if result.invalid_count:
            continue  # nothing will be kept: only the faults are wanted
        if known_cards is None:
            known_cards = _read_known_cards(tx, encryptor)
        new_rows = []
        for row in card_rows:
            if (card_hash := hash(card_identity(row.card))) not in known_cards:
                known_cards.add(card_hash)
                new_rows.append(row)
        result.added += len(new_rows)
        result.already_loaded += len(card_rows) - len(new_rows)
        _copy_rows(tx, encryptor, new_rows, source=source, now=now)


def reserve_stock_ids(tx: Tx, count: int) -> list[int]:
    """Of cards that are to be in the stock: a card is sealed for its id, so that is known first."""
    return list(tx.execute(_NEXT_IDS, {"n": count}).scalars())


def _copy_rows(tx: Tx, encryptor: Encryptor, rows: list[CardRow], *, source: str, now: datetime) -> None:
    if not rows:
        return
    ids = reserve_stock_ids(tx, len(rows))
    with driver_connection(tx).cursor() as cursor, cursor.copy(_COPY_STOCK) as copy:
        copy.set_types(_COPY_TYPES)
        for stock_id, row in zip(ids, rows, strict=True):
            encrypted_card = issuance.encrypt_card(encryptor, issuance.stock_context(stock_id), row.card)
            expires_on = row.card.expires_on
            copy.write_row((stock_id, "live", row.brand, row.cents, encrypted_card, expires_on, source, now))


def _read_known_cards(tx: Tx, encryptor: Encryptor) -> set[int]:
    """Hashes of the cards in stock, of any brand, as there may be a million; Python's hash has a key of its own."""
    known_cards = set()
    with tx.execute(_SELECT_STOCK, execution_options={"yield_per": ROWS_PER_CHUNK}) as rows:
        for row in rows:
            try:
                card = issuance.decrypt_card(encryptor, issuance.stock_context(row.id), bytes(row.card_sealed))
            except DecryptionFailed:
                raise NotReady(
                    f"Card {row.id} in stock cannot be opened with this key: see `quillpost doctor`."
                ) from None
            known_cards.add(hash(card_identity(card)))
    return known_cards
