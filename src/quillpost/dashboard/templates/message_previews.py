"""How a message looks while it is written."""

from base64 import b64encode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import sender_of, tenant
from quillpost.api.v2.message_template_body import NewMessageTemplate
from quillpost.api.v2.message_templates import examined
from quillpost.composition.pages.layout import DoesNotFit
from quillpost.creative.templates import MessageDraft, home_of
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.templates.drawing import LARGE, Words, draw_message
from quillpost.dashboard.templates.message_drafts import as_told, values_of
from quillpost.dashboard.templates.message_forms import form_page
from quillpost.dashboard.turns import in_turn
from quillpost.giftcards.catalogue import find_brands
from quillpost.kit.errors import Invalid, Refused
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedLargeForm
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)

NOTHING_YET = "Write your message, and see it here in the hand that you choose."
A_PDF = "The PDF is printed as it is: nothing is written."
NO_NAME_YET = "A draft"


@router.post("/templates/messages/preview")
def preview(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """A part of the form's page; where there is no script, all of it, with what was typed."""
    return in_turn(who.person_id, lambda: _previewed(request, who, form, parts))


def _previewed(request: Request, who: SignedIn, form: Form, parts: Parts) -> Response:
    try:
        picture, trouble = _picture(who, form, parts), None
    except (Invalid, Refused, DoesNotFit) as refused:
        picture, trouble = None, _told(refused)
    if is_fragment(request):
        return show(request, "templates/look.html", who=who, picture=picture, trouble=trouble)
    number = form.number("template_id")
    return form_page(request, who, parts, Filled(form.fields), number, picture=picture, trouble=trouble)


def _picture(who: SignedIn, form: Form, parts: Parts) -> str:
    values = values_of(form)
    values["name"] = values["name"] or NO_NAME_YET
    if not values["content"] and not values["pdf_only_url"]:
        raise Invalid({"content": [NOTHING_YET]})
    body = read_body(NewMessageTemplate, values)
    with parts.db.transaction(tenant(who.caller)) as tx:
        draft, _ = examined(tx, parts, body, MessageDraft(type=body.type, name=body.name))
        sender = sender_of(tx, who.caller, home_of(tx, who.caller, body.sub_account_id))
        code = draft.giftcard_brand_code
        brand = find_brands(tx, [code]).get(code) if code else None
    if draft.skip_creative_generation:
        raise Invalid({"pdf_only_url": [A_PDF]})
    words = Words(draft, sender, brand)
    drawn = draw_message(parts.studio, words, qr_base=parts.press.qr_base, width=LARGE)
    return b64encode(drawn).decode()


def _told(refused: Invalid | Refused | DoesNotFit) -> list[str]:
    if isinstance(refused, Invalid):
        return [sentence for told in as_told(refused).fields.values() for sentence in told]
    return [str(refused)]
