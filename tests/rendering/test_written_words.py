"""Words in natural hands: measured before they are written, shown as glyphs of fonts, and read back."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting import word_fonts
from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.models import FALLBACK_FACES, PLAIN_FACE, FaceRecipe, Style
from quillpost.rendering.handwriting.natural_vocabulary import NaturalVocabulary
from quillpost.rendering.handwriting.service import FontSources, prepare_face
from quillpost.rendering.handwriting.text import (
    FALLBACK_FONTS,
    HAND_FONT,
    PALE_FONT,
    PLAIN_FONT,
    BorrowedText,
    NaturalRun,
    PlainFace,
)
from quillpost.rendering.handwriting.words import NaturalHand, WordKey
from support import designs
from support.designs import page_text
from support.natural_writing import COMMON_WORDS, NATURAL_STYLES, natural_hand, note_pdf
from support.page_reader import Pages

NODE_MODULES = Path(__file__).parents[2] / "node_modules"
EVERY_HAND = pytest.mark.parametrize("style", NATURAL_STYLES, ids=lambda style: style.name)
NOTE = "Hi Jenny, I was just walking past number 12: it looks lovely! Call (512) 555-0100 or write to dana@example.com."


@EVERY_HAND
def test_a_word_comes_out_about_as_wide_as_it_was_measured(style: Style) -> None:
    vocabulary = NaturalVocabulary(natural_hand(style.number))
    words = np.array([vocabulary.word_numbers(COMMON_WORDS)] * len(MANNERS))
    measured = vocabulary.word_measures(words)[:, :, 0]
    written = vocabulary.show(words, [1, 2, 3], [*MANNERS]).measures[:, :, 0]
    assert 0.9 < written.sum() / measured.sum() < 1.1
    assert (written / measured).min() > 0.25
    # A short word may be twice as wide where the letter has a wide form and a narrow one.
    assert (written - 1.35 * measured).max() < 0.9
    letters = np.array([*map(len, COMMON_WORDS)])
    long = letters >= 5
    assert (written[:, long] / measured[:, long]).max() < 1.8
    assert np.quantile(written[:, long] / measured[:, long], 0.95) < 1.35


def key_of(text: str, number: int = 0, manner: str = "natural") -> WordKey:
    return WordKey(text, bytes(len(text)), number, manner)


def test_a_word_is_written_once_and_its_number_and_manner_make_it_another() -> None:
    hand = natural_hand(designs.JOINED)
    keys = [key_of("hello"), key_of("hello", 1), key_of("hello", manner="lively"), key_of("hello")]
    first, other, lively, again = hand.write(keys)
    assert first is again
    assert hand.write(keys[:1])[0] is first
    assert len({word.glyph.data for word in (first, other, lively)}) == 3
    fresh = designs.make_hands().hand(designs.JOINED)
    assert isinstance(fresh, NaturalHand)
    alone = fresh.write([key_of("hello", 1)])[0]
    assert alone.glyph == other.glyph, "whatever else is written with it"
    assert alone[1:] == pytest.approx(other[1:])


@EVERY_HAND
def test_a_page_reads_back_in_order_and_every_word_has_its_ink_inside_its_measures(style: Style) -> None:
    pdf = note_pdf(NaturalVocabulary(natural_hand(style.number)), NOTE)
    assert page_text(pdf, 0).split() == NOTE.split()
    glyphs = [glyph for glyph in Pages(pdf).glyphs(0) if not glyph.text.isspace()]
    assert "".join(glyph.text for glyph in glyphs) == "".join(NOTE.split())
    assert [glyph.text for glyph in glyphs if not {*"0123456789"} & {*glyph.text}][:8] == NOTE.split()[:8]
    boxes = [glyph.ink for glyph in glyphs]
    for box, glyph in zip(boxes, glyphs, strict=True):
        assert box, glyph.text
        assert box.height > 0.2 * glyph.size
    for before, after in pairwise(glyphs):
        assert before.baseline > after.baseline + 5 or before.left < after.left


def test_fonts_split_where_one_has_no_room_and_the_page_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = natural_hand(designs.HALF_JOINED)
    whole = note_pdf(NaturalVocabulary(hand), NOTE)
    monkeypatch.setattr(word_fonts, "_GLYPHS_PER_FONT", 4)
    vocabulary = NaturalVocabulary(hand)
    split = note_pdf(vocabulary, NOTE)
    fonts = vocabulary.fonts()
    assert len(fonts) == 2 * -(-len(NOTE.split()) // 4), "of each the paler ink as well"
    assert len({font.name for font in fonts}) == len(fonts)
    assert max(len(font.texts) for font in fonts) == 4 + 1
    shown = [glyph.font for font in fonts for glyph in Pages(split).glyphs(0, font.name.decode())]
    assert {*shown} == {font.name.decode() for font in fonts}
    assert page_text(split, 0).split() == NOTE.split()
    assert rasterize_pages(split, dpi=100) == rasterize_pages(whole, dpi=100)


def test_a_line_and_single_forms_are_shown_like_words() -> None:
    vocabulary = NaturalVocabulary(natural_hand(designs.UNJOINED))
    operators, width = vocabulary.show_line("a note for you")
    assert vocabulary.show_line("a note for you") == (operators, width)
    assert width > vocabulary.show_line("a note")[1] > vocabulary.show_line("a")[1] > 0
    assert vocabulary.count_forms("☃") == 0
    shown = [vocabulary.show_form("e", form) for form in range(vocabulary.count_forms("e"))]
    assert len({operators for operators, _ in shown}) == len(shown) > 1
    assert all(0 < width < 1.5 for _, width in shown)


def test_a_word_too_wide_for_a_glyph_is_written_in_parts(subtests: pytest.Subtests) -> None:
    """A coordinate of a glyph has 16 bits: no more than 32 ems."""
    for number in (designs.HALF_JOINED, designs.JOINED, 7, 20):
        for text in ("W" * 90, "Æ" * 40, "m" * 90, "Supercalifragilisticexpialidocious"):
            with subtests.test(text[:1], hand=number):
                vocabulary = NaturalVocabulary(natural_hand(number))
                shown = vocabulary.show(np.array([vocabulary.word_numbers([text])]), [1], ["lively"])
                assert "".join(vocabulary.fonts()[0].texts.values()).strip() == text
                assert shown.measures[0, 0, 0] > 0.1 * len(text)


SYMBOL, CHINESE, EMOJI = "Ƀ", "李", "🎉"


def lending_face(face: FaceRecipe, char: str) -> PlainFace:
    raw = FontSources(NODE_MODULES).read_font(face)
    if raw is None:
        pytest.skip("the typefaces of npm are not installed")
    prepared = prepare_face(face, raw, only_chars=char)
    return PlainFace(lambda: prepared)


def test_letters_of_other_faces_are_borrowed_and_drawn_in_their_places(subtests: pytest.Subtests) -> None:
    plain, (klee, emoji) = lending_face(PLAIN_FACE, SYMBOL), FALLBACK_FACES
    lent = {PLAIN_FONT: plain, FALLBACK_FONTS[0]: lending_face(klee, CHINESE)}
    own = natural_hand(designs.JOINED)
    hand = NaturalHand(own.style, own.alphabet, lent | {FALLBACK_FONTS[1]: lending_face(emoji, EMOJI)})
    for word in (f"Li{CHINESE}na", f"{CHINESE}{CHINESE}", f"party{EMOJI}", f"{EMOJI}yes", f"a{SYMBOL}b{CHINESE}c"):
        with subtests.test(word=ascii(word)):
            spelled = hand.spell(word)
            parts = [part for part in spelled.parts if isinstance(part, BorrowedText | NaturalRun)]
            assert "".join(part.text for part in parts) == word
            for part in parts:
                assert isinstance(part, BorrowedText) == any(char in SYMBOL + CHINESE + EMOJI for char in part.text)
            vocabulary = NaturalVocabulary(hand)
            pdf = note_pdf(vocabulary, f"hello {word} and so on")
            glyphs = [glyph for glyph in Pages(pdf).glyphs(0) if not glyph.text.isspace()]
            assert "".join(glyph.text for glyph in glyphs) == f"hello{word}andsoon"
            boxes = [glyph.ink for glyph in glyphs if glyph.ink]
            assert len(boxes) == len(glyphs), "all are drawn"
            for before, after in pairwise(boxes):
                assert before.right < after.left + 0.15 * glyphs[0].size
            assert page_text(pdf, 0).split() == ["hello", word, "and", "so", "on"]
            used = {font for part in spelled.parts if isinstance(part, BorrowedText) for font in [part.font]}
            assert vocabulary.borrowed_chars.keys() == used
    alone = NaturalVocabulary(hand)
    assert page_text(note_pdf(alone, f"{CHINESE} {EMOJI}"), 0).split() == [CHINESE, EMOJI]
    assert [font.name for font in alone.fonts()] == [HAND_FONT, PALE_FONT], "what the operators name is there"
    assert NaturalVocabulary(hand).fonts() == []
