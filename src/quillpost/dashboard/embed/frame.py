"""The composer within another product's page. It ends in a stored send: the page around it is told where that
is, and its server opens it with its own token."""

import hashlib
import hmac
from typing import Final
from uuid import UUID

import orjson
from fastapi import APIRouter, Request, Response

from quillpost.accounts.embedding import PURPOSE, Pass
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.v2.shapes import base_of
from quillpost.dashboard.compose import audience, look, starting
from quillpost.dashboard.compose.form import Composed, composed, draft, in_form_terms
from quillpost.dashboard.compose.page import Faults, composer_values
from quillpost.dashboard.compose.previewing import REFUSED, Preview, preview_part, previewed
from quillpost.dashboard.compose.price import Price, price_of, priced
from quillpost.dashboard.embed.guests import AtTheFrame, WithForm, require_room, within
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.turns import in_turn
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders.stored import store_send
from quillpost.parts import Parts
from quillpost.reception import once
from quillpost.reception.forms import Form
from quillpost.reception.once import KEY
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts
from quillpost.reception.zones import UTC

router = APIRouter(include_in_schema=False)

PATH: Final = "/embed/compose/{token}"
TAKEN: Final = frozenset({
    "piece", "message", "style", "color", "color_own", "font_size", "realism", "image", "front_image_url",
    "background_url", "qrcode_url", "giftcard_brand", "giftcard_amount", "landing_page_url", "pdf_url",
    "pdf_is", "audience", "people", "mailing_list_ids", "shown", "seen", REFUSED, once.FIELD,
    *(f"to_{name}" for name in audience.BY_HAND),
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
        found = audience.found_values(form, guest.caller, parts)
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
    key = form.text(once.FIELD)
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
    for name, barred in (("image", "template"), ("audience", audience.RADIUS)):
        fields[name] = [each for each in fields.get(name, []) if each != barred]
    return Form(fields)


def _usual(guest: Pass) -> dict[str, list[str]]:
    fields = starting.usual()
    if guest.message:
        fields["message"] = [guest.message]
    if guest.piece:
        fields["piece"] = [_choice(guest.piece)]
    if guest.mailing_list_ids:
        fields |= {"audience": [audience.LISTS], "mailing_list_ids": [str(guest.mailing_list_ids[0])]}
    return fields


def _choice(piece: str) -> str:
    """The form's name for what the API calls by one of several."""
    if piece in look.CHOICES:
        return piece
    fitting = (name for name, each in look.CHOICES.items() if piece in each.offer.piece.paths)
    return next(fitting, look.USUAL)


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
    fields = (*look.FORM_FIELDS.values(), *audience.FORM_FIELDS.values())
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
        **audience.page_values(form, caller, parts, among=guest.mailing_list_ids),
    )
