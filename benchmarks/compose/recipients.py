"""Who gets the postcards, and what they say: the same people in the same order on every run."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

MESSAGE = (
    "Hi %FIRST_NAME%,\n"
    "I was walking past %ADDRESS% last week and thought of you. We have just helped two of your"
    " neighbours in %CITY% sell their homes, both above asking, and three families are still looking"
    " for one like yours. If you have ever wondered what it is worth today, call me or scan the code."
    " No pressure at all!\n"
    "Warmly, Dana"
)

PHOTO_SIZE = (1875, 1275)

_FIRST = (
    *("Ada", "Ben", "Carla", "Diego", "Elena", "Frank", "Grace", "Hugo", "Irene", "James", "Karen"),
    *("Liam", "Maria", "Noah", "Olga", "Peter", "Quinn", "Rosa", "Sam", "Teresa", "Uma", "Victor"),
    *("Wendy", "Xavier", "Yara", "Zoe", "Benjamin", "Charlotte", "Dominic", "Josephine"),
)
_LAST = (
    *("Abbott", "Bell", "Castillo", "Dunn", "Evans", "Flores", "Garcia", "Hughes", "Ibarra", "Jensen"),
    *("Kowalski", "Lopez", "Murphy", "Nguyen", "O'Brien", "Patel", "Quigley", "Reyes", "Sullivan"),
    *("Torres", "Underwood", "Vargas", "Whitaker", "Xiong", "Young", "Zimmerman"),
)
_STREETS = (
    *("Maple", "Oak", "Cedar", "Willow", "Juniper", "Magnolia", "Sycamore", "Birch", "Laurel", "Aspen"),
    *("Chestnut", "Hawthorn", "Linden", "Poplar"),
)
_KINDS = ("St", "Ave", "Ln", "Rd", "Dr", "Ct", "Blvd")
_CITIES = (
    ("Austin", "TX", 78701),
    ("Boise", "ID", 83702),
    ("Denver", "CO", 80203),
    ("Portland", "OR", 97204),
    ("Madison", "WI", 53703),
    ("Asheville", "NC", 28801),
    ("Sacramento", "CA", 95814),
    ("Kansas City", "MO", 64106),
)


@dataclass(frozen=True, slots=True)
class Recipient:
    number: int
    name: str
    address: str
    city: str
    state: str
    postal_code: str
    tracking: str
    routing: str
    url: str


def recipient(number: int) -> Recipient:
    """The person at that place; neighbours share little, and no two share a street number and code."""
    draw = (number + 1) * 2654435761 % 2**32
    city, state, first_zip = _CITIES[draw // 7 % len(_CITIES)]
    zip_code, plus4, point = f"{first_zip + draw // 11 % 40:05d}", f"{draw // 13 % 10_000:04d}", draw % 100
    street = f"{_STREETS[draw // 17 % len(_STREETS)]} {_KINDS[draw // 19 % len(_KINDS)]}"
    return Recipient(
        number=number,
        name=f"{_FIRST[draw // 23 % len(_FIRST)]} {_LAST[draw // 29 % len(_LAST)]}",
        address=f"{10 + draw // 31 % 9_000} {street}",
        city=city,
        state=state,
        postal_code=f"{zip_code}-{plus4}",
        tracking=f"00270123456{number % 10**9:09d}",
        routing=f"{zip_code}{plus4}{point:02d}",
        url=f"https://q.example.com/{draw:08X}",
    )


def draw_photo(file: Path) -> None:
    """A front as large in pixels and in bytes as a landscape photo."""
    width, height = PHOTO_SIZE
    sky = Image.linear_gradient("L").resize(PHOTO_SIZE)
    coarse = (width // 3, height // 3)
    grains = hashlib.shake_128(b"grain").digest(coarse[0] * coarse[1])
    grain = Image.frombytes("L", coarse, grains).resize(PHOTO_SIZE, Image.Resampling.BICUBIC)
    channels = [sky.point([least + v * (240 - least) // 255 for v in range(256)]) for least in (70, 120, 200)]
    photo = Image.merge("RGB", channels)
    pen = ImageDraw.Draw(photo)
    for place in range(0, width, 75):
        roof = height // 2 + place * 7919 % (height // 3)
        shade = 60 + place * 104_729 % 120
        left, right = place - 60, place + 60
        house = [(left, height), (left, roof), (place, roof - 90), (right, roof), (right, height)]
        pen.polygon(house, fill=(shade, shade * 2 // 3, shade // 2))
    textured = Image.blend(photo.filter(ImageFilter.GaussianBlur(2)), grain.convert("RGB"), 0.12)
    textured.save(file, "JPEG", quality=85, dpi=(300, 300))
