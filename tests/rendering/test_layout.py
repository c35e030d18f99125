"""Breaking texts into lines and finding their size."""

import re
from itertools import pairwise

import pytest

from quillpost.rendering.handwriting.text import Hand, SpelledWord
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.models import (
    FIXED_SIZES,
    MAX_FONT_SIZE,
    MIN_FONT_SIZE,
    DoesNotFit,
    Passage,
    PassageLayout,
    SizeRange,
)
from quillpost.rendering.layout.paragraphs import lay_out_passages, misfit_error
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.models import Box
from support.designs import HANDS, ONE_SHAPE, PIECES, STROKES, make_renderer

BACK = PIECES["postcard-4x6"].find_side("back")
assert BACK.message is not None
PLACE = BACK.message


def vocabulary(number: int = STROKES) -> Vocabulary:
    return Vocabulary(make_renderer().hands.hand(number))


def passage(text: str, font_size: str = "auto", box: Box = PLACE, seed: int = 1) -> Passage:
    fixed = FIXED_SIZES.get(font_size)
    sizes = SizeRange(fixed or MIN_FONT_SIZE, fixed or MAX_FONT_SIZE)
    return Passage("message", text, box, sizes, (0, 0, 0), seed)


def laid_out(*passages: Passage, words: Vocabulary | None = None) -> PassageLayout:
    (found,) = lay_out_passages(words or vocabulary(), passages)
    assert found[0] == list(range(len(passages)))
    return found[1]


def size_of(text: str, font_size: str = "auto", box: Box = PLACE) -> float:
    """The size at which the text fits, or DoesNotFit."""
    layout = laid_out(passage(text, font_size, box))
    if not layout.fits[0]:
        raise misfit_error(layout, 0, "4x6 postcard")
    return float(layout.sizes[0])


def lines_of(text: str, font_size: str = "auto") -> list[int]:
    """On which line each of the text's words is."""
    layout = laid_out(passage(text, font_size))
    found: list[int] = layout.line_numbers[0].tolist()
    return found


def test_a_short_message_is_as_large_as_allowed() -> None:
    assert size_of("Hello") == MAX_FONT_SIZE


@pytest.mark.parametrize("count", [20, 30, 35, 40])
def test_auto_takes_the_largest_half_point_that_fits(count: int) -> None:
    text = "some words " * count
    size = size_of(text)
    assert MIN_FONT_SIZE < size < MAX_FONT_SIZE
    assert size * 2 == round(size * 2)
    larger = Passage("message", text, PLACE, SizeRange(size + 0.5, size + 0.5), (0, 0, 0), 1)
    assert not laid_out(larger).fits[0]


def test_a_message_too_long_says_by_how_much() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        size_of("word " * 400)
    assert refusal.value.overflow_lines > 1
    assert refusal.value.message.startswith(
        f"The message is {refusal.value.overflow_lines} lines too long for a 4x6 postcard"
        " even at the smallest size; shorten it by about "
    )


@pytest.mark.parametrize("count", [200, 300, 400])
def test_shortening_as_advised_makes_a_message_fit(count: int) -> None:
    text = "word " * count
    with pytest.raises(DoesNotFit) as refusal:
        size_of(text)
    advised = int(refusal.value.message.split("about ")[1].split()[0])
    size_of(text[: -advised - 5])


def test_a_fixed_size_that_does_not_fit_is_refused() -> None:
    text = "word " * 60
    assert size_of(text, "small") == FIXED_SIZES["small"]
    with pytest.raises(DoesNotFit, match="too long for a 4x6 postcard at the large size"):
        size_of(text, "large")


def test_blank_lines_between_paragraphs_stay() -> None:
    assert lines_of("\n\nDear all\n\n\nBye\n\n") == [0, 0, 3]


def test_a_text_of_spaces_has_no_words_and_fits() -> None:
    layout = laid_out(passage(" \n\t \u3000\n"))
    assert layout.word_numbers.shape == (1, 0)
    assert layout.fits[0]


