"""Accounts, their credit, and gift card brands, for operators."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts import queries as account_queries
from quillpost.accounts.billing import credit
from quillpost.accounts.users.sessions import CONFIRMED_FOR, SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.orders.giftcards import brands as catalogue
from quillpost.orders.giftcards import stock
from quillpost.orders.giftcards.rules import GROUPS, HOUSE_ACCENT, Brand
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.giftcards.endpoints import CHANGED, RETIRED, BrandFields
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.print_room.labels import cents_in, dollars_typed
from quillpost.web.dashboard.print_room.pages import ROOM, moved_under, note, noted, require_live, room_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import cents as shown
from quillpost.web.rendering import go
from quillpost.web.sessions import ConfirmedOperator, Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/accounts"
LONGEST_WORDS = 100


@router.get(PAGE)
def accounts_page(
    request: Request, who: Operator, parts: OurParts, find: str = "", page: str = ""
) -> Response:
    words = find.replace("\x00", "").strip()[:LONGEST_WORDS]
    month = parts.clock().date().replace(day=1)
    with parts.db.work() as tx:
        found = account_queries.list_accounts(tx, asked_page(page), mode=who.mode, month=month, words=words)
    address = f"{PAGE}?{urlencode({'find': words})}" if words else PAGE
    return room_page(request, "accounts.html", who, parts, page=found, find=words, address=address)


@router.get(f"{PAGE}/{{account_id}}")
def read_page(request: Request, account_id: str, who: Operator, parts: OurParts) -> Response:
    return account_page(request, who, parts, id_in_path(account_id))


def account_page(
    request: Request, who: SignedIn, parts: Parts, account_id: int, *, form: Filled = EMPTY
) -> Response:
    """One account, with the form that moves its credit, or the way there: whoever gave their password long
    ago gives it before they fill anything in."""
    month = parts.clock().date().replace(day=1)
    with parts.db.work() as tx:
        account = account_queries.find_known(tx, account_id, mode=who.mode, month=month)
        moves = account_queries.last_moves(tx, account_id, mode=who.mode)
    is_confirmed = parts.clock() - who.confirmed_at <= CONFIRMED_FOR
    return room_page(
        request,
        "account.html",
        who,
        parts,
        form=form,
        account=account,
        moves=moves,
        is_confirmed=is_confirmed,
    )


NOT_TWICE = "The account's page shows what it has now."
FORWARD, BACK = "give", "take"


@router.get(f"{PAGE}/{{account_id}}/credit")
def credit_page(request: Request, account_id: str, who: ConfirmedOperator, parts: OurParts) -> Response:
    """The account's page, for whoever was asked for their password on the way to the form."""
    return account_page(request, who, parts, id_in_path(account_id))


@router.post(f"{PAGE}/{{account_id}}/credit")
def move(
    request: Request, account_id: str, who: ConfirmedOperator, form: PostedForm, parts: OurParts
) -> Response:
    """In the log of that account, under the operator's name, and in the operator's own."""
    require_live(who)
    number, now = id_in_path(account_id), parts.clock()
    here = f"{PAGE}/{number}"
    try:
        cents, way, why = cents_in(form.text("amount"), field="amount"), form.text("way"), form.text("note")
        faults = {} if way in (FORWARD, BACK) else {"way": ["Choose whether to add it or to take it out."]}
        if not why:
            faults["note"] = ["Say what it is for: the ledger keeps it."]
        if faults:
            raise Invalid(faults)
        with parts.db.work() as tx:
            account = account_queries.find_known(tx, number, mode="live", month=now.date().replace(day=1))
            key = form.text(csrf.FIELD)
            do_once(tx, who, key, instead=NOT_TWICE, leads_to=here)
            pay = credit.deposit if way == FORWARD else credit.withdraw
            pay(tx, number, cents=cents, key=f"page:{key}", note=why, actor=who.actor, now=now)
            if number != who.here.account_id:
                amount = shown(cents if way == FORWARD else -cents)
                noted(who, parts, "credit.moved", {"name": account.name, "amount": amount, "note": why})(tx)
    except (Invalid, Refused) as refused:
        return account_page(request, who, parts, number, form=Filled.back(form, refused, at="amount"))
    return go(here, said="credit_given" if way == FORWARD else "credit_taken")


