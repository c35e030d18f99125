"""Handwriting on finished pieces, read back from the print files."""

from dataclasses import replace
from itertools import pairwise
from statistics import pstdev
from unicodedata import combining, normalize

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quillpost.rendering.handwriting.models import MANNER_NAMES, FontFile, Lettering
from quillpost.rendering.handwriting.service import Hand, prepare_face
from quillpost.rendering.handwriting.text import HandGlyphs, LetteringHand
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, Design
from quillpost.rendering.text.variables import compile_template
from support import designs
from support.page_reader import Glyph, Pages

INK = (0.8, 0.2, 0.2)

HINDI = 18
ODD_PARTS = (
    *(" ", "  ", "\n", "\n\n\n", "\t", "\r\n", "\u2028", "\x00", "\x85", "\u3000", "\u200f", "\u202e", "\xad"),
    *("e\u0301", "\u0301", "a\u0323\u0302", "q\u0308\u0304", "Ö", "ß", "ﬁ", "ffi", "fj", "Ǆ", "½", "№", "Ω", "µ"),
    *("Ж", "李", "مرحبا", "שלום", "नमस्ते", "😀", "👩\u200d👩\u200d👧", "🇦🇹", "\ue000", "\ud800", "\uffff"),
    *("%FIRST_NAME%", "%FIRST_NAME|friend%", "100%", "O'Brien", "(\\)", "WAVE", "Supercalifragilistic"),
    *("the quick brown fox", "jumps over", "a lazy dog. ", "“Quoted!”", "x" * 300, "_" * 40, "j" * 60),
)
parts = st.one_of(
    st.sampled_from(ODD_PARTS), st.text(max_size=12), st.text("abcdefghijlmnopqrstuwyzABJQÅ.,", min_size=1, max_size=14)
)
# Left alone, messages would be short: most are said again and again.
messages = st.builds(
    lambda found, between, times: (between.join(found * times))[:2000],
    st.lists(parts, max_size=25),
    st.sampled_from([" ", " ", "", "\n"]),
    st.sampled_from([1, 3, 10, 100]),
)


@settings(max_examples=150)
# A letter whose outline is bent by points that lie above its ink.
@example(
    designs.design(
        "postcard-4x6", "o 00Sr o 00Sr o 00Sr", hand=designs.LETTERING, font_size="auto", manner="neat", ink=INK
    ),
    False,
    0,
)
@given(
    st.builds(
        designs.design,
        st.sampled_from(list(designs.PIECES)),
        messages,
        hand=st.sampled_from(designs.HANDS),
        font_size=st.sampled_from(["auto", "large", "medium", "small"]),
        manner=st.sampled_from(MANNER_NAMES),
        ink=st.just(INK),
    ),
    st.booleans(),
    st.integers(0, 10**12),
)
def test_a_message_is_written_whole_in_its_box_or_refused_with_its_excess(look: Design, qr: bool, item_id: int) -> None:
    one, piece = designs.copy(item_id, qr_url=designs.QR_URL if qr else None), designs.PIECES[look.product]
    refusal = designs.make_renderer().find_misfits(look, [designs.JENNY], qr=qr).messages.get(0)
    if refusal:
        assert refusal.overflow_lines >= 1
        with pytest.raises(DoesNotFit) as again:
            designs.compose_item(look, [one])
        assert again.value.message == refusal.message
        return
    box = designs.message_box(piece.message_side, qr=qr)
    assert box
    written = Pages(designs.compose_item(look, [one]).sheets).written(piece.sides.index(piece.message_side), INK)
    own_words = compile_template(look.message).fill(designs.JENNY, look.sender)
    # A ligature may be read as the one letter that Unicode has for it.
    drawn = "".join(glyph.text for glyph in written)
    expected = "".join(reading(designs.make_renderer().hands.hand(look.hand), own_words).split())
    assert normalize("NFKC", drawn) == normalize("NFKC", expected)
    paper = box.expand(designs.HAIR)
    assert [(g.text, g.ink) for g in written if g.ink is None or not paper.contains(g.ink)] == []


def reading(hand: Hand, text: str) -> str:
    """The text as it can be read back: of letters with one shape, the first is meant."""

    def read(letter: str) -> str:
        if isinstance(hand, NaturalHand) and letter in hand.alphabet:
            return letter
        own = [hand.prepared] if isinstance(hand, LetteringHand) else []
        faces = (face.prepared for face in hand.fallback_faces.values())
        face = next((face for face in (*own, *faces) if letter in face.letters), None)
        alike = [other for other, base in face.letters.items() if base == face.letters[letter]] if face else []
        return min(alike, default=letter)

    return "".join(map(read, hand.make_legible(text)))


LONG_MESSAGE = "a the of and to in is it you that he was for on are with as I his they be at one have this " * 5


def written_in(look: Design, reader: Addressee = designs.JENNY) -> list[Glyph]:
    return Pages(designs.compose_item(look, [designs.copy(addressee=reader)]).sheets).written(0, INK)


@pytest.mark.parametrize("hand", designs.NATURAL_HANDS)
def test_words_differ_in_size_lean_ink_and_height_and_the_more_the_livelier(hand: int) -> None:
    notes = [
        written_in(designs.design("windowlessletter", LONG_MESSAGE, hand=hand, ink=INK, manner=manner))
        for manner in MANNER_NAMES
    ]
    leans = [pstdev(glyph.lean for glyph in note) for note in notes]
    sizes = [pstdev(glyph.size for glyph in note) / note[0].size for note in notes]
    baselines = [unrest(note) for note in notes]
    for measures in (leans, sizes, baselines):
        assert 0 < measures[0] < 0.7 * measures[1]
        assert measures[1] < measures[2]
    natural = notes[1]
    assert len({glyph.colour for glyph in natural}) == 3
    assert len({round(glyph.lean, 3) for glyph in natural}) > 5
    # The first word is up to 3 per cent larger, and one at the edge of its line up to 10 per cent narrower.
    assert 1.01 < max(g.size for g in natural) / min(g.size for g in natural) < 1.03 / (0.94 * 0.9)
    assert len({glyph.baseline for glyph in natural}) > 50


