"""Samples of handwriting styles and gift card brands."""

import hashlib

import numpy as np

from quillpost import __version__
from quillpost.rendering.batch_files import Inks
from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.handwriting.catalog import Style
from quillpost.rendering.handwriting.font_preparation import recipe_key
from quillpost.rendering.handwriting.hand import HAND_FONT, PLAIN_FONT
from quillpost.rendering.images.models import read_picture
from quillpost.rendering.layout.fronts import PlacedPicture
from quillpost.rendering.layout.giftcards import HEIGHT, WIDTH, draw_brand
from quillpost.rendering.layout.paragraphs import LARGEST, SMALLEST, WANDER, Layout, Passage, Sizes, chunks
from quillpost.rendering.layout.passages import write
from quillpost.rendering.models import BALLPOINTS, Ink
from quillpost.rendering.pdf.color import icc_space
from quillpost.rendering.pdf.writer import PdfFile
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.renderer import Studio

SAMPLE_DPI = 150
SAMPLE_PIXELS = (700, 120)

LINE = "Thank you so much, Jane! See you all in May."
# What sets these hands apart is the letters that the others do not have.
_LINES = {18: "Thank you, Jane! बहुत धन्यवाद, फिर मिलेंगे!", 19: "Thank you, Zoë! Спасибо, до встречи! Děkuji!"}

LETTER = """Hi Jane,
It was so good to see you and the boys last week. The garden looks wonderful, and we still talk about \
your apple pie! If you need a hand with the fence on Saturday the 12th, call us at 555-0149.
All our best, Quincy & Bex"""

_INK = BALLPOINTS["blue"].ink
_GREY = b".45 g"
_MARGIN = 6.0

_SHEET_WIDTH, _SHEET_MARGIN = 576.0, 24.0
_LABELS = 26.0  # room for the number of a take, left of its row
_ROW = 25.0
_BETWEEN = 20.0
_LETTER_ROOM = 350.0  # for the heading, the line and the letter
_LETTER_SIZE = 17.0
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789&?!.,;:'-()@#$%é")


