"""The composer: one page with one form, and beside it the picture of what would be sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound
from quillpost.orders.giftcards import brands as catalogue
from quillpost.orders.items import read_order
from quillpost.orders.models import Order
from quillpost.orders.templates.service import (
    ImageTemplate,
    MessageTemplate,
    newest_image_templates,
    newest_message_templates,
    read_image_template,
    read_message_template,
)
from quillpost.recipients.lists.queries import known_lists
from quillpost.rendering.samples import sample_version
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.estimates import price_of
from quillpost.web.dashboard.compose.forms import CHOICES, FORM_FIELDS
from quillpost.web.dashboard.compose.fragments import around_of
from quillpost.web.dashboard.compose.previews import Preview, previewed
from quillpost.web.dashboard.forms import Filled, show_form, typed_zone
from quillpost.web.dashboard.labels import INKS, OWN, SIZES, TYPE_NAMES, ink_typed
from quillpost.web.dashboard.previews import in_turn
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.sessions import OurParts, Reader

FIND: Final = "find"
"""The button that somebody without scripts has pressed to see more of the page: lists, radius or price."""


def for_page(request: Request, who: SignedIn, parts: Parts, form: Form) -> dict[str, Any]:
    """Values for the templates `compose/audience.html`, `compose/price.html` and `compose/when.html`. The
    page itself gives them `typed`, `has`, `faults`, `now`, `who`, `csrf`, `once` and `zone`."""
    caller, zone, wanted = who.caller, typed_zone(request, form.fields), form.fields.get(FIND, ())
    return {
        **recipients.page_values(form, caller, parts),
        **forms.page_values(form, caller, parts, zone),
        "around": around_of(form, caller, parts) if "radius" in wanted else None,
        "price": price_of(form, caller, parts, zone) if "price" in wanted else None,
        "within": "/compose",
        "is_testing": caller.is_testing,
    }


MOST_IMAGES: Final = 120
MOST_TEMPLATES: Final = 200

VARIABLES: Final = (
    ("FIRST_NAME", "First name"),
    ("LAST_NAME", "Last name"),
    ("FULL_NAME", "Full name"),
    ("COMPANY", "Their company"),
    ("ADDRESS", "Street address"),
    ("CITY", "City"),
    ("STATE", "State"),
    ("ZIP", "ZIP code"),
    ("YOUR_NAME", "Your name"),
    ("YOUR_COMPANY", "Your company"),
    *((f"CUSTOM{n}", f"Custom field {n}") for n in range(1, 11)),
)
"""What a message may say of whoever reads it, in the order of a menu."""


def page_values(who: Caller, parts: Parts) -> dict[str, Any]:
    with parts.db.transaction(tenant(who)) as tx:
        images = newest_image_templates(tx, most=MOST_IMAGES)
        messages = newest_message_templates(tx, most=MOST_TEMPLATES)
        brands = catalogue.offered(tx)
    styles = parts.studio.hands.styles.values()
    return {
        "choices": CHOICES,
        "own": OWN,
        "hands": [
            (style.number, style.name, f"/hands/{style.number}.png?v={sample_version(style)}")
            for style in styles
        ],
        "inks": INKS,
        "sizes": SIZES,
        "variables": VARIABLES,
        "images": [(each, _link(each, parts)) for each in images],
        "messages": [(each.id, f"{each.name} ({TYPE_NAMES.get(each.type, each.type)})") for each in messages],
        "brands": brands,
        "amounts": sorted({cents for brand in brands for cents in brand.amounts}),
        "most_characters": parts.limits.message_characters,
    }


def _link(image: ImageTemplate, parts: Parts) -> str:
    return parts.shelf.lasting_path(image.image_file_id)


Fields = dict[str, list[str]]

STARTING: Final[Mapping[str, Sequence[str]]] = {
    "piece": [forms.USUAL],
    "style": ["1"],
    "color": ["blue"],
    "color_own": ["#7a3b12"],
    "realism": ["on"],
    "font_size": ["auto"],
    "image": ["none"],
    "pdf_is": ["after"],
}


def usual() -> Fields:
    return {
        name: list(values) for name, values in {**STARTING, **recipients.STARTING, **forms.STARTING}.items()
    }


def from_template(tx: Tx, template_id: int, fields: Fields) -> Fields:
    """With a saved message and what it says of its look."""
    return fields | of_template(read_message_template(tx, template_id), fields)


def from_image(tx: Tx, template_id: int, fields: Fields) -> Fields:
    """With a saved image on the front, of a piece that it suits."""
    found = read_image_template(tx, template_id)
    return fields | {
        "image": ["template"],
        "image_template_id": [str(found.id)],
        **_piece_of_image(found, fields),
    }


def from_list(tx: Tx, list_id: int, fields: Fields) -> Fields:
    """To everybody on a list."""
    if not known_lists(tx, [list_id]):
        raise NotFound
    return fields | {"audience": [recipients.LISTS], "mailing_list_ids": [str(list_id)]}


def from_order(tx: Tx, order_id: int, fields: Fields) -> Fields:
    """As a former order looked. Whom it went to is chosen anew."""
    return fields | of_order(read_order(tx, order_id))


def of_template(saved: MessageTemplate, fields: Fields) -> Fields:
    settings = {
        "style": saved.handwriting_style_id,
        "font_size": saved.font_size,
        "qrcode_url": saved.qrcode_url,
        "giftcard_brand": saved.giftcard_brand_code,
        "giftcard_amount": saved.giftcard_amount,
        "landing_page_url": saved.landing_page_url,
    }
    found = {name: [str(value)] for name, value in settings.items() if value is not None}
    found |= {"message": [saved.content], "message_template_id": [str(saved.id)]}
    if saved.handwriting_realism is not None:
        found["realism"] = ["on"] if saved.handwriting_realism else []
    if saved.font_color is not None:
        found |= ink_typed("color", saved.font_color)
    return found | _piece(saved.type, fields)


def of_order(order: Order) -> Fields:
    texts = {
        "message": order.message,
        "style": order.style,
        "font_size": order.font_size,
        "qrcode_url": order.qrcode_url,
        "message_template_id": order.message_template_id,
        "background_url": order.background_url,
        "pdf_url": order.pages_url,
        "front_image_url": order.front_image_url,
        "image_template_id": order.image_template_id,
        "giftcard_brand": order.gift and order.gift.brand,
        "giftcard_amount": order.gift and order.gift.cents,
        "landing_page_url": order.gift and order.gift.landing_page_url,
    }
    found = {name: [str(value)] for name, value in texts.items() if value not in (None, "")}
    name = next(
        name for name, each in forms.CHOICES.items() if (each.type, each.size) == (order.type, order.size)
    )
    front = "url" if order.front_image_url else "template" if order.image_template_id else "none"
    return found | ink_typed("color", order.handwriting_color) | {
        "piece": [name],
        "image": [front],
        "realism": ["on"] if order.handwriting_realism else [],
        "pdf_is": ["whole" if order.pdf_only else "after"],
    }  # fmt: skip


def _piece(type_: str, fields: Fields) -> Fields:
    """A piece of this type: the one that is chosen already, where it is one."""
    fitting = [name for name, each in forms.CHOICES.items() if each.type == type_]
    return _one_of(fitting, fields)


def _piece_of_image(image: ImageTemplate, fields: Fields) -> Fields:
    return _one_of([name for name, each in forms.CHOICES.items() if each.image_type == image.type], fields)


def _one_of(fitting: Sequence[str], fields: Fields) -> Fields:
    chosen = fields.get("piece", [])
    return {} if not fitting or set(chosen) & set(fitting) else {"piece": [fitting[0]]}


router = APIRouter(include_in_schema=False)

PAGE: Final = "/compose"

Faults = Mapping[str, Sequence[str]]

STARTS: Final[Mapping[str, Callable[[Tx, int, Fields], Fields]]] = {
    "order": from_order,
    "template": from_template,
    "image": from_image,
    "list": from_list,
}
"""What the page's address may name to start from; each wins over those before it."""

