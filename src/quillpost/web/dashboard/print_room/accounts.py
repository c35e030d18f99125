"""Accounts, their credit, and gift card brands, for operators."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts import queries as account_queries
from quillpost.accounts.billing import credit
from quillpost.accounts.users.sessions import CONFIRMATION_LIFETIME, SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import stock
from quillpost.orders.giftcards.rules import BRAND_GROUPS, DEFAULT_ACCENT, GiftcardBrand
from quillpost.web import csrf
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.api.giftcards.endpoints import BRAND_CHANGED, BRAND_RETIRED, BrandFields
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, read_body, render_confirmation
from quillpost.web.dashboard.lists_common import parse_page
from quillpost.web.dashboard.print_room.labels import format_dollars, parse_cents
from quillpost.web.dashboard.print_room.pages import (
    PRINT_ROOM_PATH,
    audit_writer,
    regroup_errors,
    render_room_page,
    require_live,
    write_audit_entry,
)
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, redirect
from quillpost.web.sessions import ConfirmedOperator, CurrentOperator

router = APIRouter(include_in_schema=False)

ACCOUNTS_PATH = f"{PRINT_ROOM_PATH}/accounts"
MAX_SEARCH_LENGTH = 100


@router.get(ACCOUNTS_PATH)
def accounts_page(
    request: Request, user: CurrentOperator, container: Services, find: str = "", page: str = ""
) -> Response:
    search_text = find.replace("\x00", "").strip()[:MAX_SEARCH_LENGTH]
    month = container.clock().date().replace(day=1)
    with container.db.system_transaction() as tx:
        accounts = account_queries.list_accounts(tx, parse_page(page), mode=user.mode, month=month, search=search_text)
    path = f"{ACCOUNTS_PATH}?{urlencode({'find': search_text})}" if search_text else ACCOUNTS_PATH
    return render_room_page(
        request, "accounts.html", user, container, page=accounts, search_text=search_text, list_url=path
    )


@router.get(f"{ACCOUNTS_PATH}/{{account_id}}")
def show_account(request: Request, account_id: str, user: CurrentOperator, container: Services) -> Response:
    return render_account_page(request, user, container, parse_path_id(account_id))


def render_account_page(
    request: Request, user: SignedInUser, container: Container, account_id: int, *, form: FormState = EMPTY_FORM
) -> Response:
    """One account, with the form that moves its credit, or the way there: whoever gave their password long
    ago gives it before they fill anything in."""
    month = container.clock().date().replace(day=1)
    with container.db.system_transaction() as tx:
        account = account_queries.find_account_summary(tx, account_id, mode=user.mode, month=month)
        moves = account_queries.list_recent_moves(tx, account_id, mode=user.mode)
    is_confirmed = container.clock() - user.confirmed_at <= CONFIRMATION_LIFETIME
    return render_room_page(
        request, "account.html", user, container, form=form, account=account, moves=moves, is_confirmed=is_confirmed
    )


ALREADY_MOVED = "The account's page shows what it has now."
DEPOSIT, WITHDRAWAL = "give", "take"


@router.get(f"{ACCOUNTS_PATH}/{{account_id}}/credit")
def credit_page(request: Request, account_id: str, user: ConfirmedOperator, container: Services) -> Response:
    """The account's page, for whoever was asked for their password on the way to the form."""
    return render_account_page(request, user, container, parse_path_id(account_id))


@router.post(f"{ACCOUNTS_PATH}/{{account_id}}/credit")
def move_credit(
    request: Request, account_id: str, user: ConfirmedOperator, form: PostedForm, container: Services
) -> Response:
    """In the log of that account, under the operator's name, and in the operator's own."""
    require_live(user)
    number, now = parse_path_id(account_id), container.clock()
    account_path = f"{ACCOUNTS_PATH}/{number}"
    try:
        cents, direction, reason = (
            parse_cents(form.text("amount"), field="amount"),
            form.text("way"),
            form.text("note"),
        )
        errors = {} if direction in (DEPOSIT, WITHDRAWAL) else {"way": ["Choose whether to add it or to take it out."]}
        if not reason:
            errors["note"] = ["Say what it is for: the ledger keeps it."]
        if errors:
            raise Invalid(errors)
        with container.db.system_transaction() as tx:
            account = account_queries.find_account_summary(tx, number, mode="live", month=now.date().replace(day=1))
            key = form.text(csrf.ONE_TIME_FIELD)
            use_one_time_key(tx, user, key, hint=ALREADY_MOVED, result_path=account_path)
            transfer = credit.deposit if direction == DEPOSIT else credit.withdraw
            transfer(tx, number, cents=cents, key=f"page:{key}", note=reason, actor=user.actor, now=now)
            if number != user.here.account_id:
                amount = format_cents(cents if direction == DEPOSIT else -cents)
                audit_writer(user, container, "credit.moved", {"name": account.name, "amount": amount, "note": reason})(
                    tx
                )
    except (Invalid, Refused) as error:
        return render_account_page(
            request, user, container, number, form=FormState.from_error(form, error, default_field="amount")
        )
    return redirect(account_path, flash="credit_given" if direction == DEPOSIT else "credit_taken")


