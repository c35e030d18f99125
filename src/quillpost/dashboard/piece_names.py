"""What each kind of piece is called on pages. What programs call it is the API's."""

from collections.abc import Mapping
from typing import Final

PIECE_NAMES: Final[Mapping[str, str]] = {
    "postcard-4x6": "Postcard 4 × 6",
    "postcard-6x9": "Postcard 6 × 9",
    "postcard-6x11": "Postcard 6 × 11",
    "letter": "Windowed letter",
    "windowlessletter": "Windowless letter",
    "notecard": "Notecard",
    "giftcard": "Gift card",
    "magnacard": "Magnacard",
}
"""By the name that composition has for it, and that orders and batches carry."""

TYPE_NAMES: Final[Mapping[str, str]] = {
    "postcard": "Postcard",
    "postcard6x11": PIECE_NAMES["postcard-6x11"],
    **{name: words for name, words in PIECE_NAMES.items() if "-" not in name},
}
"""By the type of an order or a template, of which two sizes of postcards are one."""


def piece_name(type_: str, size: str | None) -> str:
    """Of an order or a price; what this release does not know is called as it is."""
    drawn_as = f"postcard-{size}" if type_.startswith("postcard") else type_
    return PIECE_NAMES.get(drawn_as, f"{type_} {size or ''}".strip())
