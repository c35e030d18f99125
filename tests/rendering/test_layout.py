"""Breaking messages into lines, finding their size, and where they lie in the room that they have."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.files import make_vocabulary
from quillpost.rendering.handwriting.text import LetteringHand, SpelledWord
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.handwriting.words import NaturalHand
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
from quillpost.rendering.layout.templates import load_products, read_shipped_toml
from quillpost.rendering.models import INCH, Box
from quillpost.rendering.service import Renderer
from support import designs
from support.page_reader import Pages


def room_on(piece: str) -> Box:
    room = designs.PIECES[piece].message_side.message
    assert room
    return room


PLACE = room_on("postcard-4x6")
INK = (0.8, 0.2, 0.2)


def vocabulary(number: int = designs.HALF_JOINED) -> Vocabulary:
    return make_vocabulary(designs.make_renderer().hands.hand(number))


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


def lines_of(text: str) -> list[int]:
    """On which line each of the text's words is."""
    found: list[int] = laid_out(passage(text)).line_numbers[0].tolist()
    return found


def parts_of(layout: PassageLayout, words: Vocabulary) -> list[str]:
    return [words.word_text(number) for number in layout.word_numbers[0].tolist()]


def test_words_go_on_their_lines_in_the_largest_half_point_that_fits() -> None:
    assert size_of("Hello") == MAX_FONT_SIZE
    for count in (20, 30, 35, 40):
        text = "some words " * count
        size = size_of(text)
        assert MIN_FONT_SIZE < size < MAX_FONT_SIZE
        assert size * 2 == round(size * 2)
        larger = Passage("message", text, PLACE, SizeRange(size + 0.5, size + 0.5), (0, 0, 0), 1)
        assert not laid_out(larger).fits[0]
    assert lines_of("\n\nDear all\n\n\nBye\n\n") == [0, 0, 3], "blank lines between paragraphs stay"
    lines = lines_of("some words " * 20)
    assert lines == sorted(lines)
    assert 1 < len(set(lines)) < len(lines)
    nothing = laid_out(passage(" \n\t \u3000\n"))
    assert nothing.word_numbers.shape == (1, 0)
    assert nothing.fits[0]


def test_a_message_too_long_says_by_how_much_and_fits_when_it_is_shortened_as_advised() -> None:
    for count in (200, 300, 400):
        text = "word " * count
        with pytest.raises(DoesNotFit) as refusal:
            size_of(text)
        assert refusal.value.overflow_lines > 1
        sentence = (
            f"The message is {refusal.value.overflow_lines} lines too long for a 4x6 postcard"
            " even at the smallest size; shorten it by about "
        )
        assert refusal.value.message.startswith(sentence)
        size_of(text[: -int(refusal.value.message.removeprefix(sentence).split()[0]) - 5])
    assert size_of("word " * 60, "small") == FIXED_SIZES["small"]
    with pytest.raises(DoesNotFit, match="too long for a 4x6 postcard at the large size"):
        size_of("word " * 60, "large")


def test_a_word_wider_than_the_line_is_broken_into_parts_as_long_as_the_line_allows() -> None:
    words = vocabulary(designs.LETTERING)
    layout = laid_out(passage("w" * 90 + "é" * 90), words=words)
    assert layout.fits[0]
    assert layout.line_numbers[0].tolist() == list(range(layout.word_counts[0]))
    parts = parts_of(layout, words)
    assert "".join(parts) == "w" * 90 + "é" * 90
    room = PLACE.width / layout.sizes[0] - 0.16
    assert all(words.word_extent(number) <= room for number in layout.word_numbers[0].tolist())
    assert words.word_extent(words.word_numbers([parts[0] + "www"])[0]) > room
    for ordinary in ("Congratulations!", "Internationalization"):  # written smaller before it is broken
        layout = laid_out(passage(ordinary))
        assert layout.word_counts[0] == 1
        assert MIN_FONT_SIZE < layout.sizes[0] <= MAX_FONT_SIZE


EMAIL = "jane.margaret.smith-jones@very-long-company-name.example.com"
URL = "https://www.example.com/neighborhood/2026/open_house?id=4711&source=postcard"
LONG_WORDS = [EMAIL, URL, "Supercalifragilisticexpialidocious", "w" * 60, "_" * 40, "a.b" * 30]
TEXT = "Hello there, do write to {} or call me. Yours, Dana"


