import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.composition.hands.hand import Hand, Word, hand, legible, missing_letters, plain_face
from quillpost.composition.pages.layout import (
    LARGEST,
    MARGIN_WANDER,
    DoesNotFit,
    Setting,
    set_message,
    wrap_lines,
)
from quillpost.composition.pages.pieces import PIECES, Box
from quillpost.composition.pages.writing import write

PIECE = PIECES["postcard-4x6"]


def fit(text: str, font_size: str = "auto", box: Box = PIECE.message) -> Setting:
    return set_message(hand(), text, box, font_size, PIECE.title)


def written_words(setting: Setting, box: Box, item_id: int, *, realism: bool = True) -> list[Box]:
    """The ink of every word, as the page's own operators place it."""
    lines = write(setting, box, (0, 0, 0), item_id, realism=realism).split(b"\n")[1:-2]
    words = [word for line in setting.lines for word in line]
    boxes = []
    for word, line in zip(words, lines, strict=True):
        em, rise, _, _, left, baseline = (float(n) for n in line.split(b" Tm")[0].split())
        boxes.append(
            Box(
                left - word.left * em,
                baseline - word.bottom * em + min(0, word.advance * rise),
                word.extent * em,
                (word.top + word.bottom) * em + abs(word.advance * rise),
            )
        )
    return boxes


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet=st.sampled_from("aifjgyJQÅẸ  \n.,Ж李"), max_size=900),
    st.sampled_from(["auto", "large", "medium", "small"]),
    st.integers(0, 10**12),
)
def test_any_message_is_inside_its_box_or_refused(text: str, size: str, item_id: int) -> None:
    try:
        setting = fit(text, size)
    except DoesNotFit:
        return
    paper = PIECE.message.grown(0.35)  # a tilted word's corners turn a little
    outside = [box for box in written_words(setting, PIECE.message, item_id) if not paper.contains(box)]
    assert outside == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("abc gy\n"), max_size=500))
def test_no_word_is_lost_or_moved(text: str) -> None:
    try:
        setting = fit(text)
    except DoesNotFit:
        return
    shown = "".join(word.text for line in setting.lines for word in line)
    assert shown == "".join(text.split())


def test_a_short_message_is_as_large_as_allowed() -> None:
    assert fit("Hello").size == LARGEST


def test_auto_takes_the_largest_half_point_that_fits() -> None:
    box = Box(0, 0, 150, 200)
    size = fit("some words " * 20, box=box).size
    assert 11 < size < LARGEST
    # A half point larger is the same as in a box that much smaller.
    smaller = size / (size + 0.5)
    assert fit("some words " * 20, box=Box(0, 0, 150 * smaller, 200 * smaller)).size < size


def test_a_message_too_long_says_by_how_much() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        fit("word " * 400)
    assert refusal.value.overflow_lines > 1
    assert refusal.value.message.startswith(
        f"The message is {refusal.value.overflow_lines} lines too long for a 4x6 postcard"
        " even at the smallest size; shorten it by about "
    )


def test_shortening_as_told_makes_a_message_fit() -> None:
    text = "word " * 190
    with pytest.raises(DoesNotFit) as refusal:
        fit(text)
    advised = int(refusal.value.message.split("about ")[1].split()[0])
    fit(text[: -advised - 5])


def test_a_fixed_size_that_does_not_fit_is_refused() -> None:
    text = "word " * 60
    assert fit(text, "small").size == 13
    with pytest.raises(DoesNotFit, match="at the large size"):
        fit(text, "large")


def test_blank_lines_between_paragraphs_stay() -> None:
    assert [len(line) for line in fit("Dear all\n\nBye\n").lines] == [2, 0, 1]


def test_a_word_wider_than_the_line_is_broken() -> None:
    setting = fit("w" * 60)
    assert len(setting.lines) > 1
    assert sum(len(word.text) for line in setting.lines for word in line) == 60


def test_parts_of_a_broken_word_are_as_long_as_the_line_allows() -> None:
    first, *_, last = [line[0] for line in fit("w" * 60 + "é" * 60, "large").lines]
    wider = hand().word(first.text + "w")
    room = PIECE.message.width / 22 - MARGIN_WANDER
    assert first.extent <= room < wider.extent
    assert last.text.endswith("é")


def test_breaking_a_word_measures_each_letter_once() -> None:
    """Letters without width never fill a line: measured from its start each time, these take hours."""
    marks = "\u0301" * 100_000
    parts = hand().parts_of(hand().word("w" * 80 + marks), 20)
    assert "".join(part.text for part in parts) == "w" * 79 + legible("w" + marks)
    assert "".join(wrap_lines(plain_face(), ["w" * 80 + marks], 20)) == "w" * 80 + marks


@pytest.mark.parametrize(
    "text",
    ["a" + " " * 5000 + "b", "a" + "\n" * 5000 + "b", "w" * 5000, "a " * 2500, "aЖ" * 2500, "e\u0301" * 2500],
)
def test_breaking_a_message_draws_each_letter_at_most_once_a_size(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    write_letters = Hand._write

    def counted(writer: Hand, letters: str) -> Word:
        drawn.append(len(letters))
        return write_letters(writer, letters)

    monkeypatch.setattr(Hand, "_write", counted)
    fresh = Hand(hand().face, hand().plain)
    with contextlib.suppress(DoesNotFit):
        set_message(fresh, text, PIECE.message, "auto", PIECE.title)
    sizes_tried = 6
    assert sum(drawn) <= len(text) * (sizes_tried + 1)


def test_letters_of_neither_face_are_reported_once_each() -> None:
    assert missing_letters("Ünïcode ’quoted’ 李 Жук 😀 李\u200d\ufe0f e\u0301\n") == ["李", "😀"]


def test_letters_of_neither_face_are_never_blank() -> None:
    assert legible("a李①㏄e\u0301\u200d") == "a?1ccé"


def test_the_hand_inks_every_letter_that_it_claims() -> None:
    blank = [c for c, g in hand().face.glyphs.items() if g.right <= g.left and c != " "]
    assert blank == []


def test_a_piece_is_uneven_in_its_own_way_every_time() -> None:
    setting = fit("The same words for everyone")
    first, again, other = (write(setting, PIECE.message, (0, 0, 0), i) for i in (1, 1, 2))
    assert first == again
    assert first != other


def test_without_realism_no_piece_differs_from_another() -> None:
    setting = fit("The same words for everyone")
    one, other = (write(setting, PIECE.message, (0, 0, 0), i, realism=False) for i in (1, 2))
    assert one == other


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.sampled_from("aifjgyJQÅ  \n.,Ж"), max_size=600))
def test_even_lines_are_inside_their_box_too(text: str) -> None:
    try:
        setting = fit(text)
    except DoesNotFit:
        return
    boxes = written_words(setting, PIECE.message, 1, realism=False)
    assert [box for box in boxes if not PIECE.message.grown(0.01).contains(box)] == []
