"""What a piece says and to whom: the values that composition is given."""

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

Ink = tuple[float, float, float]

NO_CUSTOM: tuple[str | None, ...] = (None,) * 10

Parts = tuple[str | None, str | None, str | None, str | None, str | None]
"""Of an address: the street, the second line, city, state and ZIP code."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """One recipient as copied at sending time; every part may be unknown.

    The address is the one that was given, as a message's variables say it. `standard` is what the address
    block says instead, where it is known how the post wants it written, or where the person is now.
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
    custom: tuple[str | None, ...] = NO_CUSTOM
    or_current_resident: bool = False
    standard: Parts | None = None

    @property
    def block(self) -> Parts:
        """The address as the block says it."""
        if self.standard is not None:
            return self.standard
        return self.address, self.address2, self.city, self.province, self.postal_code


@dataclass(frozen=True, slots=True)
class Sender:
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
    """What is given, as the card panel names it."""

    brand: str
    amount_cents: int
    accent: Ink = (0.13, 0.2, 0.42)


@dataclass(frozen=True, slots=True)
class Claim:
    """One recipient's way to the gift: a code to type and an address to scan. Both are secret: no repr
    shows them."""

    code: str = field(repr=False)
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Branding:
    """How a sender shows itself on the front of a card without art; `logo` is a printable picture."""

    accent: Ink | None = None
    company: str | None = None
    contact: str | None = None
    disclaimer: str | None = None
    logo: bytes | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """One order's look. `piece` names a template, `hand` a handwriting style by its number.

    The pictures are printable ones, and `pages` a printable PDF, as `art` makes them. Such pages
    follow a letter's cover, or with `pdf_only` are the whole letter. Without `realism` every letter
    has one shape, and the words stand straight on even lines.
    """

    piece: str
    message: str
    ink: Ink
    hand: int = 1
    font_size: str = "auto"
    realism: bool = True
    front: bytes | None = None
    background: bytes | None = None
    pages: bytes | None = None
    pdf_only: bool = False
    giftcard: Giftcard | None = None
    branding: Branding | None = None
    sender: Sender = Sender()
    return_address: ReturnAddress = ReturnAddress()
    indicia: tuple[str, ...] = ("FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "QUILLPOST")


@dataclass(frozen=True, slots=True)
class Copy:
    """One piece to print. `design` is a key of the batch's designs.

    `tracking` has 20 digits, or is None outside the US, where no barcode is printed. `opt_out` says how to
    get no more mail; its last word is where.
    """

    item_id: int
    design: Hashable
    addressee: Addressee
    tracking: str | None = None
    routing: str = ""
    qr_url: str | None = None
    claim: Claim | None = None
    opt_out: str | None = None


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour as a caller spells it: 0 to 255 a channel, alpha from 0 to 1."""

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


BALLPOINTS = {
    "blue": Colour(20, 42, 130),
    "black": Colour(27, 27, 31),
    "green": Colour(14, 90, 58),
    "purple": Colour(75, 42, 131),
    "red": Colour(176, 30, 40),
}

_FAINTEST = 0.1

_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_RGB = re.compile(r"(rgba?)\(\s*([0-9.]+(?:\s*,\s*[0-9.]+)*)\s*\)")


def parse_colour(text: str) -> Colour:
    """The colour that the text names, or a ValueError that says what is understood."""
    spelling = text.strip().lower()
    if spelling in BALLPOINTS:
        return BALLPOINTS[spelling]
    if hex_form := _HEX.fullmatch(spelling):
        digits = hex_form[1] if len(hex_form[1]) == 6 else "".join(d * 2 for d in hex_form[1])
        return Colour(*bytes.fromhex(digits))
    if rgb_form := _RGB.fullmatch(spelling):
        return _from_channels(text, rgb_form[1], rgb_form[2].split(","))
    raise ValueError(_not_understood(text))


def _from_channels(text: str, form: str, channels: list[str]) -> Colour:
    try:
        red, green, blue = (int(channel) for channel in channels[:3])
        alpha = float(channels[3]) if form == "rgba" else 1.0
        in_range = max(red, green, blue) <= 255 and alpha <= 1
    except (ValueError, IndexError):
        raise ValueError(_not_understood(text)) from None
    if not in_range or len(channels) != len(form):
        raise ValueError(_not_understood(text))
    if alpha < _FAINTEST:
        raise ValueError(f'"{text}" cannot be seen: give it an alpha of {_FAINTEST:g} or more.')
    return Colour(red, green, blue, alpha)


def _not_understood(text: str) -> str:
    names = ", ".join(BALLPOINTS)
    return (
        f'"{text}" is not a colour that we know: give one of {names},'
        " or a form such as #1a2b3c, rgb(26,43,60) or rgba(26,43,60,0.9)."
    )
