"""A web server with pictures and letters, for sends that name their creative by address."""

from io import BytesIO
from urllib.parse import unquote

import pikepdf
from PIL import Image, ImageColor

from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond

SHARP, SOFT = (1875, 1275), (600, 400)


def make_picture(colour: str = "teal", size: tuple[int, int] = SHARP) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def make_letter(pages: int = 2) -> bytes:
    buffer = BytesIO()
    with pikepdf.new() as pdf:
        for _ in range(pages):
            pdf.add_blank_page(page_size=(612, 792)).obj["/Contents"] = pdf.make_stream(b"72 72 99 99 re f")
        pdf.save(buffer)
    return buffer.getvalue()


class ImageServer(FakeServer):
    """Answers `/teal.png` with a teal picture, `/soft-teal.png` with one of few pixels, `/3.pdf` with a letter of
    three pages, `/gone` not at all."""

    def __init__(self) -> None:
        super().__init__({"GET /{colour}.png": self._picture, "GET /{pages}.pdf": self._letter})

    @property
    def paths(self) -> list[str]:
        """The paths that were requested, as they were written, in any order."""
        return sorted(request.split(b" ")[1].decode() for request in self.requests)

    def picture(self, colour: str = "teal") -> str:
        return self.url(f"/{colour}.png")

    def letter(self, pages: int = 2) -> str:
        return self.url(f"/{pages}.pdf")

    def _picture(self, _: FakeRequest, name: str) -> FakeResponse:
        colour = unquote(name).removeprefix("soft-")
        if colour not in ImageColor.colormap:
            return respond(404)
        return respond(200, make_picture(colour, SHARP if colour == unquote(name) else SOFT))

    def _letter(self, _: FakeRequest, pages: str) -> FakeResponse:
        return respond(200, make_letter(int(pages)))
