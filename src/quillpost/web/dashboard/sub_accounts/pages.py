"""Sub accounts and their branding."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Request, Response

from quillpost import __version__
from quillpost.accounts import sub_accounts as store
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing.queries import spent_by_sub_account
from quillpost.accounts.service import sender_of, tenant
from quillpost.accounts.sub_accounts import SubAccount, page_of_sub_accounts, remove_sub_account
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.cache import Recent
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, Refused, Unavailable
from quillpost.orders import designs
from quillpost.orders.queries import orders_by_sub_account
from quillpost.orders.request import HOUSE_COLOUR, brand_of, logo_of
from quillpost.orders.templates.images import FetchedPicture, Wanted, fetch_images, heavy_work
from quillpost.rendering import models as rendering_models
from quillpost.rendering.geometry import INCH
from quillpost.rendering.models import Addressee, Copy, Design, parse_colour
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.sub_accounts.schemas import Branding, ChangedSubAccount, NewSubAccount
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body, show_form
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.sub_accounts.forms import (
    FIELDS,
    as_told,
    branding_of,
    sent_back,
    typed_of,
    values_of,
)
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Owner, Reader, is_fragment

router = APIRouter(include_in_schema=False)

PAGE = "/sub-accounts"
A_PAGE = 50
LONGEST_SOUGHT = 200


@router.get(PAGE)
def list_page(request: Request, who: Reader, parts: OurParts, q: str = "", page: str = "") -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    named = q.replace("\x00", "").strip()[:LONGEST_SOUGHT]
    month = now.astimezone(UTC).date().replace(day=1)
    with parts.db.transaction(whose) as tx:
        found = page_of_sub_accounts(tx, asked_page(page, per_page=A_PAGE), named=named)
        shown = [each.id for each in found.rows]
        orders = orders_by_sub_account(tx, whose, shown)
        spent = spent_by_sub_account(tx, whose, since=month, among=shown)
    return show(
        request,
        "sub_accounts/list.html",
        who=who,
        now=now,
        page=found,
        orders=orders,
        spent=spent,
        month=month,
        typed={"q": named},
    )


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
    signed = rendering_models.Sender(sender.name, sender.company)
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
    sender = rendering_models.Sender(
        branding.get("name") or account.name, branding.get("company") or account.company
    )
    trouble: list[str] = []
    try:
        logo = _logo(branding, who, parts)
    except Invalid as refused:
        logo, trouble = None, [sentence for told in refused.fields.values() for sentence in told]
    return b64encode(draw_front(parts, branding, sender, logo)).decode(), trouble


def draw_front(
    parts: Parts, branding: Mapping[str, Any], sender: rendering_models.Sender, logo: bytes | None
) -> bytes:
    design = Design(
        piece=PIECE,
        message=" ",
        ink=parse_colour(HOUSE_COLOUR).ink,
        branding=designs.branding(brand_of(branding), logo),
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


DONE = "The sub account is there already."


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Owner) -> Response:
    return form_page(request, who, EMPTY)


@router.post(f"{PAGE}/new")
def create(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    now = parts.clock()
    try:
        body = read_body(NewSubAccount, values_of(form))
        if faults := body.faults(parts.check_url):
            raise Invalid(faults)
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead=DONE, leads_to=PAGE)
            made = store.create_sub_account(tx, who.caller, body.columns(), now=now)
            about = {"title": made.title, "id": made.id}
            audit_service.note(
                tx,
                made.account_id,
                "sub_account.created",
                who.actor,
                about=about,
                sub_account_id=made.id,
                now=now,
            )
    except (Invalid, Refused) as refused:
        return form_page(request, who, sent_back(form, refused))
    return go(f"{PAGE}/{made.id}", said="sub_account_made")


@router.post(f"{PAGE}/preview")
def preview(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    """How its front looks: a part of the form's page; where there is no script, all of it."""
    picture, trouble = drawn_front(form, who, parts)
    if is_fragment(request):
        return show(request, "sub_accounts/look.html", who=who, picture=picture, trouble=trouble)
    number = form.number("sub_account_id")
    found = None
    if number is not None:
        with parts.db.transaction(tenant(who.caller)) as tx:
            found = store.find_sub_account(tx, number)
    return form_page(request, who, Filled(form.fields), found, picture=picture, trouble=trouble)


