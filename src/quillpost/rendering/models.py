"""Designs, copies and boxes on the printed page, in points from the lower left corner of the trim."""

import re
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

INCH = 72.0

# The Intelligent Mail barcode as we draw it: 22 bars an inch, well inside what readers accept.
BAR_COUNT = 65
BAR_PITCH = INCH / 22
BAR_WIDTH = INCH / 50
BAR_HEIGHT = 0.145 * INCH

_TOLERANCE = 0.005  # coordinates are printed with two digits; less than this is no difference


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    def expand(self, margin: float, vertical: float | None = None) -> "Box":
        """On all sides, or by another margin above and below."""
        upright = margin if vertical is None else vertical
        return Box(self.left - margin, self.bottom - upright, self.width + 2 * margin, self.height + 2 * upright)

    def contains(self, other: "Box") -> bool:
        return (
            self.left <= other.left + _TOLERANCE
            and self.bottom <= other.bottom + _TOLERANCE
            and other.right <= self.right + _TOLERANCE
            and other.top <= self.top + _TOLERANCE
        )

    def overlaps(self, other: "Box") -> bool:
        """Whether they share more than an edge; a line crosses a box without having an area."""
        return (
            self.left < other.right - _TOLERANCE
            and other.left < self.right - _TOLERANCE
            and self.bottom < other.top - _TOLERANCE
            and other.bottom < self.top - _TOLERANCE
        )


Ink = tuple[float, float, float]

NO_CUSTOM_FIELDS: tuple[str | None, ...] = (None,) * 10

AddressParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""Of an address: the street, the second line, city, state and ZIP code."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """One recipient as copied at sending time; every part may be unknown.

    The address is as it was given, for variables. `standard` is what the address block says instead, if known.
    """

    name: str | None = None
    company: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str | None = None
    email: str | None = None
    phone: str | None = None
    dob: str | None = None
    anniversary: str | None = None
    custom: tuple[str | None, ...] = NO_CUSTOM_FIELDS
    or_current_resident: bool = False
    standard: AddressParts | None = None

    @property
    def address_block(self) -> AddressParts:
        if self.standard is not None:
            return self.standard
        return self.address, self.address2, self.city, self.province, self.postal_code


@dataclass(frozen=True, slots=True)
class SenderName:
    """Who writes, as the message's `%YOUR_NAME%` and `%YOUR_COMPANY%` say it."""

    name: str | None = None
    company: str | None = None


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where a piece goes that cannot be delivered."""

    name: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None


@dataclass(frozen=True, slots=True)
class Giftcard:
    brand: str
    amount_cents: int
    accent: Ink = (0.13, 0.2, 0.42)


@dataclass(frozen=True, slots=True)
class GiftcardClaim:
    """One recipient's code and URL. Both are secret: no repr shows them."""

    code: str = field(repr=False)
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SenderBranding:
    """How a sender appears on the front of a card without art; `logo` is a printable picture."""

    accent: Ink | None = None
    company: str | None = None
    contact: str | None = None
    disclaimer: str | None = None
    logo: bytes | None = None


DEFAULT_MANNER, NEAT_MANNER = "natural", "neat"


class HandChoice(NamedTuple):
    """A style by its number; of a private one its file as well. Two with one number are still two."""

    number: int
    own_hand: bytes | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """One order's look. `product` names a layout, `hand` a handwriting style by number.

    Pictures and `pages` are printable ones, as `images` makes them. Pages follow a letter's cover, or with `pdf_only`
    are the whole letter. `manner` says how freely the hand writes: neat, natural or lively. With `own_hand`, a file of
    `OwnHand`, `hand` is the number of that private style. `signature` closes the message, as `Signature.to_bytes` gives
    it.
    """

    product: str
    message: str
    ink: Ink
    hand: int = 1
    own_hand: bytes | None = field(default=None, repr=False)
    font_size: str = "auto"
    manner: str = DEFAULT_MANNER
    front: bytes | None = None
    background: bytes | None = None
    pages: bytes | None = None
    pdf_only: bool = False
    signature: bytes | None = None
    giftcard: Giftcard | None = None
    branding: SenderBranding | None = None
    sender: SenderName = SenderName()
    return_address: ReturnAddress = ReturnAddress()
    indicia: tuple[str, ...] = ("FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST")

    @property
    def hand_choice(self) -> HandChoice:
        return HandChoice(self.hand, self.own_hand)


@dataclass(frozen=True, slots=True)
class Copy:
    """One item to print; `design` is a key of the batch's designs.

    `tracking` has 20 digits, or is None where no barcode is printed. The last word of `opt_out` is a URL.
    """

    item_id: int
    design: Hashable
    addressee: Addressee
    tracking: str | None = None
    routing: str = ""
    qr_url: str | None = None
    claim: GiftcardClaim | None = None
    opt_out: str | None = None


@dataclass(frozen=True, slots=True)
class Color:
    """0 to 255 a channel, alpha from 0 to 1."""

    red: int
    green: int
    blue: int
    alpha: float = 1.0

    @property
    def rgba_text(self) -> str:
        return f"rgba({self.red},{self.green},{self.blue},{self.alpha:g})"

    @property
    def ink(self) -> Ink:
        """The opaque ink that looks the same on white paper."""
        red, green, blue = (
            round(1 - self.alpha * (1 - channel / 255), 4) for channel in (self.red, self.green, self.blue)
        )
        return red, green, blue


PEN_COLORS = {
    "blue": Color(20, 42, 130),
    "black": Color(27, 27, 31),
    "green": Color(14, 90, 58),
    "purple": Color(75, 42, 131),
    "red": Color(176, 30, 40),
}

_MIN_ALPHA = 0.1
_HEX_COLOR = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_RGB_COLOR = re.compile(r"(rgba?)\(\s*([0-9.]+(?:\s*,\s*[0-9.]+)*)\s*\)")


def parse_color(text: str) -> Color:
    """Raises ValueError with what is understood."""
    name = text.strip().lower()
    color = PEN_COLORS.get(name)
    if hex_match := _HEX_COLOR.fullmatch(name):
        digits = hex_match[1] if len(hex_match[1]) == 6 else "".join(d * 2 for d in hex_match[1])
        color = Color(*bytes.fromhex(digits))
    elif rgb_match := _RGB_COLOR.fullmatch(name):
        form, channels = rgb_match[1], rgb_match[2].split(",")
        with suppress(ValueError, IndexError):
            red, green, blue = (int(channel) for channel in channels[:3])
            alpha = float(channels[3]) if form == "rgba" else 1.0
            if max(red, green, blue) <= 255 and alpha <= 1 and len(channels) == len(form):
                color = Color(red, green, blue, alpha)
    if color is None:
        names = ", ".join(PEN_COLORS)
        raise ValueError(
            f'"{text}" is not a color that we know: give one of {names},'
            " or a form such as #1a2b3c, rgb(26,43,60) or rgba(26,43,60,0.9)."
        )
    if color.alpha < _MIN_ALPHA:
        raise ValueError(f'"{text}" cannot be seen: give it an alpha of {_MIN_ALPHA:g} or more.')
    return color


MIN_READABLE_CONTRAST = 3.0
MIN_VISIBLE_CONTRAST = 1.3
WHITE: Ink = (1.0, 1.0, 1.0)


def contrast_ratio(first: Ink, second: Ink) -> float:
    """From 1, the same, to 21, black on white."""
    luminances = []
    for color in (first, second):
        red, green, blue = (
            channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in color
        )
        luminances.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)
