"""Gift card brands: what senders may choose, and how many cards of one's own there are of each."""

from fastapi import APIRouter, Request, Response

from quillpost.api.v2.giftcards import CHANGED, RETIRED, BrandFields
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled, are_you_sure
from quillpost.dashboard.print_room.room_pages import (
    ROOM,
    moved_under,
    note,
    require_live,
    room_page,
)
from quillpost.dashboard.print_room.words import cents_in, dollars_typed
from quillpost.giftcards import catalogue, stocking
from quillpost.giftcards.choosing import HOUSE_ACCENT, Brand
from quillpost.giftcards.rules import GROUPS
from quillpost.kit.errors import Invalid, NotFound
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/brands"
FIELDS = ("brand_code", "title", "group", "available_amounts", "color", "issuer_code")
TAKEN = "There is a brand of this code already. Change that one, or choose another code."


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        brands = stocking.every_brand(tx)
        free = stocking.free_cards(tx, now=parts.clock())
    return room_page(
        request,
        "brands.html",
        who,
        parts,
        brands=brands,
        free=free,
        most=stocking.MOST_FREE,
        groups=GROUPS,
    )


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Operator, parts: OurParts) -> Response:
    require_live(who)
    return _form_page(request, who, parts, Filled({"color": [HOUSE_ACCENT], "group": ["main"]}), None)


@router.post(f"{PAGE}/new")
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
    return go(PAGE, said="brand_saved")


@router.get(f"{PAGE}/{{code}}/change")
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


@router.post(f"{PAGE}/{{code}}/change")
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
    return go(PAGE, said="brand_saved")


@router.get(f"{PAGE}/{{code}}/withdraw")
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
        back=PAGE,
    )


@router.post(f"{PAGE}/{{code}}/withdraw")
def withdraw(code: str, who: Operator, _form: PostedForm, parts: OurParts) -> Response:
    require_live(who)
    with parts.db.work() as tx:
        if catalogue.retire(tx, code, now=parts.clock()):
            note(tx, who, parts, RETIRED, {"name": code})
    return go(PAGE, said="brand_retired")


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
