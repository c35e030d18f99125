"""Switching an automation on and off, and deleting it."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.v2.automation_body import ChangedAutomation
from quillpost.api.v2.automation_plans import changed_plan, zone_of
from quillpost.automations import service, store
from quillpost.automations.troubles import sentence
from quillpost.dashboard.automations.automation_form import in_form_terms
from quillpost.dashboard.automations.automation_pages import PAGE, path_of, read_own
from quillpost.dashboard.automations.one import shown
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, are_you_sure
from quillpost.kit.errors import Conflict, Invalid, Refused
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)


@router.get(f"{PAGE}/{{automation_id}}/on")
def on_page(request: Request, automation_id: str, who: Reader, parts: OurParts) -> Response:
    automation = read_own(automation_id, who, parts)
    cost = (
        "Nothing is mailed and nothing is paid for: it is in testing mode."
        if who.caller.is_testing
        else f"Real mail, paid for from your credit, goes to {automation.daily_limit:,} people a day at most."
    )
    return are_you_sure(
        request,
        who,
        title=f"Switch on “{automation.name}”?",
        means=[cost, "What happened before does not count: it begins with what comes from now on."],
        button="Switch it on",
        back=path_of(automation.id),
    )


@router.post(f"{PAGE}/{{automation_id}}/on")
def switch_on(
    request: Request, automation_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    """Its send is checked as it would be sent now; what is wrong is told on its page."""
    automation = read_own(automation_id, who, parts)
    try:
        _switch(automation, True, who, parts)
    except (Invalid, Refused, Conflict) as refused:
        told = sentence(refused) if isinstance(refused, Conflict) else in_form_terms(refused).message
        return shown(request, automation, who, parts, form=Filled({}, {"on": [told]}))
    return go(path_of(automation.id), said="automation_on")


@router.post(f"{PAGE}/{{automation_id}}/off")
def switch_off(
    request: Request, automation_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    automation = read_own(automation_id, who, parts)
    try:
        _switch(automation, False, who, parts)
    except Conflict as clash:
        return shown(request, automation, who, parts, form=Filled({}, {"on": [clash.message]}))
    return go(path_of(automation.id), said="automation_off")


@router.get(f"{PAGE}/{{automation_id}}/delete")
def delete_page(request: Request, automation_id: str, who: Reader, parts: OurParts) -> Response:
    automation = read_own(automation_id, who, parts)
    return are_you_sure(
        request,
        who,
        title=f"Delete “{automation.name}”?",
        means=[
            "Whoever is due gets nothing.",
            "Orders that it has made stay, and can be canceled by themselves.",
            "To stop for a while, switch it off instead.",
        ],
        button="Delete it",
        back=path_of(automation.id),
    )


@router.post(f"{PAGE}/{{automation_id}}/delete")
def delete(automation_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    automation = read_own(automation_id, who, parts)
    with parts.db.transaction(tenant(who.caller)) as tx:
        store.delete_automation(tx, automation.id)
    return go(PAGE, said="automation_deleted")


def _switch(automation: store.Automation, on: bool, who: SignedIn, parts: Parts) -> None:
    body = read_body(ChangedAutomation, {"enabled": on})
    checked = changed_plan(automation, body, who.caller, parts)
    with parts.db.transaction(tenant(who.caller)) as tx:
        service.change(tx, automation, checked.plan, zone=zone_of(parts), now=parts.clock())
