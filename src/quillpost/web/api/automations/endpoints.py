"""Automations: sends that start by themselves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import automations as wire
from quillpost.client.types import MessageResponse
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.text import format_iso
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import rules as automation_rules
from quillpost.orders.automations import service as automation_service
from quillpost.orders.automations.queries import Automation
from quillpost.orders.automations.service import SAMPLE_RECIPIENT, AutomationPlan, resolve_send
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.service import draft_resolved_order
from quillpost.orders.models import FieldErrors, OrderRequest
from quillpost.recipients.lists.queries import read_lists
from quillpost.recipients.models import Person
from quillpost.recipients.queries import read_recipient
from quillpost.recipients.rules import person_to_fields, validate_recipient
from quillpost.web.api.automations.schemas import (
    ChangedAutomation,
    NewAutomation,
    create_send_reader,
    prefix_send_errors,
    read_send,
    to_stored_text,
    unused_in_send,
)
from quillpost.web.api.dependencies import (
    IdQuery,
    PageQuery,
    PathId,
    RequestTransaction,
    RequestUnitOfWork,
    SubAccountFilter,
    parse_query_id,
    require_scope,
)
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.responses import add_ignored_header, json_response, page_of, page_response, raw_json
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.send.endpoints import preview_response
from quillpost.web.dependencies import Services

PREVIEW_DAYS = 30
CHECKED_FIELDS = ("send", "trigger", "mailing_list_id")
"""Where one of these changes, the whole send is looked at again."""


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan that would go through now: what its send warns of, and what of that changes nothing."""

    plan: AutomationPlan
    warnings: Sequence[str]
    ignored: set[str]


def check_new_plan(body: NewAutomation, caller: Caller, container: Container) -> CheckedPlan:
    plan = AutomationPlan(
        name=body.name,
        trigger=body.trigger,
        mailing_list_id=body.mailing_list_id,
        date_field=body.date_field,
        days_offset=body.days_offset,
        daily_limit=body.daily_limit,
        enabled=body.enabled,
        **_send_columns(body.send, caller, container),
    )
    return _check_plan(plan, caller, container)


def check_changed_plan(
    before: Automation, body: ChangedAutomation, caller: Caller, container: Container
) -> CheckedPlan:
    """What is not named stays. Unless that concerns the send, it is not checked again."""
    changes = body.provided_fields()
    plan = _apply_changes(before, changes, caller, container)
    if changes.keys() & set(CHECKED_FIELDS) or (plan.enabled and not before.enabled):
        return _check_plan(plan, caller, container)
    if errors := automation_service.check_plan(plan):
        raise Invalid(errors)
    return CheckedPlan(plan, [], set())


def service_zone(container: Container) -> tzinfo:
    """Where the service is: its days begin there, in testing too."""
    return container.environments["live"].zone


def _send_columns(send: Mapping[str, Any], caller: Caller, container: Container) -> dict[str, Any]:
    with _errors_within_send():
        product, body = read_send(send)
    return {
        "piece": product.product.paths[0],
        "send": to_stored_text(send, container.limits),
        "sub_account_id": body.sub_account_id if body.sub_account_id is not None else caller.sub_account_id,
        "message_template_id": body.message_template,
        "image_template_id": body.image_template,
    }


def _apply_changes(
    before: Automation, changes: Mapping[str, Any], caller: Caller, container: Container
) -> AutomationPlan:
    """The plan with what was named. What only a date has goes with the trigger, unless it was named too."""
    columns = {name: value for name, value in changes.items() if name != "send"}
    if "send" in changes:
        columns |= _send_columns(changes["send"], caller, container)
    if changes.get("trigger", before.trigger) != "date" and before.trigger == "date":
        columns = {"date_field": None, "days_offset": 0, **columns}
    return replace(AutomationPlan.of(before), **columns)


