"""The sheet for a sender's own handwriting, filled in with our own styles, and pictures of it as people take them."""

import io
from collections.abc import Collection, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.ink import PENS, ink_paths
from quillpost.rendering.handwriting.noise import Integers
from quillpost.rendering.handwriting.outlines import Floats, contour_through_controls, sample_contour
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.layout import BoxKind, SheetBox, sheet_pages
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from quillpost.rendering.handwriting.sheet.pages import add_sheet_pages
from quillpost.rendering.handwriting.traced_letters import even_points
from quillpost.rendering.handwriting.word_paths import PenPaths
from quillpost.rendering.handwriting.words import X_HEIGHT, NaturalHand
from quillpost.rendering.pdf.files import PdfFile
from support.natural_writing import movement_of, shape_paths

SHEET_DPI = 200
WRITTEN_SIZE = 0.85  # people write smaller than guides

Key = tuple[str, int]
"""What a box asks for, and for which time."""


def key_of_box(box: SheetBox) -> Key:
    return box.text, box.instance_number


def fill_in(hand: NaturalHand, *, skip: Collection[Key] = (), size: float = WRITTEN_SIZE) -> bytes:
    """The sheet as a PDF, written in this hand; every box a little differently."""
    writing = {}
    for page in sheet_pages():
        boxes = [box for box in page.boxes if box.kind is not BoxKind.SIGNATURE and key_of_box(box) not in skip]
        drawn = [_write_in_box(hand, box, seed, size) for seed, box in enumerate(boxes, 1000 * page.number)]
        writing[page.number] = b"q .1 .15 .45 rg\n" + b"\n".join(drawn) + b"\nQ"
    pdf = PdfFile()
    add_sheet_pages(pdf, writing)
    return pdf.finish()


def _write_in_box(hand: NaturalHand, box: SheetBox, seed: int, size: float) -> bytes:
    paths = shape_paths(hand, box.text.split(), seed, first_form=box.instance_number - 1)
    if " " in box.text:
        _set_words_apart(hand, paths)
    scale = size * layout.X_HEIGHT
    low, high = paths.knots[:, 0].min() * scale, paths.knots[:, 0].max() * scale
    left = max((box.box.width - (high - low)) / 2, 4.0) if len(box.text) < 4 else 6.0
    origin = np.array([box.box.left + left - low, box.baseline])
    return b"\n".join([*_fill_paths(hand, paths, seed, scale, origin), b"f"])


def _set_words_apart(hand: NaturalHand, paths: PenPaths) -> None:
    """They all begin at the same place. Neither tails nor tops count for the distance."""
    owner = np.repeat(paths.word, np.diff(paths.starts))
    in_band = (paths.knots[:, 1] > -0.1) & (paths.knots[:, 1] < 1.3)
    x = 0.0
    for word in range(int(owner.max()) + 1):
        band = (owner == word) & in_band
        paths.knots[owner == word, 0] += x - paths.knots[band, 0].min()
        x = float(paths.knots[band, 0].max()) + hand.style.word_gap / X_HEIGHT


def _fill_paths(hand: NaturalHand, paths: PenPaths, seed: int, scale: float, origin: Floats) -> Iterator[bytes]:
    seeds: Any = np.arange(int(paths.word.max()) + 1, dtype=np.uint64) + np.uint64(1000 * seed)
    ink = ink_paths(paths, PENS[movement_of(hand.style).pen], hand.alphabet.pen, seeds)
    bounds: Integers = ink.starts
    for start, stop in pairwise(bounds.tolist()):
        points = sample_contour(contour_through_controls(ink.controls[start:stop]), 0.04) * scale + origin
        yield b" ".join([b"%.2f %.2f %b" % (*point, b"l" if i else b"m") for i, point in enumerate(points)])


def write_chars(hand: NaturalHand) -> list[WrittenChar]:
    """What a perfect reader would read from such a sheet."""
    boxes = [box for page in sheet_pages() for box in page.boxes if box.kind is not BoxKind.SIGNATURE]
    return [_write_char(hand, box, seed) for seed, box in enumerate(boxes, 7_000)]


