"""What needs a sender's attention, and the first steps of a new account. Every visit of the home page asks: each
query uses an index and reads a few rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.queries import read_account_profile
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import RECEIVER_KEY_DIGITS, Container
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.database.tables.orders import account_spending, giftcards
from quillpost.core.database.tables.recipients import imports
from quillpost.core.paging import Sorting, tenant_conditions
from quillpost.fulfillment.review.service import find_service_gaps, texts_for_sender
from quillpost.orders.automations.rules import has_recovered
from quillpost.orders.rules import OrderStatus
from quillpost.web.rendering import format_cents, pluralize

RECENT_PERIOD: Final = timedelta(days=14)
REPORT_PERIOD: Final = timedelta(days=30)
MAX_ALERTS_PER_KIND = 3
NEWEST_ORDERS_CHECKED = 100
WEEKS_PER_MONTH = 4
MAX_TEXT_LENGTH = 200
NOT_READY_TITLE = "Live mail isn't ready yet"
STOPPED_STATUSES = (OrderStatus.CANCELLED.value, OrderStatus.ERROR.value)
WEBHOOK_TITLES: Final = {
    "failing": "Deliveries to {host} fail",
    "disabled": "Nothing is delivered to {host} any more",
    "paused": "Deliveries to {host} are paused",
}
"""Only the host: the rest of a URL may be a secret."""


@dataclass(frozen=True, slots=True)
class SenderAlert:
    """`is_bad`: mail does not go out, or is lost."""

    title: str
    text: str
    href: str
    link: str
    is_bad: bool = True


def list_alerts(tx: Tx, user: SignedInUser, container: Container, *, now: datetime) -> list[SenderAlert]:
    """By importance, in the user's transaction."""
    tenant_scope = build_tenant(user.caller)
    return [
        *_readiness_alerts(tx, user, container, now),
        *_credit_alerts(tx, user, container, now),
        *_paused_order_alerts(tx, tenant_scope),
        *_reported_card_alerts(tx, tenant_scope, now),
        *_failed_order_alerts(tx, tenant_scope, now),
        *_automation_alerts(tx, tenant_scope, now),
        *_webhook_alerts(tx, tenant_scope),
        *_import_alerts(tx, tenant_scope, now),
    ]


def _readiness_alerts(tx: Tx, user: SignedInUser, container: Container, now: datetime) -> Iterator[SenderAlert]:
    """What blocks all live mail. Only operators can change it."""
    gaps = find_service_gaps(tx, container.environments[user.mode], on=now.date())
    if not gaps:
        return
    text = "You can send orders. They're paused after their review until this is set up."
    if user.is_operator:
        gaps_text = " ".join(gaps)
        yield SenderAlert(NOT_READY_TITLE, f"{text} {gaps_text}", "/print-room", "Open the print room")
    else:
        yield SenderAlert(NOT_READY_TITLE, f"{text} {' '.join(texts_for_sender(gaps))}", "", "")


def _credit_alerts(tx: Tx, user: SignedInUser, container: Container, now: datetime) -> Iterator[SenderAlert]:
    """Not for users of a sub account, who cannot change it."""
    if not container.environments[user.mode].needs_credit or user.here.sub_account_id is not None:
        return
    available_credit, monthly_spend = (
        billing_service.read_credit(tx, user.mode),
        _max_monthly_spend(tx, build_tenant(user.caller), now),
    )
    if available_credit < 0:
        title, is_bad = f"Your credit is {format_cents(available_credit)}", True
        text = "Nothing new can be sent before there is credit again."
    elif monthly_spend and available_credit * WEEKS_PER_MONTH < monthly_spend:
        title, is_bad = f"Your credit is down to {format_cents(available_credit)}", available_credit == 0
        text = f"You have spent {format_cents(monthly_spend)} in a month lately: this is less than a week of that."
    else:
        return
    yield SenderAlert(title, text, "/money", "See the money", is_bad)


def _max_monthly_spend(tx: Tx, tenant: Tenant, now: datetime) -> int:
    this_month = now.date().replace(day=1)
    last_month = (this_month - timedelta(days=1)).replace(day=1)
    monthly_totals = (
        sa.select(sa.func.sum(account_spending.c.cents).label("cents"))
        .where(*tenant_conditions(account_spending, tenant), account_spending.c.month >= last_month)
        .group_by(account_spending.c.month)
        .subquery()
    )
    return int(tx.execute(sa.select(sa.func.max(monthly_totals.c.cents))).scalar() or 0)


def _paused_order_alerts(tx: Tx, tenant: Tenant) -> Iterator[SenderAlert]:
    rows = _newest_rows(tx, orders, tenant, orders.c.status == OrderStatus.PAUSED.value)
    for row in rows[:MAX_ALERTS_PER_KIND]:
        reason = " ".join(texts_for_sender(row.hold_reasons)) or "Somebody looks at it before it is printed."
        yield SenderAlert(f"Order {row.id} is paused", _shorten(reason), f"/orders/{row.id}", "Open the order")
    if len(rows) > MAX_ALERTS_PER_KIND:
        yield SenderAlert(
            "More orders are paused", "They wait until they are mended.", "/orders?status=paused", "See all"
        )


