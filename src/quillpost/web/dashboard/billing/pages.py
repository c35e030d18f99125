"""Balance, ledger and prices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.billing import queries as billing_queries
from quillpost.accounts.billing.prices import all_prices
from quillpost.accounts.billing.queries import Move, Sought
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, LEAD_CENTS, Price
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.cookies import zone_of
from quillpost.web.dashboard.billing.labels import KINDS, csv_rows, told
from quillpost.web.dashboard.forms import Filled, day_in, show_form, start_of
from quillpost.web.dashboard.labels import piece_name
from quillpost.web.dashboard.lists_common import AT_ONCE, csv_file
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

LEDGER_PAGE = "/money/ledger"
A_PAGE = 50
MOST_IN_FILE = 1_000_000
"""More than this no spreadsheet opens: whoever has more asks for it year by year."""

NOT_A_DAY = "Write the date as year-month-day, such as 2026-05-04."
NO_ORDER = "An order's number has digits alone."


class Asked(NamedTuple):
    """What the filters say: as they are filled in, and what that means."""

    form: Filled
    sought: Sought

    @property
    def query(self) -> str:
        """The same filters once more."""
        return urlencode({name: value for name, value in self.form.values.items() if value})


def asked_for(
    request: Request,
    kind: Annotated[str, Query(max_length=100)] = "",
    order: Annotated[str, Query(max_length=100)] = "",
    since: Annotated[str, Query(max_length=100)] = "",
    until: Annotated[str, Query(max_length=100)] = "",
) -> Asked:
    """Days are the reader's own: they begin when it is midnight where they are. What is not understood
    filters nothing, and is told."""
    typed = {"kind": kind.strip(), "order": order.strip(), "since": since.strip(), "until": until.strip()}
    zone, faults = zone_of(request), dict[str, list[str]]()
    order_id = id_in_path(typed["order"]) or None
    if typed["order"] and order_id is None:
        faults["order"] = [NO_ORDER]
    first, last = (_day(typed[name], name, faults) for name in ("since", "until"))
    sought = Sought(
        kind=typed["kind"] if typed["kind"] in KINDS else None,
        order_id=order_id,
        since=None if first is None else start_of(first, zone),
        until=None if last is None else start_of(last, zone, later=1),
    )
    return Asked(Filled({name: [value] for name, value in typed.items()}, faults), sought)


AskedFor = Annotated[Asked, Depends(asked_for)]


@router.get(LEDGER_PAGE)
def ledger_page(
    request: Request, who: Reader, parts: OurParts, asked: AskedFor, before: str = ""
) -> Response:
    whose, place = tenant(who.caller), id_in_path(before) or None
    with parts.db.transaction(whose) as tx:
        # One more than is shown tells whether there is an older page.
        moves = billing_queries.read_moves(tx, whose, asked.sought, before=place, most=A_PAGE + 1)
        after = None
        if moves and not asked.sought.has_gaps:
            credit = billing_queries.read_sums(tx, whose).credit
            after = billing_queries.credit_after(tx, whose, moves[0], credit=credit)
        has_branches = any(move.sub_account_id for move in moves)
        titles = titles_of(list_sub_accounts(tx)) if has_branches else {}
    shown = moves[:A_PAGE]
    return show_form(
        request,
        "money/ledger.html",
        who,
        asked.form,
        now=parts.clock(),
        query=asked.query,
        rows=list(billing_queries.with_credit(shown, after)),
        older=shown[-1].id if len(moves) > A_PAGE else None,
        is_first=place is None,
        shows_credit=after is not None,
        kinds=KINDS,
        told=told,
        titles=titles,
        most=MOST_IN_FILE,
    )


@router.get(f"{LEDGER_PAGE}.csv")
def ledger_file(who: Reader, parts: OurParts, asked: AskedFor) -> Response:
    lines = csv_rows(islice(_all(parts, tenant(who.caller), asked.sought), MOST_IN_FILE))
    return csv_file(lines, f"ledger-{who.mode}.csv")


def _all(parts: Parts, whose: Tenant, sought: Sought) -> Iterator[Move]:
    """Read bit by bit: nobody waits for it in one transaction."""
    before: int | None = None
    while True:
        with parts.db.transaction(whose) as tx:
            some = billing_queries.read_moves(tx, whose, sought, before=before, most=AT_ONCE)
        yield from some
        if len(some) < AT_ONCE:
            return
        before = some[-1].id


def _day(written: str, name: str, faults: dict[str, list[str]]) -> date | None:
    day = day_in(written)
    if written and day is None:
        faults[name] = [NOT_A_DAY]
    return day


PAGE = "/money"
MONTHS = 12
MOST_SHOWN = 10
NEWEST = 8


@router.get(PAGE)
def overview_page(request: Request, who: Reader, parts: OurParts) -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    months = last_months(now)
    with parts.db.transaction(whose) as tx:
        sums = billing_queries.read_sums(tx, whose)
        by_month = billing_queries.spent_by_month(tx, whose, since=months[-1])
        by_branch = (
            {}
            if who.here.sub_account_id
            else billing_queries.spent_by_sub_account(tx, whose, since=months[0])
        )
        newest = billing_queries.read_moves(tx, whose, billing_queries.EVERYTHING, most=NEWEST)
        branches = list_sub_accounts(tx) if any(by_branch) else ()
    first = min([months[0], *by_month])  # before anything was spent there is nothing to compare
    return show(
        request,
        "money/overview.html",
        who=who,
        now=now,
        sums=sums,
        months=[(month, by_month.get(month, 0)) for month in months if month >= first],
        branches=named(by_branch, titles_of(branches))[:MOST_SHOWN],
        newest=newest,
        told=told,
        needs_credit=parts.worlds[who.mode].needs_credit,
    )


def last_months(now: datetime, how_many: int = MONTHS) -> list[date]:
    """The first days of this month and of those before it, in UTC, as the books count."""
    day = now.astimezone(UTC).date().replace(day=1)
    found = [day]
    while len(found) < how_many:
        day = day.replace(year=day.year - (day.month == 1), month=(day.month - 2) % 12 + 1)
        found.append(day)
    return found


def named(spent: Mapping[int, int], titles: Mapping[int, str]) -> list[tuple[int | None, str, int]]:
    """Who spent how much, if it was not the account itself alone. One that has gone has no page."""
    if not any(spent):
        return []
    return [
        (
            number if number in titles else None,
            titles.get(number, "Sub accounts that have gone") if number else "No sub account",
            cents,
        )
        for number, cents in spent.items()
    ]


PRICES_PAGE = "/money/prices"
CLASSES = {"first": "First class", "standard": "Standard"}
HOME = "US"
PLACES = {HOME: "United States", EVERYWHERE_ELSE: "Every other country"}


@dataclass(slots=True)
class Row:
    """One piece: by class and country what it costs now, and what is to come."""

    title: str
    now: dict[tuple[str, str], int] = field(default_factory=dict)
    coming: list[tuple[tuple[str, str], Price]] = field(default_factory=list)


@router.get(PRICES_PAGE)
def prices_page(request: Request, who: Reader, parts: OurParts) -> Response:
    now = parts.clock()
    with parts.db.transaction(tenant(who.caller)) as tx:
        prices = all_prices(tx)
    rows = table_of(prices, on=now.astimezone(UTC).date())
    columns = sorted({column for row in rows for column in row.now}, key=_placed)
    return show(
        request,
        "money/prices.html",
        who=who,
        now=now,
        rows=rows,
        columns=[(column, words_of(column)) for column in columns],
        words_of=words_of,
        day=lambda on: f"{on.day} {on:%B %Y}",
        lead_cents=LEAD_CENTS,
    )


def table_of(prices: Sequence[Price], *, on: date) -> list[Row]:
    """Of each price the one that came into force last, not after the day; those after it are coming."""
    rows: dict[tuple[str, str], Row] = {}
    for price in sorted(prices, key=lambda price: price.valid_from):
        row = rows.setdefault((price.type, price.size), Row(piece_name(price.type, price.size)))
        column = (price.mail_class, price.country)
        if price.valid_from <= on:
            row.now[column] = price.unit_cents
        else:
            row.coming.append((column, price))
    return list(rows.values())


def words_of(column: tuple[str, str]) -> tuple[str, str]:
    mail_class, country = column
    return CLASSES.get(mail_class, mail_class), PLACES.get(country, country)


def _placed(column: tuple[str, str]) -> tuple[bool, bool, str, str]:
    """Home first, everywhere else last."""
    mail_class, country = column
    return country != HOME, country == EVERYWHERE_ELSE, country, mail_class
