"""One automation: what it does, how it fares, and how its mail would look."""

from base64 import b64encode
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.api.v2.automation_plans import coming_days, draft_of, shown_person
from quillpost.audience.lists import known_lists
from quillpost.automations import due, store
from quillpost.automations.service import Plan
from quillpost.automations.store import Automation
from quillpost.dashboard.automations.automation_form import in_form_terms
from quillpost.dashboard.automations.automation_pages import PAGE, automation_page, read_own
from quillpost.dashboard.automations.listing import named
from quillpost.dashboard.automations.words import piece_words, sentence
from quillpost.dashboard.form_pages import EMPTY, Filled
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders import previewing
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Preview:
    """How the piece would look for somebody, or why not, and who gets one in the next days."""

    pictures: list[tuple[str, str]]
    name: str | None
    warnings: list[str]
    faults: list[str]
    coming: list[due.Coming]


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
        waiting = store.waiting(tx, [automation.id]).get(automation.id, 0)
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
        says=sentence(automation, named(mailing_list)),
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
        drawn = previewing.draw(
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
