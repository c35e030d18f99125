"""Accounts and their credit, prices, and gift card brands, for operators."""

from urllib.parse import urlencode

from fastapi import APIRouter, Response

from quillpost.accounts import queries as account_queries
from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.queries import NO_FILTER, find_future_price, list_moves, read_price_list
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, PriceChange, PriceHistory, UnitPrice
from quillpost.accounts.users.sessions import CONFIRMATION_LIFETIME
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import stock
from quillpost.orders.giftcards.rules import BRAND_GROUPS, DEFAULT_ACCENT, GiftcardBrand
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.web.api.giftcards.schemas import BrandFields
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_day, parse_page, read_body
from quillpost.web.dashboard.labels import product_name
from quillpost.web.dashboard.print_room.labels import CLASS_LABELS, format_dollars, parse_cents
from quillpost.web.dashboard.print_room.pages import PRINT_ROOM_PATH, render_room_page, require_live
from quillpost.web.dashboard.responses import ConfirmedOperatorContext, OperatorContext, PathId, RequestContext
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

ACCOUNTS_PATH = f"{PRINT_ROOM_PATH}/accounts"
MAX_SEARCH_LENGTH = 100
MAX_MOVES_SHOWN = 25


@router.get(ACCOUNTS_PATH)
def accounts_page(context: OperatorContext, find: str = "", page: str = "") -> Response:
    search_text = find.replace("\x00", "").strip()[:MAX_SEARCH_LENGTH]
    month = context.now().date().replace(day=1)
    with context.system_transaction() as tx:
        accounts = account_queries.list_accounts(
            tx, parse_page(page), mode=context.user.mode, month=month, search=search_text
        )
    path = f"{ACCOUNTS_PATH}?{urlencode({'find': search_text})}" if search_text else ACCOUNTS_PATH
    return render_room_page(context, "accounts.html", page=accounts, search_text=search_text, list_url=path)


@router.get(f"{ACCOUNTS_PATH}/{{account_id}}")
def show_account(context: OperatorContext, account_id: PathId) -> Response:
    return render_account_page(context, account_id)


def render_account_page(context: RequestContext, account_id: int, *, form: FormState = EMPTY_FORM) -> Response:
    """The form that moves credit is shown only to an operator who has confirmed their password."""
    month = context.now().date().replace(day=1)
    with context.system_transaction() as tx:
        account = account_queries.find_account_summary(tx, account_id, mode=context.user.mode, month=month)
        moves = list_moves(tx, Tenant(account_id, None, context.user.mode), NO_FILTER, limit=MAX_MOVES_SHOWN)
    is_confirmed = context.now() - context.user.confirmed_at <= CONFIRMATION_LIFETIME
    return render_room_page(context, "account.html", form=form, account=account, moves=moves, is_confirmed=is_confirmed)


ALREADY_MOVED = "The account's page shows what it has now."
DEPOSIT, WITHDRAWAL = "give", "take"


@router.get(f"{ACCOUNTS_PATH}/{{account_id}}/credit")
def credit_page(context: ConfirmedOperatorContext, account_id: PathId) -> Response:
    """Reached after confirming the password."""
    return render_account_page(context, account_id)


@router.post(f"{ACCOUNTS_PATH}/{{account_id}}/credit")
def move_credit(context: ConfirmedOperatorContext, account_id: PathId, form: PostedForm) -> Response:
    """Recorded in the audit logs of that account and of the operator's."""
    require_live(context.user)
    now = context.now()
    account_path = f"{ACCOUNTS_PATH}/{account_id}"
    try:
        cents = parse_cents(form.text("amount"), field="amount")
        direction, reason = form.text("way"), form.text("note")
        errors = {} if direction in (DEPOSIT, WITHDRAWAL) else {"way": ["Choose whether to add it or to take it out."]}
        if not reason:
            errors["note"] = ["Say what it is for: the ledger keeps it."]
        if errors:
            raise Invalid(errors)
        with context.system_transaction() as tx:
            account = account_queries.find_account_summary(tx, account_id, mode="live", month=now.date().replace(day=1))
            use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_MOVED, result_path=account_path)
            transfer = billing_service.deposit if direction == DEPOSIT else billing_service.withdraw
            key = f"page:{form.one_time_key}"
            transfer(tx, account_id, cents=cents, key=key, note=reason, actor=context.user.actor, now=now)
            if account_id != context.account_id:
                amount = format_cents(cents if direction == DEPOSIT else -cents)
                context.audit(tx, "credit.moved", {"name": account.name, "amount": amount, "note": reason})
    except (Invalid, Refused) as error:
        return render_account_page(context, account_id, form=FormState.from_error(form, error, default_field="amount"))
    return redirect(account_path, flash="credit_given" if direction == DEPOSIT else "credit_taken")


BRANDS_PATH = f"{PRINT_ROOM_PATH}/brands"
BRAND_FIELDS = ("brand_code", "title", "group", "available_amounts", "color", "issuer_code")
CODE_TAKEN = "There is a brand of this code already. Change that one, or choose another code."