class Paper:
    """One page in the making, written in one hand and in plain letters. Points, from the lower left."""

    def __init__(self, studio: Studio, style: int, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.hand = studio.hands.hand(style)
        self._style = style
        self._sandbox = studio.sandbox
        self._inks = Inks(studio.hands)
        self._content: list[bytes] = []

    def lay_out(self, *passages: Passage) -> Layout:
        """The same text in several ways, each in its box; rows in the order given."""
        ((_, layout),) = chunks(self._inks.vocabulary(self._style), passages)
        return layout

    def write(self, passage: Passage) -> None:
        self._content += write(self._inks.vocabulary(self._style), self.lay_out(passage))

    def print_plainly(self, text: str, left: float, bottom: float, size: float, ink: bytes = b"0 g") -> None:
        shown = self._inks.plain.encode(self._inks.plain.legible(text))
        self._content.append(
            b"BT %b %b %.1f Tf %.2f %.2f Td %bTj ET\n" % (ink, PLAIN_FONT, size, left, bottom, shown)
        )

    def show_shapes(self, letters: str, take: int, place: tuple[float, float], pitch: float) -> None:
        """Letters in one of their takes, each in the middle of its own column."""
        face, em = self.hand.prepared, _LETTER_SIZE * self.hand.style.scale
        left, bottom = place
        shown = []
        for column, letter in enumerate(letters):
            if letter not in face.letters:
                continue
            base = face.letters[letter]
            number = face.number(base, take)
            self._inks.vocabulary(self._style).used.add(number)
            x = left + pitch * (column + 0.5) - face.advances[base] / 2000 * em
            shown.append(b"%.2f 0 0 %.2f %.2f %.2f Tm(%b)Tj\n" % (em, em, x, bottom, self.hand.codes[number]))
        colour = b"%.3f %.3f %.3f rg" % _INK
        self._content.append(b"BT %b %b 1 Tf\n%bET\n" % (colour, HAND_FONT, b"".join(shown)))

    def draw_rule(self, bottom: float) -> None:
        ends = (_SHEET_MARGIN, bottom, self.width - _SHEET_MARGIN, bottom)
        self._content.append(b"q .8 G .5 w %.2f %.2f m %.2f %.2f l S Q\n" % ends)

    def frame(self, box: Box) -> None:
        edges = (box.left, box.bottom, box.width, box.height)
        self._content.append(b"q .8 G .5 w %.2f %.2f %.2f %.2f re S Q\n" % edges)

    def pdf(self) -> bytes:
        file = PdfFile()
        content = file.add_stream(b"".join(self._content))
        hands, fonts = self._inks.embed_all(file, is_only_drawn=False)
        if self._style in hands:
            fonts += b"%b %d 0 R" % (HAND_FONT, hands[self._style])
        entries = b"/MediaBox[0 0 %.2f %.2f]/Resources<</Font<<%b>>>>" % (self.width, self.height, fonts)
        file.add_page(entries, [content])
        return file.finish()

    def picture(self, dpi: int) -> bytes:
        return self._sandbox.rasterize(self.pdf(), dpi=dpi)[0]


def sample_text(number: int) -> str:
    return _LINES.get(number, LINE)


def sample_version(style: Style) -> str:
    """Names all that decides how the hand's sample looks; another look has another version."""
    # The typeface's own file comes with the release.
    told = f"{__version__} {recipe_key(style, b'')} {style!r} {sample_text(style.number)} {SAMPLE_PIXELS}"
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def sample(studio: Studio, number: int) -> bytes:
    """One line in the hand as a PNG, in blue ballpoint on white; all samples are equally large."""
    width, height = (pixels * INCH / SAMPLE_DPI for pixels in SAMPLE_PIXELS)
    paper = Paper(studio, number, width, height)
    paper.write(_line(paper, sample_text(number), Box(_MARGIN, 0, width - 2 * _MARGIN, height)))
    return paper.picture(SAMPLE_DPI)


def hand_sheet(studio: Studio, number: int, *, dpi: int) -> bytes:
    """All that a hand can do, as a PNG: its line, its letters in all their takes, and a short letter."""
    style, takes = studio.hands.styles[number], studio.hands.hand(number).prepared.takes
    rows = range(takes + 1)
    height = _LETTER_ROOM + len(_ROWS) * (len(rows) * _ROW + _BETWEEN)
    paper = Paper(studio, number, _SHEET_WIDTH, height)
    left, room = _SHEET_MARGIN, _SHEET_WIDTH - 2 * _SHEET_MARGIN
    y = paper.height - 38
    paper.print_plainly(f"{style.number}  {style.name}", left, y, 20)
    paper.print_plainly(_about(style.kind, style.face, takes), left, y - 15, 9, _GREY)
    y -= 80
    paper.write(_line(paper, sample_text(number), Box(left, y, room, 58)))
    pitch = (room - _LABELS) / max(map(len, _ROWS))
    for letters in _ROWS:
        y -= _BETWEEN
        paper.draw_rule(y + 6)
        for take in rows:
            y -= _ROW
            name = "true" if take == takes else str(take + 1)
            paper.print_plainly(name, left, y + 2, 7, _GREY)
            paper.show_shapes(letters, take, (left + _LABELS, y + 2), pitch)
    y -= _BETWEEN
    paper.draw_rule(y + 6)
    _write_letters(paper, Box(left, 18, room, y - 36), has_takes=takes > 0)
    return paper.picture(dpi)


def _about(kind: str, face: str, takes: int) -> str:
    shapes = f"{takes} takes of each letter, and its true shape" if takes else "one shape of each letter"
    return f"{kind}, from {face}; {shapes}"


def _write_letters(paper: Paper, box: Box, *, has_takes: bool) -> None:
    """The same letter with realism and, where the hand has that choice, without, side by side."""
    kinds = {"realism on": False, "realism off": True} if has_takes else {"a letter": False}
    width = (box.width - 24) / 2 if has_takes else box.width
    for column, (caption, is_even) in enumerate(kinds.items()):
        left = box.left + column * (width + 24)
        paper.print_plainly(caption, left, box.top + 6, 8, _GREY)
        place = Box(left, box.bottom, width, box.height)
        paper.write(_passage(LETTER, place, Sizes(SMALLEST, LARGEST), is_even=is_even))


def _line(paper: Paper, text: str, room: Box) -> Passage:
    """The text on a single line, as large as it goes, in the middle of the height."""
    halves = range(round(2 * LARGEST), round(2 * SMALLEST) - 1, -1)
    tried = [_passage(text, room, Sizes(half / 2, half / 2)) for half in halves]
    layout = paper.lay_out(*tried)
    is_good = layout.fits & (layout.lines.max(axis=1) == 0)
    best = int(np.argmax(is_good)) if is_good.any() else len(tried) - 1
    reach = layout.measures[best, :, 3:].max(axis=0).sum() + 2 * WANDER
    height = min(float(reach * layout.sizes[best]) + 0.1, room.height)
    bottom = room.bottom + (room.height - height) / 2
    return tried[best]._replace(box=Box(room.left, bottom, room.width, height))


def _passage(text: str, box: Box, sizes: Sizes, *, is_even: bool = False) -> Passage:
    return Passage("sample", text, box, sizes, _INK, 0, is_even)


PIXELS_ACROSS = 640


def brand_picture(studio: Studio, brand: str, accent: Ink) -> bytes:
    """A PNG in the look of the printed card, without an amount."""
    inks, file = Inks(studio.hands), PdfFile()
    content = file.add_stream(draw_brand(Box(0, 0, WIDTH, HEIGHT), brand, accent, inks.plain))
    _, fonts = inks.embed_all(file, is_only_drawn=True)
    entries = b"/MediaBox[0 0 %.2f %.2f]/Resources<</Font<<%b>>>>" % (WIDTH, HEIGHT, fonts)
    file.add_page(entries, [content])
    return studio.sandbox.rasterize(file.finish(), dpi=PIXELS_ACROSS / WIDTH * INCH)[0]


_SPACES = {1: b"/DeviceGray", 3: b"/DeviceRGB"}


def reduced(sandbox: Sandbox, data: bytes, *, most: int) -> bytes:
    """The printable picture with at most so many pixels on its longer side, upright, as a PNG; one that has
    no more than that stays as it is."""
    picture = read_picture(data)
    wide, high = picture.upright_size
    share = most / max(wide, high)
    if share >= 1:
        return data
    file = PdfFile()
    space = _SPACES[picture.components]
    if picture.profile is not None:
        space = icc_space(file, picture.profile, picture.components)
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b%b" % (
        picture.width,
        picture.height,
        space,
        picture.entries,
    )
    number = file.add_stream(picture.data, entries, is_final=True)
    page = Box(0, 0, round(wide * share), round(high * share))
    placed = PlacedPicture(number, picture.width, picture.height, picture.orientation)
    content = file.add_stream(placed.draw_over(page))
    size = b"[0 0 %.2f %.2f]" % (page.width, page.height)
    resources = b"/Resources<</XObject<</P%d %d 0 R>>>>" % (number, number)
    file.add_page(b"/MediaBox%b/TrimBox%b%b" % (size, size, resources), [content])
    return sandbox.rasterize(file.finish(), dpi=INCH)[0]
