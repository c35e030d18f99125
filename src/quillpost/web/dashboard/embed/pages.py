"""The composer within another product's page, and which sites may show it."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.embedding import (
    MOST_ORIGINS,
    PURPOSE,
    Closed,
    Pass,
    admit,
    change_origins,
    read_origins,
)
from quillpost.accounts.models import Allowance
from quillpost.accounts.service import count_embed, count_guest, count_kept, tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, QuillpostError, Refused, Throttled
from quillpost.orders.stored import store_send
from quillpost.web import csrf
from quillpost.web.api.errors import WrongBody, answer_to
from quillpost.web.api.orders.responses import base_of
from quillpost.web.cookies import UTC
from quillpost.web.csrf import KEY
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose import pages as compose_pages
from quillpost.web.dashboard.compose import recipients
from quillpost.web.dashboard.compose.estimates import Price, price_of, priced
from quillpost.web.dashboard.compose.forms import Composed, composed, draft, in_form_terms
from quillpost.web.dashboard.compose.pages import Faults, composer_values
from quillpost.web.dashboard.compose.previews import REFUSED, Preview, preview_part, previewed
from quillpost.web.dashboard.forms import Filled, show_form
from quillpost.web.dashboard.previews import in_turn
from quillpost.web.dashboard.settings.pages import settings_page
from quillpost.web.forms import Form, PostedForm, form_with_key
from quillpost.web.rendering import go, show
from quillpost.web.sessions import ConfirmedOwner, OurParts

CALLS_A_MINUTE: Final = 3_000
"""Of all frames that one token has opened: each key that is pressed is one."""
CALLS_OF_ONE: Final = 300
"""Of one frame. Whoever is over it takes nothing from the others."""
KEPT_OF_ONE: Final = 20
"""Sends that one frame stores: whoever changes their mind so often opens it anew."""
NO_FRAME: Final = "frame-ancestors 'none'"
NOTHING: Final = Form({})
UNEXPECTED: Final = (QuillpostError, WrongBody)


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody at the frame of a site, with a pass, or with what is wrong: that is told within the frame,
    once it is known whose that is."""

    origin: str | None
    guest: Pass | Exception
    form: Form = NOTHING


def at_the_frame(token: str, parts: OurParts) -> Visit:
    """Every request of a good pass counts, before anything of it is read."""
    origin: str | None = None
    try:
        guest = admit(parts.db, parts.sealer, token, now=parts.clock())
        origin = guest.origin
        _require_left(count_guest(parts.db, token, limit=CALLS_OF_ONE))
        _require_left(count_embed(parts.db, guest.token_id, limit=CALLS_A_MINUTE))
    except Closed as closed:
        return Visit(closed.origin, closed)
    except QuillpostError as wrong:
        return Visit(origin, wrong)
    return Visit(origin, guest)


AtTheFrame = Annotated[Visit, Depends(at_the_frame)]


async def with_form(request: Request, visit: AtTheFrame) -> Visit:
    """With what was sent; of whoever is not let in it is not even read."""
    if isinstance(visit.guest, Exception):
        return visit
    try:
        return replace(visit, form=await form_with_key(request))
    except UNEXPECTED as wrong:
        return replace(visit, guest=wrong)


WithForm = Annotated[Visit, Depends(with_form)]
Answer = Callable[[Pass], Response]


def within(request: Request, visit: Visit, answer: Answer) -> Response:
    """The answer to whoever holds a pass that still opens; to everybody else a few words."""
    try:
        if isinstance(visit.guest, Exception):
            raise visit.guest
        return framed(answer(visit.guest), visit.origin)
    except UNEXPECTED as wrong:
        return framed(_words(request, wrong), visit.origin)


def framed(shown: Response, origin: str | None) -> Response:
    """For this site's frame, and nobody else's; without one for none. No address of it is told to anybody."""
    policy = shown.headers.get("Content-Security-Policy")
    if origin is not None and policy is not None:
        shown.headers["Content-Security-Policy"] = policy.replace(NO_FRAME, f"frame-ancestors {origin}")
    shown.headers["Referrer-Policy"] = "no-referrer"
    return shown