def test_a_word_that_does_not_fit_on_its_line_begins_the_next() -> None:
    lines = lines_of("some words " * 20)
    assert lines == sorted(lines)
    assert 1 < len(set(lines)) < len(lines)


def parts_of(layout: PassageLayout, words: Vocabulary) -> list[str]:
    return [words.word_text(number) for number in layout.word_numbers[0].tolist()]


def test_a_word_wider_than_the_line_is_broken_into_parts_as_long_as_the_line_allows() -> None:
    words = vocabulary(ONE_SHAPE)
    layout = laid_out(passage("w" * 90 + "é" * 90), words=words)
    assert layout.fits[0]
    assert layout.line_numbers[0].tolist() == list(range(layout.word_counts[0]))
    container = parts_of(layout, words)
    assert "".join(container) == "w" * 90 + "é" * 90
    room = PLACE.width / layout.sizes[0] - 0.16
    assert all(words.word_extent(number) <= room for number in layout.word_numbers[0].tolist())
    assert words.word_extent(words.word_numbers([container[0] + "www"])[0]) > room


@pytest.mark.parametrize("word", ["Congratulations!", "Internationalization"])
def test_an_ordinary_word_is_written_smaller_before_it_is_broken(word: str) -> None:
    layout = laid_out(passage(word))
    assert layout.word_counts[0] == 1
    assert MIN_FONT_SIZE < layout.sizes[0] <= MAX_FONT_SIZE


EMAIL = "jane.margaret.smith-jones@very-long-company-name.example.com"
URL = "https://www.example.com/neighborhood/2026/open_house?id=4711&source=postcard"
LONG_WORDS = [EMAIL, URL, "Supercalifragilisticexpialidocious", "w" * 60, "_" * 40, "a.b" * 30]
TEXT = "Hello there, do write to {} or call me. Yours, Dana"


@pytest.mark.parametrize("number", HANDS)
@pytest.mark.parametrize("word", LONG_WORDS, ids=["email", "url", "word", "letters", "marks", "dots"])
@pytest.mark.parametrize("piece", ["postcard-4x6", "postcard-6x11", "letter"])
def test_one_long_word_never_sets_the_size_of_the_rest(piece: str, word: str, number: int) -> None:
    """The text is about as large as with as many letters in short words."""
    box = PIECES[piece].message_side.message
    assert box
    words = vocabulary(number)
    short = " ".join(word[at : at + 6] for at in range(0, len(word), 6))
    layout = laid_out(passage(TEXT.format(word), box=box), words=words)
    usual = laid_out(passage(TEXT.format(short), box=box), words=words)
    assert layout.fits[0]
    assert layout.sizes[0] >= usual.sizes[0] - 1.5


@pytest.mark.parametrize("word", [EMAIL, URL])
def test_an_address_is_broken_at_its_marks_and_written_whole(word: str) -> None:
    words = vocabulary()
    layout = laid_out(passage(TEXT.format(word)), words=words)
    container = parts_of(layout, words)
    first = len(TEXT.split("{}")[0].split())
    last = len(container) - len(TEXT.split("{}")[1].split())
    broken = container[first:last]
    assert len(broken) > 1
    assert "".join(broken) == word
    for before, after in pairwise(broken):
        assert before[-1] in "@/-_?&=#" or after[0] == "."
    lines = layout.line_numbers[0].tolist()[first:last]
    assert lines == list(range(lines[0], lines[0] + len(lines)))


def test_an_address_that_fits_a_line_is_not_broken() -> None:
    words = vocabulary()
    box = PIECES["letter"].message_side.message
    assert box
    layout = laid_out(passage(TEXT.format("jane.smith@example.com"), box=box), words=words)
    assert "jane.smith@example.com" in parts_of(layout, words)


