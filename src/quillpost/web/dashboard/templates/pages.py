"""Message and image templates, and the gift card brands."""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.giftcards import brands
from quillpost.orders.giftcards import brands as catalogue
from quillpost.orders.giftcards.rules import GROUPS
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.service import ImageTemplate, MessageTemplate
from quillpost.rendering.samples import sample_version
from quillpost.rendering.text.variables import KNOWN
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.message_templates.endpoints import save_changed_message, save_new_message
from quillpost.web.api.message_templates.schemas import MessageTemplateChanges, NewMessageTemplate
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure, read_body, show_form
from quillpost.web.dashboard.labels import INKS, OWN, SIZES, TYPE_NAMES
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.templates.forms import (
    IMAGE_TYPES,
    MESSAGE_TYPES,
    URLS,
    as_told,
    gift_value,
    typed_of,
    values_of,
)
from quillpost.web.forms import Form, PostedForm, PostedLargeForm
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

MESSAGES, IMAGES = "/templates", "/templates/images"
A_PAGE = 24
LONGEST_SOUGHT = 200


@router.get(MESSAGES)
def list_messages(
    request: Request, who: Reader, parts: OurParts, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _list_page(request, who, parts, is_images=False, sought=(q, kind, page))


@router.get(IMAGES)
def list_images(
    request: Request, who: Reader, parts: OurParts, q: str = "", kind: str = "", page: str = ""
) -> Response:
    return _list_page(request, who, parts, is_images=True, sought=(q, kind, page))


def _list_page(
    request: Request, who: Reader, parts: OurParts, *, is_images: bool, sought: tuple[str, str, str]
) -> Response:
    types = IMAGE_TYPES if is_images else MESSAGE_TYPES
    named, kind = sought[0].replace("\x00", "").strip()[:LONGEST_SOUGHT], sought[1].strip()
    kind = kind if kind in dict(types) else ""
    asked = asked_page(sought[2], per_page=A_PAGE)
    how = {"sub_account_id": None, "types": [kind] if kind else None, "named": named}
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = (
            template_service.list_image_templates(tx, asked, **how)  # type: ignore[arg-type]
            if is_images
            else template_service.list_message_templates(tx, asked, **how)  # type: ignore[arg-type]
        )
        has_branches = any(template.sub_account_id for template in found.rows)
        titles = titles_of(list_sub_accounts(tx)) if has_branches else {}
    address = IMAGES if is_images else MESSAGES
    query = urlencode({name: value for name, value in (("q", named), ("kind", kind)) if value})
    return show(
        request,
        "templates/images.html" if is_images else "templates/messages.html",
        who=who,
        now=parts.clock(),
        page=found,
        types=types,
        type_titles=TYPE_NAMES,
        titles=titles,
        typed={"q": named, "kind": kind},
        is_filtered=bool(query),
        address=f"{address}?{query}" if query else address,
    )


ORDERS_KEEP = "Orders that were sent with it keep what they have."


class Kind(NamedTuple):
    """What is deleted, and how."""

    read: Callable[[Tx, int], ImageTemplate | MessageTemplate]
    require_unused: Callable[[Tx, int], None]
    delete: Callable[[Tx, int], None]
    list_page: str
    said: str


MESSAGE = Kind(
    template_service.read_message_template,
    template_service.require_unused_message,
    template_service.delete_message_template,
    MESSAGES,
    "message_deleted",
)
IMAGE = Kind(
    template_service.read_image_template,
    template_service.require_unused_image,
    template_service.delete_image_template,
    IMAGES,
    "image_deleted",
)


@router.get("/templates/messages/{template_id}/delete")
def message_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    return _ask(request, MESSAGE, template_id, who, parts)


@router.post("/templates/messages/{template_id}/delete")
def delete_message(
    request: Request, template_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    return _delete(request, MESSAGE, template_id, who, parts)


@router.get("/templates/images/{template_id}/delete")
def image_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    return _ask(request, IMAGE, template_id, who, parts)


@router.post("/templates/images/{template_id}/delete")
def delete_image(
    request: Request, template_id: str, who: Reader, _form: PostedForm, parts: OurParts
) -> Response:
    return _delete(request, IMAGE, template_id, who, parts)


def _ask(
    request: Request, kind: Kind, template_id: str, who: Reader, parts: OurParts, refused: str | None = None
) -> Response:
    """In both modes: what a live order needs cannot be deleted while one looks at test mode."""
    with parts.db.transaction(who.tenant) as tx:
        template = kind.read(tx, id_in_path(template_id))
        means = ["It is gone for everybody in this account, in test mode and live.", ORDERS_KEEP]
        try:
            kind.require_unused(tx, template.id)
        except Refused as needed:
            means.append(f"It cannot be deleted yet. {needed.message}")
    return are_you_sure(
        request,
        who,
        title=f"Delete “{template.name}”?",
        means=means,
        button="Delete it",
        back=kind.list_page,
        refused=refused,
    )


def _delete(request: Request, kind: Kind, template_id: str, who: Reader, parts: OurParts) -> Response:
    try:
        with parts.db.transaction(who.tenant) as tx:
            kind.delete(tx, id_in_path(template_id))
    except Refused as refused:
        return _ask(request, kind, template_id, who, parts, refused.message)
    return go(kind.list_page, said=kind.said)


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
            do_once(tx, who, form.text(csrf.FIELD), instead=DONE, leads_to=MESSAGES)
            save_new_message(tx, who.caller, body, parts)
    except (Invalid, Refused) as refused:
        return form_page(request, who, parts, sent_back(form, refused))
    return go(MESSAGES, said="message_saved")


@router.get("/templates/messages/{template_id}")
def edit_page(request: Request, template_id: str, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = template_service.read_message_template(tx, id_in_path(template_id))
    return form_page(request, who, parts, Filled(typed_of(template)), template.id)


@router.post("/templates/messages/{template_id}")
def change(
    request: Request, template_id: str, who: Reader, form: PostedLargeForm, parts: OurParts
) -> Response:
    number = id_in_path(template_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        template_service.read_message_template(
            tx, number
        )  # what is not theirs is not there, whatever was typed
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


@router.get("/templates/giftcards")
def brands_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        offered = brands.offered(tx)
    groups = [(title, [b for b in offered if b.section == group]) for group, title in GROUPS.items()]
    return show(request, "templates/giftcards.html", who=who, groups=[group for group in groups if group[1]])
