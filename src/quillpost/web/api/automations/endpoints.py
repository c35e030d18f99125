"""Automations: sends that start by themselves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import iso
from quillpost.core.errors import Invalid, NotFound
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import rules as automation_rules
from quillpost.orders.automations import service as automation_service
from quillpost.orders.automations.drafts import SAMPLE, resolve_send
from quillpost.orders.automations.queries import Automation
from quillpost.orders.automations.service import Plan
from quillpost.orders.drafts import Draft
from quillpost.orders.requests import Call, Faults
from quillpost.recipients.lists.queries import read_lists
from quillpost.recipients.queries import read_recipient
from quillpost.recipients.rules import Person, examine_one, written
from quillpost.web.api.automations import schemas as schemas
from quillpost.web.api.automations.schemas import (
    ChangedAutomation,
    NewAutomation,
    kept_text,
    read_send,
    reader,
    unused_in_send,
    within_send,
)
from quillpost.web.api.dependencies import (
    AskedId,
    AskedPage,
    InTx,
    OneUnit,
    Services,
    SubAccountFilter,
    id_in_path,
    may,
    number_in_query,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer, linked, name_ignored, verbatim, warning_header
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.send.service import draft_resolved, show

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
    if faults := automation_service.faults_of(plan):
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
    faults = automation_service.faults_of(plan)
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


def coming_days(automation: Automation, parts: ServiceParts) -> list[automation_queries.Coming]:
    if automation.trigger != "date":
        return []
    today = automation_rules.day_of(parts.clock(), zone_of(parts))
    days = [today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)]
    with parts.db.work() as tx:
        return automation_queries.coming(tx, automation, days)


def shown_person(
    automation: Automation, coming: list[automation_queries.Coming], who: Caller, parts: ServiceParts
) -> Person:
    """The service looks for those who wait, as only it knows them; the automation has been read as the
    caller."""
    with parts.db.work() as tx:
        waiting = automation_queries.take_waiting(tx, automation, zone=zone_of(parts), most=1)
        if fresh := automation_queries.not_yet_mailed(tx, automation.id, waiting):
            return fresh[0].person
    with parts.db.transaction(tenant(who)) as tx:
        try:
            if coming:
                return read_recipient(tx, coming[0].recipient_id).person
        except NotFound:
            pass  # gone since they were counted
        return automation_queries.someone(tx, automation) or examine_one(SAMPLE)


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Automations"])

MAY_READ = [Depends(may("send:read"))]
MAY_SEND = [Depends(may("send:write"))]
MaySend = Annotated[Caller, Depends(may("send:write"))]
AutomationId = Annotated[str, Path(description="The automation's id.", json_schema_extra={"type": "integer"})]
OfList = Annotated[AskedId, Query(description="Only those of this mailing list.")]


def shape(automation: Automation, waiting: Mapping[int, int]) -> dict[str, Any]:
    is_held = automation.held_until is not None and automation.id in waiting
    return {
        "id": automation.id,
        "user_id": automation.account_id,
        "sub_account_id": automation.sub_account_id,
        "mode": automation.mode,
        "name": automation.name,
        "trigger": automation.trigger,
        "mailing_list_id": automation.mailing_list_id,
        "date_field": automation.date_field,
        "days_offset": automation.days_offset,
        "send": verbatim(automation.send),
        "daily_limit": automation.daily_limit,
        "enabled": automation.enabled,
        "waiting": waiting.get(automation.id, 0),
        "held_by": "daily_limit" if is_held else None,
        "held_until": iso(automation.held_until) if is_held else None,
        "sent_count": automation.sent_count,
        "last_sent_at": iso(automation.last_sent_at),
        "last_order_id": automation.last_order_id,
        "last_error": automation.last_error,
        "last_error_at": iso(automation.last_error_at),
        "created_at": iso(automation.created_at),
        "updated_at": iso(automation.updated_at),
    }


@router.get(
    "/automations",
    response_model=schemas.AutomationPage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List automations, newest first",
)
def list_automations(
    request: Request,
    tx: InTx,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    mailing_list_id: OfList = None,
) -> Response:
    """Those of the token's mode."""
    of_list = number_in_query("mailing_list_id", mailing_list_id)
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if of_list is not None:
        read_lists(tx, [of_list])
    page = automation_queries.list_automations(
        tx, asked, sub_account_id=sub_account_id, mailing_list_id=of_list
    )
    waiting = automation_queries.waiting(tx, [each.id for each in page.rows])
    return linked(request, page, lambda each: shape(each, waiting))


