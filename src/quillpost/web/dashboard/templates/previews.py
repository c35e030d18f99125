"""Pictures of templates."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Header, Request, Response

from quillpost import __version__
from quillpost.accounts.service import Sender, sender_of, tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.cache import Recent
from quillpost.core.database.tables.base import files
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import SPECIMEN_CODE
from quillpost.orders.designs import SPECIMEN_TRACKING, giftcard, specimen_claim
from quillpost.orders.giftcards.brands import find_brands
from quillpost.orders.giftcards.rules import Brand
from quillpost.orders.models import Gift
from quillpost.orders.request import HOUSE_COLOUR, HOUSE_SIZE, HOUSE_STYLE
from quillpost.orders.templates import service as template_service
from quillpost.orders.templates.images import heavy_work, kept_picture
from quillpost.orders.templates.service import MessageDraft, home_of
from quillpost.rendering import models as rendering_models
from quillpost.rendering.geometry import INCH
from quillpost.rendering.layout.paragraphs import DoesNotFit
from quillpost.rendering.layout.products import Piece
from quillpost.rendering.models import Addressee, Copy, Design, parse_colour
from quillpost.rendering.renderer import Studio
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.message_templates.endpoints import examined
from quillpost.web.api.message_templates.schemas import NewMessageTemplate
from quillpost.web.dashboard.forms import Filled, read_body
from quillpost.web.dashboard.previews import in_turn
from quillpost.web.dashboard.templates.forms import as_told, values_of
from quillpost.web.dashboard.templates.pages import form_page
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader, is_fragment

SMALL, LARGE = 480, 900
"""How many pixels wide a picture in a list is, and one to look at."""

MOST_BYTES_AT_HAND = 32_000_000
"""Of small pictures: some hundreds of them."""

DRAWN_AS: Final = {"postcard": "postcard-4x6", "postcard6x11": "postcard-6x11"}
"""What composition calls a template's type, where that is not the same word."""