def unrest(note: list[Glyph]) -> float:
    """How far each word is above or below the one before it on its line, in font sizes."""
    steps = [(after.baseline - before.baseline) / before.size for before, after in pairwise(note)]
    return pstdev(step for step in steps if abs(step) < 0.5)


def test_every_word_of_a_natural_hand_is_drawn_once_and_again_where_it_recurs() -> None:
    look = designs.design("windowlessletter", "hello " * 40, ink=INK)
    written = written_in(look)
    assert [glyph.text for glyph in written] == ["hello"] * 40
    assert len({glyph.number for glyph in written}) == 40
    inks = [(glyph.ink.width / glyph.size, glyph.ink.height / glyph.size) for glyph in written if glyph.ink]
    assert len({(round(width, 3), round(height, 3)) for width, height in inks}) > 30, "hardly two look alike"


def test_lettering_knows_neither_sizes_nor_manners() -> None:
    looks = [
        designs.design("postcard-6x9", hand=designs.LETTERING, font_size=size, manner=manner)
        for size, manner in (("auto", "natural"), ("small", "lively"), ("large", "neat"))
    ]
    first, *others = (Pages(designs.compose_item(look).sheets).streams(1) for look in looks)
    assert others == [first, first]


def test_a_hand_inks_every_letter_that_it_claims_spells_others_and_may_write_hindi() -> None:
    for number in (designs.LETTERING, designs.INTERNATIONAL):
        hand = designs.make_renderer().hands.hand(number)
        assert isinstance(hand, LetteringHand)
        boxes = {letter: hand.prepared.boxes[base] for letter, base in hand.prepared.letters.items()}
        assert [letter for letter, box in boxes.items() if box[0] >= box[2] and letter != " "] == []
    hand = designs.make_renderer().hands.hand(designs.LETTERING)
    borrowed, missing = hand.find_lacking_chars("Ünïcode ’quoted’ 李 Жук 😀 李\u200d\ufe0f e\u0301\n")
    assert borrowed[-3:] == ["Ж", "у", "к"]
    assert missing == ["李", "😀"]
    assert hand.make_legible("a李①㏄e\u0301\u200d\nb\u3000c") == "aLi1ccé\nb c"
    assert hand.make_legible("مرحبا, Dana") == "mrhb, Dana", "a letter without a sound of its own is left out"
    for words in ("नमस्ते दुनिया", "क्ष त्र ज्ञ र्क", "ि ् ्क ािी", "प्रिय राम"):
        written = Pages(
            designs.compose_item(designs.design("postcard-6x9", words, hand=HINDI, ink=INK)).sheets
        ).written(1, INK)
        assert {glyph.font for glyph in written} == {"/F1"}, words
        assert [glyph for glyph in written if glyph.ink is None] == [], words


def test_accents_stand_over_their_letters(subtests: pytest.Subtests) -> None:
    for word in ("n\u0302", "s\u0308", "as\u0308b", "李à\u0308", "s\u0308李", "(ā\u0301)"):
        with subtests.test(word):
            written = Pages(
                designs.compose_item(designs.design(message=word, hand=designs.INTERNATIONAL, ink=INK)).sheets
            ).written(1, INK)
            letters = designs.make_renderer().hands.hand(designs.INTERNATIONAL).make_legible(word)
            assert "".join(glyph.text for glyph in written) == letters
            place = next(place for place, letter in enumerate(letters) if combining(letter))
            letter, accent = written[place - 1].ink, written[place].ink
            assert letter
            assert accent
            assert accent.bottom > letter.bottom + letter.height / 2
            assert letter.left < accent.left + accent.width / 2 < letter.right


def test_figures_keep_the_distance_that_their_style_asks_for() -> None:
    """Only a typeface without tables of its own, which would keep them apart, needs it."""
    known = designs.make_renderer().hands.hand(designs.LETTERING)
    assert isinstance(known, LetteringHand)
    zeyada = Lettering(face="Zeyada", source=FontFile("fontpkg_zeyada", "files/Zeyada.ttf"), figure_gap=40)
    raw = designs.PYTHONS_OWN.read_font(zeyada)
    assert raw
    wide, usual = (replace(known.style, lettering=replace(zeyada, figure_gap=gap)) for gap in (40, 0))
    prepared = prepare_face(zeyada, raw)
    wider, hand = (LetteringHand(style, prepared, known.fallback_faces) for style in (wide, usual))

    def moves(word: str) -> list[int]:
        return [move for part in wider.spell(word).parts if isinstance(part, HandGlyphs) for move in part.x_offsets]

    assert moves("1200") == [0, 40, 40, 40]
    assert [moves(f"1200{beside}")[:4] for beside in "я№李"] == [moves("1200")] * 3
    assert wider.spell("1200").advance == pytest.approx(hand.spell("1200").advance + 0.12)


def test_a_message_that_grows_is_refused_in_good_time() -> None:
    for letter in "ﷺ😀한":
        found = designs.make_renderer().find_misfits(designs.design(message=letter * 5_000), [designs.JENNY], qr=False)
        assert found.messages or letter == "😀"
    whom = replace(designs.JENNY, custom=("word " * 60,) + (None,) * 9)
    found = designs.make_renderer().find_misfits(designs.design(message="%CUSTOM1% " * 500), [whom] * 3, qr=False)
    assert "far too many" in found.messages[0].message
    assert found.messages[0].overflow_lines > 1_000