@router.get(BRANDS_PATH)
def brands_page(context: OperatorContext) -> Response:
    with context.system_transaction() as tx:
        brands = stock.list_all_brands(tx)
        free_counts = stock.count_free_cards(tx, now=context.now())
    return render_room_page(
        context,
        "brands.html",
        brands=brands,
        free_counts=free_counts,
        max_free_count=stock.MAX_FREE_COUNT,
        groups=BRAND_GROUPS,
    )


@router.get(f"{BRANDS_PATH}/new")
def new_brand_page(context: OperatorContext) -> Response:
    require_live(context.user)
    return _render_brand_form(context, FormState({"color": [DEFAULT_ACCENT], "group": ["main"]}), None)


@router.post(f"{BRANDS_PATH}/new")
def create_brand(context: OperatorContext, form: PostedForm) -> Response:
    require_live(context.user)
    code = form.text("brand_code")
    try:
        with context.system_transaction() as tx:
            if code in giftcard_queries.find_brands(tx, [code], locked=True):
                raise Invalid({"brand_code": [CODE_TAKEN]})
            giftcard_queries.save_brand(tx, _read_brand_fields(form).to_brand(code, None), now=context.now())
            context.audit(tx, "brand.changed", {"name": code})
    except Invalid as error:
        return _render_brand_form(context, FormState.from_error(form, error, default_field="title"), None)
    return redirect(BRANDS_PATH, flash="brand_saved")


@router.get(f"{BRANDS_PATH}/{{code}}/change")
def change_brand_page(context: OperatorContext, code: str) -> Response:
    require_live(context.user)
    brand = _find_brand(context, code)
    values = {
        "title": [brand.title],
        "group": [brand.section],
        "available_amounts": [", ".join(map(format_dollars, brand.amounts))],
        "color": [brand.accent],
        "issuer_code": [brand.issuer_code or ""],
    }
    return _render_brand_form(context, FormState(values), brand)


@router.post(f"{BRANDS_PATH}/{{code}}/change")
def change_brand(context: OperatorContext, code: str, form: PostedForm) -> Response:
    """A withdrawn brand is offered again."""
    require_live(context.user)
    brand = _find_brand(context, code)
    try:
        with context.system_transaction() as tx:
            current = giftcard_queries.find_brands(tx, [code], locked=True).get(code)
            if giftcard_queries.save_brand(tx, _read_brand_fields(form).to_brand(code, current), now=context.now()):
                context.audit(tx, "brand.changed", {"name": code})
    except Invalid as error:
        return _render_brand_form(context, FormState.from_error(form, error, default_field="title"), brand)
    return redirect(BRANDS_PATH, flash="brand_saved")


@router.get(f"{BRANDS_PATH}/{{code}}/withdraw")
def withdraw_brand_page(context: OperatorContext, code: str) -> Response:
    require_live(context.user)
    brand = _find_brand(context, code)
    return context.confirm(
        title=f"Withdraw {brand.title}?",
        consequences=[
            "From now on no sender can choose it.",
            "Orders that have it go on, and cards that were sent can be claimed. You can offer it again.",
        ],
        button_label="Withdraw it",
        back_url=BRANDS_PATH,
    )


@router.post(f"{BRANDS_PATH}/{{code}}/withdraw")
def withdraw_brand(context: OperatorContext, code: str, _form: PostedForm) -> Response:
    require_live(context.user)
    with context.system_transaction() as tx:
        if giftcard_queries.retire_brand(tx, code, now=context.now()):
            context.audit(tx, "brand.retired", {"name": code})
    return redirect(BRANDS_PATH, flash="brand_retired")


def _find_brand(context: RequestContext, code: str) -> GiftcardBrand:
    with context.system_transaction() as tx:
        brand = giftcard_queries.find_brands(tx, [code]).get(code)
    if brand is None:
        raise NotFound
    return brand


def _read_brand_fields(form: Form) -> BrandFields:
    """People write dollars, the API has cents."""
    amount_texts = form.text("available_amounts", max_length=1_000).replace(",", " ").split()
    amounts = sorted({parse_cents(amount, field="available_amounts") for amount in amount_texts})
    values = {name: form.text(name) for name in ("title", "group", "color", "issuer_code")}
    return read_body(BrandFields, {**values, "available_amounts": amounts})


def _render_brand_form(context: RequestContext, form: FormState, brand: GiftcardBrand | None) -> Response:
    form_state = form.regroup(BRAND_FIELDS, "title")
    return render_room_page(context, "brand_form.html", form=form_state, brand=brand, groups=BRAND_GROUPS.items())


PRICES_PATH = f"{PRINT_ROOM_PATH}/prices"
PRODUCT_LABELS = {f"{type_} {size or ''}".strip(): product_name(type_, size) for type_, size in DISPLAY_TYPES}
PRICE_FIELDS = ("piece", "mail_class", "country", "price", "valid_from")
ALREADY_ADDED = "The list of prices shows it."