def require_room(parts: Parts, token: str) -> None:
    """Before one more send is stored: `Throttled` if this frame has stored too many."""
    _require_left(count_kept(parts.db, token, limit=KEPT_OF_ONE))


def _require_left(allowance: Allowance) -> None:
    if allowance.is_spent:
        raise Throttled(retry_after=allowance.resets_in)


def _words(request: Request, wrong: Exception) -> Response:
    told = answer_to(request, wrong)
    message = wrong.message if isinstance(wrong, UNEXPECTED) else str(wrong)
    shown = show(request, "embed/words.html", status=told.status_code, message=message)
    if "Retry-After" in told.headers:
        shown.headers["Retry-After"] = told.headers["Retry-After"]
    return shown


router = APIRouter(include_in_schema=False)

PATH: Final = "/embed/compose/{token}"
TAKEN: Final = frozenset({
    "piece", "message", "style", "color", "color_own", "font_size", "realism", "image", "front_image_url",
    "background_url", "qrcode_url", "giftcard_brand", "giftcard_amount", "landing_page_url", "pdf_url",
    "pdf_is", "audience", "people", "mailing_list_ids", "shown", "seen", REFUSED, csrf.FIELD,
    *(f"to_{name}" for name in recipients.BY_HAND),
})  # fmt: skip
"""What of the form is a guest's to say. What is saved in the account is the account's own, and so are its
return address, its sub accounts, and when it mails."""


@router.get(PATH)
def open_frame(request: Request, visit: AtTheFrame, parts: OurParts) -> Response:
    return within(request, visit, lambda guest: _page(request, guest, parts, Form(_usual(guest))))


@router.post(PATH)
def frame_again(request: Request, visit: WithForm, parts: OurParts) -> Response:
    """For browsers without scripts: the page with what stands in its form, and the picture of it."""

    def drawn(guest: Pass) -> Response:
        form = _own(visit.form, guest)
        preview, faults = previewed(form, guest.caller, parts, UTC)
        price = price_of(form, guest.caller, parts, UTC).for_guest()
        return _page(request, guest, parts, form, faults=faults, preview=preview, price=price)

    return within(request, visit, lambda guest: in_turn(guest.mark, lambda: drawn(guest)))


@router.post(f"{PATH}/preview")
def frame_preview(request: Request, visit: WithForm, parts: OurParts) -> Response:
    def drawn(guest: Pass) -> Response:
        return preview_part(request, _own(visit.form, guest), guest.caller, parts)

    return within(request, visit, lambda guest: in_turn(guest.mark, lambda: drawn(guest)))


@router.post(f"{PATH}/people")
def frame_people(request: Request, visit: WithForm, parts: OurParts) -> Response:
    def answer(guest: Pass) -> Response:
        form = _own(visit.form, guest)
        found = recipients.found_values(form, guest.caller, parts)
        typed = Filled(form.fields).values
        here = request.url.path.removesuffix("/people")
        return show(request, "compose/people_found.html", typed=typed, found=found, within=here)

    return within(request, visit, answer)


@router.post(f"{PATH}/price")
def frame_price(request: Request, visit: WithForm, parts: OurParts) -> Response:
    def answer(guest: Pass) -> Response:
        price = price_of(_own(visit.form, guest), guest.caller, parts, UTC).for_guest()
        return show(
            request,
            "compose/price.html",
            price=price,
            within=request.url.path.removesuffix("/price"),
            is_testing=guest.caller.is_testing,
        )

    return within(request, visit, answer)


@router.post(f"{PATH}/send")
def store(request: Request, visit: WithForm, parts: OurParts) -> Response:
    """Checked in every respect, and stored. The same form twice is one stored send."""

    def answer(guest: Pass) -> Response:
        form = _own(visit.form, guest)
        try:
            made = composed(form, parts, UTC)
            expected = priced(draft(made, guest.caller, parts), guest.caller, parts)
        except (Invalid, Refused) as wrong:
            told = wrong if isinstance(wrong, Invalid) else in_form_terms(wrong)
            return _page(request, guest, parts, form, faults=told.fields)
        name = made.offer.piece.paths[0]
        require_room(parts, request.path_params["token"])
        kept = _stored(form, made, name, guest, parts)
        return show(
            request,
            "embed/ready.html",
            url=f"{base_of(request)}/api/v2/stored_send/{name}/{kept}",
            piece=name,
            origin=guest.origin,
            pieces=expected.pieces,
        )

    return within(request, visit, answer)


