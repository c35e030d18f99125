"""Writing a message that is kept, and changing one."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.api.needs import id_in_path
from quillpost.api.v2.message_template_body import MessageTemplateChanges, NewMessageTemplate
from quillpost.api.v2.message_templates import save_changed_message, save_new_message
from quillpost.composition.samples import sample_version
from quillpost.composition.words.variables import KNOWN
from quillpost.creative import templates
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.handwriting import INKS, OWN, SIZES
from quillpost.dashboard.templates.listing import MESSAGES
from quillpost.dashboard.templates.message_drafts import (
    URLS,
    as_told,
    gift_value,
    typed_of,
    values_of,
)
from quillpost.dashboard.templates.words import MESSAGE_TYPES
from quillpost.giftcards import catalogue
from quillpost.kit.errors import Invalid, Refused
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedLargeForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

NEW = "/templates/messages/new"
FIELDS = (
    "type", "name", "content", "handwriting_style_id", "font_size", "font_color", "handwriting_realism",
    "cc_emails", "gift", "sub_account_id", *URLS,
)  # fmt: skip
"""All that the form has a place for."""
DONE = "The message is there already."


@router.get(NEW)
def new_page(request: Request, who: Reader, parts: OurParts, type: str = "", gift: str = "") -> Response:  # noqa: A002
    """Whoever comes from a brand of gift cards finds it chosen."""
    kind = "giftcard" if gift else type if type in dict(MESSAGE_TYPES) else "postcard"
    return form_page(request, who, parts, Filled({"type": [kind], "gift": [gift[:100]]}))


@router.post(NEW)
def create(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    try:
        body = read_body(NewMessageTemplate, values_of(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(once.FIELD), instead=DONE, leads_to=MESSAGES)
            save_new_message(tx, who.caller, body, parts)
    except (Invalid, Refused) as refused:
        return form_page(request, who, parts, sent_back(form, refused))
    return go(MESSAGES, said="message_saved")


@router.get("/templates/messages/{template_id}")
def edit_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = templates.read_message_template(tx, id_in_path(template_id))
    return form_page(request, who, parts, Filled(typed_of(template)), template.id)


@router.post("/templates/messages/{template_id}")
def change(
    request: Request, template_id: str, who: Reader, form: PostedLargeForm, parts: OurParts
) -> Response:
    number = id_in_path(template_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        templates.read_message_template(tx, number)  # what is not theirs is not there, whatever was typed
    try:
        body = read_body(MessageTemplateChanges, values_of(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            save_changed_message(tx, who.caller, number, body, parts)
    except (Invalid, Refused) as refused:
        return form_page(request, who, parts, sent_back(form, refused), number)
    return go(MESSAGES, said="message_saved")


def sent_back(form: Form, refused: Invalid | Refused) -> Filled:
    told = as_told(refused) if isinstance(refused, Invalid) else refused
    return Filled.back(form, told, at="sub_account_id")


def form_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    form: Filled,
    template_id: int | None = None,
    **look: Any,
) -> Response:
    """The form, with how it looks where that is known."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        brands = catalogue.offered(tx)
        titles = {} if who.here.sub_account_id else titles_of(list_sub_accounts(tx))
    styles = parts.studio.hands.styles.values()
    return show_form(
        request,
        "templates/message.html",
        who,
        form,
        draws_inline=True,
        unseen=form.unseen(FIELDS),
        template_id=template_id,
        types=MESSAGE_TYPES,
        sizes=SIZES,
        inks=INKS,
        own=OWN,
        styles=[(style.number, style.name, style.kind, sample_version(style)) for style in styles],
        brands=[(brand.title, [(gift_value(brand.code, n), n) for n in brand.amounts]) for brand in brands],
        titles=titles,
        variables=KNOWN,
        most=parts.limits.message_characters,
        **{"picture": None, "trouble": None} | look,
    )
