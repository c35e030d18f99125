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

COUNT = 8
REACH = 45
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"-()&@%$/éüñçÄÖ¿¡ "


class Written(NamedTuple):
    shapes: dict[str, Shape]
    advances: dict[str, float]
    names: dict[str, str]
    takes: dict[str, list[Shape]]

    def of(self, letter: str) -> list[Shape]:
        return self.takes[self.names[letter]]


@cache
def write(package: str, file_name: str, letters: str = LETTERS, *, joined: bool = False, seed: int = 7) -> Written:
    raw = (resources.files(package) / "files" / file_name).read_bytes()
    face = subset_font(raw, letters, (), None)
    glyphs = {letter: face.glyphs[face.glyphs_by_char[letter]] for letter in letters if letter in face.glyphs_by_char}
    shapes = {glyph.name: glyph.shape for glyph in glyphs.values()}
    advances = {glyph.name: float(glyph.advance) for glyph in glyphs.values()}
    takes = make_takes(shapes, advances, count=COUNT, amplitude=1.0, joined=joined, seed=seed)
    return Written(shapes, advances, {letter: glyph.name for letter, glyph in glyphs.items()}, takes)


def zeyada(letters: str = LETTERS, *, joined: bool = False, seed: int = 7) -> Written:
    return write("fontpkg_zeyada", "Zeyada.ttf", letters, joined=joined, seed=seed)


@pytest.fixture(scope="module")
def hand() -> Written:
    return zeyada()


@pytest.fixture(
    scope="module",
    params=[
        ("fontpkg_zeyada", "Zeyada.ttf"),
        ("fontpkg_shadows_into_light", "ShadowsIntoLight.ttf"),
        ("fontpkg_indie_flower", "IndieFlower-Regular.ttf"),
    ],
    ids=["zeyada", "shadows", "indie"],
)
def any_hand(request: pytest.FixtureRequest) -> Written:
    return write(*request.param)


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


def test_every_letter_with_ink_has_ink_in_every_take(any_hand: Written) -> None:
    for name, shape in any_hand.shapes.items():
        takes = any_hand.takes[name]
        assert len(takes) == COUNT
        for take in takes:
            assert bool(take) == bool(shape), name


def test_no_dot_or_accent_is_lost(any_hand: Written) -> None:
    for letter in 'ij!?:;éüñÄÖ¿¡%"':
        shape = any_hand.shapes[any_hand.names[letter]]
        for part in shape:
            left, bottom, right, top = ink_extents([part])
            for take in any_hand.of(letter):
                ink = np.concatenate([sample_contour(contour, 5.0) for contour in take])
                beyond = np.maximum(0, np.maximum([left, bottom] - ink, ink - [right, top]))
                assert (beyond.max(axis=1) < REACH).any(), letter
    for letter in "ij!?:;":
        parts = len(any_hand.shapes[any_hand.names[letter]])
        assert all(len(take) >= parts for take in any_hand.of(letter)), letter


def test_no_take_leaves_the_sources_box_by_more_than_its_reach(any_hand: Written) -> None:
    for name, shape in any_hand.shapes.items():
        if shape:
            left, bottom, right, top = ink_extents(shape)
            for take in any_hand.takes[name]:
                west, south, east, north = ink_extents(take)
                assert min(west - left, south - bottom, right - east, top - north) >= -REACH, name


def test_a_wild_hand_stays_within_reach_too() -> None:
    shapes = zeyada("jlgQ").shapes
    wild = make_takes(shapes, dict.fromkeys(shapes, 400.0), count=COUNT, amplitude=6.0, joined=False, seed=1)
    for name, shape in shapes.items():
        left, bottom, right, top = ink_extents(shape)
        for take in wild[name]:
            west, south, east, north = ink_extents(take)
            assert min(west - left, south - bottom, right - east, top - north) >= -REACH


@pytest.mark.parametrize("letter", "oOa0D69")
def test_loops_stay_closed(hand: Written, letter: str) -> None:
    meant = hole(hand.shapes[hand.names[letter]])
    assert all(hole(take) > 0.5 * meant for take in hand.of(letter))


def test_open_letters_stay_open(hand: Written) -> None:
    for letter in "csnuvwCUVW":
        assert all(hole(take) < 10 for take in hand.of(letter)), letter


def test_all_takes_of_a_letter_differ_visibly(hand: Written) -> None:
    for letter in "aenotsrgABM":
        pictures = [pixels(take) for take in hand.of(letter)]
        for one, other in combinations(pictures, 2):
            assert (one ^ other).sum() > 0.12 * one.sum(), letter


def test_takes_stay_close_to_the_letter_that_is_meant(hand: Written) -> None:
    for letter in "abdeghkmnpqwABEHKMRSW2358":
        source = Image.fromarray(pixels(hand.shapes[hand.names[letter]]).astype(np.uint8) * 255)
        near = np.asarray(source.resize((60, 60), Image.Resampling.BOX)) > 0
        for take in hand.of(letter):
            ink = Image.fromarray(pixels(take).astype(np.uint8) * 255)
            written = np.asarray(ink.resize((60, 60), Image.Resampling.BOX)) > 128
            assert (written & ~near).sum() <= 0.33 * written.sum(), letter


