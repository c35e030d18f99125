"""What a limited child can do with a stranger's file. Nothing else in the service opens one.

Each takes the bytes and how it is to be done, and answers with a head and bytes, or raises `BadArt`.
"""

import io
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

import pikepdf

from quillpost.composition.art.copied import CopiedPages, ObjectList
from quillpost.composition.art.forms import page_forms
from quillpost.composition.art.intake import printable_picture
from quillpost.composition.art.papers import count_pages, printable_pages
from quillpost.composition.art.refusals import BadArt
from quillpost.composition.art.tone_measure import measure_tones
from quillpost.composition.geometry import Box
from quillpost.composition.pdf.raster import rasterise
from quillpost.creative.messages import Head, packed, unpacked
from quillpost.creative.rehearsal import specimen_pages, specimen_pictures, specimen_print_file

Work = Callable[[bytes, Head], tuple[Head, bytes]]


def read_picture(data: bytes, _how: Head) -> tuple[Head, bytes]:
    made = printable_picture(data)
    return {"notes": made.notes}, made.data


def read_pages(data: bytes, _how: Head) -> tuple[Head, bytes]:
    made = printable_pages(data)
    return {"notes": made.notes}, made.data


def read_tones(data: bytes, _how: Head) -> tuple[Head, bytes]:
    return {}, measure_tones(data)


def count(data: bytes, _how: Head) -> tuple[Head, bytes]:
    """How many pages there are in what another child made printable."""
    return {"count": count_pages(data)}, b""


def copy(data: bytes, how: Head) -> tuple[Head, bytes]:
    """Pages as objects of another file, which are numbered from `first`."""
    objects = ObjectList(how["first"])
    forms = page_forms(objects, data, default_spaces=how["default_spaces"].encode("latin-1"))
    made = CopiedPages(objects.found(), tuple(forms))
    return {"forms": made.forms}, packed(made.written())


def draw(data: bytes, how: Head) -> tuple[Head, bytes]:
    """Pages as PNG files."""
    crops = how["crops"]
    boxes = None if crops is None else [None if crop is None else Box(*crop) for crop in crops]
    return {}, packed(rasterise(data, dpi=how["dpi"], pages=how["pages"], crops=boxes))


def join(data: bytes, _how: Head) -> tuple[Head, bytes]:
    """The pages of several files in one, which is in all else as the first of them."""
    first, *others = unpacked(data)
    joined = io.BytesIO()
    with ExitStack() as opened:  # all of them until the whole is written, which holds parts of each
        whole = opened.enter_context(pikepdf.open(io.BytesIO(first)))
        for other in others:
            whole.pages.extend(opened.enter_context(pikepdf.open(io.BytesIO(other))).pages)
        whole.save(joined, deterministic_id=True)
    return {}, joined.getvalue()


WORKS: Mapping[str, Work] = {
    "picture": read_picture,
    "pages": read_pages,
    "tones": read_tones,
    "count": count,
    "copy": copy,
    "draw": draw,
    "join": join,
}


def rehearse() -> None:
    """Do everything once, so that no child has to load a library."""
    for specimen in specimen_pictures():
        with suppress(BadArt):
            read_tones(read_picture(specimen, {})[1], {})
    for specimen in specimen_pages():
        with suppress(BadArt):
            _, pages = read_pages(specimen, {})
            copy(pages, {"first": 1, "default_spaces": ""})
            draw(pages, {"dpi": 72, "pages": None, "crops": None})
    join(packed([specimen_print_file(), specimen_print_file()]), {})
