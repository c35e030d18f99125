"""PDFs that are meant to hurt, and what a call that brings them takes of this process and leaves running."""

import os
import select
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hostile.pdfs import file, form, one_page, stream

from quillpost.rendering.decoder.service import DECODER_POOL
from quillpost.rendering.decoder.worker import IDLE_CHILDREN_COUNT


def huge_page() -> bytes:
    return one_page(b"0 0 9 9 re f", box="[0 0 9000000 9000000]")


def self_drawing() -> bytes:
    """Two forms that draw each other, many times."""
    draw = b"/F Do " * 50
    others = [form(draw, "<</XObject<</F 6 0 R>>>>"), form(draw, "<</XObject<</F 5 0 R>>>>")]
    return one_page(draw, "<</XObject<</F 5 0 R>>>>", others)


def deep_tree(depth: int = 60_000) -> bytes:
    """A page at the end of a chain of nodes that hold one node each."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>"]
    objects += [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (n + 3) for n in range(depth)]
    objects += [b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]>>" % (depth + 1)]
    return file(objects)


def deep_values(depth: int = 200_000) -> bytes:
    """Brackets within brackets."""
    return one_page(b"", others=[b"[" * depth + b"]" * depth])


def endless_tree() -> bytes:
    """Pages whose only kid is themselves."""
    return file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R]/Count 1>>"])


def many_pages(count: int = 50_000) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>"
    kids = b" ".join(b"%d 0 R" % (n + 3) for n in range(count))
    return file(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, count), *[page] * count]
    )


def huge_xref() -> bytes:
    """A table that promises two thousand million objects."""
    good = one_page(b"0 0 9 9 re f")
    return good.replace(b"xref\n0 5", b"xref\n0 2000000000").replace(b"/Size 5", b"/Size 2000000000")


def huge_xref_stream() -> bytes:
    """The same as a stream, packed."""
    body = b"%PDF-1.7\n1 0 obj\n" + stream(
        bytes(1_000_000), "/Type/XRef/Size 2000000000/W[1 1 1]/Root 2 0 R/Index[0 2000000000]", times=150
    )
    return body + b"\nendobj\nstartxref\n9\n%%EOF\n"


def huge_image(width: int = 90_000, height: int = 40_000) -> bytes:
    """A picture within the page: bits that say nothing, packed."""
    entries = f"/Type/XObject/Subtype/Image/Width {width}/Height {height}/BitsPerComponent 1/ColorSpace/DeviceGray"
    others = [stream(bytes(100 * width // 8), entries, times=height // 100)]
    return one_page(b"612 0 0 792 0 0 cm /I Do", "<</XObject<</I 5 0 R>>>>", others)


def repeated_image(times: int = 3_000) -> bytes:
    """A large picture that is one line of the drawing, again and again."""
    entries = "/Type/XObject/Subtype/Image/Width 9000/Height 9000/BitsPerComponent 1/ColorSpace/DeviceGray"
    others = [stream(bytes(112_500), entries, times=90)]
    return one_page(b"q 612 0 0 792 0 0 cm /I Do Q " * times, "<</XObject<</I 5 0 R>>>>", others)


def packed_twice() -> bytes:
    """A drawing that is packed five times over: a few bytes become gigabytes."""
    data = bytes(10_000_000)
    for _ in range(5):
        data = zlib.compress(data * (40 if len(data) < 9_000_000 else 1), 9)
    entries = b"<</Filter[/FlateDecode/FlateDecode/FlateDecode/FlateDecode/FlateDecode]/Length %d>>stream\n"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R>>"
    content = entries % len(data) + data + b"\nendstream"
    return file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page, content])


def broken_nesting() -> bytes:
    """Nested forms below a drawing that our own reader does not understand, and pdfium does."""
    draw = b"/F Do " * 10
    others = [form(draw, f"<</XObject<</F {6 + n} 0 R>>>>") for n in range(11)]
    others.append(form(b"0 0 m 9 9 l S " * 10))
    return one_page(b"BI /W 1 ID x EI ) ]] >> " + draw, "<</XObject<</F 5 0 R>>>>", others)


_SELF = Path("/proc/self")
A_MOMENT = 20.0


@dataclass
class MemoryPeak:
    """Bytes that this process took more than before, at most."""

    grown: int = 0


@contextmanager
def measure_peak() -> Iterator[MemoryPeak]:
    """The most memory that was held at any moment within the block."""
    (_SELF / "clear_refs").write_text("5")  # the peak begins anew, from what is held now
    before, seen = _held("VmHWM"), MemoryPeak()
    yield seen
    seen.grown = _held("VmHWM") - before


def wait_for_children() -> bool:
    """Whether the decoder has no child but those that wait for work; one that was just ended may take a
    moment."""
    while len(alive := _children()) > IDLE_CHILDREN_COUNT:
        if not _one_ends(alive):
            return False
    return True


def _children() -> list[int]:
    """Those that are not dead and only wait to be buried."""
    decoder = DECODER_POOL.pid
    listed = Path(f"/proc/{decoder}/task/{decoder}/children").read_text().split() if decoder else []
    return [int(child) for child in listed if _state(child) != "Z"]


def _state(process: str) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def _one_ends(processes: list[int]) -> bool:
    with ExitStack() as opened:
        handles = []
        for process in processes:
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(process))
                opened.callback(os.close, handles[-1])
        return len(handles) < len(processes) or bool(select.select(handles, [], [], A_MOMENT)[0])


def _held(what: str) -> int:
    lines = (_SELF / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))