@router.get(f"{PAGE}/{{sub_account_id}}")
def read_page(request: Request, sub_account_id: str, who: Reader, parts: OurParts) -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    month = now.astimezone(UTC).date().replace(day=1)
    with parts.db.transaction(whose) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
        orders = orders_by_sub_account(tx, whose, [found.id])
        spent = spent_by_sub_account(tx, whose, since=month, among=[found.id])
        ever = spent_by_sub_account(tx, whose, since=month.replace(year=1970), among=[found.id])
    return show(
        request,
        "sub_accounts/one.html",
        who=who,
        now=now,
        found=found,
        address=_lines(found),
        orders=orders.get(found.id, 0),
        spent=spent.get(found.id, 0),
        ever=ever.get(found.id, 0),
        month=month,
    )


@router.get(f"{PAGE}/{{sub_account_id}}/edit")
def edit_page(request: Request, sub_account_id: str, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
    return form_page(request, who, Filled(typed_of(found)), found)


@router.post(f"{PAGE}/{{sub_account_id}}/edit")
def change(request: Request, sub_account_id: str, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
    try:
        body = read_body(ChangedSubAccount, values_of(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            before = store.lock_sub_account(tx, found.id)
            if faults := body.faults(parts.check_url, before):
                raise Invalid(faults)
            store.change_sub_account(tx, before.id, body.columns(before), now=parts.clock())
    except (Invalid, Refused) as refused:
        return form_page(request, who, sent_back(form, refused), found)
    return go(f"{PAGE}/{found.id}", said="sub_account_changed")


def form_page(
    request: Request,
    who: SignedIn,
    form: Filled,
    found: SubAccount | None = None,
    **look: Any,
) -> Response:
    return show_form(
        request,
        "sub_accounts/form.html",
        who,
        form,
        draws_inline=True,
        unseen=form.unseen(FIELDS),
        found=found,
        **{"picture": None, "trouble": None} | look,
    )


def _lines(found: SubAccount) -> list[str]:
    """Where returned mail goes, line by line; nothing where the account's own address is used."""
    if not found.return_address:
        return []
    place = " ".join(filter(None, (found.return_state, found.return_postal_code)))
    town = ", ".join(filter(None, (found.return_city, place)))
    return [*filter(None, (found.return_name, found.return_address, found.return_address2, town))]


MEANS = (
    "Its tokens, webhooks, automations and connected apps end, in test mode and live.",
    "Teammates who are limited to it lose their way in.",
    "What it has mailed and spent stays in the account.",
    "It must be empty first: no order that waits, no list, no template. Delete or move those before.",
)


@router.get(f"{PAGE}/{{sub_account_id}}/delete")
def delete_page(request: Request, sub_account_id: str, who: Owner, parts: OurParts) -> Response:
    return _ask(request, id_in_path(sub_account_id), who, parts)


@router.post(f"{PAGE}/{{sub_account_id}}/delete")
def delete(request: Request, sub_account_id: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    number, now = id_in_path(sub_account_id), parts.clock()
    try:
        # Both modes: what is live keeps it, too, while one looks at test mode.
        with parts.db.transaction(Tenant(who.here.account_id)) as tx:
            gone = remove_sub_account(tx, number, now=now)
            about = {"title": gone.title, "id": gone.id}
            audit_service.note(
                tx,
                gone.account_id,
                "sub_account.deleted",
                who.actor,
                about=about,
                sub_account_id=gone.id,
                now=now,
            )
    except Refused as refused:
        return _ask(request, number, who, parts, refused.message)
    return go(PAGE, said="sub_account_deleted")


def _ask(request: Request, number: int, who: SignedIn, parts: Parts, refused: str | None = None) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        found = store.find_sub_account(tx, number)
    return are_you_sure(
        request,
        who,
        title=f"Delete “{found.title}”?",
        means=MEANS,
        button="Delete it",
        back=f"{PAGE}/{number}",
        refused=refused,
    )