def _failed_order_alerts(tx: Tx, tenant: Tenant, now: datetime) -> Iterator[SenderAlert]:
    c = orders.c
    newest_orders = (
        sa.select(c.id, c.status, c.n_failed, c.recipient_count, c.created_at)
        .where(*tenant_conditions(orders, tenant))
        .order_by(*Sorting(leading_column=c.mode).columns(orders))
        .limit(NEWEST_ORDERS_CHECKED)
        .subquery()
    )
    needs_attention = sa.or_(
        newest_orders.c.status == OrderStatus.ERROR.value,
        sa.and_(newest_orders.c.n_failed > 0, newest_orders.c.status.not_in(STOPPED_STATUSES)),
    )
    query = (
        sa.select(newest_orders)
        .where(newest_orders.c.created_at > now - RECENT_PERIOD, needs_attention)
        .order_by(newest_orders.c.id.desc())
    )
    for row in tx.execute(query.limit(MAX_ALERTS_PER_KIND)):
        if row.status == OrderStatus.ERROR.value:
            text = "Nothing of it is mailed. Its page says why, and what is billed."
            yield SenderAlert(f"Order {row.id} was refused", text, f"/orders/{row.id}", "Open the order")
        else:
            recipients_label = pluralize(row.recipient_count, "recipient")
            text = f"Out of {recipients_label}. You aren't charged for pieces that fail before printing."
            title = f"{pluralize(row.n_failed, 'recipient')} of order {row.id} got no mail"
            yield SenderAlert(title, text, f"/orders/{row.id}/items?status=Failed", "See which", is_bad=False)


def _reported_card_alerts(tx: Tx, tenant: Tenant, now: datetime) -> Iterator[SenderAlert]:
    c = giftcards.c
    query = (
        sa.select(c.item_id, c.order_id, c.report)
        .where(*tenant_conditions(giftcards, tenant), c.reported_at > now - REPORT_PERIOD, c.status != "void")
        .order_by(c.reported_at.desc())
        .limit(MAX_ALERTS_PER_KIND)
    )
    for row in tx.execute(query):
        text = f"“{_shorten(row.report)}”" if row.report else "Its reader says that the card does not work."
        path = f"/orders/{row.order_id}/items/{row.item_id}"
        yield SenderAlert(f"A gift card of order {row.order_id} was reported", text, path, "Look at it")


def _automation_alerts(tx: Tx, tenant: Tenant, now: datetime) -> Iterator[SenderAlert]:
    c = automations.c
    query = (
        sa.select(c.id, c.name, c.enabled, c.last_error, c.last_error_at)
        .where(*tenant_conditions(automations, tenant), c.last_error_at > now - RECENT_PERIOD)
        .where(sa.or_(c.failing_since.is_not(None), ~c.enabled))
        .order_by(c.last_error_at.desc())
        .limit(MAX_ALERTS_PER_KIND)
    )
    for row in tx.execute(query):
        if row.enabled and has_recovered(row.last_error_at, now=now):
            continue
        state = "cannot send" if row.enabled else "was switched off"
        title = f"Automation “{row.name}” {state}"
        yield SenderAlert(title, _shorten(row.last_error or ""), f"/automations/{row.id}", "Mend it")


def _webhook_alerts(tx: Tx, tenant: Tenant) -> Iterator[SenderAlert]:
    for row in _newest_rows(tx, webhooks, tenant, webhooks.c.status.in_(list(WEBHOOK_TITLES)))[:MAX_ALERTS_PER_KIND]:
        message = "Events are kept, and sent once you resume it." if row.status == "paused" else row.last_error
        title = WEBHOOK_TITLES[row.status].format(host=urlsplit(row.url).hostname)
        text = _shorten(message or "The receiver does not answer as it should.")
        yield SenderAlert(title, text, f"/webhooks/{row.id}", "Open it", is_bad=row.status != "paused")


def _import_alerts(tx: Tx, tenant: Tenant, now: datetime) -> Iterator[SenderAlert]:
    c = imports.c
    query = (
        sa.select(c.id, c.file_name, c.status, c.error, c.rows_rejected, c.rows_imported)
        .where(*tenant_conditions(imports, tenant), c.finished_at > now - RECENT_PERIOD)
        .where(sa.or_(c.status == "failed", sa.and_(c.status == "done", c.rows_rejected > 0)))
        .order_by(c.finished_at.desc())
        .limit(MAX_ALERTS_PER_KIND)
    )
    for row in tx.execute(query):
        name, path = _shorten(row.file_name, max_length=60), f"/lists/imports/{row.id}"
        if row.status == "failed":
            yield SenderAlert(f"The import of {name} failed", _shorten(row.error or ""), path, "See why")
        else:
            title = f"{pluralize(row.rows_rejected, 'row')} of {name} could not be taken"
            text = f"{pluralize(row.rows_imported, 'person', 'people')} imported. The others can be mended."
            yield SenderAlert(title, text, path, "See which", is_bad=False)


