"""What needs a sender's attention, and the first steps of a new account.

Each visit to the first page asks, so each question is answered by an index, and by a few rows of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.accounts.billing import credit
from quillpost.accounts.queries import read_facts
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import RECEIVER_DIGITS, Parts
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.counters import account_spending
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.core.database.tables.imports import imports
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.paging import Sorting, rows_of
from quillpost.fulfillment.readiness import for_senders, service_gaps
from quillpost.orders.automations.rules import is_over
from quillpost.orders.rules import OrderStatus
from quillpost.web.rendering import cents, plural

LATELY: Final = timedelta(days=14)
REPORTED_LATELY: Final = timedelta(days=30)
MOST = 3
"""Of one kind; that there are more is said in a line of its own."""
NEWEST = 100
"""Orders that are looked at for pieces that failed."""
WEEKS_IN_A_MONTH = 4
LONGEST = 200
NOT_READY = "Live mail isn't ready yet"
STOPPED = (OrderStatus.CANCELLED.value, OrderStatus.ERROR.value)
WEBHOOKS: Final = {
    "failing": "Deliveries to {host} fail",
    "disabled": "Nothing is delivered to {host} any more",
    "paused": "Deliveries to {host} are paused",
}
"""By status. The rest of an address may be as good as a key, and is on the subscription's own page."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing: what it is, why, and where to go about it. `is_bad`: mail does not go out, or is lost."""

    title: str
    text: str
    href: str
    link: str
    is_bad: bool = True


def needs_of(tx: Tx, who: SignedIn, parts: Parts, *, now: datetime) -> list[Need]:
    """In the order in which they matter. Takes the reader's transaction."""
    whose = tenant(who.caller)
    return [
        *_not_ready(tx, who, parts, now),
        *_credit(tx, who, parts, now),
        *_paused(tx, whose, parts),
        *_reported_cards(tx, whose, now),
        *_failed(tx, whose, now),
        *_automations(tx, whose, now),
        *_webhooks(tx, whose),
        *_imports(tx, whose, now),
    ]


def _not_ready(tx: Tx, who: SignedIn, parts: Parts, now: datetime) -> Iterator[Need]:
    """What keeps all live mail from paper. Only those who run the service can change that."""
    gaps = service_gaps(tx, parts.worlds[who.mode], on=now.date())
    if not gaps:
        return
    text = "You can send orders. They're paused after their review until this is set up."
    if who.is_operator:
        told = " ".join(gap.for_operator for gap in gaps)
        yield Need(NOT_READY, f"{text} {told}", "/print-room", "Open the print room")
    else:
        yield Need(NOT_READY, f"{text} {' '.join(gap.for_sender for gap in gaps)}", "", "")


def _credit(tx: Tx, who: SignedIn, parts: Parts, now: datetime) -> Iterator[Need]:
    """The account's: whoever is limited to a branch cannot do anything about it."""
    if not parts.worlds[who.mode].needs_credit or who.here.sub_account_id is not None:
        return
    has, month = credit.credit(tx, who.mode), _busier_month(tx, tenant(who.caller), now)
    if has < 0:
        title, is_bad = f"Your credit is {cents(has)}", True
        text = "Nothing new can be sent before there is credit again."
    elif month and has * WEEKS_IN_A_MONTH < month:
        title, is_bad = f"Your credit is down to {cents(has)}", has == 0
        text = f"You have spent {cents(month)} in a month lately: this is less than a week of that."
    else:
        return
    yield Need(title, text, "/money", "See the money", is_bad)


def _busier_month(tx: Tx, who: Tenant, now: datetime) -> int:
    """What was spent in this month or in the one before, whichever is more."""
    this = now.date().replace(day=1)
    last = (this - timedelta(days=1)).replace(day=1)
    spent = (
        sa.select(sa.func.sum(account_spending.c.cents).label("cents"))
        .where(*rows_of(account_spending, who), account_spending.c.month >= last)
        .group_by(account_spending.c.month)
        .subquery()
    )
    return int(tx.execute(sa.select(sa.func.max(spent.c.cents))).scalar() or 0)