def _check_plan(plan: AutomationPlan, caller: Caller, container: Container) -> CheckedPlan:
    """Everything that can be wrong with it, as if it were sent now."""
    errors = automation_service.check_plan(plan)
    try:
        draft = draft_automation_order(plan, caller, container)
    except Invalid as error:
        raise Invalid(errors | dict(error.fields)) from None
    if errors:
        raise Invalid(errors)
    return CheckedPlan(plan, draft.warnings, unused_in_send(plan.send, draft.request.unused_fields))


def draft_automation_order(
    plan: AutomationPlan, caller: Caller, container: Container, *, person: Person | None = None
) -> OrderDraft:
    """The send to its list or, `person`, to this one alone."""
    now = container.clock()
    with _errors_within_send():
        send_request, errors = _read_send_request(plan, container)
        with container.db.transaction(build_tenant(caller)) as tx:
            resolved = resolve_send(
                tx,
                caller,
                send_request,
                errors,
                mailing_list_id=plan.mailing_list_id,
                price_date=now.date(),
                measures_longest=person is None,
            )
        if person is not None:
            order_request = replace(resolved.request, recipients=(person_to_fields(person),), mailing_list_ids=())
            resolved = replace(resolved, request=order_request)
        return draft_resolved_order(container.orders, caller, resolved, errors)


def _read_send_request(plan: AutomationPlan, container: Container) -> tuple[OrderRequest, FieldErrors]:
    send_request, errors = create_send_reader(container.limits)(plan.send, container.clock())
    return replace(send_request, sub_account_id=plan.sub_account_id), errors


@contextmanager
def _errors_within_send() -> Iterator[None]:
    try:
        yield
    except Invalid as error:
        raise prefix_send_errors(error) from None


def list_coming_days(automation: Automation, container: Container) -> list[automation_queries.UpcomingMailing]:
    if automation.trigger != "date":
        return []
    today = automation_rules.local_date(container.clock(), service_zone(container))
    days = [today + timedelta(days=offset) for offset in range(PREVIEW_DAYS + 1)]
    with container.db.system_transaction() as tx:
        return automation_queries.list_upcoming(tx, automation, days)


def find_preview_person(
    automation: Automation, coming: list[automation_queries.UpcomingMailing], caller: Caller, container: Container
) -> Person:
    """Only the service can read who is due; the automation was read as the caller."""
    with container.db.system_transaction() as tx:
        waiting = automation_queries.read_longest_due(tx, automation, zone=service_zone(container), limit=1)
        if unmailed := automation_queries.filter_not_yet_mailed(tx, automation.id, waiting):
            return unmailed[0].person
    with container.db.transaction(build_tenant(caller)) as tx:
        try:
            if coming:
                return read_recipient(tx, coming[0].recipient_id).person
        except NotFound:
            pass  # gone since they were counted
        return automation_queries.find_sample_person(tx, automation) or validate_recipient(SAMPLE_RECIPIENT)


router = ApiRouter("Automations")

CanSend = Annotated[Caller, Depends(require_scope("send:write"))]
AutomationId = Annotated[PathId, Path(description="The automation's id.")]
MailingListFilter = Annotated[IdQuery, Query(description="Only those of this mailing list.")]


def serialize_automation(automation: Automation, waiting: Mapping[int, int]) -> wire.Automation:
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
        "send": raw_json(automation.send),
        "daily_limit": automation.daily_limit,
        "enabled": automation.enabled,
        "waiting": waiting.get(automation.id, 0),
        "held_by": "daily_limit" if is_held else None,
        "held_until": format_iso(automation.held_until) if is_held else None,
        "sent_count": automation.sent_count,
        "last_sent_at": format_iso(automation.last_sent_at),
        "last_order_id": automation.last_order_id,
        "last_error": automation.last_error,
        "last_error_at": format_iso(automation.last_error_at),
        "created_at": format_iso(automation.created_at),
        "updated_at": format_iso(automation.updated_at),
    }


