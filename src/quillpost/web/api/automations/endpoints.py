"""Automations: sends that start by themselves."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Path, Query, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.client import automations as wire
from quillpost.client.types import MessageResponse
from quillpost.core.text import format_iso
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import service as automation_service
from quillpost.orders.automations.queries import Automation, AutomationPlan
from quillpost.recipients.lists.queries import read_lists
from quillpost.web.api.automations.schemas import ChangedAutomation, NewAutomation, automation_context, unused_in_send
from quillpost.web.api.dependencies import (
    ApiCaller,
    IdQuery,
    PageQuery,
    PathId,
    RequestTransaction,
    RequestUnitOfWork,
    SubAccountFilter,
    parse_query_id,
)
from quillpost.web.api.responses import add_ignored_header, json_response, page_of, page_response, raw_json, to_wire
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.send.endpoints import preview_response
from quillpost.web.dependencies import Services

router = ApiRouter("Automations", resource="send")

AutomationId = Annotated[PathId, Path(description="The automation's id.")]
MailingListFilter = Annotated[IdQuery, Query(description="Only those of this mailing list.")]


def serialize_automation(automation: Automation, waiting: Mapping[int, int]) -> wire.Automation:
    is_held = automation.held_until is not None and automation.id in waiting
    return to_wire(
        wire.Automation,
        automation,
        user_id=automation.account_id,
        send=raw_json(automation.send),
        waiting=waiting.get(automation.id, 0),
        held_by="daily_limit" if is_held else None,
        held_until=format_iso(automation.held_until) if is_held else None,
    )


@router.get("/automations", page_of(wire.Automation), summary="List automations, newest first")
def list_automations(
    request: Request,
    tx: RequestTransaction,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    mailing_list_id: MailingListFilter = None,
) -> Response:
    """Those of the token's mode."""
    list_id = parse_query_id("mailing_list_id", mailing_list_id)
    require_sub_account(tx, sub_account_id)
    if list_id is not None:
        read_lists(tx, [list_id])
    page = automation_queries.list_automations(tx, page_request, sub_account_id=sub_account_id, mailing_list_id=list_id)
    waiting = automation_queries.count_due(tx, [automation.id for automation in page.rows])
    return page_response(request, page, lambda automation: serialize_automation(automation, waiting))


@router.post("/automations", wire.Automation, status_code=201, summary="Make an automation")
def create_automation(
    body: NewAutomation, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """It sends by itself to whoever comes onto its list, scans a QR code or has a birthday or the like: to
    each once a year. Its send is checked as a call to the list would be, now and whenever it sends. What
    happened before it is switched on does not count."""
    context, plan = automation_context(container), body.to_plan(caller, container.limits)
    draft = automation_service.check_automation(context, caller, plan)
    automation = automation_service.create_automation(
        unit_of_work.tx, caller, plan, zone=context.zone, now=container.clock()
    )
    response = json_response(serialize_automation(automation, {}), status=201, warnings=draft.warnings)
    return add_ignored_header(response, unused_in_send(plan.send, draft.request.unused_fields))


@router.get("/automations/{automation_id}", wire.Automation, summary="Read an automation")
def read_automation(automation_id: AutomationId, tx: RequestTransaction) -> Response:
    """With how many it has mailed to, how many wait, and why it cannot send, if so."""
    automation = automation_queries.read_automation(tx, automation_id)
    return json_response(serialize_automation(automation, automation_queries.count_due(tx, [automation.id])))


@router.put("/automations/{automation_id}", wire.Automation, summary="Change an automation, or switch it on or off")
def change_automation(
    automation_id: AutomationId,
    body: ChangedAutomation,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """What is not named stays. Switched off, or given another trigger, list or date, it forgets who is due;
    what it could not send before is tried at once."""
    with container.db.transaction(build_tenant(caller)) as tx:
        before = automation_queries.read_automation(tx, automation_id)
    context, plan = automation_context(container), body.to_plan(before, caller, container.limits)
    draft = automation_service.check_changes(context, caller, before, plan, body.provided_fields().keys())
    changed = automation_service.change_automation(
        unit_of_work.tx, before, plan, zone=context.zone, now=container.clock()
    )
    content = serialize_automation(changed, automation_queries.count_due(unit_of_work.tx, [changed.id]))
    if draft is None:
        return json_response(content)
    response = json_response(content, warnings=draft.warnings)
    return add_ignored_header(response, unused_in_send(plan.send, draft.request.unused_fields))


@router.delete("/automations/{automation_id}", MessageResponse, summary="Delete an automation")
def delete_automation(automation_id: AutomationId, tx: RequestTransaction) -> Response:
    """Whoever is due gets nothing; orders that it has made stay, and can be canceled by themselves."""
    automation_queries.delete_automation(tx, automation_id)
    return json_response({"message": "success"})


@router.post(
    "/automations/{automation_id}/preview",
    wire.AutomationPreview,
    errors=[400, 409, 422],
    summary="See what an automation sends, and when",
)
def preview_automation(
    request: Request,
    automation_id: AutomationId,
    caller: ApiCaller,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """Pictures of its piece for the next who gets one, or for someone on its list, or for a made-up person
    where nobody is there yet. No order is made."""
    with container.db.transaction(build_tenant(caller)) as tx:
        automation = automation_queries.read_automation(tx, automation_id)
        waiting = automation_queries.count_due(tx, [automation.id])
    context = automation_context(container)
    coming = automation_service.list_coming_days(context, automation)
    person = automation_service.find_preview_person(context, caller, automation, coming)
    draft = automation_service.draft_automation_order(context, caller, AutomationPlan.of(automation), person=person)
    extra_data = {
        "waiting": waiting.get(automation.id, 0),
        "coming": [{"date": day.day.isoformat(), "recipients": day.people} for day in coming],
        "coming_total": sum(day.people for day in coming),
    }
    return preview_response(request, draft, caller, container, unit_of_work, extra_data=extra_data)
