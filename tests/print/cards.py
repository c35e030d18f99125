"""Sample designs, copies and pictures for the print tests, and ways to read a PDF back."""

import io

import pypdfium2 as pdfium
from PIL import Image

from quillpost.composition.content import (
    Addressee,
    Copy,
    Design,
    ReturnAddress,
    Sender,
    parse_colour,
)
from quillpost.composition.pages.pieces import BLEED, Box

MESSAGE = (
    "Hi %FIRST_NAME|there%,\nI was walking past your place last week and just had to write."
    " Two of your neighbors sold in under ten days, and I still have a family hoping for a"
    " home like yours. Call or text me any time!\nWarmly, %YOUR_NAME%"
)
JENNY = Addressee(
    name="JENNY SKINNER",
    company="Skinner & Söhne",
    address="8380 Harmon Underpass",
    city="Port Stevenbury",
    province="SD",
    postal_code="98227-5874",
)
TRACKING = "00270123456000000017"
QR_URL = "https://q.example.com/s/AbC123"


def design(
    piece: str = "postcard-4x6",
    message: str = MESSAGE,
    *,
    font_size: str = "auto",
    front: bytes | None = None,
    background: bytes | None = None,
) -> Design:
    return Design(
        piece=piece,
        message=message,
        ink=parse_colour("blue").ink,
        font_size=font_size,
        front=front,
        background=background,
        sender=Sender("Dana", "Maple & Main Realty"),
        return_address=ReturnAddress("Dana Whitfield", "PO Box 1180", None, "Austin", "TX", "78701"),
    )


def copy(
    item_id: int = 7,
    addressee: Addressee = JENNY,
    *,
    design: int = 0,
    tracking: str | None = TRACKING,
    qr_url: str | None = None,
) -> Copy:
    routing = "98227587412" if tracking else ""
    return Copy(item_id, design, addressee, tracking, routing, qr_url)


def picture(
    file_format: str = "JPEG",
    mode: str = "RGB",
    size: tuple[int, int] = (60, 40),
    colour: object = "black",
) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, file_format)  # type: ignore[arg-type]
    return file.getvalue()


def page_text(pdf: bytes, page: int) -> str:
    with pdfium.PdfDocument(pdf) as document:
        return str(document[page].get_textpage().get_text_bounded()).replace("\r\n", "\n")


def letters_on(pdf: bytes, page: int) -> list[tuple[str, Box]]:
    """Every visible letter and the box around its ink, from the trim's lower left corner."""
    with pdfium.PdfDocument(pdf) as document:
        text = document[page].get_textpage()
        letters = [(text.get_text_range(i, 1), text.get_charbox(i)) for i in range(text.count_chars())]
    return [
        (letter, Box(left - BLEED, bottom - BLEED, right - left, top - bottom))
        for letter, (left, bottom, right, top) in letters
        if letter.strip() and right > left
    ]


def image_of(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def cropped(picture: Image.Image, box: Box, dpi: int) -> Image.Image:
    """The part of a page's picture inside the box, which is in points from the lower left."""
    scale = dpi / 72
    return picture.crop(
        (
            round(box.left * scale),
            round(picture.height - box.top * scale),
            round(box.right * scale),
            round(picture.height - box.bottom * scale),
        )
    )
