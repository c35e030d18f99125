"""An automation that cannot send: it waits and tries again, says why, and tells its owner once."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.core import outbox
from quillpost.core.database import Database, Tx
from quillpost.core.database.engine import insert_rows
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import automation_due, automation_sent, automations
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Unavailable
from quillpost.orders import service as order_service
from quillpost.orders.automations import queries, rules
from quillpost.orders.automations.queries import COLUMNS, Automation, DueRecipient
from quillpost.orders.automations.service import AutomationContext, draft_for_people, prefix_send_errors, resolve_send
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.service import OrderFiles
from quillpost.orders.tasks import SET_ACCOUNT

log = structlog.get_logger(__name__)

EMAIL_KIND = "automations"
INTERNAL_ERROR = "Something went wrong on our side. It is tried again."


def error_message(refusal: QuillpostError) -> str:
    """What the API would answer, with the field."""
    if isinstance(refusal, Invalid) and refusal.fields:
        field, messages = next(iter(prefix_send_errors(refusal).fields.items()))
        return f"{field}: {messages[0]}"
    return refusal.message


def record_failure(db: Database, automation: Automation, reason: str, *, now: datetime) -> None:
    """Try again later, or give up. People who are due wait until it is given up."""
    with db.system_transaction() as tx:
        try:
            current = queries.read_automation(tx, automation.id, locked=True)
        except NotFound:
            return
        if not current.has_plan_of(automation):
            return  # its owner has changed it, so it starts again
        failing_since, attempts = current.failing_since or now, current.tries + 1
        if current.last_error_at is not None and rules.has_recovered(current.last_error_at, now=now):
            failing_since, attempts = now, 1
        if rules.should_give_up(failing_since, now=now):
            _disable(tx, current, reason, failing_since=failing_since, now=now)
            return
        values = {
            "tries": attempts,
            "failing_since": failing_since,
            "next_at": rules.next_attempt_at(attempts, now=now),
            "last_error": reason,
            "last_error_at": now,
        }
        queries.update_automation(tx, current.id, values)
        email_text = (
            f"{_describe(current)} cannot send:\n\n- {reason}\n\nWhoever is due waits, and it is tried again for"
        )
        email_text += f" {rules.GIVE_UP_AFTER.days} days. What you change in it is tried at once."
        _notify_owner(
            tx,
            current,
            f"trouble:{failing_since.isoformat()}",
            f"{_describe(current)} cannot send",
            email_text,
            now=now,
        )
    log.warning("automations.send_failed", automation=automation.id, attempts=attempts)


def _disable(tx: Tx, automation: Automation, reason: str, *, failing_since: datetime, now: datetime) -> None:
    """Switch it off and say how many were not mailed."""
    deleted_count = tx.execute(
        sa.delete(automation_due).where(automation_due.c.automation_id == automation.id)
    ).rowcount
    people_text = "1 person was" if deleted_count == 1 else f"{deleted_count:,} people were"
    last_error = f"{reason} Switched off after {rules.GIVE_UP_AFTER.days} days of this: {people_text} not mailed to."
    values = {"enabled": False, "enabled_at": None, "enabled_on": None, "last_error": last_error, "last_error_at": now}
    queries.update_automation(tx, automation.id, values)
    email_text = f"{_describe(automation)} is switched off:\n\n- {last_error}\n\nMend it and switch it on again."
    subject = f"{_describe(automation)} is switched off"
    _notify_owner(tx, automation, f"off:{failing_since.isoformat()}", subject, email_text, now=now)


def postpone_to(tx: Tx, automation: Automation, *, next_at: datetime, today: date, now: datetime) -> None:
    """The daily limit is reached: the rest go tomorrow, unless the owner has just changed it."""
    statement = sa.update(automations).where(
        automations.c.id == automation.id, automations.c.next_at == automation.next_at
    )
    if tx.execute(statement.values(next_at=next_at, held_until=next_at)).rowcount == 0:
        return
    email_text = (
        f"{_describe(automation)} has mailed to {automation.daily_limit:,} people today, its daily_limit."
        "\n\nThe others who are due wait for the next days. Raise the limit, or switch it off, if that is not"
        " what you want."
    )
    subject = f"{_describe(automation)} has reached its limit for today"
    _notify_owner(tx, automation, f"limit:{today.isoformat()}", subject, email_text, now=now)


def _describe(automation: Automation) -> str:
    return f'Automation {automation.id} ("{automation.name}")'


def _notify_owner(
    tx: Tx, automation: Automation, key_suffix: str, subject: str, email_text: str, *, now: datetime
) -> None:
    """An email to the account, once per key."""
    owner_email = sa.select(accounts.c.email).where(accounts.c.id == automation.account_id)
    outbox.enqueue_notification(
        tx,
        key=f"automation:{automation.id}:{key_suffix}",
        kind=EMAIL_KIND,
        account_id=automation.account_id,
        sub_account_id=automation.sub_account_id,
        mode=automation.mode,
        address=tx.execute(owner_email).scalar_one(),
        subject=subject,
        text=email_text,
        now=now,
    )


SENT_COLUMNS = ("automation_id", "person_key", "year", "recipient_id", "order_id", "at")

_HAS_DUE = sa.exists().where(automation_due.c.automation_id == automations.c.id)


def send_due(context: AutomationContext) -> None:
    """Process every automation with people due, the longest waiting first. Each sends or is postponed, so this ends."""
    while (automation := _claim_next(context, now=context.orders.clock())) is not None:
        now = context.orders.clock()
        try:
            _process(context, automation, now=now)
        except Unavailable:
            raise
        except QuillpostError as refusal:
            record_failure(context.orders.db, automation, error_message(refusal), now=now)
        except Exception as error:  # one account's automation must not stop all the others
            log.exception("automations.send_crashed", automation=automation.id, error=type(error).__name__)
            record_failure(context.orders.db, automation, INTERNAL_ERROR, now=now)


def _claim_next(context: AutomationContext, *, now: datetime) -> Automation | None:
    """The next one, leased to this worker."""
    next_id = (
        sa.select(automations.c.id)
        .where(automations.c.enabled, automations.c.next_at <= now, _HAS_DUE)
        .order_by(automations.c.next_at, automations.c.id)
        .limit(1)
        .with_for_update(key_share=True, skip_locked=True)
        .scalar_subquery()
    )
    statement = sa.update(automations).where(automations.c.id == next_id).values(next_at=now + rules.LEASE_DURATION)
    with context.orders.db.system_transaction() as tx:
        row = tx.execute(statement.returning(*COLUMNS)).first()
    return None if row is None else Automation.of_row(row)


def _process(context: AutomationContext, automation: Automation, *, now: datetime) -> None:
    caller = Caller(automation.account_id, automation.mode)
    today = rules.local_date(now, context.zone)
    with context.orders.db.system_transaction() as tx:
        remaining_limit = automation.daily_limit - queries.count_mailed_since(
            tx, automation.id, rules.start_of_day(today, context.zone)
        )
        limit = min(remaining_limit, rules.MAX_PEOPLE_PER_ORDER)
        due_recipients = (
            queries.read_longest_due(tx, automation, zone=context.zone, limit=limit) if remaining_limit > 0 else []
        )
        unmailed_recipients = queries.filter_not_yet_mailed(tx, automation.id, due_recipients)
        if remaining_limit <= 0:
            tomorrow = rules.start_of_day(today + timedelta(days=1), context.zone)
            postpone_to(tx, automation, next_at=tomorrow, today=today, now=now)
            return
        if not unmailed_recipients:
            queries.delete_due_rows(tx, [recipient.due_id for recipient in due_recipients])
            _record_success(tx, automation, now=now)
            return
    resolved, errors = resolve_send(context, caller, automation, measures_longest=False)
    people = [recipient.person for recipient in unmailed_recipients]
    order_draft = draft_for_people(
        context.orders, caller, resolved, errors, people, mailing_list_id=automation.mailing_list_id
    )
    files = order_service.store_files(context.orders, caller, order_draft)
    _create_order(context, caller, automation, order_draft, files, due_recipients, unmailed_recipients, now=now)


def _create_order(
    context: AutomationContext,
    caller: Caller,
    automation: Automation,
    order_draft: OrderDraft,
    files: OrderFiles,
    due_recipients: Sequence[DueRecipient],
    unmailed_recipients: Sequence[DueRecipient],
    *,
    now: datetime,
) -> None:
    """Create the order and record it. If another worker was faster or the plan changed, nothing happens and the files
    are deleted later."""
    due_ids = [recipient.due_id for recipient in due_recipients]
    with context.orders.db.system_transaction() as tx:
        current = queries.read_automation(tx, automation.id, locked=True)
        if not current.has_plan_of(automation) or not queries.lock_due(tx, due_ids):
            return
        tx.execute(SET_ACCOUNT, {"account": str(automation.account_id)})
        order, audience = order_service.create_order(context.orders, tx, caller, order_draft, files)
        rows = [
            (automation.id, recipient.person_key, recipient.year, recipient.recipient_id, order.id, now)
            for recipient in unmailed_recipients
        ]
        insert_rows(tx, automation_sent, SENT_COLUMNS, rows)
        queries.delete_due_rows(tx, due_ids)
        _record_success(tx, automation, now=now, sent_items=audience.mailed_items, order_id=order.id)
    log.info("automations.sent", automation=automation.id, order=order.id, items=audience.mailed_items)


def _record_success(
    tx: Tx, automation: Automation, *, now: datetime, sent_items: int | None = None, order_id: int | None = None
) -> None:
    """It may continue at once; errors are cleared if it has sent."""
    sent_values = {
        "sent_count": automations.c.sent_count + (sent_items or 0),
        "last_sent_at": now,
        "last_order_id": order_id,
        "tries": 0,
        "failing_since": None,
        "last_error": None,
        "last_error_at": None,
    }
    values = {"next_at": now, "held_until": None} | (sent_values if sent_items is not None else {})
    tx.execute(sa.update(automations).where(automations.c.id == automation.id).values(values))
