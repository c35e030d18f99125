"""Pictures of templates."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Header, Request, Response

from quillpost import __version__
from quillpost.accounts.service import SenderProfile, build_tenant, read_sender
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.cache import SharedCache
from quillpost.core.database.tables.base import files
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.orders.designs import SPECIMEN_TRACKING, build_giftcard, build_specimen_claim
from quillpost.orders.giftcards.queries import find_brands
from quillpost.orders.giftcards.rules import GiftcardBrand
from quillpost.orders.models import GiftcardChoice, Handwriting
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import limit_heavy_work, load_picture
from quillpost.orders.templates.models import MessageTemplateValues
from quillpost.orders.templates.service import check_message_template, choose_sub_account
from quillpost.rendering import models as rendering_models
from quillpost.rendering.layout.models import DoesNotFit, ProductLayout
from quillpost.rendering.models import INCH, Addressee, Copy, Design, parse_color
from quillpost.rendering.service import Renderer
from quillpost.web.api.templates.schemas import NewMessageTemplate
from quillpost.web.dashboard.forms import FormState, read_body
from quillpost.web.dashboard.previews import draw_latest
from quillpost.web.dashboard.responses import RequestContext
from quillpost.web.dashboard.templates.forms import read_template_fields, to_form_errors
from quillpost.web.dashboard.templates.pages import render_message_form
from quillpost.web.dependencies import Services, parse_path_id
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.rendering import render_page
from quillpost.web.sessions import CurrentUser, is_fragment

THUMBNAIL_WIDTH, PREVIEW_WIDTH = 480, 900

CACHE_BYTES = 32_000_000
"""Some hundreds of thumbnails."""

LAYOUT_NAMES: Final = {"postcard": "postcard-4x6", "postcard6x11": "postcard-6x11"}
"""Types whose layout has another name."""

# Whoever writes to nobody in particular sees how it would read to her.
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
        return _digest("message", self.draft, self.sender, self.brand)


def image_etag(kind: str, file_id: object) -> str:
    """The file of an image never changes."""
    return _digest("image", kind, file_id)


def draw_message_thumbnail(renderer: Renderer, message: PreviewedMessage, *, qr_base: str) -> bytes:
    """A message that is too long is left out: the form says why."""

    def draw() -> bytes:
        try:
            return draw_message(renderer, message, qr_base=qr_base, width=THUMBNAIL_WIDTH)
        except DoesNotFit:
            blank_message = replace(message, draft=message.draft.with_values({"content": " "}))
            return draw_message(renderer, blank_message, qr_base=qr_base, width=THUMBNAIL_WIDTH)

    return _thumbnail_cache.get(message.etag, draw)


def draw_image_thumbnail(renderer: Renderer, kind: str, file_id: object, read_image: Callable[[], bytes]) -> bytes:

    def draw() -> bytes:
        layout = renderer.products[LAYOUT_NAMES.get(kind, kind)]
        side_name = next(name for name, side in layout.previews.items() if layout.find_side(side).art == "front")
        design = Design(product=layout.name, message=" ", ink=parse_color(Handwriting().color).ink, front=read_image())
        return _draw_side(renderer, design, Copy(0, 0, Addressee()), side_name, THUMBNAIL_WIDTH)

    return _thumbnail_cache.get(image_etag(kind, file_id), draw)


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
        realism=handwriting.realism,
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
    return _draw_side(renderer, design, copy, find_message_side(layout), width)


def find_message_side(layout: ProductLayout) -> str:
    return next(name for name, side in layout.previews.items() if side == layout.message_side.name)


def _sample_gift(draft: MessageTemplateValues, brand: GiftcardBrand | None) -> GiftcardChoice | None:
    """An empty card while none is chosen."""
    if draft.type != "giftcard":
        return None
    if brand is None:
        return GiftcardChoice("", "Gift card", "#213669", draft.giftcard_amount or 0)
    return GiftcardChoice(brand.code, brand.title, brand.accent, draft.giftcard_amount or brand.amounts[0])


def _draw_side(renderer: Renderer, design: Design, copy: Copy, side_name: str, width: int) -> bytes:
    layout = renderer.products[design.product]
    inches = layout.find_side(layout.previews[side_name]).preview_area.width / INCH
    with limit_heavy_work():
        return renderer.preview(design, copy, dpi=round(width / inches), only_preview=side_name).sides[side_name]


def _digest(*values: object) -> str:
    return hashlib.sha256(repr((__version__, *values)).encode(errors="replace")).hexdigest()[:32]


router = APIRouter(include_in_schema=False)

MESSAGE_MISSING = "Write your message, and see it here in the hand that you choose."
PDF_ONLY = "The PDF is printed as it is: nothing is written."
DRAFT_NAME = "A draft"


@router.post("/templates/messages/preview")
def preview_message(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    """A part of the form's page; without scripts all of it, with what was typed."""
    return draw_latest(user.person_id, lambda: _render_preview(request, user, form, container))


