"""From a body to an automation's plan, checked as it will be sent: what the API and our pages share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from typing import Any

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.api.v2.automation_body import (
    ChangedAutomation,
    NewAutomation,
    kept_text,
    read_send,
    reader,
    unused_in_send,
    within_send,
)
from quillpost.api.v2.sending import draft_resolved
from quillpost.audience.recipients import read_recipient
from quillpost.audience.rules import Person, examine_one, written
from quillpost.automations import due, rules, service
from quillpost.automations.drafting import SAMPLE, resolve_send
from quillpost.automations.service import Plan
from quillpost.automations.store import Automation
from quillpost.kit.errors import Invalid, NotFound
from quillpost.orders.calls import Call, Faults
from quillpost.orders.preparing import Draft
from quillpost.parts import Parts as ServiceParts

DAYS_AHEAD = 30
NEEDS_CHECK = ("send", "trigger", "mailing_list_id")
"""Where one of these changes, the whole send is looked at again."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan that would go through now: what its send warns of, and what of that changes nothing."""

    plan: Plan
    warnings: list[str]
    ignored: set[str]


def new_plan(body: NewAutomation, who: Caller, parts: ServiceParts) -> Checked:
    plan = Plan(
        name=body.name,
        trigger=body.trigger,
        mailing_list_id=body.mailing_list_id,
        date_field=body.date_field,
        days_offset=body.days_offset,
        daily_limit=body.daily_limit,
        enabled=body.enabled,
        **_send_columns(body.send, who, parts),
    )
    return _checked(plan, who, parts)


def changed_plan(before: Automation, body: ChangedAutomation, who: Caller, parts: ServiceParts) -> Checked:
    """What is not named stays; where that says all about the send, it is not looked at again."""
    given = body.given()
    plan = _changed(before, given, who, parts)
    if given.keys() & set(NEEDS_CHECK) or (plan.enabled and not before.enabled):
        return _checked(plan, who, parts)
    if faults := service.faults_of(plan):
        raise Invalid(faults)
    return Checked(plan, [], set())


def zone_of(parts: ServiceParts) -> tzinfo:
    """Where the service is: its days begin there, in testing too."""
    return parts.worlds["live"].zone


def _send_columns(send: Mapping[str, Any], who: Caller, parts: ServiceParts) -> dict[str, Any]:
    """What of a plan is in its send."""
    with _of_its_send():
        offer, sent = read_send(send)
    return {
        "piece": offer.piece.paths[0],
        "send": kept_text(send, parts.limits),
        "sub_account_id": sent.sub_account_id if sent.sub_account_id is not None else who.sub_account_id,
        "message_template_id": sent.message_template,
        "image_template_id": sent.image_template,
    }


def _changed(before: Automation, given: Mapping[str, Any], who: Caller, parts: ServiceParts) -> Plan:
    """The plan with what was named. What only a date has goes with the trigger, unless it was named too."""
    named = {name: value for name, value in given.items() if name != "send"}
    if "send" in given:
        named |= _send_columns(given["send"], who, parts)
    if given.get("trigger", before.trigger) != "date" and before.trigger == "date":
        named = {"date_field": None, "days_offset": 0, **named}
    return replace(Plan.of(before), **named)


def _checked(plan: Plan, who: Caller, parts: ServiceParts) -> Checked:
    """All that can be wrong with it, as if it were sent now."""
    faults = service.faults_of(plan)
    try:
        draft = draft_of(plan, who, parts)
    except Invalid as wrong:
        raise Invalid(faults | dict(wrong.fields)) from None
    if faults:
        raise Invalid(faults)
    return Checked(plan, draft.warnings, unused_in_send(plan.send, draft.wish.unused))


def draft_of(plan: Plan, who: Caller, parts: ServiceParts, *, person: Person | None = None) -> Draft:
    """The send to its list or, `person`, to this one alone."""
    now = parts.clock()
    with _of_its_send():
        call, faults = _call(plan, parts)
        with parts.db.transaction(tenant(who)) as tx:
            resolved = resolve_send(
                tx,
                who,
                call,
                faults,
                mailing_list_id=plan.mailing_list_id,
                on=now.date(),
                measured=person is None,
            )
        if person is not None:
            wish = replace(resolved.wish, recipients=(written(person),), mailing_list_ids=())
            resolved = replace(resolved, wish=wish)
        return draft_resolved(resolved, faults, who, parts)


def _call(plan: Plan, parts: ServiceParts) -> tuple[Call, Faults]:
    call, faults = reader(parts.limits)(plan.send, parts.clock())
    return replace(call, sub_account_id=plan.sub_account_id), faults


@contextmanager
def _of_its_send() -> Iterator[None]:
    """What is wrong within is wrong with the automation's send."""
    try:
        yield
    except Invalid as wrong:
        raise within_send(wrong) from None


def coming_days(automation: Automation, parts: ServiceParts) -> list[due.Coming]:
    if automation.trigger != "date":
        return []
    today = rules.day_of(parts.clock(), zone_of(parts))
    days = [today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)]
    with parts.db.work() as tx:
        return due.coming(tx, automation, days)


def shown_person(
    automation: Automation, coming: list[due.Coming], who: Caller, parts: ServiceParts
) -> Person:
    """The service looks for those who wait, as only it knows them; the automation has been read as the
    caller."""
    with parts.db.work() as tx:
        waiting = due.take_waiting(tx, automation, zone=zone_of(parts), most=1)
        if fresh := due.not_yet_mailed(tx, automation.id, waiting):
            return fresh[0].person
    with parts.db.transaction(tenant(who)) as tx:
        try:
            if coming:
                return read_recipient(tx, coming[0].recipient_id).person
        except NotFound:
            pass  # gone since they were counted
        return due.someone(tx, automation) or examine_one(SAMPLE)
