"""An automation that cannot send: it waits and tries again, says why, and tells its owner once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.core import outbox
from quillpost.core.database import Database, Tx
from quillpost.core.database.bulk import insert_rows
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import automation_due, automation_sent, automations
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Unavailable
from quillpost.orders import service as order_service
from quillpost.orders.automations import queries, rules
from quillpost.orders.automations.drafts import Means, draft, resolve_send
from quillpost.orders.automations.queries import COLUMNS, Automation, Waiting, automation_of
from quillpost.orders.drafts import Draft
from quillpost.orders.materialization import ACT_FOR
from quillpost.orders.service import Files

log = structlog.get_logger(__name__)

KIND = "automations"
OUR_FAULT = "Something went wrong on our side. It is tried again."


def sentence(refused: QuillpostError) -> str:
    """What a caller would have been told, with the field that it is about."""
    if isinstance(refused, Invalid) and refused.fields:
        field, told = next(iter(refused.fields.items()))
        return f"{_shown(field)}: {told[0]}"
    return refused.message


def _shown(field: str) -> str:
    """A field of the send as its owner has written it; the list stands beside the send."""
    return "mailing_list_id" if field == "mailing_list_ids" else f"send.{field}"


def note(db: Database, automation: Automation, why: str, *, now: datetime) -> None:
    """Try again later, or give up. Whoever waits goes on waiting, until it is given up."""
    with db.work() as tx:
        try:
            found = queries.read_automation(tx, automation.id, locked=True)
        except NotFound:
            return
        if found.plan != automation.plan:
            return  # it is another automation by now, and starts anew
        since, tries = found.failing_since or now, found.tries + 1
        if found.last_error_at is not None and rules.is_over(found.last_error_at, now=now):
            since, tries = now, 1
        if rules.is_hopeless(since, now=now):
            _give_up(tx, found, why, since=since, now=now)
            return
        values = {
            "tries": tries,
            "failing_since": since,
            "next_at": rules.next_try(tries, now=now),
            "last_error": why,
            "last_error_at": now,
        }
        queries.update_automation(tx, found.id, values)
        words = f"{_named(found)} cannot send:\n\n- {why}\n\nWhoever is due waits, and it is tried again for"
        words += f" {rules.GIVE_UP_AFTER.days} days. What you change in it is tried at once."
        _tell(tx, found, f"trouble:{since.isoformat()}", f"{_named(found)} cannot send", words, now=now)
    log.warning("automations.refused", automation=automation.id, tries=tries)


def _give_up(tx: Tx, automation: Automation, why: str, *, since: datetime, now: datetime) -> None:
    """Switched off, so that nobody who comes later waits in vain, and said for how many it came too late."""
    dropped = tx.execute(
        sa.delete(automation_due).where(automation_due.c.automation_id == automation.id)
    ).rowcount
    people = "1 person was" if dropped == 1 else f"{dropped:,} people were"
    told = f"{why} Switched off after {rules.GIVE_UP_AFTER.days} days of this: {people} not mailed to."
    values = {
        "enabled": False,
        "enabled_at": None,
        "enabled_on": None,
        "last_error": told,
        "last_error_at": now,
    }
    queries.update_automation(tx, automation.id, values)
    words = f"{_named(automation)} is switched off:\n\n- {told}\n\nMend it and switch it on again."
    subject = f"{_named(automation)} is switched off"
    _tell(tx, automation, f"off:{since.isoformat()}", subject, words, now=now)


def put_off(tx: Tx, automation: Automation, *, until: datetime, today: date, now: datetime) -> None:
    """The day's limit is reached; the rest go tomorrow. Not where its owner has just changed it."""
    put = sa.update(automations).where(
        automations.c.id == automation.id, automations.c.next_at == automation.next_at
    )
    if tx.execute(put.values(next_at=until, held_until=until)).rowcount == 0:
        return
    words = (
        f"{_named(automation)} has mailed to {automation.daily_limit:,} people today, its daily_limit."
        "\n\nThe others who are due wait for the next days. Raise the limit, or switch it off, if that is not"
        " what you want."
    )
    subject = f"{_named(automation)} has reached its limit for today"
    _tell(tx, automation, f"limit:{today.isoformat()}", subject, words, now=now)


def _named(automation: Automation) -> str:
    return f'Automation {automation.id} ("{automation.name}")'


def _tell(tx: Tx, automation: Automation, what: str, subject: str, words: str, *, now: datetime) -> None:
    """By e-mail to the account, once for each trouble: the key says which."""
    owner = sa.select(accounts.c.email).where(accounts.c.id == automation.account_id)
    outbox.post(
        tx,
        key=f"automation:{automation.id}:{what}",
        kind=KIND,
        account_id=automation.account_id,
        sub_account_id=automation.sub_account_id,
        mode=automation.mode,
        address=tx.execute(owner).scalar_one(),
        subject=subject,
        words=words,
        now=now,
    )


