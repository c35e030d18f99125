"""Private styles beside those that everybody has: in print files, previews, samples, and from storage."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from quillpost.rendering.handwriting.models import FIRST_PRIVATE_STYLE, MANNER_NAMES, STYLES, read_style
from quillpost.rendering.handwriting.own_hand_checks import InvalidOwnHand
from quillpost.rendering.handwriting.own_hands import OwnHand, make_own_hand
from quillpost.rendering.handwriting.sheet.drawings import draw_as_svg
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from quillpost.rendering.models import INCH, Design, HandChoice
from quillpost.rendering.previews import SAMPLE_LINE, SAMPLE_PIXELS, render_own_sample, render_own_sheet, render_sample
from support import designs
from support.handwriting_sheets import write_chars
from support.natural_writing import natural_hand
from support.page_reader import Pages

THEO, OWEN = 9, 27
NOTE = "Hi Jenny, so good to see you at the fair!"


@cache
def hand_file(number: int, name: str = "My hand") -> bytes:
    return make_own_hand(write_chars(natural_hand(number)), name=name).to_bytes()


def design_in(data: bytes, number: int = FIRST_PRIVATE_STYLE, message: str = NOTE, **changes: Any) -> Design:
    return designs.design(message=message, hand=number, own_hand=data, **changes)


# On paper


def test_two_private_styles_of_a_batch_never_mix_even_under_one_number() -> None:
    looks = {"a": design_in(hand_file(THEO)), "b": design_in(hand_file(OWEN)), "c": designs.design(message=NOTE)}
    order = ("a", "b", "c", "a", "b")
    copies = [replace(designs.copy(item), design=key) for item, key in enumerate(order, 1)]
    together = Pages(designs.compose_item(looks, copies).sheets)
    pages = len(designs.PIECES["postcard-4x6"].sides)
    for place, (key, copy) in enumerate(zip(order, copies, strict=True)):
        alone = Pages(designs.compose_item({key: looks[key]}, [copy]).sheets)
        page = place * pages + 1
        assert list(together.drawn(page)) == list(alone.drawn(1))
        assert [glyph.text for glyph in together.written(page, looks[key].ink)] == NOTE.split()
    drawn = [[*together.drawn(place * pages + 1)] for place in range(3)]
    assert drawn[0] != drawn[1] != drawn[2]


def test_a_private_style_has_manners_and_sizes_and_messages_are_checked_in_it() -> None:
    look, renderer = design_in(hand_file(THEO), font_size="small"), designs.make_renderer()
    drawn = [[*Pages(designs.compose_item(replace(look, manner=manner)).sheets).drawn(1)] for manner in MANNER_NAMES]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    small, large = (
        Pages(designs.compose_item(replace(look, font_size=size)).sheets).written(1, look.ink)
        for size in ("small", "large")
    )
    assert 1.4 < large[0].size / small[0].size < 2.0
    assert renderer.find_misfits(look, [designs.JENNY], qr=True).messages == {}
    assert 0 in renderer.find_misfits(replace(look, message="word " * 900), [designs.JENNY], qr=True).messages


def test_a_preview_of_it_shows_the_strokes_that_are_printed() -> None:
    look, dpi = design_in(hand_file(OWEN)), 144
    shown = designs.image_of(designs.make_renderer().preview(look, designs.copy(), dpi=dpi).sides["back"])
    printed = designs.full_sheet(designs.compose_item(look).sheets, 1, dpi)
    side = designs.PIECES[look.product].sides[1]
    assert side.message
    bleed = round(side.bleed * dpi / INCH)
    trimmed = printed.crop((bleed, bleed, printed.width - bleed, printed.height - bleed))
    ours, theirs = (np.asarray(designs.cropped(page, side.message, dpi).convert("L")) for page in (shown, trimmed))
    assert (ours < 128).any()
    assert (ours == theirs).all()


def test_a_hand_may_be_called_anything_without_a_trace_in_the_file() -> None:
    for name in ("My hand >> /Evil (", "Großmutters Schrift", "\u202e#", "手"):
        file = designs.compose_item(design_in(hand_file(OWEN, name))).sheets
        assert b"Evil (" not in file
        assert [glyph.text for glyph in Pages(file).written(1, designs.design().ink)] == NOTE.split()


# By number


def test_private_styles_have_numbers_of_their_own() -> None:
    assert max(style.number for style in STYLES) < FIRST_PRIVATE_STYLE
    table = {"name": "X", "kind": "AI", "scale": 1, "leading": 1, "word_gap": 1, "number": FIRST_PRIVATE_STYLE}
    with pytest.raises(ValueError, match="must be below 1000"):
        read_style(table)
    assert read_style(table | {"number": FIRST_PRIVATE_STYLE - 1}).name == "X"
    hands = designs.make_renderer().hands
    with pytest.raises(ValueError, match="everybody has"):
        hands.hand_for(HandChoice(THEO, hand_file(OWEN)))
    with pytest.raises(LookupError):
        hands.hand_for(HandChoice(FIRST_PRIVATE_STYLE))
    style = hands.style_for(HandChoice(1234, hand_file(OWEN)))
    assert (style.number, style.name, style.kind) == (1234, "My hand", "AI")
    assert style.movement
    assert hands.style_for(HandChoice(THEO)) is hands.styles[THEO]


def test_a_private_hand_is_read_once_for_all_threads_and_again_when_it_has_changed() -> None:
    hands = designs.make_hands()
    choice = HandChoice(FIRST_PRIVATE_STYLE, hand_file(THEO))
    with ThreadPoolExecutor(4) as pool:
        found = {*pool.map(hands.hand_for, [choice] * 8)}
    assert len(found) == 1
    assert hands.hand_for(HandChoice(FIRST_PRIVATE_STYLE, bytes(bytearray(hand_file(THEO))))) in found
    for other in (HandChoice(1001, hand_file(THEO)), HandChoice(FIRST_PRIVATE_STYLE, hand_file(OWEN))):
        assert hands.hand_for(other) not in found


# From storage


def changed_file(change: Callable[[list[Any]], None]) -> bytes:
    rows = [json.loads(line) for line in hand_file(OWEN).splitlines()]
    change(rows)
    return b"\n".join(json.dumps(row).encode() for row in rows)


def place(*path: Any, value: Any) -> Callable[[list[Any]], None]:
    """Puts the value there; the last step but one leads to what holds it."""

    def change(rows: list[Any]) -> None:
        holder: Any = rows
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value

    return change


KNOTS = (10, 1, 0, 3, 0, 2)  # of the first line of the first form of some character


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b"null\nnull\n",
        b"\n" * 9,
        hand_file(OWEN)[:-20],
        hand_file(OWEN) + b'["a",[]]',
        hand_file(OWEN).replace(b"\n", b"\n" * 400_000, 3),
        hand_file(OWEN).splitlines()[0],
        *(
            changed_file(change)
            for change in (
                place(0, "version", value=2),
                place(0, "name", value=""),
                place(0, "name", value="x" * 81),
                place(0, "name", value="a\nb"),
                place(0, "name", value=None),
                place(0, "pen", value="quill"),
                place(0, "pen", value=[]),
                place(0, "scale", value=float("nan")),
                place(0, "scale", value=True),
                place(0, "leading", value=1e9),
                place(0, "joining", value="1"),
                place(0, "joining", value=-1),
                place(1, "pen", value=0),
                place(1, "slant", value=float("inf")),
                place(10, 0, value="ab"),
                place(10, 0, value=" "),
                place(10, 0, value=7),
                place(10, 1, value=[]),
                place(10, 1, value=[None]),
                place(10, 1, 0, 0, value=1e3),
                place(10, 1, 0, 0, value=10**400),
                place(10, 1, 0, 1, value=99),
                place(10, 1, 0, 2, value=-1),
                place(10, 1, 0, 2, value=True),
                place(10, 1, 0, 3, value=[]),
                place(10, 1, 0, 3, 0, 0, value=3),
                place(10, 1, 0, 3, 0, 1, value=[1, 5]),
                place(10, 1, 0, 3, 0, 1, value=[]),
                place(*KNOTS, value=[0, 0]),
                place(*KNOTS, value=[0, 0, 1]),
                place(*KNOTS, value=[0, 0, 5, 10**9]),
                place(*KNOTS, value=[0, 0, 1.5, 2]),
                place(*KNOTS, value=[9_000, 0] * 2),
                place(*KNOTS, value=[1, 1] * 401),
                place(*KNOTS, value="0000"),
                lambda rows: rows.remove(next(row for row in rows[2:] if row[0] == "z")),
                lambda rows: rows.append(rows[-1]),
            )
        ),
    ],
)
def test_what_storage_gives_back_is_refused_unless_we_wrote_it(data: bytes) -> None:
    with pytest.raises(InvalidOwnHand):
        OwnHand.from_bytes(data)
    with pytest.raises(InvalidOwnHand):
        designs.make_renderer().hands.hand_for(HandChoice(FIRST_PRIVATE_STYLE, data))


# On pages


def test_samples_of_a_private_style_look_like_those_of_others() -> None:
    renderer = designs.make_renderer()
    sample = designs.image_of(render_own_sample(renderer, hand_file(THEO)))
    assert sample.size == designs.image_of(render_sample(renderer, THEO)).size == SAMPLE_PIXELS
    dark = (np.asarray(sample.convert("L")) < 128).mean()
    assert 0.01 < dark < 0.2
    other = render_own_sample(renderer, hand_file(THEO), text=SAMPLE_LINE[::-1])
    assert other != render_own_sample(renderer, hand_file(THEO))
    sheet = designs.image_of(render_own_sheet(renderer, hand_file(THEO), dpi=60))
    assert 0.002 < (np.asarray(sheet.convert("L")) < 128).mean() < 0.2


def test_a_written_letter_is_an_svg_on_the_same_line_as_all_others() -> None:
    boxes = set()
    for char in (*write_chars(natural_hand(OWEN)), WrittenChar("a", 1, (), 0.0)):
        drawing = ElementTree.fromstring(draw_as_svg(char))
        left, top, width, height = map(float, drawing.attrib["viewBox"].split())
        boxes.add((left, top, height))
        path = drawing[0].attrib
        assert path["d"].count("M") == len(char.strokes)
        numbers = np.array([float(number) for number in path["d"].replace("M", " ").replace("L", " ").split()])
        points = numbers.reshape(-1, 2)
        pen = float(path["stroke-width"]) / 2
        assert (points >= np.array([left, top]) + pen).all()
        assert (points <= np.array([left + width, top + height]) - pen).all()
    assert len(boxes) == 1