def _stored(form: Form, made: Composed, name: str, guest: Pass, parts: Parts) -> UUID:
    body = orjson.dumps(made.sent)
    key = form.text(csrf.FIELD)
    claim = b"|".join((str(guest.account_id).encode(), key.encode(), body))
    digest = hmac.digest(parts.sealer.derive_all(PURPOSE)[0], claim, hashlib.sha256)
    chosen = UUID(bytes=digest[:16], version=4) if KEY.fullmatch(key) else None
    with parts.db.transaction(tenant(guest.caller)) as tx:
        if guest.sub_account_id is not None:
            require_sub_account(tx, guest.sub_account_id)
        return store_send(
            tx,
            guest.caller,
            piece=name,
            sub_account_id=guest.sub_account_id,
            body=body.decode(),
            now=parts.clock(),
            stored_id=chosen,
        )


def _own(form: Form, guest: Pass) -> Form:
    """No more than a guest may say. Lists that are not for the frame are not even looked at."""
    fields = {name: list(values) for name, values in form.fields.items() if name in TAKEN}
    named = {str(each) for each in guest.mailing_list_ids}
    fields["mailing_list_ids"] = [each for each in fields.get("mailing_list_ids", []) if each in named]
    for name, barred in (("image", "template"), ("audience", recipients.RADIUS)):
        fields[name] = [each for each in fields.get(name, []) if each != barred]
    return Form(fields)


def _usual(guest: Pass) -> dict[str, list[str]]:
    fields = compose_pages.usual()
    if guest.message:
        fields["message"] = [guest.message]
    if guest.piece:
        fields["piece"] = [_choice(guest.piece)]
    if guest.mailing_list_ids:
        fields |= {"audience": [recipients.LISTS], "mailing_list_ids": [str(guest.mailing_list_ids[0])]}
    return fields


def _choice(piece: str) -> str:
    """The form's name for what the API calls by one of several."""
    if piece in compose_forms.CHOICES:
        return piece
    fitting = (name for name, each in compose_forms.CHOICES.items() if piece in each.offer.piece.paths)
    return next(fitting, compose_forms.USUAL)


def _page(
    request: Request,
    guest: Pass,
    parts: Parts,
    form: Form,
    *,
    faults: Faults | None = None,
    preview: Preview | None = None,
    price: Price | None = None,
) -> Response:
    caller = guest.caller
    here = f"/embed/compose/{request.path_params['token']}"
    fields = (*compose_forms.DESIGN_FORM_FIELDS.values(), *recipients.AUDIENCE_FORM_FIELDS.values())
    values = composer_values(caller, parts, faults, preview, fields=fields) | {"images": [], "messages": []}
    return show_form(
        request,
        "embed/compose.html",
        None,
        Filled(form.fields, faults or {}),
        draws_inline=True,
        can_upload=False,
        price=price,
        within=here,
        is_testing=caller.is_testing,
        **values,
        **recipients.page_values(form, caller, parts, among=guest.mailing_list_ids),
    )


PAGE = "/settings/embed"
TEMPLATE = "settings/embed.html"
LONGEST = 10_000


@router.get(PAGE)
def sites_page(request: Request, who: ConfirmedOwner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        sites = read_origins(tx, who.here.account_id)
    form = Filled({"origins": ["\n".join(sites)]})
    return settings_page(request, TEMPLATE, who, parts, form=form, sites=sites, most=MOST_ORIGINS)


@router.post(PAGE)
def change_sites(request: Request, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    try:
        lines = form.text("origins", most=LONGEST).splitlines()
        with parts.db.transaction(who.tenant) as tx:
            change_origins(tx, who.here.account_id, lines, who.actor, now=parts.clock())
    except Invalid as refused:
        again = Filled.back(form, refused, at="origins")
        return settings_page(request, TEMPLATE, who, parts, form=again, sites=(), most=MOST_ORIGINS)
    return go(PAGE, said="origins_changed")
