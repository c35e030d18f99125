"""Sub accounts and their branding."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.accounts.billing.queries import sum_spending_by_sub_account
from quillpost.accounts.service import read_sender
from quillpost.accounts.sub_accounts.queries import (
    SubAccount,
    find_sub_account,
    lock_sub_account,
    read_sub_account_page,
)
from quillpost.accounts.sub_accounts.service import create_sub_account, remove_sub_account, update_sub_account
from quillpost.app.container import Container
from quillpost.core.cache import SharedCache
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, Refused, Unavailable
from quillpost.orders import designs
from quillpost.orders.models import Handwriting
from quillpost.orders.queries import count_orders_by_sub_account
from quillpost.orders.requests.files import build_branding, logo_source
from quillpost.orders.templates.images import FetchedPicture, FileToFetch, fetch_images
from quillpost.rendering import models as rendering_models
from quillpost.rendering.models import Addressee, Copy, Design, parse_color
from quillpost.web.api.sub_accounts.schemas import Branding, ChangedSubAccount, NewSubAccount
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.previews import digest_values, draw_side
from quillpost.web.dashboard.responses import OwnerContext, PathId, RequestContext, UserContext
from quillpost.web.dashboard.sub_accounts.forms import (
    FORM_FIELDS,
    read_branding,
    read_sub_account_fields,
    rejected_form,
    sub_account_form_fields,
    to_form_errors,
)
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key
from quillpost.web.sessions import is_fragment

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/sub-accounts"
PAGE_SIZE = 50
MAX_SEARCH_LENGTH = 200


@router.get(PAGE_PATH)
def sub_accounts_page(context: UserContext, q: str = "", page: str = "") -> Response:
    now, tenant_scope = context.now(), context.tenant
    name_filter = q.replace("\x00", "").strip()[:MAX_SEARCH_LENGTH]
    month = now.astimezone(UTC).date().replace(day=1)
    with context.transaction() as tx:
        sub_accounts = read_sub_account_page(tx, parse_page(page, per_page=PAGE_SIZE), title_search=name_filter)
        sub_account_ids = [each.id for each in sub_accounts.rows]
        orders_by_id = count_orders_by_sub_account(tx, tenant_scope, sub_account_ids)
        spent_by_id = sum_spending_by_sub_account(tx, tenant_scope, since=month, sub_account_ids=sub_account_ids)
    return context.render(
        "sub_accounts/list.html",
        FormState({"q": [name_filter]}),
        page=sub_accounts,
        order_counts=orders_by_id,
        spent=spent_by_id,
        month=month,
    )


PREVIEW_PRODUCT: Final = "postcard-4x6"
PREVIEW_WIDTH = 900  # pixels
LOGO_CACHE_SECONDS = 300  # not fetched again while the user tries colors

_logo_cache: SharedCache[tuple[int, str, int], FetchedPicture] = SharedCache(
    max_size=32_000_000, size_of=lambda picture: len(picture.body)
)
_front_cache: SharedCache[str, bytes] = SharedCache(max_size=16_000_000, size_of=len)


@router.get(f"{PAGE_PATH}/{{sub_account_id}}/front.png")
def front_picture(context: UserContext, sub_account_id: PathId) -> Response:
    """Without a logo that cannot be fetched: the form says why."""
    with context.transaction() as tx:
        sub_account = find_sub_account(tx, sub_account_id)
        sender = read_sender(tx, context.user.caller, sub_account.id)
    branding = dict(sub_account.branding)
    rendering_sender = rendering_models.SenderName(sender.name, sender.company)
    etag = digest_values(sorted(branding.items()), rendering_sender, _cache_period(context.now()))

    def draw() -> bytes:
        try:
            logo = _fetch_logo(context, branding)
        except (Invalid, Unavailable):
            logo = None
        return draw_front(context.container, branding, rendering_sender, logo)

    return context.picture(etag, lambda: _front_cache.get(etag, draw))


def draw_form_front(context: RequestContext, form: Form) -> tuple[str | None, list[str]]:
    """The front with the branding of a form, and the errors that keep it from looking as written."""
    try:
        branding = _drop_none(read_body(Branding, read_branding(form)).provided_fields())
    except Invalid as error:
        return None, [sentence for messages in to_form_errors(error).fields.values() for sentence in messages]
    with context.transaction() as tx:
        account = read_sender(tx, context.user.caller, None)
    sender = rendering_models.SenderName(
        branding.get("name") or account.name, branding.get("company") or account.company
    )
    error_messages: list[str] = []
    try:
        logo = _fetch_logo(context, branding)
    except Invalid as error:
        logo, error_messages = None, [sentence for messages in error.fields.values() for sentence in messages]
    return b64encode(draw_front(context.container, branding, sender, logo)).decode(), error_messages


def draw_front(
    container: Container, branding: Mapping[str, Any], sender: rendering_models.SenderName, logo: bytes | None
) -> bytes:
    brand = build_branding(branding)
    design = Design(
        product=PREVIEW_PRODUCT,
        message=" ",
        ink=parse_color(Handwriting().color).ink,
        branding=designs.build_branding(brand, logo) if brand else None,
        sender=sender,
    )
    return draw_side(container.renderer, design, Copy(0, 0, Addressee()), "front", width=PREVIEW_WIDTH)


def _fetch_logo(context: RequestContext, branding: Mapping[str, Any]) -> bytes | None:
    """Fetched as for a send; `Invalid` says what is wrong."""
    source = logo_source(branding)
    if source is None or source.url is None:
        return None
    url = source.url
    if url_error := context.container.check_url(url):
        raise Invalid({"logo": [url_error]})
    key = context.account_id, url, _cache_period(context.now())
    return _logo_cache.get(key, lambda: fetch_images(context.container.fetcher, [FileToFetch(url, "logo")])[0]).body


def _cache_period(now: datetime) -> int:
    return int(now.timestamp()) // LOGO_CACHE_SECONDS


def _drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


ALREADY_CREATED = "The sub account is there already."


@router.get(f"{PAGE_PATH}/new")
def new_sub_account_page(context: OwnerContext) -> Response:
    return render_form(context, EMPTY_FORM)


@router.post(f"{PAGE_PATH}/new")
def create_sub_account_from_form(context: OwnerContext, form: PostedForm) -> Response:
    now = context.now()
    try:
        body = read_body(NewSubAccount, read_sub_account_fields(form))
        if errors := body.find_errors(context.container.check_url):
            raise Invalid(errors)
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_CREATED, result_path=PAGE_PATH)
            sub_account = create_sub_account(tx, context.user.caller, body.columns(), now=now)
            details = {"title": sub_account.title, "id": sub_account.id}
            context.audit(tx, "sub_account.created", details, sub_account_id=sub_account.id)
    except (Invalid, Refused) as error:
        return render_form(context, rejected_form(form, error))
    return redirect(f"{PAGE_PATH}/{sub_account.id}", flash="sub_account_made")


@router.post(f"{PAGE_PATH}/preview")
def preview_front(context: OwnerContext, form: PostedForm) -> Response:
    """A part of the form's page; without scripts, all of it."""
    picture, error_messages = draw_form_front(context, form)
    if is_fragment(context.request):
        return context.render("sub_accounts/front_preview.html", picture=picture, error_messages=error_messages)
    number = form.number("sub_account_id")
    sub_account = None
    if number is not None:
        with context.transaction() as tx:
            sub_account = find_sub_account(tx, number)
    return render_form(context, FormState(form.fields), sub_account, picture=picture, error_messages=error_messages)