def _render_preview(request: Request, user: SignedInUser, form: Form, container: Container) -> Response:
    try:
        picture, error_messages = _draw_preview(user, form, container), None
    except (Invalid, Refused, DoesNotFit) as error:
        picture, error_messages = None, _error_messages(error)
    if is_fragment(request):
        return render_page(
            request, "templates/message_preview.html", user=user, picture=picture, error_messages=error_messages
        )
    number = form.number("template_id")
    return render_message_form(
        RequestContext(request, user, container),
        FormState(form.fields),
        number,
        picture=picture,
        error_messages=error_messages,
    )


def _draw_preview(user: SignedInUser, form: Form, container: Container) -> str:
    values = read_template_fields(form)
    values["name"] = values["name"] or DRAFT_NAME
    if not values["content"] and not values["pdf_only_url"]:
        raise Invalid({"content": [MESSAGE_MISSING]})
    body = read_body(NewMessageTemplate, values)
    with container.db.transaction(build_tenant(user.caller)) as tx:
        before = MessageTemplateValues(type=body.type, name=body.name)
        requested, errors = body.to_values(before, allows_legacy_fields=False)
        max_characters = container.limits.message_characters
        draft = check_message_template(container.orders, tx, requested, errors, max_characters=max_characters)
        sender = read_sender(tx, user.caller, choose_sub_account(tx, user.caller, body.sub_account_id))
        code = draft.giftcard_brand_code
        brand = find_brands(tx, [code]).get(code) if code else None
    if draft.skip_creative_generation:
        raise Invalid({"pdf_only_url": [PDF_ONLY]})
    message = PreviewedMessage(draft, sender, brand)
    png = draw_message(container.renderer, message, qr_base=container.production.qr_base, width=PREVIEW_WIDTH)
    return b64encode(png).decode()


def _error_messages(error: Invalid | Refused | DoesNotFit) -> list[str]:
    if isinstance(error, Invalid):
        return [message for messages in to_form_errors(error).fields.values() for message in messages]
    return [str(error)]


CACHE_CONTROL = "private, no-cache"
"""After signing out, nothing is shown from the browser's cache."""

IfNoneMatch = Annotated[str, Header(alias="If-None-Match")]


@router.get("/templates/messages/{template_id}/small.png")
def message_thumbnail(
    template_id: str, user: CurrentUser, container: Services, if_none_match: IfNoneMatch = ""
) -> Response:
    """None for a PDF that is the whole letter."""
    with container.db.transaction(build_tenant(user.caller)) as tx:
        template = template_service.MESSAGE_TEMPLATES.read(tx, parse_path_id(template_id))
        sender = read_sender(tx, user.caller, template.sub_account_id)
        code = template.giftcard_brand_code
        brand = find_brands(tx, [code]).get(code) if code else None
    if template.skip_creative_generation:
        raise NotFound
    message = PreviewedMessage(template.with_values({}), sender, brand)
    if _matches_etag(message.etag, if_none_match):
        return _not_modified(message.etag)
    picture = draw_message_thumbnail(container.renderer, message, qr_base=container.production.qr_base)
    return _png_response(picture, message.etag)


@router.get("/templates/images/{template_id}/small.png")
def image_thumbnail(
    template_id: str, user: CurrentUser, container: Services, if_none_match: IfNoneMatch = ""
) -> Response:
    with container.db.transaction(build_tenant(user.caller)) as tx:
        template = template_service.IMAGE_TEMPLATES.read(tx, parse_path_id(template_id))
        file_key = tx.execute(sa.select(files.c.key).where(files.c.id == template.image_file_id)).scalar()
    etag = image_etag(template.type, template.image_file_id)
    if _matches_etag(etag, if_none_match):
        return _not_modified(etag)
    if file_key is None:
        raise NotFound
    try:
        picture = draw_image_thumbnail(
            container.renderer,
            template.type,
            template.image_file_id,
            lambda: load_picture(container.storage.store, file_key).body,
        )
    except FileMissing:
        raise NotFound from None
    return _png_response(picture, etag)


def _matches_etag(etag: str, if_none_match: str) -> bool:
    return f'"{etag}"' in if_none_match


def _not_modified(etag: str) -> Response:
    return Response(status_code=304, headers={"ETag": f'"{etag}"', "Cache-Control": CACHE_CONTROL})


def _png_response(picture: bytes, etag: str) -> Response:
    headers = {"ETag": f'"{etag}"', "Cache-Control": CACHE_CONTROL}
    return Response(picture, media_type="image/png", headers=headers)
