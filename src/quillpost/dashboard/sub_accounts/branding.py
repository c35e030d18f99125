"""How the front of a card without a picture looks with a sub account's branding."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Response

from quillpost import __version__
from quillpost.accounts import sub_accounts as store
from quillpost.accounts.service import sender_of, tenant
from quillpost.api.needs import id_in_path
from quillpost.api.v2.sub_account_body import Branding
from quillpost.composition import content
from quillpost.composition.content import Addressee, Copy, Design, parse_colour
from quillpost.composition.geometry import INCH
from quillpost.creative.images import FetchedPicture, Wanted, fetch_images, heavy_work
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.sub_accounts.listing import PAGE
from quillpost.dashboard.sub_accounts.sub_account_fields import as_told, branding_of
from quillpost.kit.errors import Invalid, Unavailable
from quillpost.kit.recent import Recent
from quillpost.orders import look
from quillpost.orders.resolving import HOUSE_COLOUR, brand_of, logo_of
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PIECE: Final = "postcard-4x6"
WIDE = 900
"""Pixels from edge to edge."""
KEPT_SECONDS = 300
"""How long a logo is not fetched again while somebody tries colors; its owner may change it meanwhile."""
ASKING = "private, no-cache"
"""Browsers keep it, and ask whether they still may show it."""

_logos: Recent[tuple[int, str, int], FetchedPicture] = Recent(
    most_bytes=32_000_000, size=lambda picture: len(picture.body)
)
_fronts: Recent[str, bytes] = Recent(most_bytes=16_000_000, size=len)


@router.get(f"{PAGE}/{{sub_account_id}}/front.png")
def front_picture(
    sub_account_id: str,
    who: Reader,
    parts: OurParts,
    known: Annotated[str, Header(alias="If-None-Match")] = "",
) -> Response:
    """A logo that cannot be fetched is left out: the form says why."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
        sender = sender_of(tx, who.caller, found.id)
    branding = dict(found.branding)
    signed = content.Sender(sender.name, sender.company)
    told = repr((__version__, sorted(branding.items()), signed, _period(parts.clock())))
    name = hashlib.sha256(told.encode(errors="replace")).hexdigest()[:32]
    headers = {"ETag": f'"{name}"', "Cache-Control": ASKING}
    if headers["ETag"] in known:
        return Response(status_code=304, headers=headers)

    def drawn() -> bytes:
        try:
            logo = _logo(branding, who, parts)
        except (Invalid, Unavailable):
            logo = None
        return draw_front(parts, branding, signed, logo)

    return Response(_fronts.get(name, drawn), media_type="image/png", headers=headers)


def drawn_front(form: Form, who: SignedIn, parts: Parts) -> tuple[str | None, list[str]]:
    """The front with the branding of a form, to be shown within a page, and what keeps it from being drawn
    as it is written there."""
    try:
        branding = _set_only(read_body(Branding, branding_of(form)).given())
    except Invalid as refused:
        return None, [sentence for told in as_told(refused).fields.values() for sentence in told]
    with parts.db.transaction(tenant(who.caller)) as tx:
        account = sender_of(tx, who.caller, None)
    sender = content.Sender(branding.get("name") or account.name, branding.get("company") or account.company)
    trouble: list[str] = []
    try:
        logo = _logo(branding, who, parts)
    except Invalid as refused:
        logo, trouble = None, [sentence for told in refused.fields.values() for sentence in told]
    return b64encode(draw_front(parts, branding, sender, logo)).decode(), trouble


def draw_front(
    parts: Parts, branding: Mapping[str, Any], sender: content.Sender, logo: bytes | None
) -> bytes:
    design = Design(
        piece=PIECE,
        message=" ",
        ink=parse_colour(HOUSE_COLOUR).ink,
        branding=look.branding(brand_of(branding), logo),
        sender=sender,
    )
    inches = parts.studio.pieces[PIECE].side("front").shown.width / INCH
    with heavy_work():
        shown = parts.studio.preview(design, Copy(0, 0, Addressee()), dpi=round(WIDE / inches), only="front")
    return shown.sides["front"]


def _logo(branding: Mapping[str, Any], who: SignedIn, parts: Parts) -> bytes | None:
    """The logo's picture, fetched as a send would; `Invalid` says what is wrong with it."""
    source = logo_of(branding)
    if source is None or source.url is None:
        return None
    url = source.url
    if wrong := parts.check_url(url):
        raise Invalid({"logo": [wrong]})
    key = who.here.account_id, url, _period(parts.clock())
    return _logos.get(key, lambda: fetch_images(parts.fetcher, [Wanted(url, "logo")])[0]).body


def _period(now: datetime) -> int:
    return int(now.timestamp()) // KEPT_SECONDS


def _set_only(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