def test_one_pen_writes_all_takes(hand: Written) -> None:
    """The ink of a letter hardly changes from take to take, nor strays far from the source's."""
    for letter in "aenotslk":
        areas = np.array([pixels(take).sum() for take in hand.of(letter)])
        assert areas.std() < 0.08 * areas.mean(), letter
        assert 0.75 < areas.mean() / pixels(hand.shapes[hand.names[letter]]).sum() < 1.15, letter


def test_all_contours_wind_the_same_way(hand: Written) -> None:
    ways = {
        signed_area(sample_contour(contour, 5.0)) < 0
        for takes in hand.takes.values()
        for take in takes
        for contour in take
    }
    assert ways == {True}


def test_a_letter_takes_few_points_and_whole_units(hand: Written) -> None:
    controls = [np.concatenate([c[:, 1] for c in take]) for takes in hand.takes.values() for take in takes if take]
    assert np.mean([len(points) for points in controls]) < 65
    assert all((points == np.rint(points)).all() for points in controls)


def test_contours_are_closed(hand: Written) -> None:
    for takes in hand.takes.values():
        for contour in (contour for take in takes for contour in take):
            assert (contour[:, 2] == np.roll(contour[:, 0], -1, axis=0)).all()


def test_the_same_seed_gives_the_same_letters_in_any_order() -> None:
    once, again = zeyada("aegw"), zeyada("wgea")
    for name, takes in once.takes.items():
        for one, other in zip(takes, again.takes[name], strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))


def test_another_seed_gives_other_letters() -> None:
    one, other = zeyada("a", seed=1).of("a")[0], zeyada("a", seed=2).of("a")[0]
    assert (pixels(one) ^ pixels(other)).any()


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


def test_progress_is_reported_letter_by_letter() -> None:
    shapes = zeyada("ab").shapes
    progress: list[tuple[int, int]] = []
    make_takes(
        shapes,
        dict.fromkeys(shapes, 300.0),
        count=1,
        amplitude=1.0,
        joined=False,
        seed=0,
        on_progress=lambda done, of: progress.append((done, of)),
    )
    assert progress == [(1, 2), (2, 2)]


def test_nothing_comes_of_nothing() -> None:
    assert make_takes({}, {}, count=8, amplitude=1.0, joined=False, seed=0) == {}
    assert make_takes({"space": []}, {"space": 250.0}, count=2, amplitude=1.0, joined=False, seed=0) == {
        "space": [[], []]
    }


def test_an_outline_without_any_area_is_left_alone() -> None:
    hair = np.array([[[0, 0], [50, 0], [100, 0]], [[100, 0], [50, 0], [0, 0]]], float)
    point = np.zeros((1, 3, 2))
    shapes = zeyada("a").shapes | {"hair": [hair], "point": [point]}
    takes = make_takes(shapes, dict.fromkeys(shapes, 300.0), count=2, amplitude=1.0, joined=False, seed=0)
    assert takes["hair"] == [[hair], [hair]]
    assert takes["point"] == [[point], [point]]


def bar(left: float, bottom: float, right: float, top: float) -> npt.NDArray[np.float64]:
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], float)
    along = np.linspace(0, 1, 80, endpoint=False)[:, None]
    sides = zip(corners, np.roll(corners, -1, axis=0), strict=True)
    return np.concatenate([start + along * (end - start) for start, end in sides])


def test_overlapping_contours_do_not_cancel_each_other() -> None:
    sheet = draw_glyphs([[bar(0, 0, 20, 10), bar(10, 0, 30, 10)]], 1.0)
    assert sheet.ink.sum() == 300


def test_a_ring_thins_to_one_closed_trail() -> None:
    sheet = draw_glyphs([[bar(0, 0, 60, 60), bar(15, 15, 45, 45)[::-1]]], 1.0)
    [trail] = trace_paths(thin_ink(sheet.ink), sheet.width, sheet.ink.size)
    assert trail.is_closed
    assert trail.pixels[0] == trail.pixels[-1]


def test_a_spot_is_not_thinned_away() -> None:
    for size in range(1, 9):
        sheet = draw_glyphs([[bar(0, 0, size, size)]], 1.0)
        assert len(thin_ink(sheet.ink)) >= 1


def test_two_crossing_bars_are_two_strokes() -> None:
    strokes, pen = strokes_by_glyph({"plus": [bar(0, 180, 400, 220), bar(180, 0, 220, 400)]})
    assert len(strokes["plus"]) == 2
    assert pen == pytest.approx(20, abs=3)
    for stroke in strokes["plus"]:
        across, along = sorted(np.ptp(stroke.path, axis=0))
        assert along > 340
        assert across < 8


def test_a_branch_ends_on_the_stroke_that_it_touches() -> None:
    strokes, _ = strokes_by_glyph({"tee": [bar(0, 180, 400, 220), bar(180, 0, 220, 200)]})
    anchors = [anchor for stroke in strokes["tee"] for anchor in (stroke.start, stroke.stop) if anchor]
    assert len(strokes["tee"]) == 2
    assert len(anchors) == 1
