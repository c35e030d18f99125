"""What can be sent, and what each piece asks of a call: the specification's matrix, cell by cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from quillpost.core.errors import Message


class FieldRequirement(StrEnum):
    REQUIRED = "required"
    UNLESS_MESSAGE = "required unless message given"
    UNLESS_MESSAGE_OR_PDF = "required unless message given or pdf_only_url set"
    UNLESS_PDF = "required unless pdf_only_url"
    OPTIONAL = "optional"
    ALTERNATIVE = "optional alternative"
    NOT_USED = "not used"


@dataclass(frozen=True, slots=True)
class Product:
    """A kind of mail, as one column of the matrix has it. `paths` are its names in addresses."""

    name: str
    paths: tuple[str, ...]
    audience: FieldRequirement
    front: FieldRequirement
    message: FieldRequirement
    background: FieldRequirement
    pdf_only: FieldRequirement
    is_letter: bool = False
    has_handwritten_envelope: bool = False


def _card_product(name: str, *, background: FieldRequirement = FieldRequirement.OPTIONAL) -> Product:
    return Product(
        name,
        (name,),
        audience=FieldRequirement.REQUIRED,
        front=FieldRequirement.UNLESS_MESSAGE,
        message=FieldRequirement.REQUIRED,
        background=background,
        pdf_only=FieldRequirement.NOT_USED,
    )


def _letter_product(name: str, *paths: str, has_handwritten_envelope: bool) -> Product:
    return Product(
        name,
        paths,
        audience=FieldRequirement.REQUIRED,
        front=FieldRequirement.UNLESS_MESSAGE_OR_PDF,
        message=FieldRequirement.UNLESS_PDF,
        background=FieldRequirement.NOT_USED,
        pdf_only=FieldRequirement.ALTERNATIVE,
        is_letter=True,
        has_handwritten_envelope=has_handwritten_envelope,
    )


POSTCARD = _card_product("postcard")
LETTER = _letter_product(
    "letter", "windowed-letter", "windowedletter", "letter", "letter/windowed", has_handwritten_envelope=False
)
WINDOWLESS_LETTER = _letter_product(
    "windowlessletter", "windowless-letter", "windowlessletter", "letter/windowless", has_handwritten_envelope=True
)
NOTECARD = _card_product("notecard")
GIFTCARD = _card_product("giftcard", background=FieldRequirement.NOT_USED)
MAGNACARD = _card_product("magnacard")

PRODUCTS = (POSTCARD, LETTER, WINDOWLESS_LETTER, NOTECARD, GIFTCARD, MAGNACARD)

DISPLAY_TYPES = {
    ("postcard", "4x6"): "Postcard-4x6",
    ("postcard", "6x9"): "Postcard-6x9",
    ("postcard6x11", "6x11"): "Postcard-6x11",
    ("letter", None): "Windowed Letter",
    ("windowlessletter", None): "Windowless Letter",
    ("notecard", None): "Notecard",
    ("giftcard", None): "Gift Card",
    ("magnacard", None): "Magnacard",
}
"""The human form of an order's type and size."""

FRONT_REQUIRED = Message(
    "front_missing", "Give a front_image_url or an image_template: only a call with its own message may go without."
)

ORDER_TYPES = tuple(dict.fromkeys(type_ for type_, _ in DISPLAY_TYPES))


@dataclass(frozen=True, slots=True)
class ProductFamily:
    """The types that one name of a filter stands for; with a `size`, only those of that size."""

    types: tuple[str, ...]
    size: str | None = None


def _build_families() -> dict[str, ProductFamily]:
    families_by_size = {
        size: ProductFamily((type_,), size) for (type_, size) in DISPLAY_TYPES if type_.startswith("postcard")
    }
    letter_names = {name: product.name for product in (LETTER, WINDOWLESS_LETTER) for name in product.paths}
    return {
        "postcard": ProductFamily(tuple(type_ for type_ in ORDER_TYPES if type_.startswith("postcard"))),
        **{f"postcard{size}": family for size, family in families_by_size.items()},
        **{f"{size}-postcard": family for size, family in families_by_size.items()},
        **{type_: ProductFamily((type_,)) for type_ in ORDER_TYPES if not type_.startswith("postcard")},
        **{name: ProductFamily((type_,)) for name, type_ in letter_names.items() if "/" not in name},
    }


PRODUCT_FAMILIES: Mapping[str, ProductFamily] = _build_families()
"""By each name that a filter by type may have, the specified ones and those that other clients use."""


def find_product(order_type: str) -> Product:
    """The product of an order of this type."""
    return next(product for product in PRODUCTS if product.name == order_type.removesuffix("6x11"))
