"""The preview beside the composer's form: the piece of one recipient, drawn again as the user types.

What typing does not change (a cover, a PDF's pages, fetched files) is drawn and fetched once.
"""

import hashlib
from base64 import b64encode
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.cache import SharedCache
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.drafts.previews import blame_drawing_on_field, build_preview_copy
from quillpost.orders.drafts.service import prepare_draft
from quillpost.orders.requests.files import fetch_artwork
from quillpost.orders.requests.queries import resolve_request
from quillpost.orders.requests.rules import validate_request
from quillpost.orders.templates.images import PreviewFetchCache, limit_heavy_work
from quillpost.recipients.rules import validate_recipients
from quillpost.rendering.models import DEFAULT_MANNER, INCH, Copy, Design
from quillpost.rendering.previews import shrink_picture
from quillpost.rendering.service import PREVIEW_DPI, Renderer
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.forms import (
    PRINTED_SWITCHES,
    RETURN_ADDRESS_PARTS,
    ComposedSend,
    find_missing_design_fields,
    list_warnings,
    to_form_errors,
    validate_send,
)
from quillpost.web.dashboard.forms import FormState, parse_zone
from quillpost.web.dashboard.previews import draw_latest
from quillpost.web.dashboard.responses import UserContext, render_form_page
from quillpost.web.forms import Form, PostedLargeForm

router = APIRouter(include_in_schema=False)

SAMPLE_PERSON: Final[Mapping[str, str | None]] = {
    "name": "Jane Sample",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
}
SAMPLE_MESSAGE: Final = "Hi %FIRST_NAME%,\nyour words will stand here, in this very hand."
PRINTED_FIELDS: Final = ("sub_account_id", *PRINTED_SWITCHES, *(f"return_{part}" for part in RETURN_ADDRESS_PARTS))
"""Send options that show on the piece."""

MAX_PREVIEW_PIXELS: Final = 1_000
"""Twice the width of the preview, for dense screens."""
CACHE_BYTES: Final = 32_000_000
SMALL_IMAGE_BYTES: Final = 200_000
"""Smaller pictures are drawn as they are."""

REFUSED_FIELD: Final = "refused"
"""In the form of a page that came back with errors."""
JUST_REFUSED: Final = "just now"
"""Its value while nothing has changed since."""

_fetch_cache = PreviewFetchCache()
_picture_cache: SharedCache[Hashable, Mapping[str, bytes]] = SharedCache(
    max_size=CACHE_BYTES, size_of=lambda drawn: sum(map(len, drawn.values()))
)


@dataclass(frozen=True, slots=True)
class PreviewSide:
    """One picture of the piece. `digest` names its content: a page that has it does not get it again."""

    name: str
    picture: bytes
    digest: str
    width: int
    height: int
    has_message: bool

    @classmethod
    def from_png(cls, name: str, picture: bytes, *, has_message: bool = False) -> "PreviewSide":
        width, height = (int.from_bytes(picture[offset : offset + 4], "big") for offset in (16, 20))  # a PNG's head
        return cls(name, picture, hashlib.sha256(picture).hexdigest()[:20], width, height, has_message)

    @property
    def title(self) -> str:
        return self.name.capitalize()

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{b64encode(self.picture).decode()}"


@dataclass(frozen=True, slots=True)
class ComposePreview:
    sides: Sequence[PreviewSide]
    recipient_name: str
    message: str
    is_sample_person: bool
    is_sample_message: bool
    warnings: Sequence[str]


@router.post("/compose/preview")
def preview_page_part(context: UserContext, form: PostedLargeForm) -> Response:
    """The pictures and the errors beside each field; while there are errors the page keeps the last picture."""
    user = context.user
    return draw_latest(
        user.person_id, lambda: render_preview(context.request, form, user.caller, context.container, user)
    )


def render_preview(
    request: Request, form: Form, caller: Caller, container: Container, user: SignedInUser | None = None
) -> Response:
    """Errors of a refused form stay until something changes, missing fields until they are filled in."""
    request.state.account_id = caller.account_id  # a guest within a frame has no session that says so
    preview, errors = preview_or_errors(form, caller, container, parse_zone(request, form.fields))
    refused_state = form.text(REFUSED_FIELD)
    response = render_form_page(
        request,
        "compose/preview_fragment.html",
        user,
        FormState(form.fields, {**(find_missing_design_fields(form) if refused_state else {}), **errors}),
        status=422 if errors else 200,
        preview=preview,
        fields=sorted(set(forms.DESIGN_FORM_FIELDS.values())),
        seen_digests=form.fields.get("seen", ()),
        is_just_refused=refused_state == JUST_REFUSED,
    )
    if errors:
        response.headers["HX-Retarget"] = "#preview-told"
    return response


def preview_or_errors(
    form: Form, caller: Caller, container: Container, zone: ZoneInfo
) -> tuple[ComposePreview | None, Mapping[str, Sequence[str]]]:
    """The preview, or the errors by field."""
    try:
        return draw_preview(form, caller, container, zone), {}
    except Invalid as error:
        return None, error.fields


