"""What stands in the composer's form when it is opened: the usual, or the look of something that is there."""

from collections.abc import Mapping, Sequence
from typing import Final

from quillpost.audience.lists import known_lists
from quillpost.creative.templates import (
    ImageTemplate,
    MessageTemplate,
    read_image_template,
    read_message_template,
)
from quillpost.dashboard.compose import audience, look, when
from quillpost.dashboard.handwriting import ink_typed
from quillpost.database import Tx
from quillpost.kit.errors import NotFound
from quillpost.orders.records import Order
from quillpost.orders.store import read_order

Fields = dict[str, list[str]]

STARTING: Final[Mapping[str, Sequence[str]]] = {
    "piece": [look.USUAL],
    "style": ["1"],
    "color": ["blue"],
    "color_own": ["#7a3b12"],
    "realism": ["on"],
    "font_size": ["auto"],
    "image": ["none"],
    "pdf_is": ["after"],
}


def usual() -> Fields:
    return {name: list(values) for name, values in {**STARTING, **audience.STARTING, **when.STARTING}.items()}


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
    return fields | {"audience": [audience.LISTS], "mailing_list_ids": [str(list_id)]}


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
        name for name, each in look.CHOICES.items() if (each.type, each.size) == (order.type, order.size)
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
    fitting = [name for name, each in look.CHOICES.items() if each.type == type_]
    return _one_of(fitting, fields)


def _piece_of_image(image: ImageTemplate, fields: Fields) -> Fields:
    return _one_of([name for name, each in look.CHOICES.items() if each.image_type == image.type], fields)


def _one_of(fitting: Sequence[str], fields: Fields) -> Fields:
    chosen = fields.get("piece", [])
    return {} if not fitting or set(chosen) & set(fitting) else {"piece": [fitting[0]]}
