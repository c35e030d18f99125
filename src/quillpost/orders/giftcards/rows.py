"""The rows of a file of gift cards: what each must have, and what is wrong with one, without ever saying it.

A fault names the line and the column, never what stands there: columns that are mixed up may hold a code.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TextIO

from quillpost.accounts.billing.rules import dollars
from quillpost.core.errors import NotReady
from quillpost.orders.giftcards.ports import GiftCard
from quillpost.orders.giftcards.rules import Brand

COLUMNS = ("brand", "amount", "amount_cents", "code", "pin", "url", "expires_on")
LONGEST_CODE, LONGEST_PIN, LONGEST_LINK = 200, 50, 2_048

_DOLLARS = re.compile(r"\$?(\d{1,7})(?:\.(\d\d))?")
_CENTS = re.compile(r"\d{1,9}")

NO_SUCH_BRAND = "there is no such brand"


@dataclass(frozen=True, slots=True)
class CardRow:
    brand: str
    cents: int
    card: GiftCard = field(repr=False)


@dataclass(frozen=True, slots=True)
class BadRow:
    line: int
    why: str


def known_by(card: GiftCard) -> str:
    """What no other card has, however it is written: codes are compared by their letters and digits alone,
    in small letters; pages as they are."""
    if card.code is None:
        return card.url or ""
    return "".join(filter(str.isalnum, card.code.casefold())) or card.code


class _Wrong(Exception):
    """What is wrong with a row, as the end of a sentence."""


def read_rows(file: TextIO, brands: Mapping[str, Brand], *, good_on: date) -> Iterator[CardRow | BadRow]:
    """Each row of the file as a card, or what is wrong with it; `NotReady` where it is no such file."""
    rows = csv.reader(file, strict=True)
    try:
        written = (row for row in rows if any(cell.strip() for cell in row))
        header = [name.strip().lower() for name in next(written, [])]
        _check_header(header)
        for row in written:
            try:
                yield _read(header, row, brands, good_on)
            except _Wrong as wrong:
                yield BadRow(rows.line_num, str(wrong))
    except (csv.Error, UnicodeDecodeError):
        where = f"after line {rows.line_num}"
    else:
        return
    raise NotReady(f"The file is no CSV in UTF-8 {where}.")  # out here: the fault would show what it read


def _check_header(header: Sequence[str]) -> None:
    if not header:
        raise NotReady("The file is empty.")
    if any(mark in name for name in header for mark in ";\t"):
        raise NotReady("The columns of the file must be separated by commas.")
    if len(set(header)) < len(header):
        raise NotReady("The first line of the file names a column twice.")
    # By their numbers: in a file without such a line, these are cards.
    if unknown := [str(number) for number, name in enumerate(header, start=1) if name not in COLUMNS]:
        raise NotReady(
            f"The first line of the file has {_columns(len(unknown))} that we do not know "
            f"(from the left: {', '.join(unknown)}): name them {', '.join(COLUMNS)}, and leave out any other."
        )
    if ("amount" in header) == ("amount_cents" in header):
        raise NotReady("The file needs one of the columns amount (25.00) and amount_cents (2500).")
    if "brand" not in header or not {"code", "url"} & set(header):
        raise NotReady("The file needs the columns brand, and code or url.")


def _columns(count: int) -> str:
    return "a column" if count == 1 else f"{count} columns"


def _read(header: Sequence[str], row: Sequence[str], brands: Mapping[str, Brand], good_on: date) -> CardRow:
    if len(row) != len(header):
        raise _Wrong(f"it has {len(row)} columns, and the first line {len(header)}")
    cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
    brand = brands.get(cells["brand"])
    if brand is None:
        raise _Wrong(NO_SUCH_BRAND)
    cents = _cents(cells, brand)
    card = GiftCard(
        code=_line(cells, "code", LONGEST_CODE),
        pin=_line(cells, "pin", LONGEST_PIN),
        url=_url(cells),
        expires_on=_expiry(cells, good_on),
    )
    if card.code is None and card.url is None:
        raise _Wrong("it has neither a code nor a url")
    return CardRow(brand.code, cents, card)


def _cents(cells: Mapping[str, str], brand: Brand) -> int:
    if "amount_cents" in cells:
        if not _CENTS.fullmatch(cells["amount_cents"]):
            raise _Wrong("amount_cents must be whole cents, such as 2500")
        cents = int(cells["amount_cents"])
    else:
        found = _DOLLARS.fullmatch(cells["amount"])
        if found is None:
            raise _Wrong("amount must be in dollars, such as 25.00")
        cents = int(found[1]) * 100 + int(found[2] or 0)
    if cents not in brand.amounts:
        raise _Wrong(f"the amount is none of {brand.code}: {', '.join(map(dollars, brand.amounts))}")
    return cents


def _line(cells: Mapping[str, str], name: str, longest: int) -> str | None:
    value = cells.get(name, "")
    if not value.isprintable() or len(value) > longest:
        raise _Wrong(f"{name} must be one line of up to {longest} characters")
    return value or None


def _url(cells: Mapping[str, str]) -> str | None:
    url = _line(cells, "url", LONGEST_LINK)
    if url is not None and (not url.startswith("https://") or " " in url):
        raise _Wrong("url must begin with https://")
    return url


def _expiry(cells: Mapping[str, str], good_on: date) -> date | None:
    value = cells.get("expires_on", "")
    if not value:
        return None
    try:
        expires_on = date.fromisoformat(value)
    except ValueError:
        expires_on = None
    if expires_on is None:
        raise _Wrong("expires_on must be a day such as 2030-12-31")
    if expires_on < good_on:
        raise _Wrong(f"it expires before {good_on}, too soon to be mailed")
    return expires_on