def _write_char(hand: NaturalHand, box: SheetBox, seed: int) -> WrittenChar:
    paths = shape_paths(hand, box.text.split(), seed, first_form=box.instance_number - 1)
    if " " in box.text:
        _set_words_apart(hand, paths)
    points = paths.knots - [float(paths.knots[:, 0].min()), 0.0]
    strokes = [even_points(points[start:stop]) * WRITTEN_SIZE for start, stop in pairwise(paths.starts.tolist())]
    return WrittenChar(box.text, box.instance_number, tuple(strokes), hand.alphabet.pen * WRITTEN_SIZE)


@cache
def page_image(pdf: bytes, page: int, dpi: int = SHEET_DPI) -> Image.Image:
    return Image.open(io.BytesIO(rasterize_pages(pdf, dpi=dpi, pages=[page - 1])[0])).convert("RGB")


def photograph(
    page: Image.Image, seed: int, size: tuple[int, int], *, tilt: float, turn: float, quarters: int = 0, curl: float = 0
) -> Image.Image:
    """From a slant, on a table, in uneven light with a shadow, noisy and not quite sharp."""
    chance = np.random.default_rng(seed)
    page = curled(page, curl)
    corners = np.array([[0, 0], [page.width, 0], [page.width, page.height], [0, page.height]], float)
    flat = (corners - corners.mean(axis=0)) / page.height
    axis, turned, tilted = chance.uniform(0, 2 * np.pi), np.radians(turn), np.radians(tilt)
    flat = flat @ np.array([[np.cos(turned), np.sin(turned)], [-np.sin(turned), np.cos(turned)]])
    along, across = np.array([np.cos(axis), np.sin(axis)]), np.array([-np.sin(axis), np.cos(axis)])
    seen = np.outer(flat @ along, along) + np.outer(flat @ across * np.cos(tilted), across)
    seen *= 1.5 / (1.5 + flat @ across * np.sin(tilted))[:, None]
    low, high = seen.min(axis=0), seen.max(axis=0)
    scale = 0.88 * min(size[0] / (high[0] - low[0]), size[1] / (high[1] - low[1]))
    placed = (seen - (low + high) / 2) * scale + np.array(size) / 2
    numbers = perspective_from(placed, corners)
    how: tuple[Any, ...] = (size, Image.Transform.PERSPECTIVE, tuple(numbers), Image.Resampling.BILINEAR)
    mask = Image.new("L", page.size, 255).transform(*how)
    picture = np.asarray(Image.composite(page.transform(*how), Image.new("RGB", size, (92, 70, 52)), mask), np.float32)
    y, x = np.mgrid[0 : size[1], 0 : size[0]].astype(np.float32) / max(size)
    shadow = 1 - 0.45 / (1 + np.exp((np.hypot(x - chance.uniform(0.2, 0.6), y - chance.uniform(0.2, 0.8)) - 0.25) * 25))
    picture = picture * ((0.75 + 0.25 * (x + y) / 2) * shadow)[..., None]
    blurred = Image.fromarray(picture.astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.6))
    noisy = np.asarray(blurred, np.float32) + chance.normal(0, 6, (size[1], size[0], 1)).astype(np.float32)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).rotate(90 * quarters, expand=True)


def curled(page: Image.Image, height: float) -> Image.Image:
    rows, columns = np.mgrid[0 : page.height, 0 : page.width]
    rows = np.clip(rows + height * np.sin(np.pi * columns / page.width), 0, page.height - 1).astype(int)
    return Image.fromarray(np.asarray(page)[rows, columns]) if height else page


def perspective_from(points: Floats, pixels: Floats) -> Floats:
    rows = [
        line
        for (x, y), (u, v) in zip(points, pixels, strict=True)
        for line in ([x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y])
    ]
    return np.linalg.solve(np.array(rows), pixels.reshape(-1)).astype(float)