@router.get(f"{PAGE_PATH}/{{sub_account_id}}")
def sub_account_page(context: UserContext, sub_account_id: PathId) -> Response:
    now, tenant_scope = context.now(), context.tenant
    month = now.astimezone(UTC).date().replace(day=1)
    with context.transaction() as tx:
        sub_account = find_sub_account(tx, sub_account_id)
        orders = count_orders_by_sub_account(tx, tenant_scope, [sub_account.id])
        spent = sum_spending_by_sub_account(tx, tenant_scope, since=month, sub_account_ids=[sub_account.id])
        spent_in_total = sum_spending_by_sub_account(
            tx, tenant_scope, since=month.replace(year=1970), sub_account_ids=[sub_account.id]
        )
    return context.render(
        "sub_accounts/sub_account.html",
        sub_account=sub_account,
        return_address=_return_address_lines(sub_account),
        order_count=orders.get(sub_account.id, 0),
        spent=spent.get(sub_account.id, 0),
        spent_in_total=spent_in_total.get(sub_account.id, 0),
        month=month,
    )


@router.get(f"{PAGE_PATH}/{{sub_account_id}}/edit")
def edit_page(context: OwnerContext, sub_account_id: PathId) -> Response:
    with context.transaction() as tx:
        sub_account = find_sub_account(tx, sub_account_id)
    return render_form(context, FormState(sub_account_form_fields(sub_account)), sub_account)


