"""A new automation, and changes of one."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.api.needs import id_in_path
from quillpost.api.v2.automation_body import ChangedAutomation, NewAutomation
from quillpost.api.v2.automation_plans import changed_plan, new_plan, zone_of
from quillpost.audience.lists import known_lists, list_page
from quillpost.automations import service
from quillpost.automations.rules import DAILY_LIMIT
from quillpost.automations.store import Automation
from quillpost.creative.templates import list_image_templates, list_message_templates
from quillpost.dashboard.automations.automation_form import FORM, body_of, in_form_terms, typed_of
from quillpost.dashboard.automations.automation_pages import PAGE, automation_page, path_of, read_own
from quillpost.dashboard.automations.words import DATES, TRIGGERS
from quillpost.dashboard.compose.look import CHOICES, USUAL
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.handwriting import INKS, SIZES
from quillpost.giftcards import catalogue
from quillpost.kit.errors import Conflict, Invalid, Refused
from quillpost.kit.paging import PageRequest
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

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
            do_once(tx, who, form.text(once.FIELD), instead="It is on the list.", leads_to=PAGE)
            made = service.create(tx, who.caller, checked.plan, zone=zone_of(parts), now=parts.clock())
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
            service.change(tx, before, checked.plan, zone=zone_of(parts), now=parts.clock())
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
