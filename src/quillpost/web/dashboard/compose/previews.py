"""The picture beside the composer's form: the piece of one recipient, drawn anew as somebody types.

It is the composition of what would print, of one person alone, at a resolution that suits a screen. What
typing does not change (a cover, a PDF's pages, what is fetched) is drawn and fetched once and remembered.
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
from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.cache import Recent
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts import Draft, prepare
from quillpost.orders.images import gather
from quillpost.orders.previews import posed, told_by_field
from quillpost.orders.request import resolve
from quillpost.orders.templates.images import Remembered, heavy_work
from quillpost.orders.validation import examine_wish
from quillpost.recipients.rules import examine
from quillpost.rendering.geometry import INCH
from quillpost.rendering.models import Copy, Design
from quillpost.rendering.renderer import PREVIEW_DPI, Studio
from quillpost.rendering.samples import reduced
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.forms import Composed, in_form_terms, read, unfinished, warnings_of
from quillpost.web.dashboard.forms import Filled, show_form, typed_zone
from quillpost.web.dashboard.previews import in_turn
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

SAMPLE_PERSON: Final[Mapping[str, str | None]] = {
    "name": "Jane Sample",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
}
SAMPLE_MESSAGE: Final = "Hi %FIRST_NAME%,\nyour words will stand here, in this very hand."
SEEN_ON_PAPER: Final = (
    "sub_account_id", "send_standard_mail", "append_or_current_resident", "return_name", "return_address",
    "return_address2", "return_city", "return_state", "return_postal_code",
)  # fmt: skip
"""Of what is said about the sending, what the piece shows."""

WIDEST: Final = 1_000
"""Pixels: twice as many as the preview is wide, for screens that have them."""
MOST_AT_HAND: Final = 32_000_000
SMALL_ENOUGH: Final = 200_000
"""Bytes of a picture that is drawn as it is."""

REFUSED: Final = "refused"
"""In the form of a page that came back with faults."""
JUST_NOW: Final = "just now"
"""As its value while nothing has changed since."""

_remembered = Remembered()
_kept: Recent[Hashable, Mapping[str, bytes]] = Recent(
    most_bytes=MOST_AT_HAND, size=lambda drawn: sum(map(len, drawn.values()))
)


@dataclass(frozen=True, slots=True)
class Side:
    """One picture of the piece. `mark` is the same as long as the picture is: whoever has it need not get it
    again."""

    name: str
    picture: bytes
    mark: str
    width: int
    height: int
    has_words: bool

    @classmethod
    def of(cls, name: str, picture: bytes, *, has_words: bool = False) -> "Side":
        width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))  # a PNG's head
        return cls(name, picture, hashlib.sha256(picture).hexdigest()[:20], width, height, has_words)

    @property
    def title(self) -> str:
        return self.name.capitalize()

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{b64encode(self.picture).decode()}"


@dataclass(frozen=True, slots=True)
class Preview:
    """The piece as it is shown: its sides, whose it is, what it says, and what is told of it."""

    sides: Sequence[Side]
    whose: str
    words: str
    is_sample_person: bool
    is_sample_message: bool
    warnings: Sequence[str]


@router.post("/compose/preview")
def show_preview(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """The part of the page with the pictures, and what is wrong beside each field. While something is wrong
    the page keeps the last picture."""
    return in_turn(who.person_id, lambda: preview_part(request, form, who.caller, parts, who))


def preview_part(
    request: Request, form: Form, caller: Caller, parts: Parts, who: SignedIn | None = None
) -> Response:
    """What a refused form was told of stands until something changes, and what it lacks until it is there."""
    request.state.account_id = caller.account_id  # a guest within a frame has no session that says so
    drawn, faults = previewed(form, caller, parts, typed_zone(request, form.fields))
    refused = form.text(REFUSED)
    part = show_form(
        request,
        "compose/preview_part.html",
        who,
        Filled(form.fields, {**(unfinished(form) if refused else {}), **faults}),
        status=422 if faults else 200,
        preview=drawn,
        fields=sorted(set(forms.DESIGN_FORM_FIELDS.values())),
        seen=form.fields.get("seen", ()),
        is_just_refused=refused == JUST_NOW,
    )
    if faults:
        part.headers["HX-Retarget"] = "#preview-told"
    return part


def previewed(
    form: Form, who: Caller, parts: Parts, zone: ZoneInfo
) -> tuple[Preview | None, Mapping[str, Sequence[str]]]:
    """The picture; or what is wrong, by the fields of the form."""
    try:
        return draw(form, who, parts, zone), {}
    except Invalid as wrong:
        return None, wrong.fields


def draw(form: Form, who: Caller, parts: Parts, zone: ZoneInfo) -> Preview:
    """The piece of the person who is shown; nobody else in the audience is looked at."""
    person, is_sample_person = _shown(form, who, parts)
    sent = forms.design_fields(form, is_finished=False)
    is_sample_message = not sent.get("message") and not sent.keys() & {"message_template", "pdf_only_url"}
    if is_sample_message:
        sent["message"] = SAMPLE_MESSAGE
    with suppress(Invalid):  # its own part of the page says so
        sent |= {
            name: value for name, value in forms.schedule_fields(form, zone).items() if name in SEEN_ON_PAPER
        }
    made = read(forms.choice_of(form).offer, sent | {"recipients": [person], "preview_recipient": 0})
    try:
        draft = _draft(made, who, parts)
        design, copy = posed(
            draft, 0, draft.people[0], qr_base=parts.press.qr_base, opt_out=parts.press.opt_out
        )
        with told_by_field(draft.wish):
            sides = sides_of(parts.studio, design, copy)
    except (Invalid, Refused) as wrong:
        raise in_form_terms(wrong) from None
    [words] = parts.studio.wordings(design, [copy.addressee])
    name = draft.people[0].name or draft.people[0].company or draft.people[0].address or ""
    return Preview(
        sides,
        name,
        "" if design.pdf_only else words,
        is_sample_person,
        is_sample_message,
        warnings_of(draft, parts),
    )


def _shown(form: Form, who: Caller, parts: Parts) -> tuple[Mapping[str, str | None], bool]:
    """Whoever is chosen, or somebody made up while there is nobody who can be mailed to."""
    found = recipients.shown_person(form, who, parts)
    if found is None:
        return SAMPLE_PERSON, True
    try:
        examine([found])
    except Invalid:
        return SAMPLE_PERSON, True
    return found, False


def _draft(made: Composed, who: Caller, parts: Parts) -> Draft:
    """Checked as a send of this one piece is; only what is fetched is remembered. A picture needs no return
    address, so that one is drawn as in testing."""
    now = parts.clock()
    call, faults = made.body.call(made.offer.piece, parts.limits, now=now)
    with parts.db.transaction(tenant(who)) as tx:
        resolved = resolve(tx, who, call, faults, on=now.date())
    wish, people = examine_wish(
        resolved.wish, styles=parts.studio.hands.styles, check_url=parts.check_url, known_faults=faults
    )
    return prepare(
        resolved,
        wish,
        people,
        who=replace(who, mode="test"),
        studio=parts.studio,
        fetcher=parts.fetcher,
        store=parts.shelf.store,
        indicia=parts.worlds[who.mode].indicia[wish.mail_class],
        gather=partial(
            gather,
            images=partial(_remembered.images, who.account_id),
            papers=partial(_remembered.pages, who.account_id),
        ),
    )


def sides_of(studio: Studio, design: Design, copy: Copy) -> list[Side]:
    """All that there is to see, in reading order; an envelope comes last."""
    piece, dpi = studio.pieces[design.piece], dpi_of(studio, design.piece)
    still = (
        [] if design.pdf_only else [n for n, side in piece.previews.items() if not piece.side(side).message]
    )
    with heavy_work():
        design = replace(
            design, front=_small(studio, design.front), background=_small(studio, design.background)
        )
        found = {name: _still_side(studio, design, copy, name, dpi) for name in still}
        found |= _papers(studio, design, copy, dpi)
        typed = design if design.pdf_only else replace(design, pages=None)
        drawn = studio.preview(typed, copy, dpi=dpi, without=still)
    found |= drawn.sides
    names = [name for name in dict.fromkeys([*piece.previews, *found]) if name in found]
    written = piece.message_side.name
    sides = [Side.of(name, found[name], has_words=piece.previews.get(name) == written) for name in names]
    return sides + ([Side.of("envelope", drawn.envelope)] if drawn.envelope else [])


def dpi_of(studio: Studio, piece: str) -> int:
    widest = max(max(side.shown.width, side.shown.height) for side in studio.pieces[piece].sides)
    return min(PREVIEW_DPI, round(WIDEST / widest * INCH))


def _still_side(studio: Studio, design: Design, copy: Copy, name: str, dpi: int) -> bytes:
    """A side without handwriting: the same whatever is written on the others."""
    piece = studio.pieces[design.piece]
    bare = replace(
        design, message="", ink=(0, 0, 0), font_size="auto", realism=True, background=None, pages=None
    )
    own = copy if piece.side(piece.previews[name]).is_personal else None
    look_of_it = replace(bare, front=None, branding=None)
    key = ("side", dpi, name, own, _digest(design.front), _branding(design), look_of_it)
    return _kept.get(key, lambda: studio.preview(bare, copy, dpi=dpi, only=name).sides)[name]


def _small(studio: Studio, picture: bytes | None) -> bytes | None:
    """A large picture as a screen needs it: to read all of one takes longer than to draw the rest."""
    if picture is None or len(picture) < SMALL_ENOUGH:
        return picture
    small = lambda: {"": reduced(studio.sandbox, picture, most=WIDEST)}  # noqa: E731
    return _kept.get(("small", _digest(picture)), small)[""]


def _papers(studio: Studio, design: Design, copy: Copy, dpi: int) -> Mapping[str, bytes]:
    """The pages of a PDF that follow a letter's cover."""
    if design.pages is None or design.pdf_only:
        return {}

    def read_pages() -> Mapping[str, bytes]:
        drawn = studio.preview(replace(design, front=None), copy, dpi=dpi).sides
        return {name: picture for name, picture in drawn.items() if name.startswith("page ")}

    return _kept.get(("pages", dpi, design.piece, _digest(design.pages)), read_pages)


def _branding(design: Design) -> Hashable:
    own = design.branding
    return own and (replace(own, logo=None), _digest(own.logo))


def _digest(data: bytes | None) -> bytes | None:
    return None if data is None else hashlib.sha256(data).digest()