def test_one_long_word_never_sets_the_size_of_the_rest(subtests: pytest.Subtests) -> None:
    """The text is about as large as with as many letters in short words."""
    for number in designs.HANDS:
        words = vocabulary(number)
        for word in LONG_WORDS:
            short = " ".join(word[at : at + 6] for at in range(0, len(word), 6))
            for piece in ("postcard-4x6", "postcard-6x11", "letter"):
                with subtests.test(word, piece=piece, hand=number):
                    box = room_on(piece)
                    layout = laid_out(passage(TEXT.format(word), box=box), words=words)
                    usual = laid_out(passage(TEXT.format(short), box=box), words=words)
                    assert layout.fits[0]
                    assert layout.sizes[0] >= usual.sizes[0] - 1.5


def test_an_address_is_broken_at_its_marks_and_written_whole() -> None:
    words = vocabulary()
    for word in (EMAIL, URL):
        layout = laid_out(passage(TEXT.format(word)), words=words)
        parts, (before, after) = parts_of(layout, words), TEXT.split("{}")
        first, last = len(before.split()), len(parts) - len(after.split())
        broken = parts[first:last]
        assert len(broken) > 1
        assert "".join(broken) == word
        assert all(one[-1] in "@/-_?&=#" or other[0] == "." for one, other in pairwise(broken))
        lines = layout.line_numbers[0].tolist()[first:last]
        assert lines == list(range(lines[0], lines[0] + len(lines)))
    layout = laid_out(passage(TEXT.format("jane.smith@example.com"), box=room_on("letter")), words=words)
    assert "jane.smith@example.com" in parts_of(layout, words), "it fits a line"
    for filler in range(1, 30):
        layout = laid_out(passage("x " * filler + EMAIL + "."), words=words)
        assert not {".", "-", "@"} & set(parts_of(layout, words)), "no mark is a line of its own"
    kept = passage("Anna Schmidt-Lueftenberg-Altenstadt")._replace(keeps_words=True)
    layout = laid_out(kept, words=words)
    assert layout.word_counts[0] == 2
    assert layout.sizes[0] < MAX_FONT_SIZE


