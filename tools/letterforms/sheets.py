"""Pictures of a hand for eyes: an alphabet of all forms, and a note."""

from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.ink import PENS, InkOutlines, ink_paths
from quillpost.rendering.handwriting.letter_tables import LetterTables
from quillpost.rendering.handwriting.letterforms import HandForms
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.word_paths import shape_words

NOTE = """Hi Jane,
I was walking past your place on Willow Creek Lane last week and just had to write. Two of your neighbors sold in
under ten days, both well over asking, and I still have a family hoping for a home like yours before school starts.
If you have ever wondered what it is worth, call or text me any time! No pressure at all, I promise. Quick lazy boxes
jump. Kindly, Robert & Emma Gray (512) 555-0148, 50% off $15,367.92"""

_WIDTH = 1500
_INK = (20, 30, 110)
_OVERSAMPLING = 3
_X_HEIGHT = 17.0  # pixels
_ALPHABET_X_HEIGHT = 26.0
_LEADING = 3.9
_WORD_GAP = 1.15


def draw_sheet(hand: HandForms, joining: float, *, manner: str = "natural", note: str = NOTE) -> Image.Image:
    alphabet = _draw_alphabet(hand)
    page = draw_note(hand, note, joining, x_height=_X_HEIGHT, manner=manner)
    sheet = Image.new("RGB", (_WIDTH, alphabet.height + page.height), "white")
    sheet.paste(alphabet, (0, 0))
    sheet.paste(page, (0, alphabet.height))
    return sheet


class _Paper:
    """Fills ink outlines on a page that is drawn larger and then shrunk."""

    def __init__(self, height: int) -> None:
        self._image = Image.new("RGB", (_WIDTH * _OVERSAMPLING, height * _OVERSAMPLING), "white")
        self.draw = ImageDraw.Draw(self._image)

    def fill(self, controls: Floats, x: float, y: float, x_height: float) -> None:
        curve = _flatten(controls) * [x_height, -x_height] + [x, y]
        self._polygon(curve)
        # Where a path crosses itself its outline does, too, and would leave a hole: so its pieces are filled as well.
        half = len(curve) // 2
        for start in range(0, half - 4, 4):
            self._polygon(
                np.concatenate([curve[start : start + 5], curve[len(curve) - start - 5 : len(curve) - start]])
            )

    def _polygon(self, points: Floats) -> None:
        self.draw.polygon([tuple(point) for point in (points * _OVERSAMPLING).tolist()], fill=_INK)

    def label(self, text: str, x: float, y: float) -> None:
        font = ImageFont.load_default(11 * _OVERSAMPLING)
        self.draw.text((x * _OVERSAMPLING, y * _OVERSAMPLING), text, fill=(190, 60, 30), font=font)

    def finish(self) -> Image.Image:
        return self._image.reduce(_OVERSAMPLING)


def _flatten(controls: Floats) -> Floats:
    """A closed quadratic B-spline as a polygon."""
    middle = (controls + np.roll(controls, -1, axis=0)) / 2
    start = np.roll(middle, 1, axis=0)
    t = np.array([0.0, 0.25, 0.5, 0.75])[:, None, None]
    curve: Floats = (1 - t) ** 2 * start + 2 * t * (1 - t) * controls + t**2 * middle
    return curve.transpose(1, 0, 2).reshape(-1, 2)


def _ink_forms(
    hand: HandForms, tables: LetterTables, words: Iterable[Iterable[int]], joining: float, manner: str, seed: int
) -> tuple[InkOutlines, Floats, Floats]:
    """The ink of words, given as numbers of forms, and where that of each begins and ends."""
    forms = np.array([form for word in words for form in word], np.int64)
    owner = np.repeat(np.arange(len(list(words))), [len(list(word)) for word in words])
    seeds = np.random.default_rng(seed).integers(0, 2**63, int(owner.max()) + 1).astype(np.uint64)
    paths = shape_words(tables, forms, owner, seeds, MANNERS[manner], joining=joining)
    word = np.repeat(paths.word, np.diff(paths.starts))
    lefts, rights = np.full(len(seeds), np.inf), np.full(len(seeds), -np.inf)
    np.minimum.at(lefts, word, paths.knots[:, 0])
    np.maximum.at(rights, word, paths.knots[:, 0])
    return ink_paths(paths, PENS["ballpoint"], hand.pen, seeds), lefts, rights