def test_a_full_stop_is_never_a_line_of_its_own() -> None:
    words = vocabulary()
    for filler in range(1, 30):
        layout = laid_out(passage("x " * filler + EMAIL + "."), words=words)
        assert not {".", "-", "@"} & set(parts_of(layout, words))


def test_an_address_on_an_envelope_keeps_its_words() -> None:
    words = vocabulary()
    kept = passage("Anna Schmidt-Lueftenberg-Altenstadt")._replace(keeps_words=True)
    layout = laid_out(kept, words=words)
    assert layout.word_counts[0] == 2
    assert layout.sizes[0] < MAX_FONT_SIZE


@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * 5000 + "b",
        "a" + "\n" * 5000 + "b",
        "w" * 5000,
        "a " * 2500,
        "aЖ" * 2500,
        "e\u0301" * 2500,
        *("w" * count + "\u0301" * 1000 for count in range(25, 34)),
    ],
)
def test_breaking_a_message_spells_each_letter_a_few_times_at_most(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were each try at a part of a word spelt from its start, these would take hours."""
    spelt = []
    spell_letters = Hand._spell

    def counted(writer: Hand, letters: str) -> SpelledWord:
        spelt.append(len(letters))
        return spell_letters(writer, letters)

    monkeypatch.setattr(Hand, "_spell", counted)
    known = make_renderer().hands.hand(STROKES)
    fresh = Hand(known.style, known.prepared, known.fallback_faces)
    lay_out_passages(Vocabulary(fresh), [passage(text)])
    assert sum(spelt) <= 4 * len(text)


def test_each_of_many_passages_is_laid_out_as_if_it_were_alone() -> None:
    texts = ["Hello", "some words " * 20, "", "Dear all\n\nBye", "word " * 150, "w" * 90]
    texts += [TEXT.format(word) for word in LONG_WORDS]
    passages = [passage(text, box=PLACE.expand(-3 * place)) for place, text in enumerate(texts)]
    words = vocabulary()
    together = {
        place: (layout, row) for places, layout in lay_out_passages(words, passages) for row, place in enumerate(places)
    }
    assert sorted(together) == list(range(len(texts)))
    for place, (layout, row) in together.items():
        alone = laid_out(passages[place])
        count = alone.word_counts[0]
        assert layout.word_counts[row] == count
        assert layout.line_numbers[row, :count].tolist() == alone.line_numbers[0].tolist()
        assert (layout.sizes[row], layout.fits[row]) == (alone.sizes[0], alone.fits[0])


def test_a_piece_is_uneven_in_its_own_way_every_time() -> None:
    words = vocabulary()
    text = "The same words for everyone"
    layout = laid_out(*(passage(text, seed=seed) for seed in (1, 1, 2)), words=words)
    first, again, other = write_passages(words, layout)
    assert first == again
    assert first != other


@pytest.mark.parametrize("number", HANDS)
@pytest.mark.parametrize("word", ["j", "f", "Sue", "Yes", "z"])
def test_a_word_that_reaches_back_keeps_clear_of_the_one_before(number: int, word: str) -> None:
    words = vocabulary(number)
    even = passage(f"and {word}", "medium")._replace(is_even=True)
    layout = laid_out(even, words=words)
    (operators,) = write_passages(words, layout)
    first, second = (float(x) for x in re.findall(rb"([\d.]+) [\d.]+ Tm", operators))
    advance, left = layout.measures[0, 0, 0], layout.measures[0, 1, 1]
    clear = (second - first) / layout.sizes[0] - advance - left
    assert clear >= words.word_gap - 0.08 - 0.02


def test_a_piece_among_many_is_as_uneven_as_it_is_alone() -> None:
    words = vocabulary()
    passages = [passage("The same words for everyone, " * 3, seed=seed) for seed in range(20)]
    together = list(write_passages(words, laid_out(*passages, words=words)))
    assert together == [next(write_passages(words, laid_out(alone, words=words))) for alone in passages]
