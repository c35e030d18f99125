import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quillpost.composition.hand import hand, legible, missing_letters
from quillpost.composition.layout import LARGEST, DoesNotFit, Setting, set_message
from quillpost.composition.pieces import PIECES, Box
from quillpost.composition.writing import write

PIECE = PIECES["postcard-4x6"]


def fit(text: str, font_size: str = "auto", box: Box = PIECE.message) -> Setting:
    return set_message(hand(), text, box, font_size, PIECE.title)


def written_words(setting: Setting, box: Box, item_id: int) -> list[Box]:
    """The ink of every word, as the page's own operators place it."""
    lines = write(setting, box, (0, 0, 0), item_id).split(b"\n")[1:-2]
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
