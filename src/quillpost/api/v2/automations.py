"""Automations: sends that start by themselves."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer, linked, name_ignored, verbatim
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.needs import (
    AskedId,
    AskedPage,
    InTx,
    OneUnit,
    Parts,
    SubAccountFilter,
    id_in_path,
    may,
    number_in_query,
)
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.automation_body import ChangedAutomation, NewAutomation
from quillpost.api.v2.automation_plans import (
    changed_plan,
    coming_days,
    draft_of,
    new_plan,
    shown_person,
    zone_of,
)
from quillpost.api.v2.schemas import automations as schemas
from quillpost.api.v2.schemas.common import Message
from quillpost.api.v2.sending import show
from quillpost.api.warning_header import warning_header
from quillpost.audience.lists import read_lists
from quillpost.automations import service, store
from quillpost.automations.service import Plan
from quillpost.automations.store import Automation
from quillpost.kit.times import iso

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
    page = store.list_automations(tx, asked, sub_account_id=sub_account_id, mailing_list_id=of_list)
    waiting = store.waiting(tx, [each.id for each in page.rows])
    return linked(request, page, lambda each: shape(each, waiting))


@router.post(
    "/automations",
    status_code=201,
    response_model=schemas.AutomationShape,
    responses=errors(*BODY_ERRORS),
    summary="Make an automation",
)
def create_automation(body: NewAutomation, who: MaySend, parts: Parts, unit: OneUnit) -> Response:
    """It sends by itself to whoever comes onto its list, scans a QR code or has a birthday or the like: to
    each once a year. Its send is checked as a call to the list would be, now and whenever it sends. What
    happened before it is switched on does not count."""
    checked = new_plan(body, who, parts)
    made = service.create(unit.tx, who, checked.plan, zone=zone_of(parts), now=parts.clock())
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
    found = store.read_automation(tx, id_in_path(automation_id))
    return answer(shape(found, store.waiting(tx, [found.id])))


@router.put(
    "/automations/{automation_id}",
    response_model=schemas.AutomationShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change an automation, or switch it on or off",
)
def change_automation(
    automation_id: AutomationId, body: ChangedAutomation, who: MaySend, parts: Parts, unit: OneUnit
) -> Response:
    """What is not named stays. Switched off, or given another trigger, list or date, it forgets who is due;
    what it could not send before is tried at once."""
    with parts.db.transaction(tenant(who)) as tx:
        before = store.read_automation(tx, id_in_path(automation_id))
    checked = changed_plan(before, body, who, parts)
    changed = service.change(unit.tx, before, checked.plan, zone=zone_of(parts), now=parts.clock())
    shown = shape(changed, store.waiting(unit.tx, [changed.id]))
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
    store.delete_automation(tx, id_in_path(automation_id))
    return answer({"message": "success"})


@router.post(
    "/automations/{automation_id}/preview",
    response_model=schemas.AutomationPreview,
    responses=errors(400, 404, 409, 422),
    summary="See what an automation sends, and when",
)
def preview_automation(
    request: Request, automation_id: AutomationId, who: MaySend, parts: Parts, unit: OneUnit
) -> Response:
    """Pictures of its piece for the next who gets one, or for someone on its list, or for a made-up person
    where nobody is there yet. No order is made."""
    with parts.db.transaction(tenant(who)) as tx:
        found = store.read_automation(tx, id_in_path(automation_id))
        waiting = store.waiting(tx, [found.id])
    coming = coming_days(found, parts)
    draft = draft_of(Plan.of(found), who, parts, person=shown_person(found, coming, who, parts))
    more = {
        "waiting": waiting.get(found.id, 0),
        "coming": [{"date": each.day.isoformat(), "recipients": each.people} for each in coming],
        "coming_total": sum(each.people for each in coming),
    }
    return show(request, draft, who, parts, unit, more=more)