BRANDS_PAGE = f"{ROOM}/brands"
FIELDS = ("brand_code", "title", "group", "available_amounts", "color", "issuer_code")
TAKEN = "There is a brand of this code already. Change that one, or choose another code."


@router.get(BRANDS_PAGE)
def brands_page(request: Request, who: Operator, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        brands = stock.every_brand(tx)
        free = stock.free_cards(tx, now=parts.clock())
    return room_page(
        request,
        "brands.html",
        who,
        parts,
        brands=brands,
        free=free,
        most=stock.MOST_FREE,
        groups=GROUPS,
    )


@router.get(f"{BRANDS_PAGE}/new")
def new_page(request: Request, who: Operator, parts: OurParts) -> Response:
    require_live(who)
    return _form_page(request, who, parts, Filled({"color": [HOUSE_ACCENT], "group": ["main"]}), None)


@router.post(f"{BRANDS_PAGE}/new")
def create(request: Request, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    require_live(who)
    code = form.text("brand_code")
    try:
        with parts.db.work() as tx:
            if code in catalogue.find_brands(tx, [code], locked=True):
                raise Invalid({"brand_code": [TAKEN]})
            catalogue.put_brand(tx, _fields(form).of(code, None), now=parts.clock())
            note(tx, who, parts, CHANGED, {"name": code})
    except Invalid as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="title"), None)
    return go(BRANDS_PAGE, said="brand_saved")


@router.get(f"{BRANDS_PAGE}/{{code}}/change")
def change_page(request: Request, code: str, who: Operator, parts: OurParts) -> Response:
    require_live(who)
    brand = _brand(parts, code)
    given = {
        "title": [brand.title],
        "group": [brand.section],
        "available_amounts": [", ".join(map(dollars_typed, brand.amounts))],
        "color": [brand.accent],
        "issuer_code": [brand.issuer_code or ""],
    }
    return _form_page(request, who, parts, Filled(given), brand)


@router.post(f"{BRANDS_PAGE}/{{code}}/change")
def change(request: Request, code: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    """One that was withdrawn is offered again."""
    require_live(who)
    brand = _brand(parts, code)
    try:
        with parts.db.work() as tx:
            before = catalogue.find_brands(tx, [code], locked=True).get(code)
            if catalogue.put_brand(tx, _fields(form).of(code, before), now=parts.clock()):
                note(tx, who, parts, CHANGED, {"name": code})
    except Invalid as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="title"), brand)
    return go(BRANDS_PAGE, said="brand_saved")


@router.get(f"{BRANDS_PAGE}/{{code}}/withdraw")
def withdraw_page(request: Request, code: str, who: Operator, parts: OurParts) -> Response:
    require_live(who)
    brand = _brand(parts, code)
    return are_you_sure(
        request,
        who,
        title=f"Withdraw {brand.title}?",
        means=[
            "From now on no sender can choose it.",
            "Orders that have it go on, and cards that were sent can be claimed. You can offer it again.",
        ],
        button="Withdraw it",
        back=BRANDS_PAGE,
    )


@router.post(f"{BRANDS_PAGE}/{{code}}/withdraw")
def withdraw(code: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    require_live(who)
    with parts.db.work() as tx:
        if catalogue.retire(tx, code, now=parts.clock()):
            note(tx, who, parts, RETIRED, {"name": code})
    return go(BRANDS_PAGE, said="brand_retired")


def _brand(parts: Parts, code: str) -> Brand:
    with parts.db.work() as tx:
        brand = catalogue.find_brands(tx, [code]).get(code)
    if brand is None:
        raise NotFound
    return brand


def _fields(form: Form) -> BrandFields:
    """What the interface calls a brand's parts; people write dollars, it has cents."""
    typed = form.text("available_amounts", most=1_000).replace(",", " ").split()
    amounts = sorted({cents_in(amount, field="available_amounts") for amount in typed})
    given = {name: form.text(name) for name in ("title", "group", "color", "issuer_code")}
    return read_body(BrandFields, {**given, "available_amounts": amounts})


def _form_page(request: Request, who: SignedIn, parts: Parts, form: Filled, brand: Brand | None) -> Response:
    shown = moved_under(form, FIELDS, "title")
    return room_page(request, "brand.html", who, parts, form=shown, brand=brand, groups=GROUPS.items())
