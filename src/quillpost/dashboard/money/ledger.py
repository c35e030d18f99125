"""Every move of an account's money: a page with filters, and the same for a spreadsheet."""

from collections.abc import Iterator
from datetime import date
from itertools import islice
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.api.needs import id_in_path
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.money.words import KINDS, csv_rows, told
from quillpost.dashboard.spreadsheets import AT_ONCE, csv_file
from quillpost.dashboard.typed_times import day_in, start_of
from quillpost.database import Tenant
from quillpost.parts import Parts
from quillpost.pricing import books
from quillpost.pricing.books import Move, Sought
from quillpost.reception.visits import OurParts, Reader
from quillpost.reception.zones import zone_of

router = APIRouter(include_in_schema=False)

PAGE = "/money/ledger"
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


@router.get(PAGE)
def ledger_page(
    request: Request, who: Reader, parts: OurParts, asked: AskedFor, before: str = ""
) -> Response:
    whose, place = tenant(who.caller), id_in_path(before) or None
    with parts.db.transaction(whose) as tx:
        # One more than is shown tells whether there is an older page.
        moves = books.read_moves(tx, whose, asked.sought, before=place, most=A_PAGE + 1)
        after = None
        if moves and not asked.sought.has_gaps:
            credit = books.read_sums(tx, whose).credit
            after = books.credit_after(tx, whose, moves[0], credit=credit)
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
        rows=list(books.with_credit(shown, after)),
        older=shown[-1].id if len(moves) > A_PAGE else None,
        is_first=place is None,
        shows_credit=after is not None,
        kinds=KINDS,
        told=told,
        titles=titles,
        most=MOST_IN_FILE,
    )


@router.get(f"{PAGE}.csv")
def ledger_file(who: Reader, parts: OurParts, asked: AskedFor) -> Response:
    lines = csv_rows(islice(_all(parts, tenant(who.caller), asked.sought), MOST_IN_FILE))
    return csv_file(lines, f"ledger-{who.mode}.csv")


def _all(parts: Parts, whose: Tenant, sought: Sought) -> Iterator[Move]:
    """Read bit by bit: nobody waits for it in one transaction."""
    before: int | None = None
    while True:
        with parts.db.transaction(whose) as tx:
            some = books.read_moves(tx, whose, sought, before=before, most=AT_ONCE)
        yield from some
        if len(some) < AT_ONCE:
            return
        before = some[-1].id


def _day(written: str, name: str, faults: dict[str, list[str]]) -> date | None:
    day = day_in(written)
    if written and day is None:
        faults[name] = [NOT_A_DAY]
    return day