@router.post(f"{PAGE_PATH}/{{sub_account_id}}/edit")
def change_sub_account_from_form(context: OwnerContext, sub_account_id: PathId, form: PostedForm) -> Response:
    with context.transaction() as tx:
        sub_account = find_sub_account(tx, sub_account_id)
    try:
        body = read_body(ChangedSubAccount, read_sub_account_fields(form))
        with context.transaction() as tx:
            current = lock_sub_account(tx, sub_account.id)
            if errors := body.find_errors(context.container.check_url, current):
                raise Invalid(errors)
            update_sub_account(tx, current.id, body.columns(current), now=context.now())
    except (Invalid, Refused) as error:
        return render_form(context, rejected_form(form, error), sub_account)
    return redirect(f"{PAGE_PATH}/{sub_account.id}", flash="sub_account_changed")


def render_form(
    context: RequestContext, form: FormState, sub_account: SubAccount | None = None, **preview_values: Any
) -> Response:
    return context.render(
        "sub_accounts/form.html",
        form,
        has_inline_images=True,
        general_errors=form.list_errors_outside(FORM_FIELDS),
        sub_account=sub_account,
        **{"picture": None, "error_messages": None} | preview_values,
    )


def _return_address_lines(sub_account: SubAccount) -> list[str]:
    """Empty where the account's own address is used."""
    if not sub_account.return_address:
        return []
    state_line = " ".join(filter(None, (sub_account.return_state, sub_account.return_postal_code)))
    town_line = ", ".join(filter(None, (sub_account.return_city, state_line)))
    return [
        *filter(None, (sub_account.return_name, sub_account.return_address, sub_account.return_address2, town_line))
    ]


DELETE_CONSEQUENCES = (
    "Its tokens, webhooks, automations and connected apps end, in test mode and live.",
    "Teammates who are limited to it lose their way in.",
    "What it has mailed and spent stays in the account.",
    "It must be empty first: no order that waits, no list, no template. Delete or move those before.",
)


@router.get(f"{PAGE_PATH}/{{sub_account_id}}/delete")
def delete_page(context: OwnerContext, sub_account_id: PathId) -> Response:
    return _render_delete_page(context, sub_account_id)


@router.post(f"{PAGE_PATH}/{{sub_account_id}}/delete")
def delete_sub_account_from_form(context: OwnerContext, sub_account_id: PathId, _form: PostedForm) -> Response:
    now = context.now()
    try:
        # Both modes: what is live keeps it, too, while one looks at test mode.
        with context.container.db.transaction(Tenant(context.account_id)) as tx:
            sub_account = remove_sub_account(tx, sub_account_id, now=now)
            details = {"title": sub_account.title, "id": sub_account.id}
            context.audit(tx, "sub_account.deleted", details, sub_account_id=sub_account.id)
    except Refused as error:
        return _render_delete_page(context, sub_account_id, error.message)
    return redirect(PAGE_PATH, flash="sub_account_deleted")


def _render_delete_page(context: RequestContext, number: int, error_message: str | None = None) -> Response:
    with context.account_transaction() as tx:
        sub_account = find_sub_account(tx, number)
    return context.confirm(
        title=f"Delete “{sub_account.title}”?",
        consequences=DELETE_CONSEQUENCES,
        button_label="Delete it",
        back_url=f"{PAGE_PATH}/{number}",
        error_message=error_message,
    )