def _newest_rows(tx: Tx, table: sa.Table, tenant: Tenant, condition: sa.ColumnElement[bool]) -> Sequence[sa.Row[Any]]:
    """One more than is shown, if there are more."""
    sorting = Sorting(leading_column=table.c.mode).columns(table)
    return tx.execute(
        sa.select(table)
        .where(*tenant_conditions(table, tenant), condition)
        .order_by(*sorting)
        .limit(MAX_ALERTS_PER_KIND + 1)
    ).all()


def _shorten(text: str, *, max_length: int = MAX_TEXT_LENGTH) -> str:
    text = " ".join(text.split())
    return text if len(text) <= max_length else text[: max_length - 1].rstrip() + "…"


HAS_SENT_LIVE_SQL = sa.text(
    "select exists (select from order_counts where account_id = :account and mode = 'live' and n > 0)"
)
# Asked only where nothing was ever sent live. Lists that we keep ourselves are nobody's first step, and the
# receiver that comes with the service is no other software.
STEPS_DONE_SQL = sa.text(
    f"""
    select exists (select from mailing_lists
                    where account_id = :account and type <> 'qrscans'
                      and not is_suppression_list) as has_list,
           exists (select from order_counts
                    where account_id = :account and mode = 'test' and n > 0) as has_sent,
           exists (select from hourly_counts
                    where account_id = :account and mode = 'test' and what = 'delivered') as has_delivered,
           exists (select from webhooks
                    where account_id = :account
                      and url !~ '/receiver/[0-9a-f]{{{RECEIVER_KEY_DIGITS}}}/hook$') as has_webhook
    """
)


@dataclass(frozen=True, slots=True)
class FirstStep:
    """`href`: None for a user who may not do it."""

    title: str
    text: str
    href: str | None
    link: str
    is_done: bool


def list_first_steps(tx: Tx, user: SignedInUser) -> Sequence[FirstStep]:
    """None once all are done or live mail went out. In a transaction that sees both modes."""
    params = {"account": user.here.account_id}
    if tx.execute(HAS_SENT_LIVE_SQL, params).scalar_one():
        return ()
    progress = tx.execute(STEPS_DONE_SQL, params).one()
    steps = [
        FirstStep(
            "Protect your sign-in",
            "A second factor on your phone keeps others out, even if they learn your password.",
            "/settings/second-factor",
            "Turn it on",
            user.has_second_factor,
        ),
        FirstStep(
            "Say where returned mail goes",
            "Every card carries a return address. " + ("" if user.is_owner else "An owner of the account sets it."),
            "/settings/account" if user.is_owner else None,
            "Set the address",
            has_return_address(tx, user),
        ),
        FirstStep(
            "Bring your people",
            "Import a spreadsheet, and every address is checked on the way in.",
            "/lists/import",
            "Import people",
            progress.has_list,
        ),
        FirstStep(
            "Write a first card",
            "In testing mode nothing is mailed and nothing is billed: try whatever you like.",
            "/compose",
            "Write a card",
            progress.has_sent,
        ),
        FirstStep(
            "Watch it arrive",
            "A test card travels to its door in about half a minute. Its page shows every step.",
            "/orders",
            "See your orders",
            progress.has_delivered,
        ),
        FirstStep(
            "Tell your other software",
            "A webhook lets another program know when a card is delivered or its code is scanned.",
            "/webhooks/new",
            "Add a webhook",
            progress.has_webhook,
        ),
    ]
    if not user.here.is_test_account:
        steps.append(
            FirstStep(
                "Send real mail",
                "Switch to Live at the top when you are ready. You see the price before you send.",
                "/compose",
                "Write a card",
                is_done=False,
            )
        )
    return () if all(step.is_done for step in steps) else steps


def has_return_address(tx: Tx, user: SignedInUser) -> bool:
    """Of the user's sub account, or else of the account."""
    sub_account = read_sub_account(tx, user.here.sub_account_id) if user.here.sub_account_id else None
    if sub_account is not None and sub_account.return_address:
        return True
    return read_account_profile(tx, user.here.account_id).has_return_address


TABLES_BY_AREA: Final[Mapping[str, tuple[str, sa.Table]]] = {
    "orders": ("order", orders),
    "webhooks": ("webhook", webhooks),
    "automations": ("automation", automations),
}
DETAIL_PATH_PATTERN = re.compile(r"/(?P<area>[a-z]+)/(?P<number>[1-9][0-9]{0,17})(?:/|$)")


@dataclass(frozen=True, slots=True)
class OtherMode:
    resource: str
    number: int
    mode: str


def find_in_other_mode(db: Database, user: SignedInUser, path: str) -> OtherMode | None:
    """What the page of this path is about, if the user's account has it in the other mode."""
    match = DETAIL_PATH_PATTERN.match(path)
    if match is None or match["area"] not in TABLES_BY_AREA:
        return None
    thing, table = TABLES_BY_AREA[match["area"]]
    number = int(match["number"])
    with db.transaction(user.tenant) as tx:
        mode = tx.execute(sa.select(table.c.mode).where(table.c.id == number)).scalar()
    return OtherMode(thing, number, mode) if mode is not None and mode != user.mode else None
