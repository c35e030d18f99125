"""Digests of what the printer gets and of what a sender sees before, for every kind of piece.

A digest is of what a file says, not of its bytes: one compressor packs the same page differently on different
processors.
"""

import hashlib
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pikepdf
from PIL import Image

from quillpost.rendering.previews import Specimen, make_specimens
from quillpost.rendering.service import Renderer

MADE_AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
IDENTITY = re.compile(rb"uuid:[0-9a-f-]{36}")
"""What a file calls itself is made of its packed bytes."""
PACKING = ("/Length", "/Filter", "/DecodeParms")
CONTAINERS = ("/ObjStm", "/XRef")
"""Streams of other objects, which are looked at by themselves."""


def print_files(renderer: Renderer) -> str:
    """A line for each print file and each preview of each specimen of each piece."""
    found = []
    for piece in renderer.products:
        for specimen in make_specimens(renderer, piece):
            for name, digest in _digests(renderer, specimen):
                found.append(f"{digest}  {piece}, {specimen.caption}: {name}\n")
    return "".join(found)


def _digests(renderer: Renderer, specimen: Specimen) -> Iterator[tuple[str, str]]:
    printed = renderer.compose({0: specimen.design}, [specimen.copy], title="A batch", made_at=MADE_AT)
    yield "sheets", digest_of_pdf(printed.sheets)
    if printed.envelopes is not None:
        yield "envelopes", digest_of_pdf(printed.envelopes)
    previews = renderer.preview(specimen.design, specimen.copy)
    for side, png in previews.sides.items():
        yield f"preview of {side}", digest_of_picture(png)
    if previews.envelope is not None:
        yield "preview of envelope", digest_of_picture(previews.envelope)


def digest_of_pdf(pdf: bytes) -> str:
    """The same for files that differ in nothing but how they are packed."""
    digest = hashlib.sha256()
    with pikepdf.Pdf.open(io.BytesIO(pdf)) as document:
        for thing in document.objects:
            for part in _unpacked(thing):
                digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()


def _unpacked(thing: Any) -> Iterator[bytes]:
    """An object of a PDF, and what is in it if it is a stream."""
    if not isinstance(thing, pikepdf.Stream):
        yield thing.unparse(resolved=True) if isinstance(thing, pikepdf.Object) else repr(thing).encode()
    elif thing.get("/Type") not in CONTAINERS:
        yield pikepdf.Dictionary({k: v for k, v in thing.items() if k not in PACKING}).unparse()
        yield IDENTITY.sub(b"uuid:", thing.read_bytes())


def digest_of_picture(png: bytes) -> str:
    """The same for pictures of one size and density with the same pixels."""
    with Image.open(io.BytesIO(png)) as picture:
        details = f"{picture.mode} {picture.size} {picture.info.get('dpi')} ".encode()
        return hashlib.sha256(details + picture.tobytes()).hexdigest()
