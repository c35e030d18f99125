"""An automation that cannot send: it waits and tries again, says why, and tells its owner once."""

from datetime import date, datetime

import sqlalchemy as sa
import structlog

from quillpost.automations import rules, store
from quillpost.automations.store import Automation
from quillpost.database import Database, Tx
from quillpost.database.event_tables import automation_due, automations
from quillpost.database.tables import accounts
from quillpost.kit.errors import Invalid, NotFound, QuillpostError
from quillpost.notices import outbox

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
            found = store.read_automation(tx, automation.id, locked=True)
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
        store.update_automation(tx, found.id, values)
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
    store.update_automation(tx, automation.id, values)
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