def _paused(tx: Tx, who: Tenant, parts: Parts) -> Iterator[Need]:
    rows = _first(tx, orders, who, orders.c.status == OrderStatus.PAUSED.value)
    for row in rows[:MOST]:
        why = (
            " ".join(for_senders(row.hold_reasons, parts.worlds[row.mode]))
            or "Somebody looks at it before it is printed."
        )
        yield Need(f"Order {row.id} is paused", _short(why), f"/orders/{row.id}", "Open the order")
    if len(rows) > MOST:
        yield Need(
            "More orders are paused", "They wait until they are mended.", "/orders?status=paused", "See all"
        )


def _failed(tx: Tx, who: Tenant, now: datetime) -> Iterator[Need]:
    c = orders.c
    newest = (
        sa.select(c.id, c.status, c.n_failed, c.recipient_count, c.created_at)
        .where(*rows_of(orders, who))
        .order_by(*Sorting(led_by=c.mode).columns(orders))
        .limit(NEWEST)
        .subquery()
    )
    is_told = sa.or_(
        newest.c.status == OrderStatus.ERROR.value,
        sa.and_(newest.c.n_failed > 0, newest.c.status.not_in(STOPPED)),
    )
    found = sa.select(newest).where(newest.c.created_at > now - LATELY, is_told).order_by(newest.c.id.desc())
    for row in tx.execute(found.limit(MOST)):
        if row.status == OrderStatus.ERROR.value:
            text = "Nothing of it is mailed. Its page says why, and what is billed."
            yield Need(f"Order {row.id} was refused", text, f"/orders/{row.id}", "Open the order")
        else:
            everyone = plural(row.recipient_count, "recipient")
            text = f"Out of {everyone}. You aren't charged for pieces that fail before printing."
            title = f"{plural(row.n_failed, 'recipient')} of order {row.id} got no mail"
            yield Need(title, text, f"/orders/{row.id}/items?status=Failed", "See which", is_bad=False)


def _reported_cards(tx: Tx, who: Tenant, now: datetime) -> Iterator[Need]:
    c = giftcards.c
    found = (
        sa.select(c.item_id, c.order_id, c.report)
        .where(*rows_of(giftcards, who), c.reported_at > now - REPORTED_LATELY, c.status != "void")
        .order_by(c.reported_at.desc())
        .limit(MOST)
    )
    for row in tx.execute(found):
        text = f"“{_short(row.report)}”" if row.report else "Its reader says that the card does not work."
        address = f"/orders/{row.order_id}/items/{row.item_id}"
        yield Need(f"A gift card of order {row.order_id} was reported", text, address, "Look at it")


def _automations(tx: Tx, who: Tenant, now: datetime) -> Iterator[Need]:
    c = automations.c
    found = (
        sa.select(c.id, c.name, c.enabled, c.last_error, c.last_error_at)
        .where(*rows_of(automations, who), c.last_error_at > now - LATELY)
        .where(sa.or_(c.failing_since.is_not(None), ~c.enabled))
        .order_by(c.last_error_at.desc())
        .limit(MOST)
    )
    for row in tx.execute(found):
        if row.enabled and is_over(row.last_error_at, now=now):
            continue
        state = "cannot send" if row.enabled else "was switched off"
        title = f"Automation “{row.name}” {state}"
        yield Need(title, _short(row.last_error or ""), f"/automations/{row.id}", "Mend it")


def _webhooks(tx: Tx, who: Tenant) -> Iterator[Need]:
    for row in _first(tx, webhooks, who, webhooks.c.status.in_(list(WEBHOOKS)))[:MOST]:
        said = "Events are kept, and sent once you resume it." if row.status == "paused" else row.last_error
        title = WEBHOOKS[row.status].format(host=urlsplit(row.url).hostname)
        text = _short(said or "The receiver does not answer as it should.")
        yield Need(title, text, f"/webhooks/{row.id}", "Open it", is_bad=row.status != "paused")


