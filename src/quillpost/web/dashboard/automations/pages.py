"""Pages of automations."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, read_sub_account, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.orders import previews
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import service as automation_service
from quillpost.orders.automations.queries import Automation
from quillpost.orders.automations.rules import DAILY_LIMIT
from quillpost.orders.automations.service import Plan
from quillpost.orders.automations.tasks import sentence
from quillpost.orders.giftcards import brands as catalogue
from quillpost.orders.templates.service import list_image_templates, list_message_templates
from quillpost.recipients.lists.queries import MailingList, known_lists, list_page
from quillpost.web import csrf
from quillpost.web.api.automations.endpoints import (
    changed_plan,
    coming_days,
    draft_of,
    new_plan,
    shown_person,
    zone_of,
)
from quillpost.web.api.automations.schemas import ChangedAutomation, NewAutomation
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.automations.forms import (
    DATES,
    FORM,
    TRIGGERS,
    body_of,
    describe,
    in_form_terms,
    piece_words,
    typed_of,
)
from quillpost.web.dashboard.compose.forms import CHOICES, USUAL
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body, show_form
from quillpost.web.dashboard.labels import INKS, SIZES
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Reader, is_fragment

PAGE: Final = "/automations"


def automation_page(
    request: Request, template: str, who: SignedIn, parts: Parts, *, form: Filled = EMPTY, **values: Any
) -> Response:
    """The page; it may hold drawn pieces."""
    path = f"automations/{template}"
    return show_form(request, path, who, form, draws_inline=True, now=parts.clock(), **values)


def path_of(automation_id: int) -> str:
    return f"{PAGE}/{automation_id}"


def read_own(automation_id: str, who: SignedIn, parts: Parts) -> automation_queries.Automation:
    """The one in the path, if it is the reader's and of the mode that they look at."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return automation_queries.read_automation(tx, id_in_path(automation_id))


router = APIRouter(include_in_schema=False)


@router.get(PAGE)
def automations_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = automation_queries.list_automations(
            tx, asked_page(page), sub_account_id=None, mailing_list_id=None
        )
        waiting = automation_queries.waiting(tx, [each.id for each in found.rows])
        lists = known_lists(tx, {each.mailing_list_id for each in found.rows if each.mailing_list_id})
    says = {each.id: describe(each, named(lists.get(each.mailing_list_id or 0))) for each in found.rows}
    return automation_page(request, "list.html", who, parts, page=found, waiting=waiting, says=says)


def named(mailing_list: MailingList | None) -> str | None:
    """What a list is called in a sentence."""
    return None if mailing_list is None else mailing_list.description or f"list {mailing_list.id}"


MOST = PageRequest(per_page=200)
"""To choose from, the newest: a page is no place for a hundred thousand."""
USUALLY = {
    "trigger": ["list_entry"],
    "piece": [USUAL],
    "realism": ["on"],
    "image": [""],
    "side": ["before"],
    "daily_limit": [str(DAILY_LIMIT)],
    "style": ["1"],
}


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Reader, parts: OurParts, mailing_list_id: str = "") -> Response:
    return _form_page(request, who, parts, Filled(USUALLY | {"mailing_list_id": [mailing_list_id]}))


@router.post(f"{PAGE}/new")
def create(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    try:
        body = read_body(NewAutomation, body_of(form) | {"enabled": form.text("enabled") == "on"})
        checked = new_plan(body, who.caller, parts)
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead="It is on the list.", leads_to=PAGE)
            made = automation_service.create(
                tx, who.caller, checked.plan, zone=zone_of(parts), now=parts.clock()
            )
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, _back(form, refused))
    return go(path_of(made.id), said="automation_made")


@router.get(f"{PAGE}/{{automation_id}}/change")
def change_page(request: Request, automation_id: str, who: Reader, parts: OurParts) -> Response:
    automation = read_own(automation_id, who, parts)
    return _form_page(request, who, parts, Filled(typed_of(automation)), before=automation)


@router.post(f"{PAGE}/{{automation_id}}/change")
def change(request: Request, automation_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    before = read_own(automation_id, who, parts)
    try:
        body = read_body(ChangedAutomation, body_of(form, before=before))
        checked = changed_plan(before, body, who.caller, parts)
        with parts.db.transaction(tenant(who.caller)) as tx:
            automation_service.change(tx, before, checked.plan, zone=zone_of(parts), now=parts.clock())
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, _back(form, refused), before=before)
    except Conflict as clash:
        back = Filled(form.fields, {FORM: [clash.message]})
        return _form_page(request, who, parts, back, before=before)
    return go(path_of(before.id), said="automation_changed")