SENT_COLUMNS = ("automation_id", "person_key", "year", "recipient_id", "order_id", "at")

_SOMEONE_WAITS = sa.exists().where(automation_due.c.automation_id == automations.c.id)


def send_due(means: Means) -> None:
    """Serve every automation for which somebody waits, the one that waited longest first, until none is
    left. Each time round one sends, or is put off: so this ends."""
    while (automation := _claim(means, now=means.clock())) is not None:
        now = means.clock()
        try:
            _serve(means, automation, now=now)
        except Unavailable:
            raise
        except QuillpostError as refused:
            note(means.db, automation, sentence(refused), now=now)
        except Exception as fault:  # one account's automation must not stop all the others
            log.exception("automations.failed", automation=automation.id, error=type(fault).__name__)
            note(means.db, automation, OUR_FAULT, now=now)


def _claim(means: Means, *, now: datetime) -> Automation | None:
    """One whose turn it is; for a while no other worker takes it."""
    first = (
        sa.select(automations.c.id)
        .where(automations.c.enabled, automations.c.next_at <= now, _SOMEONE_WAITS)
        .order_by(automations.c.next_at, automations.c.id)
        .limit(1)
        .with_for_update(key_share=True, skip_locked=True)
        .scalar_subquery()
    )
    taken = sa.update(automations).where(automations.c.id == first).values(next_at=now + rules.LEASE)
    with means.db.work() as tx:
        row = tx.execute(taken.returning(*COLUMNS)).first()
    return None if row is None else automation_of(row)


def _serve(means: Means, automation: Automation, *, now: datetime) -> None:
    who = Caller(automation.account_id, automation.mode)
    today = rules.day_of(now, means.zone)
    with means.db.work() as tx:
        room = automation.daily_limit - queries.mailed_since(
            tx, automation.id, rules.start_of(today, means.zone)
        )
        most = min(room, rules.AT_ONCE)
        waiting = queries.take_waiting(tx, automation, zone=means.zone, most=most) if room > 0 else []
        fresh = queries.not_yet_mailed(tx, automation.id, waiting)
        if room <= 0:
            tomorrow = rules.start_of(today + timedelta(days=1), means.zone)
            put_off(tx, automation, until=tomorrow, today=today, now=now)
            return
        if not fresh:
            queries.settle(tx, [one.due_id for one in waiting])
            _done(tx, automation, now=now)
            return
    call, faults = means.read(automation.send, now)
    call = replace(call, sub_account_id=automation.sub_account_id)
    with means.db.transaction(tenant(who)) as tx:
        resolved = resolve_send(
            tx,
            who,
            call,
            faults,
            mailing_list_id=automation.mailing_list_id,
            on=now.date(),
            measured=False,
        )
    people = [one.person for one in fresh]
    made = draft(means, who, resolved, faults, people, on_list=automation.mailing_list_id)
    files = order_service.keep_files(means.db, means.shelf, who, made, now=now)
    _place(means, who, automation, made, files, waiting, fresh, now=now)


def _place(
    means: Means,
    who: Caller,
    automation: Automation,
    made: Draft,
    files: Files,
    waiting: Sequence[Waiting],
    fresh: Sequence[Waiting],
    *,
    now: datetime,
) -> None:
    """The order, and that it was made. Whoever finds that another was faster, or that the owner has changed
    his mind meanwhile, leaves it: the files that were put away are swept up."""
    world = means.worlds[automation.mode]
    due_ids = [one.due_id for one in waiting]
    with means.db.work() as tx:
        found = queries.read_automation(tx, automation.id, locked=True)
        if found.plan != automation.plan or not queries.hold(tx, due_ids):
            return
        tx.execute(ACT_FOR, {"account": str(automation.account_id)})
        order, reached = order_service.place(
            tx,
            who,
            means.shelf,
            made,
            files,
            review=world.review,
            needs_credit=world.needs_credit,
            now=now,
        )
        rows = [(automation.id, one.key, one.year, one.recipient_id, order.id, now) for one in fresh]
        insert_rows(tx, automation_sent, SENT_COLUMNS, rows)
        queries.settle(tx, due_ids)
        _done(tx, automation, now=now, sent=reached.pieces, order_id=order.id)
    log.info("automations.sent", automation=automation.id, order=order.id, pieces=reached.pieces)


def _done(
    tx: Tx, automation: Automation, *, now: datetime, sent: int | None = None, order_id: int | None = None
) -> None:
    """It may go on at once; what troubled it is over where it has sent."""
    sends = {
        "sent_count": automations.c.sent_count + (sent or 0),
        "last_sent_at": now,
        "last_order_id": order_id,
        "tries": 0,
        "failing_since": None,
        "last_error": None,
        "last_error_at": None,
    }
    values = {"next_at": now, "held_until": None} | (sends if sent is not None else {})
    tx.execute(sa.update(automations).where(automations.c.id == automation.id).values(values))
