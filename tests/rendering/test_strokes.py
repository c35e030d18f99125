"""The stroke engine: letters written again and again with the same ballpoint."""

from functools import cache
from importlib import resources
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from quillpost.rendering.handwriting.fonts import subset_font
from quillpost.rendering.handwriting.outlines import Shape, ink_extents, sample_contour, signed_area
from quillpost.rendering.handwriting.strokes import draw_glyphs, make_takes, strokes_by_glyph, thin_ink, trace_paths

COUNT, REACH = 8, 45
DOTTED = 'ij!?:;éüñÄÖ¿¡%"'
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"-()&@%$/éüñçÄÖ¿¡ "
HANDS = {
    "fontpkg_zeyada/files/Zeyada.ttf": LETTERS,
    "fontpkg_shadows_into_light/files/ShadowsIntoLight.ttf": DOTTED + "agkoRQ8& ",
    "fontpkg_indie_flower/files/IndieFlower-Regular.ttf": DOTTED + "aegqBGS5@ ",
}


class Written(NamedTuple):
    shapes: dict[str, Shape]
    names: dict[str, str]
    takes: dict[str, list[Shape]]

    def of(self, letter: str) -> list[Shape]:
        return self.takes[self.names[letter]]

    def meant(self, letter: str) -> Shape:
        return self.shapes[self.names[letter]]


@cache
def write(file: str, letters: str, seed: int) -> Written:
    package, _, path = file.partition("/")
    face = subset_font((resources.files(package) / path).read_bytes(), letters, (), None)
    glyphs = {letter: face.glyphs[face.glyphs_by_char[letter]] for letter in letters if letter in face.glyphs_by_char}
    shapes = {glyph.name: glyph.shape for glyph in glyphs.values()}
    advances = {glyph.name: float(glyph.advance) for glyph in glyphs.values()}
    takes = make_takes(shapes, advances, count=COUNT, amplitude=1.0, joined=False, seed=seed)
    return Written(shapes, {letter: glyph.name for letter, glyph in glyphs.items()}, takes)


def zeyada(letters: str = LETTERS, seed: int = 7) -> Written:
    return write("fontpkg_zeyada/files/Zeyada.ttf", letters, seed)


def alike_takes(shapes: dict[str, Shape], count: int, *, amplitude: float = 1.0) -> dict[str, list[Shape]]:
    advances = dict.fromkeys(shapes, 300.0)
    return make_takes(shapes, advances, count=count, amplitude=amplitude, joined=False, seed=0)


@pytest.fixture(scope="module")
def hand() -> Written:
    return zeyada()


def pixels(shape: Shape, *, scale: float = 0.2) -> npt.NDArray[np.bool_]:
    """The ink from 300 units left of and below the origin, as wide and high as any of these letters."""
    frame = np.array([[-300.0, -300.0], [-300.0, -299.0], [-299.0, -300.0]])
    sheet = draw_glyphs([[frame, *(sample_contour(contour, 5.0) for contour in shape)]], scale)
    page = np.zeros((round(1500 * scale), round(1500 * scale)), bool)
    page[: sheet.ink.shape[0], : sheet.ink.shape[1]] = sheet.ink
    return page


def hole(shape: Shape) -> int:
    """How many pixels of paper the ink encloses."""
    paper = np.pad(~pixels(shape, scale=0.1), 1, constant_values=True)
    outside = np.zeros_like(paper)
    outside[0] = True
    before = 0
    while before != (before := int(outside.sum())):
        for axis in (0, 1):
            for step in (-1, 1):
                outside |= np.roll(outside, step, axis=axis) & paper
    return int((paper & ~outside).sum())


def is_within_reach(shape: Shape, take: Shape) -> bool:
    left, bottom, right, top = ink_extents(shape)
    west, south, east, north = ink_extents(take)
    return min(west - left, south - bottom, right - east, top - north) >= -REACH


@pytest.mark.parametrize("file", HANDS)
def test_every_take_of_every_letter_has_its_ink_and_its_dots_within_reach(file: str) -> None:
    written = write(file, HANDS[file], 7)
    for name, shape in written.shapes.items():
        assert [bool(take) for take in written.takes[name]] == [bool(shape)] * COUNT, name
        assert not shape or all(is_within_reach(shape, take) for take in written.takes[name]), name
    for letter in DOTTED:
        for part in written.meant(letter):
            left, bottom, right, top = ink_extents([part])
            for take in written.of(letter):
                ink = np.concatenate([sample_contour(contour, 5.0) for contour in take])
                beyond = np.maximum(0, np.maximum([left, bottom] - ink, ink - [right, top]))
                assert (beyond.max(axis=1) < REACH).any(), letter
    for letter in "ij!?:;":
        assert min(map(len, written.of(letter))) >= len(written.meant(letter)), letter


def test_a_wild_hand_stays_within_reach_too() -> None:
    shapes = zeyada("jlgQ").shapes
    wild = alike_takes(shapes, COUNT, amplitude=6.0)
    assert all(is_within_reach(shape, take) for name, shape in shapes.items() for take in wild[name])


def test_loops_stay_closed_open_letters_open_and_contours_wind_one_way_with_few_points_on_whole_units(
    hand: Written,
) -> None:
    for letter in "oOa0D69":
        meant = hole(hand.meant(letter))
        assert all(hole(take) > 0.5 * meant for take in hand.of(letter)), letter
    for letter in "csnuvwCUVW":
        assert all(hole(take) < 10 for take in hand.of(letter)), letter
    every = [take for takes in hand.takes.values() for take in takes if take]
    assert {signed_area(sample_contour(contour, 5.0)) < 0 for take in every for contour in take} == {True}
    assert all((c[:, 2] == np.roll(c[:, 0], -1, axis=0)).all() for take in every for c in take)
    controls = [np.concatenate([contour[:, 1] for contour in take]) for take in every]
    assert np.mean([len(points) for points in controls]) < 65
    assert all((points == np.rint(points)).all() for points in controls)


