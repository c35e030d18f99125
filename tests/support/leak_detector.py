"""Whether a secret is in some bytes, however it is written there, and what a reader sees in a file."""

import base64
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import pikepdf
import pypdfium2 as pdfium
import zxingcpp
from PIL import Image

from quillpost.orders.giftcards.rules import CLAIM_LENGTH, format_claim

DOTS_AN_INCH = 150
SIGNS = bytes(code for code in range(256) if not chr(code).isascii() or not chr(code).isalnum())
"""What may stand between the letters of a secret: dashes, blanks, the zeros of wide letters."""
CAPITALS = bytes.maketrans(b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def squeezed(data: bytes) -> bytes:
    """Its letters and digits alone, in capitals."""
    return data.translate(CAPITALS, SIGNS)


@dataclass(frozen=True)
class Secret:
    """One that a person reads, in groups or not."""

    name: str
    text: str = field(repr=False)

    def is_in(self, data: bytes, letters: bytes) -> bool:
        """`letters` is the same data, squeezed."""
        return any(form in letters for form in self._plain) or any(form in data for form in self._base64)

    @property
    def _spellings(self) -> list[bytes]:
        compact = re.sub(r"[^0-9A-Za-z]", "", self.text)
        written = {self.text, compact, *([format_claim(compact)] if len(compact) == CLAIM_LENGTH else [])}
        return [each.encode() for each in written | {each.lower() for each in written}]

    @property
    def _plain(self) -> set[bytes]:
        """As it is, and as hexadecimal digits."""
        return {squeezed(self.text.encode())} | {each.hex().upper().encode() for each in self._spellings}

    @property
    def _base64(self) -> set[bytes]:
        """Wherever it lies in what was encoded: what its neighbours have a share in is cut off."""
        found = set()
        for each in self._spellings:
            for before in range(3):
                encoded = base64.b64encode(b"\0" * before + each)
                whole = encoded[-(-before * 8 // 6) : (before + len(each)) * 8 // 6]
                found |= {whole, whole.replace(b"+", b"-").replace(b"/", b"_")}
        return found


@dataclass
class Detector:
    """Knows the secrets last, and judges then all that was seen."""

    seen: list[tuple[str, bytes, frozenset[str]]] = field(default_factory=list)

    def see(self, where: str, data: bytes | str, *, may_show: str = "") -> None:
        """`may_show`: the kinds of secrets that belong there, by the starts of their names."""
        plain = data.encode() if isinstance(data, str) else data
        self.seen.append((where, plain, frozenset(may_show.split())))

    def see_file(self, where: str, data: bytes, *, may_show: str = "") -> None:
        self.see(where, data, may_show=may_show)
        for kind, read in read_file(data):
            self.see(f"{where} ({kind})", read, may_show=may_show)

    def leaks(self, secrets: Mapping[str, str]) -> list[tuple[str, str]]:
        """Where each secret is that does not belong there."""
        return [
            (where, name)
            for where, data, allowed in self.seen
            for name in find_secrets(data, secrets)
            if name.split()[0] not in allowed
        ]


def find_secrets(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    letters = squeezed(data)
    return [name for name, text in secrets.items() if Secret(name, text).is_in(data, letters)]


@cache
def read_file(data: bytes) -> Sequence[tuple[str, bytes]]:
    """What is in a PDF or a picture, beside its bytes: text, codes, what was compressed. The same file lies
    in many places, and is looked at once."""
    if data.startswith(b"%PDF-"):
        return list(_read_pdf(data))
    if data.startswith((b"\x89PNG", b"\xff\xd8")):
        return [("codes", _codes(Image.open(io.BytesIO(data))))]
    return []


def _read_pdf(data: bytes) -> Iterator[tuple[str, bytes]]:
    with pikepdf.open(io.BytesIO(data)) as document:
        streams = [each for each in document.objects if isinstance(each, pikepdf.Stream)]
        yield "streams", b"\n".join(each.read_bytes() for each in streams if _is_plain(each))
    pages = pdfium.PdfDocument(data)
    for page in pages:
        yield "text", page.get_textpage().get_text_range().encode()
        yield "codes", _codes(page.render(scale=DOTS_AN_INCH / 72).to_pil())
    pages.close()


def _is_plain(stream: pikepdf.Stream) -> bool:
    """Pictures are looked at, not read."""
    return str(stream.get("/Subtype", "")) != "/Image"


def _codes(picture: Image.Image) -> bytes:
    kinds = zxingcpp.BarcodeFormats(zxingcpp.BarcodeFormat.QRCode)
    found = zxingcpp.read_barcodes(picture.convert("L"), formats=kinds)
    return "\n".join(code.text for code in found).encode()