def test_breaking_a_message_spells_letters_rarely(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were each try at a part of a word spelt from its start, these would take hours."""
    texts = ["a" + " " * 5000 + "b", "a" + "\n" * 5000 + "b", "w" * 5000, "a " * 2500, "aЖ" * 2500, "e\u0301" * 2500]
    texts += ["w" * count + "\u0301" * 1000 for count in range(25, 34)]
    spelt: list[int] = []
    for hand in (LetteringHand, NaturalHand):
        monkeypatch.setattr(hand, "_spell", counted(hand._spell, spelt))
    for number, text in enumerate(texts):
        for style in (designs.LETTERING, designs.HALF_JOINED):
            with subtests.test(text[:30], number=number, hand=style):
                words = make_vocabulary(designs.make_hands().hand(style))
                spelt.clear()
                lay_out_passages(words, [passage(text)])
                assert sum(spelt) <= 4 * len(text)


def counted(spell: Callable[[Any, str], SpelledWord], spelt: list[int]) -> Callable[[Any, str], SpelledWord]:
    """It notes how many letters it spells each time."""

    def spell_and_note(hand: Any, letters: str) -> SpelledWord:
        spelt.append(len(letters))
        return spell(hand, letters)

    return spell_and_note


def test_each_of_many_passages_is_laid_out_and_written_as_if_it_were_alone() -> None:
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
    uneven = [passage("The same words for everyone, " * 3, seed=seed) for seed in (*range(20), 0)]
    written = list(write_passages(words, laid_out(*uneven, words=words)))
    assert written == [next(write_passages(words, laid_out(own, words=words))) for own in uneven]
    assert written[0] == written[20] != written[1]


def test_a_word_that_reaches_back_keeps_clear_of_the_one_before(subtests: pytest.Subtests) -> None:
    for number in designs.HANDS:
        words = vocabulary(number)
        for word in ("j", "f", "Sue", "Yes", "z"):
            with subtests.test(word, hand=number):
                own = passage(f"and {word}", "medium")._replace(manner="neat")
                layout = laid_out(own, words=words)
                (operators,) = write_passages(words, layout)
                # The last two: paler ink comes before, at the same places.
                first, second = (float(x) for x in re.findall(rb"([\d.]+) [\d.]+ Tm", operators)[-2:])
                shown = words.show(layout.word_numbers, [own.seed], [own.manner])
                advance, left = shown.measures[0, 0, 0], shown.measures[0, 1, 1]
                clear = (second - first) / layout.sizes[0] - advance - left
                # A neat gap is up to 8 per cent narrower than the usual one.
                assert clear >= 0.92 * words.word_gap - 0.08 - 0.02


CARDS = [name for name in designs.PIECES if "letter" not in name]
NOTES = ("Hello!", "Thank you!\nDana", "Hi %FIRST_NAME%,\nsee you!")


def written_in(piece: str, hand: int, *, qr: bool) -> list[tuple[Box, Box]]:
    """For each note the box that the handwriting has, and the one around its ink."""
    side, count = designs.PIECES[piece].message_side, len(designs.PIECES[piece].sides)
    looks = {number: designs.design(piece, note, hand=hand, ink=INK) for number, note in enumerate(NOTES)}
    copies = [designs.copy(7, design=number, qr_url=designs.QR_URL if qr else None) for number in looks]
    box, file = designs.message_box(side, qr=qr), Pages(designs.compose_item(looks, copies).sheets)
    assert box
    page = designs.PIECES[piece].sides.index(side)
    return [(box, designs.around(glyph.ink for glyph in file.written(page + count * number, INK))) for number in looks]


@pytest.mark.parametrize("hand", designs.HANDS)
def test_a_short_note_lies_in_the_optical_center_of_a_card(hand: int, subtests: pytest.Subtests) -> None:
    for piece in CARDS:
        found = {qr: written_in(piece, hand, qr=qr) for qr in (False, True)}
        for number, note in enumerate(NOTES):
            with subtests.test(note, piece=piece):
                checked = 0
                for box, ink in (found[False][number], found[True][number]):
                    assert box.contains(ink)
                    above, below = box.top - ink.top, ink.bottom - box.bottom
                    if above + below > 1.25 * INCH:
                        assert ink.left - box.left == pytest.approx((box.width - ink.width) / 2, abs=0.2 * INCH)
                        assert 0.36 < above / (above + below) < 0.5
                        checked += 1
                assert checked


def test_a_letter_begins_at_its_top_left_as_notes_do_where_an_operator_wants_it_and_lines_are_flush_left() -> None:
    for piece in ("letter", "windowlessletter"):
        for box, ink in written_in(piece, designs.HANDS[0], qr=True):
            assert box.top - ink.top < INCH / 8
            assert ink.left - box.left < INCH / 4
    look = designs.design("notecard", "Hello dear friend\nhow\nare you", ink=INK, manner="neat")
    written = Pages(designs.compose_item(look).sheets).written(1, INK)
    starts = [glyph.left for glyph in written if glyph.text in ("Hello", "how", "are")]
    assert len(starts) == 3
    assert max(starts) - min(starts) < 0.1 * INCH
    pieces = load_products(read_shipped_toml(), "[postcard-4x6.back]\nmessage_align = 'top'")
    assert pieces["postcard-4x6"].message_side.message_align == "top"
    renderers = (Renderer(designs.make_renderer().hands, pieces, sandbox=DecoderSandbox()), designs.make_renderer())
    look = designs.design(message="Hello!", ink=INK)
    at_top, centered = (renderer.preview(look, designs.copy(), dpi=50).sides["back"] for renderer in renderers)
    assert at_top != centered


def test_a_message_that_fills_its_box_stays_where_it_was() -> None:
    words = vocabulary(designs.LETTERING)
    for piece in CARDS:
        box, unmoved = room_on(piece), 0
        at_top = [
            Passage("message", "some words " * count, box, SizeRange(11.0, 26.0), INK, 5) for count in range(20, 140)
        ]
        centered = [passage._replace(is_centered=True) for passage in at_top]
        for (_, layout), (_, other) in zip(
            lay_out_passages(words, at_top), lay_out_passages(words, centered), strict=True
        ):
            pairs = zip(write_passages(words, layout), write_passages(words, other), strict=True)
            for row, (one, moved) in enumerate(pairs):
                # Written words may take fewer lines than the fit found room for.
                lowest = min(float(y) for y in re.findall(rb"([\d.]+) Tm", one))
                spare = lowest - box.bottom - layout.measures[row, :, 3].max() * layout.sizes[row]
                if layout.fits[row] and spare < 0.8 * layout.leading * layout.sizes[row]:
                    unmoved += 1
                    assert one == moved
        assert unmoved > 3, piece
