"""Making, changing and switching automations."""

from dataclasses import dataclass, fields
from datetime import datetime, tzinfo

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.orders.automations import queries, rules
from quillpost.orders.automations.queries import Automation
from quillpost.orders.request import lists_at_hand
from quillpost.orders.requests import Faults
from quillpost.orders.templates.service import find_image_template, find_message_template

NEEDS_LIST = "Give the list whose people are mailed: only an automation on scans may go without."
NEEDS_FIELD = "Choose dob or anniversary: it is the date that is mailed for."
ONLY_DATES = "Only an automation on a date has this: leave it out."

OTHER_MODE = "The service keeps this list of those who scanned {0} mail: use a {0} token."

STARTS_WITH = ("sub_account_id", "trigger", "mailing_list_id", "date_field", "days_offset")
"""What decides who is due. Where it changes, those who were due are not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an owner decides. `send` is the body as it was given, the templates are those that it names."""

    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    daily_limit: int
    enabled: bool
    sub_account_id: int | None
    piece: str
    send: str
    message_template_id: int | None
    image_template_id: int | None

    @classmethod
    def of(cls, automation: Automation) -> "Plan":
        return cls(**{field.name: getattr(automation, field.name) for field in fields(cls)})

    def columns(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def faults_of(plan: Plan) -> Faults:
    """What is wrong with a plan by itself, its send aside."""
    faults: Faults = {}
    if plan.mailing_list_id is None and plan.trigger != "scan":
        faults["mailing_list_id"] = [NEEDS_LIST]
    if plan.trigger == "date":
        if plan.date_field is None:
            faults["date_field"] = [NEEDS_FIELD]
    else:
        faults |= {"date_field": [ONLY_DATES]} if plan.date_field is not None else {}
        faults |= {"days_offset": [ONLY_DATES]} if plan.days_offset else {}
    return faults


def create(tx: Tx, who: Caller, plan: Plan, *, zone: tzinfo, now: datetime) -> Automation:
    if queries.count_automations(tx, who.mode) >= rules.MOST:
        raise Refused(f"An account has at most {rules.MOST:,} automations: delete one first.")
    _hold(tx, plan, who.mode)
    values = {
        **plan.columns(),
        **_started(plan, zone=zone, now=now),
        "account_id": who.account_id,
        "mode": who.mode,
        "created_at": now,
        "updated_at": now,
    }
    made = queries.insert_automation(tx, values)
    _wake(tx, made, now=now)
    return made


def change(tx: Tx, before: Automation, plan: Plan, *, zone: tzinfo, now: datetime) -> Automation:
    """The automation by another plan, which was made for what it was `before`.

    Whoever is due stays so where the plan still says so: what changes is what they get. Switched off, it
    forgets them; switched on again, it begins anew.
    """
    if plan.enabled:
        _hold(tx, plan, before.mode)
    # After the lists, as whoever merges lists does.
    found = queries.read_automation(tx, before.id, locked=True)
    if found.plan != before.plan:
        raise Conflict("Another call changed this automation at this moment. Try again.", retry_after=1)
    starts_anew = any(getattr(plan, name) != getattr(found, name) for name in STARTS_WITH)
    values = {**plan.columns(), "updated_at": now}
    if starts_anew or not plan.enabled:
        queries.forget_due(tx, found.id)
    if starts_anew or plan.enabled != found.enabled:
        values |= _started(plan, zone=zone, now=now)
    if plan.enabled:
        # Whatever was wrong may be mended: it is tried at once.
        values |= {"next_at": now, "held_until": None, "tries": 0, "failing_since": None}
        values |= {"last_error": None, "last_error_at": None}
    changed = queries.update_automation(tx, found.id, values)
    _wake(tx, changed, now=now)
    return changed


def _started(plan: Plan, *, zone: tzinfo, now: datetime) -> dict[str, object]:
    """From when on what happens counts."""
    return {
        "enabled_at": now if plan.enabled else None,
        "enabled_on": rules.day_of(now, zone) if plan.enabled else None,
        "next_at": now,
        "held_until": None,
    }


def _wake(tx: Tx, automation: Automation, *, now: datetime) -> None:
    if automation.enabled:
        jobs.wake(tx, queries.FIND_DATES if automation.trigger == "date" else queries.SEND, at=now)


def _hold(tx: Tx, plan: Plan, mode: str) -> None:
    """What the plan names may have gone meanwhile; from here on it stays, or whoever would take it away finds
    the automation that uses it."""
    if plan.sub_account_id is not None:
        require_sub_account(tx, plan.sub_account_id)
    if plan.message_template_id is not None:
        find_message_template(tx, plan.message_template_id, held=True)
    if plan.image_template_id is not None:
        find_image_template(tx, plan.image_template_id, held=True)
    faults: Faults = {}
    if plan.mailing_list_id is not None:
        home = plan.sub_account_id
        [found] = lists_at_hand(tx, [plan.mailing_list_id], home, faults, held=True)
        if found.kept_for not in (None, mode):
            faults["mailing_list_id"] = [OTHER_MODE.format(found.kept_for)]
    if faults:
        raise Invalid({"mailing_list_id": next(iter(faults.values()))})