def draw_preview(form: Form, caller: Caller, container: Container, zone: ZoneInfo) -> ComposePreview:
    """Only of the person who is shown."""
    person, is_sample_person = _preview_person(form, caller, container)
    fields = forms.design_fields(form, is_finished=False)
    is_sample_message = not fields.get("message") and not fields.keys() & {"message_template", "pdf_only_url"}
    if is_sample_message:
        fields["message"] = SAMPLE_MESSAGE
    with suppress(Invalid):  # its own part of the page says so
        fields |= {name: value for name, value in forms.schedule_fields(form, zone).items() if name in PRINTED_FIELDS}
    composed_send = validate_send(
        forms.read_choice(form).offer, fields | {"recipients": [person], "preview_recipient": 0}
    )
    try:
        draft = _draft_preview(composed_send, caller, container)
        design, copy = build_preview_copy(
            draft, 0, draft.people[0], qr_base=container.production.qr_base, opt_out=container.production.opt_out
        )
        with blame_drawing_on_field(draft.request):
            sides = draw_sides(container.renderer, design, copy)
    except (Invalid, Refused) as error:
        raise to_form_errors(error) from None
    [text] = container.renderer.fill_messages(design, [copy.addressee])
    name = draft.people[0].name or draft.people[0].company or draft.people[0].address or ""
    return ComposePreview(
        sides,
        name,
        "" if design.pdf_only else text,
        is_sample_person,
        is_sample_message,
        list_warnings(draft, container),
    )


def _preview_person(form: Form, caller: Caller, container: Container) -> tuple[Mapping[str, str | None], bool]:
    """The chosen person, or a made-up one while nobody can be mailed to. The second value: whether it is made up."""
    person = recipients.find_preview_person(form, caller, container)
    if person is None:
        return SAMPLE_PERSON, True
    try:
        validate_recipients([person])
    except Invalid:
        return SAMPLE_PERSON, True
    return person, False


def _draft_preview(composed_send: ComposedSend, caller: Caller, container: Container) -> OrderDraft:
    """Checked like a send of this one piece, with cached fetches. A picture needs no return address."""
    now = container.clock()
    send_request, errors = composed_send.body.to_order_request(composed_send.offer.product, container.limits, now=now)
    with container.db.transaction(build_tenant(caller)) as tx:
        resolved = resolve_request(tx, caller, send_request, errors, price_date=now.date())
    order_request, order_recipients = validate_request(
        resolved.request, styles=container.renderer.hands.styles, check_url=container.check_url, known_errors=errors
    )
    return prepare_draft(
        container.orders,
        caller,
        resolved,
        order_request,
        order_recipients,
        needs_return_address=False,
        fetch_artwork=partial(
            fetch_artwork,
            fetch_pictures=partial(_fetch_cache.fetch_images, caller.account_id),
            fetch_pdf=partial(_fetch_cache.fetch_pages, caller.account_id),
        ),
    )


def draw_sides(renderer: Renderer, design: Design, copy: Copy) -> list[PreviewSide]:
    """In reading order; an envelope comes last."""
    layout, dpi = renderer.products[design.product], preview_dpi(renderer, design.product)
    static_sides = (
        [] if design.pdf_only else [n for n, side in layout.previews.items() if not layout.find_side(side).message]
    )
    with limit_heavy_work():
        design = replace(
            design,
            front=_shrink_picture(renderer, design.front),
            background=_shrink_picture(renderer, design.background),
        )
        pictures = {name: _draw_static_side(renderer, design, copy, name, dpi) for name in static_sides}
        pictures |= _draw_pdf_pages(renderer, design, copy, dpi)
        message_design = design if design.pdf_only else replace(design, pages=None)
        preview = renderer.preview(message_design, copy, dpi=dpi, excluded_previews=static_sides)
    pictures |= preview.sides
    names = [name for name in dict.fromkeys([*layout.previews, *pictures]) if name in pictures]
    message_side = layout.message_side.name
    sides = [
        PreviewSide.from_png(name, pictures[name], has_message=layout.previews.get(name) == message_side)
        for name in names
    ]
    return sides + ([PreviewSide.from_png("envelope", preview.envelope)] if preview.envelope else [])


def preview_dpi(renderer: Renderer, layout_name: str) -> int:
    longest_side = max(
        max(side.preview_area.width, side.preview_area.height) for side in renderer.products[layout_name].sides
    )
    return min(PREVIEW_DPI, round(MAX_PREVIEW_PIXELS / longest_side * INCH))


def _draw_static_side(renderer: Renderer, design: Design, copy: Copy, name: str, dpi: int) -> bytes:
    """A side without handwriting is the same whatever the message is."""
    layout = renderer.products[design.product]
    static_design = replace(
        design, message="", ink=(0, 0, 0), font_size="auto", manner=DEFAULT_MANNER, background=None, pages=None
    )
    personal_copy = copy if layout.find_side(layout.previews[name]).is_personal else None
    key_design = replace(static_design, front=None, branding=None)
    key = ("side", dpi, name, personal_copy, _digest(design.front), _branding_key(design), key_design)
    return _picture_cache.get(key, lambda: renderer.preview(static_design, copy, dpi=dpi, only_preview=name).sides)[
        name
    ]


def _shrink_picture(renderer: Renderer, picture: bytes | None) -> bytes | None:
    """Reading all of a large picture takes longer than drawing the rest."""
    if picture is None or len(picture) < SMALL_IMAGE_BYTES:
        return picture
    shrink = lambda: {"": shrink_picture(renderer.sandbox, picture, max_pixels=MAX_PREVIEW_PIXELS)}  # noqa: E731
    return _picture_cache.get(("small", _digest(picture)), shrink)[""]


def _draw_pdf_pages(renderer: Renderer, design: Design, copy: Copy, dpi: int) -> Mapping[str, bytes]:
    if design.pages is None or design.pdf_only:
        return {}

    def draw_pages() -> Mapping[str, bytes]:
        sides = renderer.preview(replace(design, front=None), copy, dpi=dpi).sides
        return {name: picture for name, picture in sides.items() if name.startswith("page ")}

    return _picture_cache.get(("pages", dpi, design.product, _digest(design.pages)), draw_pages)


def _branding_key(design: Design) -> Hashable:
    branding = design.branding
    return branding and (replace(branding, logo=None), _digest(branding.logo))


def _digest(data: bytes | None) -> bytes | None:
    return None if data is None else hashlib.sha256(data).digest()
