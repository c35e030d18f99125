"""Automations send: whoever is due gets a piece, in one order, by the very path of a call.

Everything slow happens before the transaction that makes the order. In that one the people who were due are
noted as mailed and wait no longer: a worker that dies before it has lost nothing, one that dies after it has
mailed nobody twice.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.automations import due, rules, store, troubles
from quillpost.automations.drafting import Means, draft, resolve_send
from quillpost.automations.due import Waiting
from quillpost.automations.store import COLUMNS, Automation, automation_of
from quillpost.database import Tx
from quillpost.database.bulk import insert_rows
from quillpost.database.event_tables import automation_due, automation_sent, automations
from quillpost.kit.errors import QuillpostError, Unavailable
from quillpost.orders import sending
from quillpost.orders.materialising import ACT_FOR
from quillpost.orders.preparing import Draft
from quillpost.orders.sending import Files

log = structlog.get_logger(__name__)

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
            troubles.note(means.db, automation, troubles.sentence(refused), now=now)
        except Exception as fault:  # one account's automation must not stop all the others
            log.exception("automations.failed", automation=automation.id, error=type(fault).__name__)
            troubles.note(means.db, automation, troubles.OUR_FAULT, now=now)


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
        room = automation.daily_limit - due.mailed_since(tx, automation.id, rules.start_of(today, means.zone))
        most = min(room, rules.AT_ONCE)
        waiting = due.take_waiting(tx, automation, zone=means.zone, most=most) if room > 0 else []
        fresh = due.not_yet_mailed(tx, automation.id, waiting)
        if room <= 0:
            tomorrow = rules.start_of(today + timedelta(days=1), means.zone)
            troubles.put_off(tx, automation, until=tomorrow, today=today, now=now)
            return
        if not fresh:
            due.settle(tx, [one.due_id for one in waiting])
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
    files = sending.keep_files(means.db, means.shelf, who, made, now=now)
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
        found = store.read_automation(tx, automation.id, locked=True)
        if found.plan != automation.plan or not due.hold(tx, due_ids):
            return
        tx.execute(ACT_FOR, {"account": str(automation.account_id)})
        order, reached = sending.place(
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
        due.settle(tx, due_ids)
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