@router.post(
    "/automations",
    status_code=201,
    response_model=schemas.AutomationShape,
    responses=errors(*BODY_ERRORS),
    summary="Make an automation",
)
def create_automation(body: NewAutomation, who: MaySend, parts: Services, unit: OneUnit) -> Response:
    """It sends by itself to whoever comes onto its list, scans a QR code or has a birthday or the like: to
    each once a year. Its send is checked as a call to the list would be, now and whenever it sends. What
    happened before it is switched on does not count."""
    checked = new_plan(body, who, parts)
    made = automation_service.create(unit.tx, who, checked.plan, zone=zone_of(parts), now=parts.clock())
    made_answer = answer(shape(made, {}), status=201, headers=warning_header(checked.warnings))
    return name_ignored(made_answer, checked.ignored)


@router.get(
    "/automations/{automation_id}",
    response_model=schemas.AutomationShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read an automation",
)
def read_automation(automation_id: AutomationId, tx: InTx) -> Response:
    """With how many it has mailed to, how many wait, and why it cannot send, if so."""
    found = automation_queries.read_automation(tx, id_in_path(automation_id))
    return answer(shape(found, automation_queries.waiting(tx, [found.id])))


@router.put(
    "/automations/{automation_id}",
    response_model=schemas.AutomationShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change an automation, or switch it on or off",
)
def change_automation(
    automation_id: AutomationId, body: ChangedAutomation, who: MaySend, parts: Services, unit: OneUnit
) -> Response:
    """What is not named stays. Switched off, or given another trigger, list or date, it forgets who is due;
    what it could not send before is tried at once."""
    with parts.db.transaction(tenant(who)) as tx:
        before = automation_queries.read_automation(tx, id_in_path(automation_id))
    checked = changed_plan(before, body, who, parts)
    changed = automation_service.change(unit.tx, before, checked.plan, zone=zone_of(parts), now=parts.clock())
    shown = shape(changed, automation_queries.waiting(unit.tx, [changed.id]))
    return name_ignored(answer(shown, headers=warning_header(checked.warnings)), checked.ignored)


@router.delete(
    "/automations/{automation_id}",
    response_model=Message,
    responses=errors(404),
    dependencies=MAY_SEND,
    summary="Delete an automation",
)
def delete_automation(automation_id: AutomationId, tx: InTx) -> Response:
    """Whoever is due gets nothing; orders that it has made stay, and can be cancelled by themselves."""
    automation_queries.delete_automation(tx, id_in_path(automation_id))
    return answer({"message": "success"})


@router.post(
    "/automations/{automation_id}/preview",
    response_model=schemas.AutomationPreview,
    responses=errors(400, 404, 409, 422),
    summary="See what an automation sends, and when",
)
def preview_automation(
    request: Request, automation_id: AutomationId, who: MaySend, parts: Services, unit: OneUnit
) -> Response:
    """Pictures of its piece for the next who gets one, or for someone on its list, or for a made-up person
    where nobody is there yet. No order is made."""
    with parts.db.transaction(tenant(who)) as tx:
        found = automation_queries.read_automation(tx, id_in_path(automation_id))
        waiting = automation_queries.waiting(tx, [found.id])
    coming = coming_days(found, parts)
    draft = draft_of(Plan.of(found), who, parts, person=shown_person(found, coming, who, parts))
    more = {
        "waiting": waiting.get(found.id, 0),
        "coming": [{"date": each.day.isoformat(), "recipients": each.people} for each in coming],
        "coming_total": sum(each.people for each in coming),
    }
    return show(request, draft, who, parts, unit, more=more)
