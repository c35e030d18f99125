"""The composer within another product's page, and which sites may show it."""

import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from quillpost.accounts.embeds.service import (
    KEY_PURPOSE,
    MAX_ORIGINS,
    EmbedToken,
    EmbedTokenRejected,
    read_embed_origins,
    update_embed_origins,
    verify_embed_token,
)
from quillpost.accounts.models import RateLimitStatus
from quillpost.accounts.rate_limits.service import count_embed_call, count_embed_guest_call, count_stored_send
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, QuillpostError, Refused, Throttled
from quillpost.orders.requests.service import store_send
from quillpost.web import security
from quillpost.web.api.errors import UnreadableBody, respond_to_error
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose import pages as compose_pages
from quillpost.web.dashboard.compose import recipients
from quillpost.web.dashboard.compose.estimates import PriceEstimate, estimate_draft, estimate_form
from quillpost.web.dashboard.compose.forms import ComposedSend, compose_send, draft_composed_order, to_form_errors
from quillpost.web.dashboard.compose.pages import FormErrors, composer_context
from quillpost.web.dashboard.compose.previews import REFUSED_FIELD, ComposePreview, preview_or_errors, render_preview
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.previews import draw_latest
from quillpost.web.dashboard.responses import ConfirmedOwnerContext, render_form_page
from quillpost.web.dashboard.styles import list_style_groups
from quillpost.web.dependencies import Services, base_url, get_container
from quillpost.web.forms import Form, PostedForm, read_form_with_key
from quillpost.web.rendering import redirect, render_page
from quillpost.web.security import ONE_TIME_KEY, UTC

MAX_CALLS_PER_MINUTE: Final = 3_000
"""Of all frames of one token: each key press is one."""
MAX_FRAME_CALLS_PER_MINUTE: Final = 300
"""Of one frame, so that it takes nothing from the others."""
MAX_STORED_SENDS_PER_FRAME: Final = 20
NO_FRAME_POLICY: Final = "frame-ancestors 'none'"
SHOWN_ERRORS: Final = (QuillpostError, UnreadableBody)