def _imports(tx: Tx, who: Tenant, now: datetime) -> Iterator[Need]:
    c = imports.c
    found = (
        sa.select(c.id, c.file_name, c.status, c.error, c.rows_rejected, c.rows_imported)
        .where(*rows_of(imports, who), c.finished_at > now - LATELY)
        .where(sa.or_(c.status == "failed", sa.and_(c.status == "done", c.rows_rejected > 0)))
        .order_by(c.finished_at.desc())
        .limit(MOST)
    )
    for row in tx.execute(found):
        name, address = _short(row.file_name, most=60), f"/lists/imports/{row.id}"
        if row.status == "failed":
            yield Need(f"The import of {name} failed", _short(row.error or ""), address, "See why")
        else:
            title = f"{plural(row.rows_rejected, 'row')} of {name} could not be taken"
            text = f"{plural(row.rows_imported, 'person', 'people')} imported. The others can be mended."
            yield Need(title, text, address, "See which", is_bad=False)


def _first(tx: Tx, table: sa.Table, who: Tenant, which: sa.ColumnElement[bool]) -> Sequence[sa.Row[Any]]:
    """The newest few, and one more if there is one."""
    sorting = Sorting(led_by=table.c.mode).columns(table)
    return tx.execute(
        sa.select(table).where(*rows_of(table, who), which).order_by(*sorting).limit(MOST + 1)
    ).all()


def _short(text: str, *, most: int = LONGEST) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


SENT_LIVE = sa.text(
    "select exists (select from order_counts where account_id = :account and mode = 'live' and n > 0)"
)
# Asked only where nothing was ever sent live. Lists that we keep ourselves are nobody's first step, and the
# receiver that comes with the service is no other software.
DONE = sa.text(
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
                      and url !~ '/receiver/[0-9a-f]{{{RECEIVER_DIGITS}}}/hook$') as has_webhook
    """
)


@dataclass(frozen=True, slots=True)
class FirstStep:
    """`href` is where it is done; None for a reader who may not."""

    title: str
    text: str
    href: str | None
    link: str
    is_done: bool


def first_steps(tx: Tx, who: SignedIn) -> Sequence[FirstStep]:
    """All of them, or none where there is nothing left to learn: all are done, or real mail went out. Takes a
    transaction that sees both modes."""
    account = {"account": who.here.account_id}
    if tx.execute(SENT_LIVE, account).scalar_one():
        return ()
    done = tx.execute(DONE, account).one()
    steps = [
        FirstStep(
            "Protect your sign-in",
            "A second factor on your phone keeps others out, even if they learn your password.",
            "/settings/second-factor",
            "Turn it on",
            who.has_second_factor,
        ),
        FirstStep(
            "Say where returned mail goes",
            "Every card carries a return address. "
            + ("" if who.is_owner else "An owner of the account sets it."),
            "/settings/account" if who.is_owner else None,
            "Set the address",
            has_return_address(tx, who),
        ),
        FirstStep(
            "Bring your people",
            "Import a spreadsheet, and every address is checked on the way in.",
            "/lists/import",
            "Import people",
            done.has_list,
        ),
        FirstStep(
            "Write a first card",
            "In testing mode nothing is mailed and nothing is billed: try whatever you like.",
            "/compose",
            "Write a card",
            done.has_sent,
        ),
        FirstStep(
            "Watch it arrive",
            "A test card travels to its door in about half a minute. Its page shows every step.",
            "/orders",
            "See your orders",
            done.has_delivered,
        ),
        FirstStep(
            "Tell your other software",
            "A webhook lets another program know when a card is delivered or its code is scanned.",
            "/webhooks/new",
            "Add a webhook",
            done.has_webhook,
        ),
    ]
    if not who.here.is_test_account:
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


def has_return_address(tx: Tx, who: SignedIn) -> bool:
    """Of the reader's sub account, or else of the account."""
    branch = read_sub_account(tx, who.here.sub_account_id)
    if branch is not None and branch.return_address:
        return True
    return read_facts(tx, who.here.account_id).has_return_address
