"""An operator's own cards: loading a file of them, and counting what is there.

A file is read once, a piece at a time, and written as it is read, in one transaction: all of it or nothing.
Whether a card is there already cannot be asked of the database, which knows no code: all of them are opened,
and a short number made from each is kept while the file is read, under a key that ends with it.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.core.database import Database, Tx, driver
from quillpost.core.database.tables.giftcards import giftcard_brands
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.errors import NotReady
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.brands import find_brands
from quillpost.orders.giftcards.ports import GiftCard
from quillpost.orders.giftcards.rows import NO_SUCH_BRAND, BadRow, CardRow, known_by, read_rows
from quillpost.orders.giftcards.rules import Brand

GOOD_FOR = timedelta(days=30)
"""A card that expires earlier is given no more: a piece is days in the mail, and then lies on a table."""

ROWS_AT_ONCE = 2_000
MOST_FAULTS = 50
"""Rows that are named; of the others it is said how many there are."""

_TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended('giftcard stock load', 0))")
_NEXT_IDS = sa.text("select nextval('giftcard_stock_id_seq') from generate_series(1, :n)")
_COPY = """
    copy giftcard_stock (id, mode, brand, cents, card_sealed, expires_on, source, loaded_at)
    from stdin (format binary)
"""
_TYPES = ("int8", "text", "text", "int4", "bytea", "date", "text", "timestamptz")
_THERE = sa.text("select id, card_sealed from giftcard_stock where mode = 'live'")

_COUNT = sa.text(
    """
    select brand, cents,
           count(*) filter (where is_there and coalesce(expires_on >= :good_on, true)) as free,
           count(*) filter (where is_there and expires_on < :good_on) as expiring,
           count(*) filter (where taken_by is not null) as taken,
           count(*) filter (where taken_by is null and set_aside_at is not null) as set_aside,
           min(expires_on) filter (where is_there and expires_on >= :good_on) as first_expires_on
      from giftcard_stock, lateral (select taken_by is null and set_aside_at is null as is_there) there
     where mode = 'live' group by brand, cents order by brand, cents
    """
)

# Of each brand's amounts, as many as are worth counting: a shelf may hold a million cards.
_FREE = sa.text(
    """
    select b.code as brand, a.cents, s.free
      from giftcard_brands b cross join lateral unnest(b.amounts) as a (cents)
     cross join lateral (
            select count(*) as free from (
                select 1 from giftcard_stock
                 where mode = 'live' and brand = b.code and cents = a.cents and taken_by is null
                   and set_aside_at is null and coalesce(expires_on >= :good_on, true) limit :most) c) s
     where s.free > 0 order by b.code, a.cents
    """
)
MOST_FREE = 1_000

# Those that pieces have are set aside, too, in case that they come back.
_RELEASE = sa.text(
    """
    with mine as (
        select id from giftcard_stock
         where mode = 'live' and set_aside_at is not null and brand = coalesce(:brand, brand)
         order by id for no key update),
    released as (
        update giftcard_stock s set set_aside_at = null from mine where s.id = mine.id returning s.taken_by)
    select count(*) from released where taken_by is null
    """
)


@dataclass(slots=True)
class Loaded:
    """What has become of a file: how many cards are new, and how many were there already."""

    added: int = 0
    known: int = 0
    bad: list[BadRow] = field(default_factory=list)
    bad_count: int = 0


@dataclass(frozen=True, slots=True)
class Shelf:
    """How many cards of a brand and an amount there are; `expiring` are given no more, and those that are
    `set_aside` not before they are released."""

    brand: str
    cents: int
    free: int
    expiring: int
    taken: int
    set_aside: int
    first_expires_on: date | None


class BadFile(NotReady):
    """Rows of it cannot be used, so that none was: `loaded` says which."""

    def __init__(self, message: str, loaded: Loaded) -> None:
        super().__init__(message)
        self.loaded = loaded


def load(db: Database, sealer: Sealer, path: Path, *, now: datetime) -> Loaded:
    """All cards of the file that are not there yet, or none: then `BadFile` says which rows are wrong."""
    loaded = Loaded()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file, db.work() as tx:
            tx.execute(_TAKE_TURNS)
            brands = {brand.code: brand for brand in every_brand(tx)}
            rows = read_rows(file, brands, good_on=(now + GOOD_FOR).date())
            _write_all(tx, sealer, rows, loaded, source=path.name, now=now)
            if loaded.bad_count:
                raise BadFile(_why_not(path, loaded, brands), loaded)
            if loaded.added:
                about = {"name": path.name, "count": loaded.added}
                audit_service.note_for_operators(tx, "stock.loaded", about=about, now=now)
    except OSError as fault:
        raise NotReady(f"{path} cannot be read: {fault.strerror}.") from None
    return loaded


def _why_not(path: Path, loaded: Loaded, brands: Iterable[str]) -> str:
    are = "is" if loaded.bad_count == 1 else "are"
    why = f"{path} was not loaded: {loaded.bad_count:,} of its rows {are} wrong."
    if any(row.why == NO_SUCH_BRAND for row in loaded.bad):
        why += f" The brands are {', '.join(brands)}."
    return why


def every_brand(tx: Tx) -> list[Brand]:
    """Those that are offered no more, too, in the order in which they are shown."""
    order = giftcard_brands.c.position, giftcard_brands.c.title, giftcard_brands.c.code
    codes = tx.execute(sa.select(giftcard_brands.c.code).order_by(*order)).scalars().all()
    found = find_brands(tx, codes)
    return [found[code] for code in codes if code in found]


def count_stock(tx: Tx, *, now: datetime) -> list[Shelf]:
    found = tx.execute(_COUNT, {"good_on": (now + GOOD_FOR).date()})
    return [Shelf(**row._mapping) for row in found]


def free_cards(tx: Tx, *, now: datetime) -> dict[str, dict[int, int]]:
    """How many can be given of each brand, by its amounts; `MOST_FREE` stands for that or more."""
    found = dict[str, dict[int, int]]()
    for row in tx.execute(_FREE, {"good_on": (now + GOOD_FOR).date(), "most": MOST_FREE}):
        found.setdefault(row.brand, {})[row.cents] = row.free
    return found


def release(tx: Tx, brand: str | None, *, now: datetime) -> int:
    """Give the cards again that a restore has set aside, of one brand or of all; how many are free again."""
    released = int(tx.execute(_RELEASE, {"brand": brand}).scalar_one())
    if released:
        about = {"name": brand or "all brands", "count": released}
        audit_service.note_for_operators(tx, "stock.released", about=about, now=now)
    return released


def _write_all(
    tx: Tx,
    sealer: Sealer,
    rows: Iterator[CardRow | BadRow],
    loaded: Loaded,
    *,
    source: str,
    now: datetime,
) -> None:
    seen = _Seen(tx, sealer)
    while piece := list(islice(rows, ROWS_AT_ONCE)):
        good = [row for row in piece if isinstance(row, CardRow)]
        bad = [row for row in piece if isinstance(row, BadRow)]
        loaded.bad += bad[: MOST_FAULTS - len(loaded.bad)]
        loaded.bad_count += len(bad)
        if loaded.bad_count:
            continue  # nothing will be kept: only the faults are wanted
        new = [row for row in good if seen.is_new(row.card)]
        loaded.added += len(new)
        loaded.known += len(good) - len(new)
        _write(tx, sealer, new, source=source, now=now)


def next_ids(tx: Tx, count: int) -> list[int]:
    """Of cards that are to be in the stock: a card is sealed for its id, so that is known first."""
    return list(tx.execute(_NEXT_IDS, {"n": count}).scalars())


def _write(tx: Tx, sealer: Sealer, rows: list[CardRow], *, source: str, now: datetime) -> None:
    if not rows:
        return
    ids = next_ids(tx, len(rows))
    with driver(tx).cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(_TYPES)
        for id_, row in zip(ids, rows, strict=True):
            sealed = issuance.seal_card(sealer, issuance.stock_context(id_), row.card)
            expires_on = row.card.expires_on
            copy.write_row((id_, "live", row.brand, row.cents, sealed, expires_on, source, now))


class _Seen:
    """Which cards there are, of any brand: 64 bits of each, under a key of our own."""

    def __init__(self, tx: Tx, sealer: Sealer) -> None:
        self._tx, self._sealer = tx, sealer
        self._key = secrets.token_bytes(32)

    @cached_property
    def _numbers(self) -> set[int]:
        return set(map(self._number, self._there()))

    def is_new(self, card: GiftCard) -> bool:
        """Whether it was not there; from now on it is."""
        number = self._number(card)
        if number in self._numbers:
            return False
        self._numbers.add(number)
        return True

    def _there(self) -> Iterator[GiftCard]:
        with self._tx.execute(_THERE, execution_options={"yield_per": ROWS_AT_ONCE}) as rows:
            for row in rows:
                yield self._opened(row.id, bytes(row.card_sealed))

    def _opened(self, row_id: int, sealed: bytes) -> GiftCard:
        try:
            return issuance.open_card(self._sealer, issuance.stock_context(row_id), sealed)
        except SealBroken:
            raise NotReady(
                f"Card {row_id} in stock cannot be opened with this key: see `quillpost doctor`."
            ) from None

    def _number(self, card: GiftCard) -> int:
        return int.from_bytes(hashlib.blake2b(known_by(card).encode(), digest_size=8, key=self._key).digest())
