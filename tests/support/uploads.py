"""Pictures, and the forms that bring them."""

from typing import Any

from httpx2 import Response
from PIL import Image

from support.factories import Account
from support.images import saved

RED, BLUE = (200, 30, 30), (30, 60, 200)


def png(colour: tuple[int, int, int] = RED) -> bytes:
    return saved(Image.new("RGB", (12, 8), colour), "PNG")


def jpeg() -> bytes:
    return saved(Image.new("RGB", (12, 8), RED), "JPEG")


def print_sized() -> bytes:
    """A picture that is changed when it is made printable."""
    return saved(Image.new("CMYK", (12, 8), (0, 200, 200, 40)), "JPEG")


def upload(
    account: Account,
    *,
    image: bytes | None = None,
    filename: str = "front.png",
    method: str = "POST",
    path: str = "/image-templates",
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> Response:
    """The fields and the picture as a form with files; on creation those that are needed are there."""
    needed = {"type": "postcard", "name": "Spring"} if method == "POST" else {}
    return account.call(
        method, path, data=needed | fields,
        files={"image": (filename, png() if image is None else image, "text/html")}, headers=headers or {},
    )  # fmt: skip


def form_of(boundary: str, *parts: tuple[str, bytes]) -> bytes:
    """A form exactly so: each part's disposition, and what it holds."""
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {how}\r\n\r\n".encode() + held + b"\r\n"
        for how, held in parts
    )
    return body + f"--{boundary}--\r\n".encode()