# Whoever writes to nobody in particular sees how it would read to her.
JANE = Addressee(
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

_small: Recent[str, bytes] = Recent(most_bytes=MOST_BYTES_AT_HAND, size=len)


@dataclass(frozen=True, slots=True)
class Words:
    """A message to be drawn, and who sends it. `brand` is that of the card that it brings."""

    draft: MessageDraft
    sender: Sender
    brand: Brand | None = None

    @property
    def name(self) -> str:
        """Of all that decides how it looks: another look has another name."""
        return _digest("message", self.draft, self.sender, self.brand)


def image_name(kind: str, file_id: object) -> str:
    """The same for an image, whose file never changes."""
    return _digest("image", kind, file_id)


def draw_small_message(studio: Studio, words: Words, *, qr_base: str) -> bytes:
    """For a list. What is too long for its piece is drawn without its message: the form says why."""

    def draw() -> bytes:
        try:
            return draw_message(studio, words, qr_base=qr_base, width=SMALL)
        except DoesNotFit:
            bare = replace(words, draft=words.draft.changed({"content": " "}))
            return draw_message(studio, bare, qr_base=qr_base, width=SMALL)

    return _small.get(words.name, draw)


def draw_small_image(studio: Studio, kind: str, file_id: object, read: Callable[[], bytes]) -> bytes:
    """The front of the piece with this image."""

    def draw() -> bytes:
        piece = studio.pieces[DRAWN_AS.get(kind, kind)]
        shown = next(name for name, side in piece.previews.items() if piece.side(side).art == "front")
        design = Design(piece=piece.name, message=" ", ink=parse_colour(HOUSE_COLOUR).ink, front=read())
        return _drawn(studio, design, Copy(0, 0, Addressee()), shown, SMALL)

    return _small.get(image_name(kind, file_id), draw)


def draw_message(studio: Studio, words: Words, *, qr_base: str, width: int) -> bytes:
    """The side that the message is on, from the page that would print; `DoesNotFit` says what is too long."""
    draft, sender = words.draft, words.sender
    piece = studio.pieces[DRAWN_AS.get(draft.type, draft.type)]
    gift = _gift(draft, words.brand)
    design = Design(
        piece=piece.name,
        message=draft.content,
        ink=parse_colour(draft.font_color or HOUSE_COLOUR).ink,
        hand=draft.handwriting_style_id or HOUSE_STYLE,
        font_size=draft.font_size or HOUSE_SIZE,
        realism=draft.handwriting_realism is not False,
        giftcard=giftcard(gift),
        sender=rendering_models.Sender(sender.name, sender.company),
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
        addressee=JANE,
        tracking=SPECIMEN_TRACKING,
        routing=JANE.postal_code or "",
        qr_url=f"{qr_base}/q/{SPECIMEN_CODE}" if draft.qrcode_url else None,
        claim=specimen_claim(gift, qr_base=qr_base),
    )
    return _drawn(studio, design, copy, message_side(piece), width)


def message_side(piece: Piece) -> str:
    """What previews call the side that the message is on."""
    return next(name for name, side in piece.previews.items() if side == piece.message_side.name)


def _gift(draft: MessageDraft, brand: Brand | None) -> Gift | None:
    """A gift card always shows one: while none is chosen, an empty one stands in its place."""
    if draft.type != "giftcard":
        return None
    if brand is None:
        return Gift("", "Gift card", "#213669", draft.giftcard_amount or 0)
    return Gift(brand.code, brand.title, brand.accent, draft.giftcard_amount or brand.amounts[0])


def _drawn(studio: Studio, design: Design, copy: Copy, shown: str, width: int) -> bytes:
    piece = studio.pieces[design.piece]
    inches = piece.side(piece.previews[shown]).shown.width / INCH
    with heavy_work():
        return studio.preview(design, copy, dpi=round(width / inches), only=shown).sides[shown]


def _digest(*told: object) -> str:
    return hashlib.sha256(repr((__version__, *told)).encode(errors="replace")).hexdigest()[:32]


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


ASKING = "private, no-cache"
"""Whoever may not see it any more, or has signed out, is shown none from the browser's memory."""

Known = Annotated[str, Header(alias="If-None-Match")]


@router.get("/templates/messages/{template_id}/small.png")
def small_message(template_id: str, who: Reader, parts: OurParts, known: Known = "") -> Response:
    """A PDF that is the whole mailer has no such picture."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = template_service.read_message_template(tx, id_in_path(template_id))
        sender = sender_of(tx, who.caller, template.sub_account_id)
        code = template.giftcard_brand_code
        brand = find_brands(tx, [code]).get(code) if code else None
    if template.skip_creative_generation:
        raise NotFound
    words = Words(template.changed({}), sender, brand)
    if _is_known(words.name, known):
        return _same(words.name)
    picture = draw_small_message(parts.studio, words, qr_base=parts.press.qr_base)
    return _thumbnail(picture, words.name)


@router.get("/templates/images/{template_id}/small.png")
def small_image(template_id: str, who: Reader, parts: OurParts, known: Known = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        template = template_service.read_image_template(tx, id_in_path(template_id))
        key = tx.execute(sa.select(files.c.key).where(files.c.id == template.image_file_id)).scalar()
    name = image_name(template.type, template.image_file_id)
    if _is_known(name, known):
        return _same(name)
    if key is None:
        raise NotFound
    try:
        picture = draw_small_image(
            parts.studio,
            template.type,
            template.image_file_id,
            lambda: kept_picture(parts.shelf.store, key).body,
        )
    except FileMissing:
        raise NotFound from None
    return _thumbnail(picture, name)


def _is_known(name: str, known: str) -> bool:
    return f'"{name}"' in known


def _same(name: str) -> Response:
    return Response(status_code=304, headers={"ETag": f'"{name}"', "Cache-Control": ASKING})


def _thumbnail(picture: bytes, name: str) -> Response:
    headers = {"ETag": f'"{name}"', "Cache-Control": ASKING}
    return Response(picture, media_type="image/png", headers=headers)