def test_takes_differ_visibly_stay_close_to_the_letter_that_is_meant_and_are_of_one_pen(hand: Written) -> None:
    for letter in "aenotsrgABM":
        pictures = [pixels(take) for take in hand.of(letter)]
        for one, other in combinations(pictures, 2):
            assert (one ^ other).sum() > 0.12 * one.sum(), letter
    for letter in "abdeghkmnpqwABEHKMRSW2358":
        source = Image.fromarray(pixels(hand.meant(letter)).astype(np.uint8) * 255)
        near = np.asarray(source.resize((60, 60), Image.Resampling.BOX)) > 0
        for take in hand.of(letter):
            ink = Image.fromarray(pixels(take).astype(np.uint8) * 255)
            written = np.asarray(ink.resize((60, 60), Image.Resampling.BOX)) > 128
            assert (written & ~near).sum() <= 0.33 * written.sum(), letter
    # The ink of a letter hardly changes from take to take, nor strays far from the source's.
    for letter in "aenotslk":
        areas = np.array([pixels(take).sum() for take in hand.of(letter)])
        assert areas.std() < 0.08 * areas.mean(), letter
        assert 0.75 < areas.mean() / pixels(hand.meant(letter)).sum() < 1.15, letter


def test_the_seed_gives_the_letters_whatever_their_order() -> None:
    once, again = zeyada("aegw"), zeyada("wgea")
    for name, takes in once.takes.items():
        for one, other in zip(takes, again.takes[name], strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))
    assert (pixels(zeyada("a", seed=1).of("a")[0]) ^ pixels(zeyada("a", seed=2).of("a")[0])).any()


def test_a_joined_hand_keeps_its_entries_and_exits_in_place() -> None:
    around = np.array([[-20, 180], [200, 240], [420, 180], [420, 220], [200, 280], [-20, 220]], float)
    following = np.roll(around, -1, axis=0)
    shapes = {"arch": [np.stack([around, (around + following) / 2, following], axis=1)]}

    def unrest(joined: bool, left: float, right: float) -> float:
        """How far the ink between two places goes up and down from take to take."""
        takes = make_takes(shapes, {"arch": 400.0}, count=COUNT, amplitude=1.0, joined=joined, seed=3)["arch"]
        inks = [np.concatenate([sample_contour(contour, 2.0) for contour in take]) for take in takes]
        heights = [ink[(ink[:, 0] > left) & (ink[:, 0] < right)][:, 1] for ink in inks]
        return float(np.ptp([(height.min() + height.max()) / 2 for height in heights]))

    for edge in (-10.0, 390.0):
        assert unrest(True, edge, edge + 20) < 6
        assert unrest(False, edge, edge + 20) > 12
    assert unrest(True, 180, 220) > 12


def test_progress_is_reported_and_an_outline_without_any_area_is_left_alone() -> None:
    assert alike_takes({}, 8) == {}
    assert alike_takes({"space": []}, 2) == {"space": [[], []]}
    hair = np.array([[[0, 0], [50, 0], [100, 0]], [[100, 0], [50, 0], [0, 0]]], float)
    point = np.zeros((1, 3, 2))
    takes = alike_takes(zeyada("a").shapes | {"hair": [hair], "point": [point]}, 2)
    assert (takes["hair"], takes["point"]) == ([[hair], [hair]], [[point], [point]])
    shapes, progress = zeyada("ab").shapes, list[tuple[int, int]]()
    how = {"amplitude": 1.0, "joined": False, "seed": 0}
    make_takes(shapes, dict.fromkeys(shapes, 300.0), count=1, on_progress=lambda *done: progress.append(done), **how)  # type: ignore[arg-type]
    assert progress == [(1, 2), (2, 2)]


def bar(left: float, bottom: float, right: float, top: float) -> npt.NDArray[np.float64]:
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], float)
    along = np.linspace(0, 1, 80, endpoint=False)[:, None]
    sides = zip(corners, np.roll(corners, -1, axis=0), strict=True)
    return np.concatenate([start + along * (end - start) for start, end in sides])


def test_ink_thins_to_trails_crossing_bars_are_two_strokes_and_a_branch_ends_on_the_stroke_that_it_touches() -> None:
    assert draw_glyphs([[bar(0, 0, 20, 10), bar(10, 0, 30, 10)]], 1.0).ink.sum() == 300
    sheet = draw_glyphs([[bar(0, 0, 60, 60), bar(15, 15, 45, 45)[::-1]]], 1.0)
    [trail] = trace_paths(thin_ink(sheet.ink), sheet.width, sheet.ink.size)
    assert trail.is_closed
    assert trail.pixels[0] == trail.pixels[-1]
    for size in range(1, 9):
        assert len(thin_ink(draw_glyphs([[bar(0, 0, size, size)]], 1.0).ink)) >= 1
    strokes, pen = strokes_by_glyph({"plus": [bar(0, 180, 400, 220), bar(180, 0, 220, 400)]})
    assert len(strokes["plus"]) == 2
    assert pen == pytest.approx(20, abs=3)
    for stroke in strokes["plus"]:
        across, along = sorted(np.ptp(stroke.path, axis=0))
        assert along > 340
        assert across < 8
    strokes, _ = strokes_by_glyph({"tee": [bar(0, 180, 400, 220), bar(180, 0, 220, 200)]})
    anchors = [anchor for stroke in strokes["tee"] for anchor in (stroke.start, stroke.stop) if anchor]
    assert (len(strokes["tee"]), len(anchors)) == (2, 1)
