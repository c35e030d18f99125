"""What an account has, what is held, and what it has spent, month by month."""

from collections.abc import Mapping
from datetime import UTC, date, datetime

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.dashboard.money.words import told
from quillpost.pricing import books
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/money"
MONTHS = 12
MOST_SHOWN = 10
NEWEST = 8


@router.get(PAGE)
def overview_page(request: Request, who: Reader, parts: OurParts) -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    months = last_months(now)
    with parts.db.transaction(whose) as tx:
        sums = books.read_sums(tx, whose)
        by_month = books.spent_by_month(tx, whose, since=months[-1])
        by_branch = {} if who.here.sub_account_id else books.spent_by_sub_account(tx, whose, since=months[0])
        newest = books.read_moves(tx, whose, books.EVERYTHING, most=NEWEST)
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