def _outlines(ink: InkOutlines) -> Iterable[tuple[int, Floats]]:
    for number in range(len(ink.starts) - 1):
        yield int(ink.word[number]), ink.controls[ink.starts[number] : ink.starts[number + 1]]


def _draw_alphabet(hand: HandForms) -> Image.Image:
    tables = LetterTables(hand)
    entries = [(char, number) for char, forms in hand.forms.items() for number in range(len(forms))]
    words = [[tables.first_form[char] + number] for char, number in entries]
    ink, lefts, rights = _ink_forms(hand, tables, words, 0.0, "neat", 1)
    places, x, y = [], 20.0, 3.0 * _ALPHABET_X_HEIGHT
    for (_, number), left, right in zip(entries, lefts.tolist(), rights.tolist(), strict=True):
        width = (right - left) * _ALPHABET_X_HEIGHT
        gap = 26 if number == 0 else 8
        if x + gap + width > _WIDTH - 15:
            x, y = 20.0, y + 4.4 * _ALPHABET_X_HEIGHT
        places.append((x + gap - left * _ALPHABET_X_HEIGHT, y))
        x += gap + width
    paper = _Paper(round(y + 2.2 * _ALPHABET_X_HEIGHT))
    for word, controls in _outlines(ink):
        paper.fill(controls, *places[word], _ALPHABET_X_HEIGHT)
    for (char, number), (x, y), left in zip(entries, places, lefts.tolist(), strict=True):
        if number == 0:
            paper.label(char, x + left * _ALPHABET_X_HEIGHT - 12, y + 1.3 * _ALPHABET_X_HEIGHT)
    return paper.finish()


def choose_forms(hand: HandForms, tables: LetterTables, words: Iterable[str], seed: int = 3) -> list[list[int]]:
    """Never the form of the letter's last use, if there are others."""
    chance = np.random.default_rng(seed)
    last: dict[str, int] = {}
    chosen = []
    for word in words:
        row = []
        for char in word:
            count = len(hand.forms[char])
            number = int(chance.integers(count))
            if count > 1 and last.get(char) == number:
                number = (number + 1 + int(chance.integers(count - 1))) % count
            last[char] = number
            row.append(tables.first_form[char] + number)
        chosen.append(row)
    return chosen


def draw_note(
    hand: HandForms,
    text: str,
    joining: float,
    *,
    x_height: float,
    manner: str = "natural",
    seed: int = 3,
    forms: list[list[int]] | None = None,
) -> Image.Image:
    tables = LetterTables(hand)
    paragraphs = [
        line.split() for line in text.replace(",\n", ",\v").replace("\n", " ").replace("\v", "\n").split("\n")
    ]
    words = [word for paragraph in paragraphs for word in paragraph]
    ink, lefts, rights = _ink_forms(
        hand, tables, forms or choose_forms(hand, tables, words, seed), joining, manner, seed
    )
    places, word_number, y = [], 0, 3.2 * x_height
    for paragraph in paragraphs:
        x = 40.0
        for _ in paragraph:
            width = (rights[word_number] - lefts[word_number]) * x_height
            if x + width > _WIDTH - 30:
                x, y = 40.0, y + _LEADING * x_height
            places.append((x - lefts[word_number] * x_height, y))
            x += width + _WORD_GAP * x_height
            word_number += 1
        y += _LEADING * x_height
    paper = _Paper(round(y))
    for word, controls in _outlines(ink):
        paper.fill(controls, *places[word], x_height)
    return paper.finish()