@router.get(PRICES_PATH)
def prices_page(context: OperatorContext) -> Response:
    with context.system_transaction() as tx:
        price_rows = read_price_list(tx, on=context.now().date())
    by_product: dict[str, list[PriceHistory]] = {}
    for price_row in price_rows:
        by_product.setdefault(product_name(price_row.kind.type, price_row.kind.size), []).append(price_row)
    return render_room_page(
        context, "prices.html", by_product=by_product, class_labels=CLASS_LABELS, country_label=country_label
    )


@router.get(f"{PRICES_PATH}/new")
def new_price_page(
    context: ConfirmedOperatorContext, piece: str = "", mail_class: str = "first", country: str = "US"
) -> Response:
    require_live(context.user)
    defaults = {"piece": [piece], "mail_class": [mail_class], "country": [country]}
    return _render_price_form(context, FormState(defaults))


@router.post(f"{PRICES_PATH}/new")
def create_price(context: ConfirmedOperatorContext, form: PostedForm) -> Response:
    """The first time shows what changes; the second, confirmed, sets the price."""
    require_live(context.user)
    now = context.now()
    try:
        price = _read_price(form)
        with context.system_transaction() as tx:
            if form.text("sure") != "yes":
                change = billing_service.preview_price(tx, price, on=now.date())
            else:
                use_one_time_key(tx, context.user, form.one_time_key, hint=ALREADY_ADDED, result_path=PRICES_PATH)
                billing_service.add_price(tx, context.account_id, price, context.user.actor, now=now)
                return redirect(PRICES_PATH, flash="price_added")
    except Invalid as error:
        return _render_price_form(context, FormState.from_error(form, error, default_field="price"))
    return _render_price_confirmation(context, form, change)


@router.get(f"{PRICES_PATH}/{{price_id}}/take-back")
def withdraw_price_page(context: OperatorContext, price_id: PathId) -> Response:
    require_live(context.user)
    with context.system_transaction() as tx:
        price = find_future_price(tx, price_id, on=context.now().date())
    return context.confirm(
        title=f"Take back {format_cents(price.unit_cents)} from {price.valid_from:%-d %B %Y}?",
        consequences=[f"{describe_price(price)}: the price before it goes on.", "Nobody has paid this one yet."],
        button_label="Take it back",
        back_url=PRICES_PATH,
    )


@router.post(f"{PRICES_PATH}/{{price_id}}/take-back")
def withdraw_price(context: OperatorContext, price_id: PathId, _form: PostedForm) -> Response:
    require_live(context.user)
    with context.system_transaction() as tx:
        billing_service.withdraw_price(tx, context.account_id, price_id, context.user.actor, now=context.now())
    return redirect(PRICES_PATH, flash="price_withdrawn")


def country_label(country: str) -> str:
    return {"US": "within the US", EVERYWHERE_ELSE: "everywhere else"}.get(country, country)


def describe_price(price: UnitPrice) -> str:
    class_label = CLASS_LABELS.get(price.mail_class, price.mail_class)
    return f"{product_name(price.type, price.size)}, {class_label.lower()}, {country_label(price.country)}"


def _read_price(form: Form) -> UnitPrice:
    errors: dict[str, list[str]] = {}
    type_, _, size = form.text("piece").partition(" ")
    first_day, unit_cents = parse_day(form.text("valid_from")), 0
    if first_day is None:
        errors["valid_from"] = ["Choose the first day on which it holds."]
    try:
        unit_cents = parse_cents(form.text("price"), field="price")
    except Invalid as error:
        errors |= error.fields
    if errors or first_day is None:
        raise Invalid(errors)
    country = form.text("country").upper()
    return UnitPrice(type_, size, form.text("mail_class"), country, unit_cents, first_day)


def _render_price_confirmation(context: RequestContext, form: Form, change: PriceChange) -> Response:
    price, previous_cents = change.price, change.before
    previous_note = (
        "Nothing is offered there until then."
        if previous_cents is None
        else f"Until then it costs {format_cents(previous_cents)}."
    )
    if previous_cents is not None and previous_cents != price.unit_cents:
        change_ratio = (price.unit_cents - previous_cents) / previous_cents
        previous_note += f" That is {format_cents(price.unit_cents - previous_cents)} a piece, or {change_ratio:+.1%}."
    consequences = [
        f"{describe_price(price)}: {format_cents(price.unit_cents)} a piece from {price.valid_from:%-d %B %Y} (UTC) "
        "on.",
        previous_note,
        "Orders that were sent before keep the price that they were sent with.",
    ]
    if change.until:
        consequences.append(f"It holds until {change.until:%-d %B %Y}: another price is set from then on.")
    return context.confirm(
        title="Set this price?",
        consequences=consequences,
        button_label="Set it",
        back_url=f"{PRICES_PATH}/new",
        hidden_fields={**{name: form.text(name) for name in PRICE_FIELDS}, "sure": "yes"},
        has_one_time_key=True,
        is_harmless=True,
    )


def _render_price_form(context: RequestContext, form: FormState) -> Response:
    return render_room_page(
        context,
        "price_form.html",
        form=form,
        product_options=PRODUCT_LABELS.items(),
        class_options=CLASS_LABELS.items(),
    )