class FrameRoute(APIRoute):
    """Its responses may be shown in a frame of the guest's site, and say there what went wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        respond = super().get_route_handler()

        async def respond_in_frame(request: Request) -> Response:
            try:
                response = await respond(request)
            except SHOWN_ERRORS as error:
                response = _render_error(request, error)
            return allow_frame(response, getattr(request.state, "frame_origin", None))

        return respond_in_frame


def admit_guest(request: Request, token: str, container: Services) -> EmbedToken:
    """Every request with a valid token counts, before it is read."""
    try:
        guest = verify_embed_token(container.db, container.encryptor, token, now=container.clock())
    except EmbedTokenRejected as error:
        request.state.frame_origin = error.origin
        raise
    request.state.frame_origin = guest.origin
    _require_allowance(count_embed_guest_call(container.db, token, limit=MAX_FRAME_CALLS_PER_MINUTE))
    _require_allowance(count_embed_call(container.db, guest.token_id, limit=MAX_CALLS_PER_MINUTE))
    return guest


Guest = Annotated[EmbedToken, Depends(admit_guest)]


async def read_guest_form(request: Request, guest: Guest) -> Form:
    """Only what a guest may fill in, and only the lists of the frame."""
    form = await read_form_with_key(request)
    fields = {name: list(values) for name, values in form.fields.items() if name in GUEST_FIELDS}
    allowed_ids = {str(each) for each in guest.mailing_list_ids}
    fields["mailing_list_ids"] = [each for each in fields.get("mailing_list_ids", []) if each in allowed_ids]
    # What somebody of the account wrote is for their own mail.
    shipped_styles = {str(number) for number in get_container(request).renderer.hands.styles}
    fields["style"] = [each for each in fields.get("style", []) if each in shipped_styles]
    for name, excluded in (("image", "template"), ("audience", recipients.RADIUS)):
        fields[name] = [each for each in fields.get(name, []) if each != excluded]
    return Form(fields)


GuestForm = Annotated[Form, Depends(read_guest_form)]


def allow_frame(response: Response, origin: str | None) -> Response:
    """Only in a frame of this origin; without one in none. No referrer is sent."""
    policy = response.headers.get("Content-Security-Policy")
    if origin is not None and policy is not None:
        response.headers["Content-Security-Policy"] = policy.replace(NO_FRAME_POLICY, f"frame-ancestors {origin}")
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _require_allowance(allowance: RateLimitStatus) -> None:
    if allowance.is_exceeded:
        raise Throttled(retry_after=allowance.resets_in)


def _render_error(request: Request, error: Exception) -> Response:
    api_response = respond_to_error(request, error)
    message = error.message if isinstance(error, SHOWN_ERRORS) else str(error)
    response = render_page(request, "embed/error.html", status=api_response.status_code, message=message)
    if "Retry-After" in api_response.headers:
        response.headers["Retry-After"] = api_response.headers["Retry-After"]
    return response


router = APIRouter(include_in_schema=False)
frame_router = APIRouter(include_in_schema=False, route_class=FrameRoute)

FRAME_PATH: Final = "/embed/compose/{token}"
GUEST_FIELDS: Final = frozenset({
    "piece", "message", "style", "color", "color_own", "font_size", "manner", "image", "front_image_url",
    "background_url", "qrcode_url", "giftcard_brand", "giftcard_amount", "landing_page_url", "pdf_url",
    "pdf_is", "audience", "people", "mailing_list_ids", "shown", "seen", REFUSED_FIELD, security.ONE_TIME_FIELD,
    *(f"to_{name}" for name in recipients.PERSON_FIELDS),
})  # fmt: skip
"""What a guest may fill in: not what is saved in the account, its return address, sub accounts or schedule."""


@frame_router.get(FRAME_PATH)
def open_frame(request: Request, guest: Guest, container: Services) -> Response:
    return _render_frame(request, guest, container, Form(_default_fields(guest)))


@frame_router.post(FRAME_PATH)
def refresh_frame(request: Request, guest: Guest, form: GuestForm, container: Services) -> Response:
    """For browsers without scripts."""

    def draw() -> Response:
        preview, errors = preview_or_errors(form, guest.caller, container, UTC)
        price = estimate_form(form, guest.caller, container, UTC).for_guest()
        return _render_frame(request, guest, container, form, errors=errors, preview=preview, price=price)

    return draw_latest(guest.guest_key, draw)


@frame_router.post(f"{FRAME_PATH}/preview")
def preview_in_frame(request: Request, guest: Guest, form: GuestForm, container: Services) -> Response:
    return draw_latest(guest.guest_key, lambda: render_preview(request, form, guest.caller, container))


@frame_router.post(f"{FRAME_PATH}/people")
def people_in_frame(request: Request, guest: Guest, form: GuestForm, container: Services) -> Response:
    people = recipients.people_context(form, guest.caller, container)
    base_path = request.url.path.removesuffix("/people")
    return render_form_page(
        request, "compose/people.html", None, FormState(form.fields), people=people, base_path=base_path
    )


@frame_router.post(f"{FRAME_PATH}/price")
def price_in_frame(request: Request, guest: Guest, form: GuestForm, container: Services) -> Response:
    return render_page(
        request,
        "compose/price.html",
        price=estimate_form(form, guest.caller, container, UTC).for_guest(),
        base_path=request.url.path.removesuffix("/price"),
        is_testing=guest.caller.mode == "test",
    )


@frame_router.post(f"{FRAME_PATH}/send")
def store_frame_send(request: Request, token: str, guest: Guest, form: GuestForm, container: Services) -> Response:
    """Checked like a send. The same form twice is one stored send."""
    try:
        send = compose_send(form, container, UTC)
        order_draft = draft_composed_order(send, guest.caller, container)
        estimate = estimate_draft(order_draft, guest.caller, container)
    except (Invalid, Refused) as error:
        form_error = error if isinstance(error, Invalid) else to_form_errors(error)
        return _render_frame(request, guest, container, form, errors=form_error.fields)
    name = send.offer.product.paths[0]
    _require_allowance(count_stored_send(container.db, token, limit=MAX_STORED_SENDS_PER_FRAME))
    stored_id = _store_form(form, send, name, guest, container)
    return render_page(
        request,
        "embed/ready.html",
        url=f"{base_url(request)}/api/v2/stored_send/{name}/{stored_id}",
        product=name,
        origin=guest.origin,
        item_count=estimate.pieces,
    )


def _store_form(form: Form, composed_send: ComposedSend, name: str, guest: EmbedToken, container: Container) -> UUID:
    body = orjson.dumps(composed_send.payload)
    key = form.one_time_key
    digest_input = b"|".join((str(guest.account_id).encode(), key.encode(), body))
    digest = hmac.digest(container.encryptor.derive_keys(KEY_PURPOSE)[0], digest_input, hashlib.sha256)
    stored_id = UUID(bytes=digest[:16], version=4) if ONE_TIME_KEY.fullmatch(key) else None
    with container.db.transaction(build_tenant(guest.caller)) as tx:
        if guest.sub_account_id is not None:
            require_sub_account(tx, guest.sub_account_id)
        return store_send(
            tx,
            guest.caller,
            piece=name,
            sub_account_id=guest.sub_account_id,
            body=body.decode(),
            now=container.clock(),
            stored_id=stored_id,
        )


def _default_fields(guest: EmbedToken) -> dict[str, list[str]]:
    fields = compose_pages.default_fields()
    if guest.message:
        fields["message"] = [guest.message]
    if guest.piece:
        fields["piece"] = [_find_choice(guest.piece)]
    if guest.mailing_list_ids:
        fields |= {"audience": [recipients.LISTS], "mailing_list_ids": [str(guest.mailing_list_ids[0])]}
    return fields


def _find_choice(product_path: str) -> str:
    if product_path in compose_forms.PRODUCT_CHOICES:
        return product_path
    matching = (
        name for name, each in compose_forms.PRODUCT_CHOICES.items() if product_path in each.offer.product.paths
    )
    return next(matching, compose_forms.DEFAULT_PRODUCT)


def _render_frame(
    request: Request,
    guest: EmbedToken,
    container: Container,
    form: Form,
    *,
    errors: FormErrors | None = None,
    preview: ComposePreview | None = None,
    price: PriceEstimate | None = None,
) -> Response:
    caller = guest.caller
    base_path = f"/embed/compose/{request.path_params['token']}"
    fields = (*compose_forms.DESIGN_FORM_FIELDS.values(), *recipients.AUDIENCE_FORM_FIELDS.values())
    values = composer_context(caller, container, errors, preview, fields=fields) | {
        "images": [],
        "messages": [],
        "style_groups": list_style_groups(container, None),
        "signature_choices": [],
    }
    return render_form_page(
        request,
        "embed/compose.html",
        None,
        FormState(form.fields, errors or {}),
        has_inline_images=True,
        can_upload=False,
        price=price,
        base_path=base_path,
        is_testing=caller.mode == "test",
        **values,
        **recipients.audience_context(form, caller, container, allowed_ids=guest.mailing_list_ids),
    )


SITES_PATH = "/settings/embed"
SITES_TEMPLATE = "settings/embed.html"
MAX_ORIGINS_LENGTH = 10_000


@router.get(SITES_PATH)
def sites_page(context: ConfirmedOwnerContext) -> Response:
    with context.account_transaction() as tx:
        origins = read_embed_origins(tx, context.account_id)
    form = FormState({"origins": ["\n".join(origins)]})
    return context.render(SITES_TEMPLATE, form=form, max_origins=MAX_ORIGINS)


@router.post(SITES_PATH)
def change_sites(context: ConfirmedOwnerContext, form: PostedForm) -> Response:
    try:
        lines = form.text("origins", max_length=MAX_ORIGINS_LENGTH).splitlines()
        with context.account_transaction() as tx:
            update_embed_origins(tx, context.account_id, lines, context.user.actor, now=context.now())
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="origins")
        return context.render(SITES_TEMPLATE, form=form_state, max_origins=MAX_ORIGINS)
    return redirect(SITES_PATH, flash="origins_changed")