BRANDS_PATH = f"{PRINT_ROOM_PATH}/brands"
FORM_FIELDS = ("brand_code", "title", "group", "available_amounts", "color", "issuer_code")
CODE_TAKEN = "There is a brand of this code already. Change that one, or choose another code."


@router.get(BRANDS_PATH)
def brands_page(request: Request, user: CurrentOperator, container: Services) -> Response:
    with container.db.system_transaction() as tx:
        brands = stock.list_all_brands(tx)
        free_counts = stock.count_free_cards(tx, now=container.clock())
    return render_room_page(
        request,
        "brands.html",
        user,
        container,
        brands=brands,
        free_counts=free_counts,
        max_free_count=stock.MAX_FREE_COUNT,
        groups=BRAND_GROUPS,
    )


@router.get(f"{BRANDS_PATH}/new")
def new_brand_page(request: Request, user: CurrentOperator, container: Services) -> Response:
    require_live(user)
    return _render_brand_form(request, user, container, FormState({"color": [DEFAULT_ACCENT], "group": ["main"]}), None)


@router.post(f"{BRANDS_PATH}/new")
def create_brand(request: Request, user: CurrentOperator, form: PostedForm, container: Services) -> Response:
    require_live(user)
    code = form.text("brand_code")
    try:
        with container.db.system_transaction() as tx:
            if code in giftcard_queries.find_brands(tx, [code], locked=True):
                raise Invalid({"brand_code": [CODE_TAKEN]})
            giftcard_queries.save_brand(tx, _read_brand_fields(form).to_brand(code, None), now=container.clock())
            write_audit_entry(tx, user, container, BRAND_CHANGED, {"name": code})
    except Invalid as error:
        return _render_brand_form(
            request, user, container, FormState.from_error(form, error, default_field="title"), None
        )
    return redirect(BRANDS_PATH, flash="brand_saved")


@router.get(f"{BRANDS_PATH}/{{code}}/change")
def change_brand_page(request: Request, code: str, user: CurrentOperator, container: Services) -> Response:
    require_live(user)
    brand = _find_brand(container, code)
    values = {
        "title": [brand.title],
        "group": [brand.section],
        "available_amounts": [", ".join(map(format_dollars, brand.amounts))],
        "color": [brand.accent],
        "issuer_code": [brand.issuer_code or ""],
    }
    return _render_brand_form(request, user, container, FormState(values), brand)


@router.post(f"{BRANDS_PATH}/{{code}}/change")
def change_brand(request: Request, code: str, user: CurrentOperator, form: PostedForm, container: Services) -> Response:
    """One that was withdrawn is offered again."""
    require_live(user)
    brand = _find_brand(container, code)
    try:
        with container.db.system_transaction() as tx:
            current = giftcard_queries.find_brands(tx, [code], locked=True).get(code)
            if giftcard_queries.save_brand(tx, _read_brand_fields(form).to_brand(code, current), now=container.clock()):
                write_audit_entry(tx, user, container, BRAND_CHANGED, {"name": code})
    except Invalid as error:
        return _render_brand_form(
            request, user, container, FormState.from_error(form, error, default_field="title"), brand
        )
    return redirect(BRANDS_PATH, flash="brand_saved")


@router.get(f"{BRANDS_PATH}/{{code}}/withdraw")
def withdraw_brand_page(request: Request, code: str, user: CurrentOperator, container: Services) -> Response:
    require_live(user)
    brand = _find_brand(container, code)
    return render_confirmation(
        request,
        user,
        title=f"Withdraw {brand.title}?",
        consequences=[
            "From now on no sender can choose it.",
            "Orders that have it go on, and cards that were sent can be claimed. You can offer it again.",
        ],
        button_label="Withdraw it",
        back_url=BRANDS_PATH,
    )


@router.post(f"{BRANDS_PATH}/{{code}}/withdraw")
def withdraw_brand(code: str, user: CurrentOperator, _form: PostedForm, container: Services) -> Response:
    require_live(user)
    with container.db.system_transaction() as tx:
        if giftcard_queries.retire_brand(tx, code, now=container.clock()):
            write_audit_entry(tx, user, container, BRAND_RETIRED, {"name": code})
    return redirect(BRANDS_PATH, flash="brand_retired")


def _find_brand(container: Container, code: str) -> GiftcardBrand:
    with container.db.system_transaction() as tx:
        brand = giftcard_queries.find_brands(tx, [code]).get(code)
    if brand is None:
        raise NotFound
    return brand


def _read_brand_fields(form: Form) -> BrandFields:
    """What the interface calls a brand's parts; people write dollars, it has cents."""
    amount_texts = form.text("available_amounts", max_length=1_000).replace(",", " ").split()
    amounts = sorted({parse_cents(amount, field="available_amounts") for amount in amount_texts})
    values = {name: form.text(name) for name in ("title", "group", "color", "issuer_code")}
    return read_body(BrandFields, {**values, "available_amounts": amounts})


def _render_brand_form(
    request: Request, user: SignedInUser, container: Container, form: FormState, brand: GiftcardBrand | None
) -> Response:
    form_state = regroup_errors(form, FORM_FIELDS, "title")
    return render_room_page(
        request, "brand_form.html", user, container, form=form_state, brand=brand, groups=BRAND_GROUPS.items()
    )
