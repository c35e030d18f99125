"""The rows of a file of gift cards: what each must have, and what is wrong with one, without ever saying it.

A fault names the line and the column, never what stands there: columns that are mixed up may hold a code.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TextIO

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core.errors import NotReady
from quillpost.orders.giftcards.ports import CardSecret
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
    """What no other card has, however it is written: codes are compared by their letters and digits alone,
    in small letters; pages as they are."""
    if card.code is None:
        return card.url or ""
    return "".join(filter(str.isalnum, card.code.casefold())) or card.code


class _InvalidRow(Exception):
    """What is wrong with a row, as the end of a sentence."""


def read_rows(
    file: TextIO, brands: Mapping[str, GiftcardBrand], *, valid_until: date
) -> Iterator[CardRow | InvalidCardRow]:
    """Each row of the file as a card, or what is wrong with it; `NotReady` where it is no such file."""
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
        raise NotReady(
            f"The first line of the file has {_column_count_text(len(unknown_columns))} that we do not know "
            f"(from the left: {', '.join(unknown_columns)}): name them {', '.join(COLUMNS)}, and leave out any other."
        )
    if ("amount" in header) == ("amount_cents" in header):
        raise NotReady("The file needs one of the columns amount (25.00) and amount_cents (2500).")
    if "brand" not in header or not {"code", "url"} & set(header):
        raise NotReady("The file needs the columns brand, and code or url.")


def _column_count_text(count: int) -> str:
    return "a column" if count == 1 else f"{count} columns"


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
