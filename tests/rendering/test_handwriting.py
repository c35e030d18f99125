"""Handwriting on finished pieces, read back from the print files."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from unicodedata import combining, normalize

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quillpost.rendering.handwriting.text import Hand, HandGlyphs
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Design
from quillpost.rendering.text.variables import compile_template
from support import designs
from support.page_reader import Pages

INK = (0.8, 0.2, 0.2)

AI_HANDS = (designs.STROKES, designs.OUTLINES, designs.JOINED)
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
        "postcard-4x6", "o 00Sr o 00Sr o 00Sr", hand=designs.ONE_SHAPE, font_size="auto", realism=False, ink=INK
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
        realism=st.booleans(),
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
    faces = [hand.prepared, *(face.prepared for face in hand.fallback_faces.values())]

    def read(letter: str) -> str:
        face = next((face for face in faces if letter in face.letters), None)
        alike = [other for other, base in face.letters.items() if base == face.letters[letter]] if face else []
        return min(alike, default=letter)

    return "".join(map(read, hand.make_legible(text)))


@pytest.mark.parametrize("hand", AI_HANDS)
def test_no_letter_ever_has_the_shape_that_it_had_before(hand: int) -> None:
    uses = shapes_used(hand, pieces=200)
    assert sorted(uses) == list(range(8))
    fair = sum(uses.values()) / 8
    assert fair > 10_000
    assert all(0.9 * fair < count < 1.1 * fair for count in uses.values())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_letter_ever_has_the_shape_that_it_had_before_in_any_hand() -> None:
    for style in designs.make_renderer().hands.styles.values():
        if style.kind == "AI":
            assert sorted(shapes_used(style.number, pieces=200)) == list(range(8)), style.name


def shapes_used(hand: int, *, pieces: int) -> Counter[int]:
    """How often each shape occurs on so many letters, of which no two successive ones look alike."""
    looks = dict(enumerate(long_designs(hand, pieces)))
    file = Pages(designs.compose_item(looks, [designs.copy(number, design=number) for number in looks]).sheets)
    shapes = designs.make_renderer().hands.hand(hand).prepared.takes + 1
    uses: Counter[int] = Counter()
    for page in range(pieces):
        last: dict[int, int] = {}
        for number in file.numbers(page, "/F1"):
            letter, take = divmod(number - 1, shapes)
            if letter == designs.make_renderer().hands.hand(hand).prepared.letters[" "]:
                continue
            assert last.get(letter) != take, f"a letter of piece {page} looks as it did the last time"
            last[letter] = take
            uses[take] += 1
    return uses


def long_designs(hand: int, count: int) -> Iterator[Design]:
    random = Random(hand)
    common = "a the of and to in is it you that he was for on are with as I his they be at one have this"
    rare = "mississippi eel needle letterbox bookkeeper zzz illicit pizzazz oooh! 11,111 abcdefghijklmnopqrst"
    words = f"{common} {rare}".split()
    for _ in range(count):
        yield designs.design("windowlessletter", " ".join(random.choices(words, k=120)), hand=hand)


@pytest.mark.parametrize("hand", AI_HANDS)
def test_words_differ_in_size_lean_ink_and_height_unless_realism_is_off(hand: int) -> None:
    look = replace(next(long_designs(hand, 1)), ink=INK)
    uneven = Pages(designs.compose_item(look).sheets).written(0, INK)
    assert len({glyph.colour for glyph in uneven}) == 3
    assert len({round(glyph.lean, 3) for glyph in uneven}) > 5
    assert 1.01 < max(g.size for g in uneven) / min(g.size for g in uneven) < 1.05
    assert len({glyph.baseline for glyph in uneven}) > 50
    look = replace(look, realism=False)
    one, other = (Pages(designs.compose_item(look, [designs.copy(number)]).sheets) for number in (1, 2))
    written = one.written(0, INK)
    takes = designs.make_renderer().hands.hand(hand).prepared.takes
    assert {(glyph.number - 1) % (takes + 1) for glyph in written if glyph.font == "/F1"} == {takes}
    assert {(glyph.lean, glyph.colour) for glyph in written} == {(0, INK)}
    assert len({glyph.size for glyph in written}) == 1
    baselines = sorted({round(glyph.baseline, 2) for glyph in written}, reverse=True)
    steps = [upper - lower for upper, lower in pairwise(baselines)]
    assert len(steps) > 5
    assert max(steps) - min(steps) < 0.11
    assert one.streams(0) == other.streams(0)


def test_a_hand_of_one_shape_a_letter_knows_neither_sizes_nor_realism() -> None:
    looks = [
        designs.design("postcard-6x9", hand=designs.ONE_SHAPE, font_size=size, realism=realism)
        for size, realism in (("auto", True), ("small", True), ("large", False))
    ]
    first, *others = (Pages(designs.compose_item(look).sheets).streams(1) for look in looks)
    assert others == [first, first]


def test_a_hand_inks_every_letter_that_it_claims_spells_others_and_may_write_hindi() -> None:
    for number in designs.HANDS:
        prepared = designs.make_renderer().hands.hand(number).prepared
        boxes = {letter: prepared.boxes[base] for letter, base in prepared.letters.items()}
        assert [letter for letter, box in boxes.items() if box[0] >= box[2] and letter != " "] == []
    hand = designs.make_renderer().hands.hand(designs.STROKES)
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


def test_figures_keep_their_distance_and_accents_stand_over_their_letters(subtests: pytest.Subtests) -> None:
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
    hand = designs.make_renderer().hands.hand(designs.STROKES)
    assert hand.style.figure_gap

    def moves(word: str) -> list[int]:
        return [move for part in hand.spell(word).parts if isinstance(part, HandGlyphs) for move in part.x_offsets]

    assert moves("1200") == [0, *[hand.style.figure_gap] * 3]
    assert [moves(f"1200{beside}")[:4] for beside in "я№李"] == [moves("1200")] * 3


def test_a_message_that_grows_is_refused_in_good_time() -> None:
    for letter in "ﷺ😀한":
        found = designs.make_renderer().find_misfits(designs.design(message=letter * 5_000), [designs.JENNY], qr=False)
        assert found.messages or letter == "😀"
    whom = replace(designs.JENNY, custom=("word " * 60,) + (None,) * 9)
    found = designs.make_renderer().find_misfits(designs.design(message="%CUSTOM1% " * 500), [whom] * 3, qr=False)
    assert "far too many" in found.messages[0].message
    assert found.messages[0].overflow_lines > 1_000
