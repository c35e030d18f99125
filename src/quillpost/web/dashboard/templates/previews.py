"""Pictures of templates."""

from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from fastapi import APIRouter, Response

from quillpost.accounts.service import SenderProfile, read_sender
from quillpost.core.cache import SharedCache
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import files
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.orders.designs import SPECIMEN_TRACKING, build_giftcard, build_specimen_claim
from quillpost.orders.giftcards.queries import find_brands
from quillpost.orders.giftcards.rules import GiftcardBrand
from quillpost.orders.models import GiftcardChoice, Handwriting
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import load_picture
from quillpost.orders.templates.models import MessageTemplateValues
from quillpost.orders.templates.service import check_message_template, choose_sub_account
from quillpost.rendering import models as rendering_models
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, Copy, Design, parse_color
from quillpost.rendering.service import Renderer
from quillpost.web.api.templates.schemas import NewMessageTemplate
from quillpost.web.dashboard.forms import FormState, read_body
from quillpost.web.dashboard.previews import digest_values, draw_latest, draw_side
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.templates.forms import read_template_fields, to_form_errors
from quillpost.web.dashboard.templates.pages import render_message_form
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.sessions import is_fragment

THUMBNAIL_WIDTH, PREVIEW_WIDTH = 480, 900

CACHE_BYTES = 32_000_000
"""Some hundreds of thumbnails."""

LAYOUT_NAMES: Final = {"postcard": "postcard-4x6", "postcard6x11": "postcard-6x11"}
"""Types whose layout has another name."""

# Without a recipient it is shown as it would read to a sample one.
SAMPLE_ADDRESSEE = Addressee(
    name="Jane Doe",
    company="Doe & Daughters",
    address="1200 Barton Springs Rd",
    city="Austin",
    province="TX",
    postal_code="78704",
    country="US",
    email="jane@example.com",
    phone="512-555-0100",
    dob="1984-05-04",
    anniversary="2010-06-12",
    custom=tuple(f"custom {n}" for n in range(1, 11)),
)

_thumbnail_cache: SharedCache[str, bytes] = SharedCache(max_size=CACHE_BYTES, size_of=len)


@dataclass(frozen=True, slots=True)
class PreviewedMessage:
    """`brand` is that of its gift card."""

    draft: MessageTemplateValues
    sender: SenderProfile
    brand: GiftcardBrand | None = None

    @property
    def etag(self) -> str:
        """Of all that decides how it looks."""
        return digest_values("message", self.draft, self.sender, self.brand)


def draw_message_thumbnail(renderer: Renderer, message: PreviewedMessage, *, qr_base: str) -> bytes:
    """A message that is too long is left out: the form says why."""

    def draw() -> bytes:
        try:
            return draw_message(renderer, message, qr_base=qr_base, width=THUMBNAIL_WIDTH)
        except DoesNotFit:
            blank_message = replace(message, draft=message.draft.with_values({"content": " "}))
            return draw_message(renderer, blank_message, qr_base=qr_base, width=THUMBNAIL_WIDTH)

    return _thumbnail_cache.get(message.etag, draw)


def draw_image_thumbnail(renderer: Renderer, kind: str, front: bytes) -> bytes:
    layout = renderer.products[LAYOUT_NAMES.get(kind, kind)]
    side_name = next(name for name, side in layout.previews.items() if layout.find_side(side).art == "front")
    design = Design(product=layout.name, message=" ", ink=parse_color(Handwriting().color).ink, front=front)
    return draw_side(renderer, design, Copy(0, 0, Addressee()), side_name, width=THUMBNAIL_WIDTH)


def draw_message(renderer: Renderer, message: PreviewedMessage, *, qr_base: str, width: int) -> bytes:
    """The side with the message, as it prints; `DoesNotFit` says what is too long."""
    draft, sender = message.draft, message.sender
    layout = renderer.products[LAYOUT_NAMES.get(draft.type, draft.type)]
    gift = _sample_gift(draft, message.brand)
    handwriting = Handwriting(**draft.stated_handwriting)
    design = Design(
        product=layout.name,
        message=draft.content,
        ink=parse_color(handwriting.color).ink,
        hand=handwriting.style,
        font_size=handwriting.size,
        manner=handwriting.manner,
        giftcard=build_giftcard(gift) if gift else None,
        sender=rendering_models.SenderName(sender.name, sender.company),
        return_address=rendering_models.ReturnAddress(
            sender.return_name,
            sender.return_address,
            sender.return_address2,
            sender.return_city,
            sender.return_province,
            sender.return_postal_code,
        ),
    )
    copy = Copy(
        item_id=0,
        design=0,
        addressee=SAMPLE_ADDRESSEE,
        tracking=SPECIMEN_TRACKING,
        routing=SAMPLE_ADDRESSEE.postal_code or "",
        qr_url=f"{qr_base}/q/{PREVIEW_CODE}" if draft.qrcode_url else None,
        claim=build_specimen_claim(gift, qr_base=qr_base),
    )
    side_name = next(name for name, side in layout.previews.items() if side == layout.message_side.name)
    return draw_side(renderer, design, copy, side_name, width=width)


