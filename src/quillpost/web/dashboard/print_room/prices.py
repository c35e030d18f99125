"""The price list: what holds today, what did and what will, and a new price, looked at before it is set."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.billing import prices
from quillpost.accounts.billing.prices import Change
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, Price
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure, day_in
from quillpost.web.dashboard.labels import piece_name
from quillpost.web.dashboard.print_room.labels import CLASSES, cents_in
from quillpost.web.dashboard.print_room.pages import ROOM, require_live, room_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import cents, go
from quillpost.web.sessions import ConfirmedOperator, Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/prices"
PIECES = {f"{type_} {size or ''}".strip(): piece_name(type_, size) for type_, size in DISPLAY_TYPES}
FIELDS = ("piece", "mail_class", "country", "price", "valid_from")
NOT_TWICE = "The list of prices shows it."


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        listed = prices.price_list(tx, on=parts.clock().date())
    by_piece: dict[str, list[prices.Priced]] = {}
    for priced in listed:
        by_piece.setdefault(piece_name(priced.kind.type, priced.kind.size), []).append(priced)
    return room_page(
        request, "prices.html", who, parts, by_piece=by_piece, classes=CLASSES, place_name=place_name
    )


@router.get(f"{PAGE}/new")
def new_page(
    request: Request,
    who: ConfirmedOperator,
    parts: OurParts,
    piece: str = "",
    mail_class: str = "first",
    country: str = "US",
) -> Response:
    require_live(who)
    usual = {"piece": [piece], "mail_class": [mail_class], "country": [country]}
    return _form_page(request, who, parts, Filled(usual))


@router.post(f"{PAGE}/new")
def create(request: Request, who: ConfirmedOperator, form: PostedForm, parts: OurParts) -> Response:
    """First it says what changes by it; sent once more, from there, it is set."""
    require_live(who)
    now, account_id = parts.clock(), who.here.account_id
    try:
        price = _price(form)
        with parts.db.work() as tx:
            if form.text("sure") != "yes":
                change = prices.look_at(tx, price, on=now.date())
            else:
                do_once(tx, who, form.text(csrf.FIELD), instead=NOT_TWICE, leads_to=PAGE)
                prices.add_price(tx, account_id, price, who.actor, now=now)
                return go(PAGE, said="price_added")
    except Invalid as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="price"))
    return _preview(request, who, form, change)


@router.get(f"{PAGE}/{{price_id}}/take-back")
def take_back_page(request: Request, price_id: str, who: Operator, parts: OurParts) -> Response:
    require_live(who)
    with parts.db.work() as tx:
        price = prices.find_coming(tx, id_in_path(price_id), on=parts.clock().date())
    return are_you_sure(
        request,
        who,
        title=f"Take back {cents(price.unit_cents)} from {price.valid_from:%-d %B %Y}?",
        means=[f"{described(price)}: the price before it goes on.", "Nobody has paid this one yet."],
        button="Take it back",
        back=PAGE,
    )


@router.post(f"{PAGE}/{{price_id}}/take-back")
def take_back(price_id: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    require_live(who)
    with parts.db.work() as tx:
        prices.take_back(tx, who.here.account_id, id_in_path(price_id), who.actor, now=parts.clock())
    return go(PAGE, said="price_withdrawn")


def place_name(country: str) -> str:
    return {"US": "within the US", EVERYWHERE_ELSE: "everywhere else"}.get(country, country)


def described(price: Price) -> str:
    mail = CLASSES.get(price.mail_class, price.mail_class)
    return f"{piece_name(price.type, price.size)}, {mail.lower()}, {place_name(price.country)}"


def _price(form: Form) -> Price:
    faults: dict[str, list[str]] = {}
    type_, _, size = form.text("piece").partition(" ")
    day, unit_cents = day_in(form.text("valid_from")), 0
    if day is None:
        faults["valid_from"] = ["Choose the first day on which it holds."]
    try:
        unit_cents = cents_in(form.text("price"), field="price")
    except Invalid as wrong:
        faults |= wrong.fields
    if faults or day is None:
        raise Invalid(faults)
    country = form.text("country").upper()
    return Price(type_, size, form.text("mail_class"), country, unit_cents, day)


def _preview(request: Request, who: SignedIn, form: Form, change: Change) -> Response:
    price, before = change.price, change.before
    was = (
        "Nothing is offered there until then." if before is None else f"Until then it costs {cents(before)}."
    )
    if before is not None and before != price.unit_cents:
        share = (price.unit_cents - before) / before
        was += f" That is {cents(price.unit_cents - before)} a piece, or {share:+.1%}."
    means = [
        f"{described(price)}: {cents(price.unit_cents)} a piece from {price.valid_from:%-d %B %Y} (UTC) on.",
        was,
        "Orders that were sent before keep the price that they were sent with.",
    ]
    if change.until:
        means.append(f"It holds until {change.until:%-d %B %Y}: another price is set from then on.")
    return are_you_sure(
        request,
        who,
        title="Set this price?",
        means=means,
        button="Set it",
        back=f"{PAGE}/new",
        carried={**{name: form.text(name) for name in FIELDS}, "sure": "yes"},
        is_once=True,
        is_harmless=True,
    )


def _form_page(request: Request, who: SignedIn, parts: Parts, form: Filled) -> Response:
    return room_page(
        request, "price.html", who, parts, form=form, pieces=PIECES.items(), classes=CLASSES.items()
    )
