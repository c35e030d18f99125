"""Words of natural hands by themselves: the pen's paths, and notes on a page of their own."""

from collections.abc import Sequence

import numpy as np

from quillpost.rendering.handwriting.bent_letters import MANNERS, BentLetters
from quillpost.rendering.handwriting.models import STYLES, Movement, Style
from quillpost.rendering.handwriting.natural_vocabulary import NaturalVocabulary
from quillpost.rendering.handwriting.noise import Integers, Seeds
from quillpost.rendering.handwriting.word_paths import PenPaths, shape_words
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.layout.models import Passage, SizeRange
from quillpost.rendering.layout.paragraphs import lay_out_passages
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.models import Box
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.fonts import embed_font, embed_word_font
from support.designs import make_renderer

NATURAL_STYLES = tuple(style for style in STYLES if style.movement)

_COMMON_TEXT = """
the of and to in is it you that he was for on are with as his they be at one have this from by hot word but what
some we can out other were all there when up use your how said an each she which do their time if will way about
many then them write would like so these her long make thing see him two has look more day could go come did
number sound no most people my over know water than call first who may down side been now find any new work part
take get place made live where after back little only round man year came show every good me give our under name
very through just form sentence great think say help low line differ turn cause much mean before move right boy
old too same tell does set three want air well also play small end put home read hand port large spell add even
land here must big high such follow act why ask men change went light kind off need house picture try us again
animal point mother world near build self earth father head stand own page should country found answer school
grow study still learn plant cover food sun four between state keep eye never last let thought city tree cross
farm hard start might story saw far sea draw left late run while press close night real life few north open seem
together next white children begin got walk example ease paper group always music those both mark often letter
until mile river car feet care second book carry took
"""
COMMON_WORDS = _COMMON_TEXT.split()


def natural_hand(number: int) -> NaturalHand:
    hand = make_renderer().hands.hand(number)
    assert isinstance(hand, NaturalHand)
    return hand


def movement_of(style: Style) -> Movement:
    assert style.movement
    return style.movement


def bend_words(hand: NaturalHand, words: Sequence[str], seed: int = 0, manner: str = "natural") -> BentLetters:
    """The letters of these words side by side, before they are joined."""
    forms, owner, seeds = _choose_forms(hand, words, seed)
    letters = BentLetters(hand.alphabet.letters.tables, forms, owner, seeds, MANNERS[manner])
    letters.set_side_by_side(movement_of(hand.style).spacing)
    return letters


def shape_paths(
    hand: NaturalHand,
    words: Sequence[str],
    seed: int = 0,
    manner: str = "natural",
    joining: float | None = None,
    first_form: int = 0,
) -> PenPaths:
    """All letters in their forms by turns; the hand joins as it does, or so many."""
    movement, tables = movement_of(hand.style), hand.alphabet.letters.tables
    joining = movement.joining if joining is None else joining
    return shape_words(
        tables,
        *_choose_forms(hand, words, seed, first_form),
        MANNERS[manner],
        joining=joining,
        spacing=movement.spacing,
    )


def _choose_forms(
    hand: NaturalHand, words: Sequence[str], seed: int, first: int = 0
) -> tuple[Integers, Integers, Seeds]:
    tables = hand.alphabet.letters.tables
    forms = [
        tables.first_form[char] + (first + place) % hand.count_forms(char)
        for word in words
        for place, char in enumerate(word)
    ]
    owner = np.repeat(np.arange(len(words)), [*map(len, words)])
    return np.array(forms, np.int64), owner, np.arange(len(words), dtype=np.uint64) + np.uint64(1000 * seed)


def note_pdf(vocabulary: NaturalVocabulary, text: str, *, seed: int = 1, size: float = 14.0) -> bytes:
    """A page with nothing but the text."""
    box = Box(20, 20, 460, 700)
    passage = Passage("note", text, box, SizeRange(size, size), (0.1, 0.1, 0.5), seed, "natural")
    ((_, layout),) = lay_out_passages(vocabulary, [passage])
    content = b"".join(write_passages(vocabulary, layout))
    pdf = PdfFile()
    fonts = [(font.name, embed_word_font(pdf, vocabulary.style.name, font)) for font in vocabulary.fonts()]
    for name, chars in vocabulary.borrowed_chars.items():
        face = vocabulary.fallback_faces[name]
        fonts.append((name, embed_font(pdf, face.prepared, face.glyph_numbers(chars))))
    resources = b"/Font<<%b>>" % b"".join(b"%b %d 0 R" % font for font in fonts)
    pdf.add_page(b"/MediaBox[0 0 500 740]/TrimBox[0 0 500 740]/Resources<<%b>>" % resources, [pdf.add_stream(content)])
    return pdf.finish()