def _sample_gift(draft: MessageTemplateValues, brand: GiftcardBrand | None) -> GiftcardChoice | None:
    """An empty card while none is chosen."""
    if draft.type != "giftcard":
        return None
    if brand is None:
        return GiftcardChoice("", "Gift card", "#213669", draft.giftcard_amount or 0)
    return GiftcardChoice(brand.code, brand.title, brand.accent, draft.giftcard_amount or brand.amounts[0])


router = APIRouter(include_in_schema=False)

MESSAGE_MISSING = "Write your message, and see it here in the hand that you choose."
PDF_ONLY = "The PDF is printed as it is: nothing is written."
DRAFT_NAME = "A draft"


@router.post("/templates/messages/preview")
def preview_message(context: UserContext, form: PostedLargeForm) -> Response:
    """A part of the form's page; without scripts all of it, with what was typed."""
    return draw_latest(context.user.person_id, lambda: _render_preview(context, form))


def _render_preview(context: RequestContext, form: Form) -> Response:
    try:
        picture, error_messages = _draw_preview(context, form), None
    except (Invalid, Refused, DoesNotFit) as error:
        picture, error_messages = None, _error_messages(error)
    preview: dict[str, Any] = {"picture": picture, "error_messages": error_messages}
    if is_fragment(context.request):
        return context.render("templates/message_preview.html", **preview)
    return render_message_form(context, FormState(form.fields), form.number("template_id"), **preview)


def _draw_preview(context: RequestContext, form: Form) -> str:
    container, values = context.container, read_template_fields(form)
    values["name"] = values["name"] or DRAFT_NAME
    if not values["content"] and not values["pdf_only_url"]:
        raise Invalid({"content": [MESSAGE_MISSING]})
    body = read_body(NewMessageTemplate, values)
    with context.transaction() as tx:
        before = MessageTemplateValues(type=body.type, name=body.name)
        requested, errors = body.to_values(before, allows_legacy_fields=False)
        max_characters = container.limits.message_characters
        draft = check_message_template(container.orders, tx, requested, errors, max_characters=max_characters)
        message = _read_message(tx, context, draft, choose_sub_account(tx, context.user.caller, body.sub_account_id))
    if draft.skip_creative_generation:
        raise Invalid({"pdf_only_url": [PDF_ONLY]})
    png = draw_message(container.renderer, message, qr_base=container.production.qr_base, width=PREVIEW_WIDTH)
    return b64encode(png).decode()


def _error_messages(error: Invalid | Refused | DoesNotFit) -> list[str]:
    if isinstance(error, Invalid):
        return [message for messages in to_form_errors(error).fields.values() for message in messages]
    return [str(error)]


@router.get("/templates/messages/{template_id}/small.png")
def message_thumbnail(context: UserContext, template_id: PathId) -> Response:
    """None for a PDF that is the whole letter."""
    with context.transaction() as tx:
        template = template_service.MESSAGE_TEMPLATES.read(tx, template_id)
        message = _read_message(tx, context, template.with_values({}), template.sub_account_id)
    if template.skip_creative_generation:
        raise NotFound
    renderer, qr_base = context.container.renderer, context.container.production.qr_base
    return context.picture(message.etag, lambda: draw_message_thumbnail(renderer, message, qr_base=qr_base))


@router.get("/templates/images/{template_id}/small.png")
def image_thumbnail(context: UserContext, template_id: PathId) -> Response:
    with context.transaction() as tx:
        template = template_service.IMAGE_TEMPLATES.read(tx, template_id)
        file_key = tx.execute(sa.select(files.c.key).where(files.c.id == template.image_file_id)).scalar()
    # The file of an image never changes.
    etag, container = digest_values("image", template.type, template.image_file_id), context.container

    def draw(key: str) -> bytes:
        picture = load_picture(container.storage.store, key).body
        return draw_image_thumbnail(container.renderer, template.type, picture)

    def find() -> bytes:
        if file_key is None:
            raise NotFound
        try:
            return _thumbnail_cache.get(etag, lambda: draw(file_key))
        except FileMissing:
            raise NotFound from None

    return context.picture(etag, find)


def _read_message(
    tx: Tx, context: RequestContext, draft: MessageTemplateValues, sub_account_id: int | None
) -> PreviewedMessage:
    code = draft.giftcard_brand_code
    brand = find_brands(tx, [code]).get(code) if code else None
    return PreviewedMessage(draft, read_sender(tx, context.user.caller, sub_account_id), brand)