def _back(form: Form, refused: Invalid | Refused) -> Filled:
    return Filled(form.fields, in_form_terms(refused).fields)


def _form_page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, *, before: Automation | None = None
) -> Response:
    chosen = [id_in_path(form.values.get("mailing_list_id", ""))]
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = {} if who.caller.sub_account_id else titles_of(list_sub_accounts(tx))
        lists = {each.id: each for each in list_page(tx, MOST).rows} | known_lists(tx, chosen)
        messages = list_message_templates(tx, MOST, sub_account_id=None).rows
        images = list_image_templates(tx, MOST, sub_account_id=None).rows
        brands = catalogue.offered(tx)
    return automation_page(
        request,
        "form.html",
        who,
        parts,
        form=form,
        before=before,
        back=PAGE if before is None else path_of(before.id),
        lists=[
            (each.id, each.description or f"List {each.id}")
            for each in lists.values()
            if not each.is_suppression_list and each.kept_for in (None, who.mode)
        ],
        titles=titles,
        messages=[(each.id, each.name) for each in messages],
        images=[(each.id, each.name) for each in images],
        brands=[(each.code, each.title) for each in brands],
        amounts=sorted({amount for each in brands for amount in each.amounts}),
        pieces=[(key, each.title) for key, each in CHOICES.items()],
        styles=[(number, style.name) for number, style in parts.studio.hands.styles.items()],
        colors=[(name, name.capitalize()) for name in INKS],
        sizes=SIZES,
        triggers=TRIGGERS,
        dates=DATES,
    )


@dataclass(frozen=True, slots=True)
class Preview:
    """How the piece would look for somebody, or why not, and who gets one in the next days."""

    pictures: list[tuple[str, str]]
    name: str | None
    warnings: list[str]
    faults: list[str]
    coming: list[automation_queries.Coming]


@router.get(f"{PAGE}/{{automation_id}}")
def show_automation(request: Request, automation_id: str, who: Reader, parts: OurParts) -> Response:
    return shown(request, read_own(automation_id, who, parts), who, parts)


@router.post(f"{PAGE}/{{automation_id}}/preview")
def preview(
    request: Request, automation_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    """It takes a moment, so it is drawn when somebody asks. No order is made, and nothing is kept."""
    automation = read_own(automation_id, who, parts)
    drawn = _preview(automation, who, parts)
    if is_fragment(request):
        return show(request, "automations/preview.html", who=who, preview=drawn)
    return shown(request, automation, who, parts, preview=drawn)


def shown(
    request: Request,
    automation: Automation,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    preview: Preview | None = None,
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        waiting = automation_queries.waiting(tx, [automation.id]).get(automation.id, 0)
        lists = known_lists(tx, [automation.mailing_list_id] if automation.mailing_list_id else [])
        branch = read_sub_account(tx, automation.sub_account_id)
    mailing_list = next(iter(lists.values()), None)
    return automation_page(
        request,
        "automation.html",
        who,
        parts,
        form=form,
        automation=automation,
        says=describe(automation, named(mailing_list)),
        sends=piece_words(automation),
        waiting=waiting,
        mailing_list=mailing_list,
        list_name=named(mailing_list),
        branch=branch,
        preview=preview,
    )


def _preview(automation: Automation, who: SignedIn, parts: Parts) -> Preview:
    coming = coming_days(automation, parts)
    try:
        person = shown_person(automation, coming, who.caller, parts)
        draft = draft_of(Plan.of(automation), who.caller, parts, person=person)
        drawn = previews.draw(
            parts.db,
            parts.studio,
            who.caller,
            draft,
            qr_base=parts.press.qr_base,
            opt_out=parts.press.opt_out,
            now=parts.clock(),
        )
    except (Invalid, Refused) as refused:
        told = in_form_terms(refused).fields
        return Preview([], None, [], [each for sentences in told.values() for each in sentences], coming)
    sides = dict(drawn.sides) | ({"envelope": drawn.envelope} if drawn.envelope else {})
    pictures = [(side, f"data:image/png;base64,{b64encode(png).decode()}") for side, png in sides.items()]
    return Preview(pictures, person.name, draft.warnings, [], coming)


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
        automation_queries.delete_automation(tx, automation.id)
    return go(PAGE, said="automation_deleted")


def _switch(automation: automation_queries.Automation, on: bool, who: SignedIn, parts: Parts) -> None:
    body = read_body(ChangedAutomation, {"enabled": on})
    checked = changed_plan(automation, body, who.caller, parts)
    with parts.db.transaction(tenant(who.caller)) as tx:
        automation_service.change(tx, automation, checked.plan, zone=zone_of(parts), now=parts.clock())