@router.get(
    "/automations",
    page_of(wire.Automation),
    errors=[400, 422],
    scope="send:read",
    summary="List automations, newest first",
)
def list_automations(
    request: Request,
    tx: RequestTransaction,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    mailing_list_id: MailingListFilter = None,
) -> Response:
    """Those of the token's mode."""
    list_id = parse_query_id("mailing_list_id", mailing_list_id)
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if list_id is not None:
        read_lists(tx, [list_id])
    page = automation_queries.list_automations(tx, page_request, sub_account_id=sub_account_id, mailing_list_id=list_id)
    waiting = automation_queries.count_due(tx, [automation.id for automation in page.rows])
    return page_response(request, page, lambda automation: serialize_automation(automation, waiting))


@router.post("/automations", wire.Automation, status_code=201, errors=[*BODY_ERRORS], summary="Make an automation")
def create_automation(
    body: NewAutomation, caller: CanSend, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """It sends by itself to whoever comes onto its list, scans a QR code or has a birthday or the like: to
    each once a year. Its send is checked as a call to the list would be, now and whenever it sends. What
    happened before it is switched on does not count."""
    checked = check_new_plan(body, caller, container)
    automation = automation_service.create_automation(
        unit_of_work.tx, caller, checked.plan, zone=service_zone(container), now=container.clock()
    )
    response = json_response(serialize_automation(automation, {}), status=201, warnings=checked.warnings)
    return add_ignored_header(response, checked.ignored)


@router.get(
    "/automations/{automation_id}", wire.Automation, errors=[404], scope="send:read", summary="Read an automation"
)
def read_automation(automation_id: AutomationId, tx: RequestTransaction) -> Response:
    """With how many it has mailed to, how many wait, and why it cannot send, if so."""
    automation = automation_queries.read_automation(tx, automation_id)
    return json_response(serialize_automation(automation, automation_queries.count_due(tx, [automation.id])))


@router.put(
    "/automations/{automation_id}",
    wire.Automation,
    errors=[404, *BODY_ERRORS],
    summary="Change an automation, or switch it on or off",
)
def change_automation(
    automation_id: AutomationId,
    body: ChangedAutomation,
    caller: CanSend,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """What is not named stays. Switched off, or given another trigger, list or date, it forgets who is due;
    what it could not send before is tried at once."""
    with container.db.transaction(build_tenant(caller)) as tx:
        before = automation_queries.read_automation(tx, automation_id)
    checked = check_changed_plan(before, body, caller, container)
    changed = automation_service.change_automation(
        unit_of_work.tx, before, checked.plan, zone=service_zone(container), now=container.clock()
    )
    content = serialize_automation(changed, automation_queries.count_due(unit_of_work.tx, [changed.id]))
    return add_ignored_header(json_response(content, warnings=checked.warnings), checked.ignored)


@router.delete(
    "/automations/{automation_id}", MessageResponse, errors=[404], scope="send:write", summary="Delete an automation"
)
def delete_automation(automation_id: AutomationId, tx: RequestTransaction) -> Response:
    """Whoever is due gets nothing; orders that it has made stay, and can be canceled by themselves."""
    automation_queries.delete_automation(tx, automation_id)
    return json_response({"message": "success"})


@router.post(
    "/automations/{automation_id}/preview",
    wire.AutomationPreview,
    errors=[400, 404, 409, 422],
    summary="See what an automation sends, and when",
)
def preview_automation(
    request: Request, automation_id: AutomationId, caller: CanSend, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """Pictures of its piece for the next who gets one, or for someone on its list, or for a made-up person
    where nobody is there yet. No order is made."""
    with container.db.transaction(build_tenant(caller)) as tx:
        automation = automation_queries.read_automation(tx, automation_id)
        waiting = automation_queries.count_due(tx, [automation.id])
    coming = list_coming_days(automation, container)
    draft = draft_automation_order(
        AutomationPlan.of(automation),
        caller,
        container,
        person=find_preview_person(automation, coming, caller, container),
    )
    extra_data = {
        "waiting": waiting.get(automation.id, 0),
        "coming": [{"date": day.day.isoformat(), "recipients": day.people} for day in coming],
        "coming_total": sum(day.people for day in coming),
    }
    return preview_response(request, draft, caller, container, unit_of_work, extra_data=extra_data)
