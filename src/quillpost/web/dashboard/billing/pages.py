"""Balance, ledger and prices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.billing import queries as billing_queries
from quillpost.accounts.billing.queries import LedgerFilter, LedgerMove, list_prices
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, LEAD_CENTS, UnitPrice
from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.web.dashboard.billing.labels import KIND_LABELS, csv_lines, describe_move
from quillpost.web.dashboard.forms import FormState, parse_day, start_of_day
from quillpost.web.dashboard.labels import product_name
from quillpost.web.dashboard.responses import CSV_CHUNK_LINES, UserContext, csv_response
from quillpost.web.dependencies import parse_path_id
from quillpost.web.security import get_zone

router = APIRouter(include_in_schema=False)

LEDGER_PATH = "/money/ledger"
PAGE_SIZE = 50
MAX_CSV_ROWS = 1_000_000  # spreadsheets open no more

INVALID_DATE = "Write the date as year-month-day, such as 2026-05-04."
INVALID_ORDER_NUMBER = "An order's number has digits alone."


class LedgerPageQuery(NamedTuple):
    """The filters as they were filled in, and what they mean."""

    form: FormState
    ledger_filter: LedgerFilter

    @property
    def query_string(self) -> str:
        return urlencode({name: value for name, value in self.form.values.items() if value})


async def read_ledger_query(
    request: Request,
    kind: Annotated[str, Query(max_length=100)] = "",
    order: Annotated[str, Query(max_length=100)] = "",
    since: Annotated[str, Query(max_length=100)] = "",
    until: Annotated[str, Query(max_length=100)] = "",
) -> LedgerPageQuery:
    """Days begin at midnight where the user is. What cannot be parsed filters nothing, and is an error at its field."""
    values = {"kind": kind.strip(), "order": order.strip(), "since": since.strip(), "until": until.strip()}
    zone, errors = get_zone(request), dict[str, list[str]]()
    order_id = parse_path_id(values["order"]) or None
    if values["order"] and order_id is None:
        errors["order"] = [INVALID_ORDER_NUMBER]
    first_day, last_day = (_parse_day_field(values[name], name, errors) for name in ("since", "until"))
    ledger_filter = LedgerFilter(
        kind=values["kind"] if values["kind"] in KIND_LABELS else None,
        order_id=order_id,
        since=None if first_day is None else start_of_day(first_day, zone),
        until=None if last_day is None else start_of_day(last_day, zone, days_later=1),
    )
    return LedgerPageQuery(FormState({name: [value] for name, value in values.items()}, errors), ledger_filter)


LedgerQueryParams = Annotated[LedgerPageQuery, Depends(read_ledger_query)]


@router.get(LEDGER_PATH)
def ledger_page(context: UserContext, ledger_query: LedgerQueryParams, before: str = "") -> Response:
    tenant_scope, cursor = context.tenant, parse_path_id(before) or None
    with context.transaction() as tx:
        # One more than is shown tells whether there is an older page.
        moves = billing_queries.list_moves(
            tx, tenant_scope, ledger_query.ledger_filter, before=cursor, limit=PAGE_SIZE + 1
        )
        balance = None
        if moves and not ledger_query.ledger_filter.has_gaps:
            credit = billing_queries.read_balance(tx, tenant_scope).credit
            balance = billing_queries.read_credit_after(tx, tenant_scope, moves[0], credit=credit)
        has_sub_accounts = any(move.sub_account_id for move in moves)
        titles = label_sub_accounts(list_sub_accounts(tx)) if has_sub_accounts else {}
    page_moves = moves[:PAGE_SIZE]
    return context.render(
        "billing/ledger.html",
        ledger_query.form,
        query_string=ledger_query.query_string,
        rows=list(billing_queries.add_running_credit(page_moves, balance)),
        older_cursor=page_moves[-1].id if len(moves) > PAGE_SIZE else None,
        is_first_page=cursor is None,
        shows_credit=balance is not None,
        kind_labels=KIND_LABELS,
        describe_move=describe_move,
        titles=titles,
        max_csv_rows=MAX_CSV_ROWS,
    )


@router.get(f"{LEDGER_PATH}.csv")
def ledger_csv(context: UserContext, ledger_query: LedgerQueryParams) -> Response:
    lines = csv_lines(
        islice(_read_all_moves(context.container, context.tenant, ledger_query.ledger_filter), MAX_CSV_ROWS)
    )
    return csv_response(lines, f"ledger-{context.user.mode}.csv")


def _read_all_moves(container: Container, tenant_scope: Tenant, ledger_filter: LedgerFilter) -> Iterator[LedgerMove]:
    """In chunks, so that no transaction stays open for long."""
    before: int | None = None
    while True:
        with container.db.transaction(tenant_scope) as tx:
            moves = billing_queries.list_moves(tx, tenant_scope, ledger_filter, before=before, limit=CSV_CHUNK_LINES)
        yield from moves
        if len(moves) < CSV_CHUNK_LINES:
            return
        before = moves[-1].id


def _parse_day_field(text: str, name: str, errors: dict[str, list[str]]) -> date | None:
    day = parse_day(text)
    if text and day is None:
        errors[name] = [INVALID_DATE]
    return day


OVERVIEW_PATH = "/money"
MONTHS_SHOWN = 12
MAX_SUB_ACCOUNTS_SHOWN = 10
NEWEST_MOVES_SHOWN = 8


@router.get(OVERVIEW_PATH)
def overview_page(context: UserContext) -> Response:
    now, tenant_scope = context.now(), context.tenant
    months = list_last_months(now)
    with context.transaction() as tx:
        sums = billing_queries.read_balance(tx, tenant_scope)
        by_month = billing_queries.sum_spending_by_month(tx, tenant_scope, since=months[-1])
        by_sub_account = (
            {}
            if context.user.here.sub_account_id
            else billing_queries.sum_spending_by_sub_account(tx, tenant_scope, since=months[0])
        )
        newest_moves = billing_queries.list_moves(tx, tenant_scope, billing_queries.NO_FILTER, limit=NEWEST_MOVES_SHOWN)
        sub_accounts = list_sub_accounts(tx) if any(by_sub_account) else ()
    first_month = min([months[0], *by_month])  # before anything was spent there is nothing to compare
    return context.render(
        "billing/overview.html",
        balance=sums,
        months=[(month, by_month.get(month, 0)) for month in months if month >= first_month],
        sub_account_spending=spending_rows(by_sub_account, label_sub_accounts(sub_accounts))[:MAX_SUB_ACCOUNTS_SHOWN],
        newest_moves=newest_moves,
        describe_move=describe_move,
        needs_credit=context.container.environments[context.user.mode].needs_credit,
    )


def list_last_months(now: datetime, count: int = MONTHS_SHOWN) -> list[date]:
    """The first days of this month and of those before it, in UTC as in the ledger."""
    day = now.astimezone(UTC).date().replace(day=1)
    months = [day]
    while len(months) < count:
        day = day.replace(year=day.year - (day.month == 1), month=(day.month - 2) % 12 + 1)
        months.append(day)
    return months


def spending_rows(spent_by_id: Mapping[int, int], titles: Mapping[int, str]) -> list[tuple[int | None, str, int]]:
    """Nothing if only the account itself spent. A deleted sub account has no page."""
    if not any(spent_by_id):
        return []
    return [
        (
            sub_account_id if sub_account_id in titles else None,
            titles.get(sub_account_id, "Sub accounts that have gone") if sub_account_id else "No sub account",
            cents,
        )
        for sub_account_id, cents in spent_by_id.items()
    ]


PRICES_PATH = "/money/prices"
CLASS_LABELS = {"first": "First class", "standard": "Standard"}
HOME_COUNTRY = "US"
COUNTRY_LABELS = {HOME_COUNTRY: "United States", EVERYWHERE_ELSE: "Every other country"}


@dataclass(slots=True)
class PriceRow:
    """Prices of a product by class and country."""

    title: str
    now: dict[tuple[str, str], int] = field(default_factory=dict)
    coming: list[tuple[tuple[str, str], UnitPrice]] = field(default_factory=list)


@router.get(PRICES_PATH)
def prices_page(context: UserContext) -> Response:
    now = context.now()
    with context.transaction() as tx:
        prices = list_prices(tx)
    rows = build_price_table(prices, on=now.astimezone(UTC).date())
    columns = sorted({column for row in rows for column in row.now}, key=_column_sort_key)
    return context.render(
        "billing/prices.html",
        rows=rows,
        columns=[(column, column_labels(column)) for column in columns],
        column_labels=column_labels,
        format_day=lambda on: f"{on.day} {on:%B %Y}",
        lead_cents=LEAD_CENTS,
    )


def build_price_table(prices: Sequence[UnitPrice], *, on: date) -> list[PriceRow]:
    """The latest price in force on the day; later ones are coming."""
    rows: dict[tuple[str, str], PriceRow] = {}
    for price in sorted(prices, key=lambda price: price.valid_from):
        row = rows.setdefault((price.type, price.size), PriceRow(product_name(price.type, price.size)))
        column = (price.mail_class, price.country)
        if price.valid_from <= on:
            row.now[column] = price.unit_cents
        else:
            row.coming.append((column, price))
    return list(rows.values())


def column_labels(column: tuple[str, str]) -> tuple[str, str]:
    mail_class, country = column
    return CLASS_LABELS.get(mail_class, mail_class), COUNTRY_LABELS.get(country, country)


def _column_sort_key(column: tuple[str, str]) -> tuple[bool, bool, str, str]:
    """Home first, everywhere else last."""
    mail_class, country = column
    return country != HOME_COUNTRY, country == EVERYWHERE_ELSE, country, mail_class