TEMPLATE = "template"
"""The button that was pressed to see more of the page, and the one that takes over a saved message."""


@router.get(PAGE)
def composer(request: Request, who: Reader, parts: OurParts) -> Response:
    fields = usual()
    with parts.db.transaction(tenant(who.caller)) as tx:
        for name, start in STARTS.items():
            if (number := request.query_params.get(name)) is not None:
                fields = start(tx, id_in_path(number), fields)
    return composer_page(request, who, parts, Form(fields))


@router.post(PAGE)
def composer_again(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """The page with what stands in its form, and the picture of it: nothing is sent."""
    if form.text(FIND) == TEMPLATE and (number := form.number("message_template_id")) is not None:
        with parts.db.transaction(tenant(who.caller)) as tx:
            fields = {name: list(values) for name, values in form.fields.items()}
            form = Form(from_template(tx, number, fields), form.about)

    def answer() -> Response:
        preview, faults = previewed(form, who.caller, parts, typed_zone(request, form.fields))
        return composer_page(request, who, parts, form, faults=faults, preview=preview)

    return in_turn(who.person_id, answer)


def composer_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    form: Form,
    *,
    faults: Faults | None = None,
    status: int | None = None,
    preview: Preview | None = None,
) -> Response:
    """The page with this in its form; with faults, each beside its field, its status is 422 or the given."""
    form, faults = forms.opened(form, faults or {})
    return show_form(
        request,
        "compose/page.html",
        who,
        Filled(form.fields, faults),
        status=status,
        draws_inline=True,
        can_upload=True,
        **composer_values(who.caller, parts, faults, preview),
        **for_page(request, who, parts, form),
    )


def composer_values(
    caller: Caller,
    parts: Parts,
    faults: Faults | None,
    preview: Preview | None,
    *,
    fields: Iterable[str] = (*FORM_FIELDS.values(), forms.RETURNS),
) -> dict[str, Any]:
    """What the form has to choose from, the picture beside it, and what is told above it: whatever is wrong
    with none of its fields."""
    return {
        **page_values(caller, parts),
        "elsewhere": told_above(faults or {}, fields),
        "preview": preview,
        "seen": (),
        "now": parts.clock(),
    }


def told_above(faults: Faults, fields: Iterable[str]) -> list[str]:
    known = {*fields, "piece", "audience"}
    return [
        told
        for name, sentences in faults.items()
        if name not in known and not name.startswith(("to_", "radius_"))
        for told in sentences
    ]
