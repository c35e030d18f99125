"""The price list: what holds today, what did and what will, and a new price, looked at before it is set."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.billing import prices
from quillpost.accounts.billing.prices import PriceChange
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, UnitPrice
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.web import csrf
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import FormState, parse_day, render_confirmation
from quillpost.web.dashboard.labels import product_name
from quillpost.web.dashboard.print_room.labels import CLASS_LABELS, parse_cents
from quillpost.web.dashboard.print_room.pages import PRINT_ROOM_PATH, render_room_page, require_live
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import format_cents, redirect
from quillpost.web.sessions import ConfirmedOperator, CurrentOperator

router = APIRouter(include_in_schema=False)

PRICES_PATH = f"{PRINT_ROOM_PATH}/prices"
PRODUCT_LABELS = {f"{type_} {size or ''}".strip(): product_name(type_, size) for type_, size in DISPLAY_TYPES}
FORM_FIELDS = ("piece", "mail_class", "country", "price", "valid_from")
ALREADY_ADDED = "The list of prices shows it."


@router.get(PRICES_PATH)
def prices_page(request: Request, user: CurrentOperator, container: Services) -> Response:
    with container.db.system_transaction() as tx:
        price_rows = prices.read_price_list(tx, on=container.clock().date())
    by_product: dict[str, list[prices.PriceHistory]] = {}
    for price_row in price_rows:
        by_product.setdefault(product_name(price_row.kind.type, price_row.kind.size), []).append(price_row)
    return render_room_page(
        request,
        "prices.html",
        user,
        container,
        by_product=by_product,
        class_labels=CLASS_LABELS,
        country_label=country_label,
    )


@router.get(f"{PRICES_PATH}/new")
def new_price_page(
    request: Request,
    user: ConfirmedOperator,
    container: Services,
    piece: str = "",
    mail_class: str = "first",
    country: str = "US",
) -> Response:
    require_live(user)
    defaults = {"piece": [piece], "mail_class": [mail_class], "country": [country]}
    return _render_form(request, user, container, FormState(defaults))


@router.post(f"{PRICES_PATH}/new")
def create_price(request: Request, user: ConfirmedOperator, form: PostedForm, container: Services) -> Response:
    """First it says what changes by it; sent once more, from there, it is set."""
    require_live(user)
    now, account_id = container.clock(), user.here.account_id
    try:
        price = _read_price(form)
        with container.db.system_transaction() as tx:
            if form.text("sure") != "yes":
                change = prices.preview_price(tx, price, on=now.date())
            else:
                use_one_time_key(tx, user, form.text(csrf.ONE_TIME_FIELD), hint=ALREADY_ADDED, result_path=PRICES_PATH)
                prices.add_price(tx, account_id, price, user.actor, now=now)
                return redirect(PRICES_PATH, flash="price_added")
    except Invalid as error:
        return _render_form(request, user, container, FormState.from_error(form, error, default_field="price"))
    return _render_price_confirmation(request, user, form, change)


@router.get(f"{PRICES_PATH}/{{price_id}}/take-back")
def withdraw_price_page(request: Request, price_id: str, user: CurrentOperator, container: Services) -> Response:
    require_live(user)
    with container.db.system_transaction() as tx:
        price = prices.find_future_price(tx, parse_path_id(price_id), on=container.clock().date())
    return render_confirmation(
        request,
        user,
        title=f"Take back {format_cents(price.unit_cents)} from {price.valid_from:%-d %B %Y}?",
        consequences=[f"{describe_price(price)}: the price before it goes on.", "Nobody has paid this one yet."],
        button_label="Take it back",
        back_url=PRICES_PATH,
    )


@router.post(f"{PRICES_PATH}/{{price_id}}/take-back")
def withdraw_price(price_id: str, user: CurrentOperator, _form: PostedForm, container: Services) -> Response:
    require_live(user)
    with container.db.system_transaction() as tx:
        prices.withdraw_price(tx, user.here.account_id, parse_path_id(price_id), user.actor, now=container.clock())
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


def _render_price_confirmation(request: Request, user: SignedInUser, form: Form, change: PriceChange) -> Response:
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
    return render_confirmation(
        request,
        user,
        title="Set this price?",
        consequences=consequences,
        button_label="Set it",
        back_url=f"{PRICES_PATH}/new",
        hidden_fields={**{name: form.text(name) for name in FORM_FIELDS}, "sure": "yes"},
        has_one_time_key=True,
        is_harmless=True,
    )


def _render_form(request: Request, user: SignedInUser, container: Container, form: FormState) -> Response:
    return render_room_page(
        request,
        "price_form.html",
        user,
        container,
        form=form,
        product_options=PRODUCT_LABELS.items(),
        class_options=CLASS_LABELS.items(),
    )
