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
from quillpost.orders.models import FieldErrors
from quillpost.orders.resolution import read_usable_lists
from quillpost.orders.templates.service import find_image_template, find_message_template

LIST_REQUIRED = "Give the list whose people are mailed: only an automation on scans may go without."
DATE_FIELD_REQUIRED = "Choose dob or anniversary: it is the date that is mailed for."
ONLY_FOR_DATE_TRIGGER = "Only an automation on a date has this: leave it out."

WRONG_MODE_LIST = "The service keeps this list of those who scanned {0} mail: use a {0} token."

DUE_FIELDS = ("sub_account_id", "trigger", "mailing_list_id", "date_field", "days_offset")
"""What decides who is due. Where it changes, those who were due are not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationPlan:
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
    def of(cls, automation: Automation) -> "AutomationPlan":
        return cls(**{field.name: getattr(automation, field.name) for field in fields(cls)})

    def column_values(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def check_plan(plan: AutomationPlan) -> FieldErrors:
    """What is wrong with a plan by itself, its send aside."""
    errors: FieldErrors = {}
    if plan.mailing_list_id is None and plan.trigger != "scan":
        errors["mailing_list_id"] = [LIST_REQUIRED]
    if plan.trigger == "date":
        if plan.date_field is None:
            errors["date_field"] = [DATE_FIELD_REQUIRED]
    else:
        errors |= {"date_field": [ONLY_FOR_DATE_TRIGGER]} if plan.date_field is not None else {}
        errors |= {"days_offset": [ONLY_FOR_DATE_TRIGGER]} if plan.days_offset else {}
    return errors


def create_automation(tx: Tx, caller: Caller, plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> Automation:
    if queries.count_automations(tx, caller.mode) >= rules.MAX_AUTOMATIONS:
        raise Refused(f"An account has at most {rules.MAX_AUTOMATIONS:,} automations: delete one first.")
    _lock_references(tx, plan, caller.mode)
    values = {
        **plan.column_values(),
        **_start_values(plan, zone=zone, now=now),
        "account_id": caller.account_id,
        "mode": caller.mode,
        "created_at": now,
        "updated_at": now,
    }
    automation = queries.insert_automation(tx, values)
    _enqueue(tx, automation, now=now)
    return automation


def change_automation(tx: Tx, previous: Automation, plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> Automation:
    """The automation by another plan, which was made for what it was `previous`.

    Whoever is due stays so where the plan still says so: what changes is what they get. Switched off, it
    forgets them; switched on again, it begins anew.
    """
    if plan.enabled:
        _lock_references(tx, plan, previous.mode)
    # After the lists, as whoever merges lists does.
    current = queries.read_automation(tx, previous.id, locked=True)
    if current.plan != previous.plan:
        raise Conflict("Another call changed this automation at this moment. Try again.", retry_after=1)
    restarts = any(getattr(plan, name) != getattr(current, name) for name in DUE_FIELDS)
    values = {**plan.column_values(), "updated_at": now}
    if restarts or not plan.enabled:
        queries.delete_due(tx, current.id)
    if restarts or plan.enabled != current.enabled:
        values |= _start_values(plan, zone=zone, now=now)
    if plan.enabled:
        # Whatever was wrong may be mended: it is tried at once.
        values |= {"next_at": now, "held_until": None, "tries": 0, "failing_since": None}
        values |= {"last_error": None, "last_error_at": None}
    updated = queries.update_automation(tx, current.id, values)
    _enqueue(tx, updated, now=now)
    return updated


def _start_values(plan: AutomationPlan, *, zone: tzinfo, now: datetime) -> dict[str, object]:
    """From when on what happens counts."""
    return {
        "enabled_at": now if plan.enabled else None,
        "enabled_on": rules.local_date(now, zone) if plan.enabled else None,
        "next_at": now,
        "held_until": None,
    }


def _enqueue(tx: Tx, automation: Automation, *, now: datetime) -> None:
    if automation.enabled:
        jobs.enqueue_unique(tx, queries.FIND_DATES_TASK if automation.trigger == "date" else queries.SEND_TASK, at=now)


def _lock_references(tx: Tx, plan: AutomationPlan, mode: str) -> None:
    """What the plan names may have gone meanwhile; from here on it stays, or whoever would take it away finds
    the automation that uses it."""
    if plan.sub_account_id is not None:
        require_sub_account(tx, plan.sub_account_id)
    if plan.message_template_id is not None:
        find_message_template(tx, plan.message_template_id, share_locked=True)
    if plan.image_template_id is not None:
        find_image_template(tx, plan.image_template_id, share_locked=True)
    errors: FieldErrors = {}
    if plan.mailing_list_id is not None:
        sub_account_id = plan.sub_account_id
        [mailing_list] = read_usable_lists(tx, [plan.mailing_list_id], sub_account_id, errors, locked=True)
        if mailing_list.kept_for not in (None, mode):
            errors["mailing_list_id"] = [WRONG_MODE_LIST.format(mailing_list.kept_for)]
    if errors:
        raise Invalid({"mailing_list_id": next(iter(errors.values()))})
