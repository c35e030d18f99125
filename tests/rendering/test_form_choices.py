"""Which form each letter of a note takes: never the one that it had last, and the same wherever the note is written."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from quillpost.rendering.handwriting.choices import VARIANTS
from quillpost.rendering.handwriting.models import MANNER_NAMES, Style
from quillpost.rendering.handwriting.natural_vocabulary import NaturalVocabulary
from quillpost.rendering.handwriting.words import NaturalHand, WordKey, WrittenWord
from support import designs
from support.natural_writing import COMMON_WORDS, NATURAL_STYLES, natural_hand

RARE_WORDS = "mississippi eel needle letterbox bookkeeper zzz illicit pizzazz aaaaaaaaaaaa"
ORDINARY_NOTE = f"{' '.join(COMMON_WORDS)} {RARE_WORDS} thank you all, we will be in town again!"
NAMES_BETWEEN = (
    "hello Anna and welcome, Tatiana the letter for Mississippi street is with Otto now; Hannah will tell you all"
    " about Cincinnati when she is back in Tennessee next week, or call 555-1000 for a visit; until then, Emma"
)

WriteNote = Callable[[NaturalHand, str, int, str], list[WordKey]]


@pytest.fixture
def write_note(monkeypatch: pytest.MonkeyPatch) -> WriteNote:
    """It writes a note, and says how each of its words was written."""
    written: list[WordKey] = []
    write_words = NaturalHand.write

    def write_and_note(hand: NaturalHand, keys: Sequence[WordKey]) -> list[WrittenWord]:
        written.extend(keys)
        return write_words(hand, keys)

    monkeypatch.setattr(NaturalHand, "write", write_and_note)

    def write_note(hand: NaturalHand, text: str, seed: int, manner: str) -> list[WordKey]:
        vocabulary = NaturalVocabulary(hand)
        numbers = np.array([vocabulary.word_numbers(text.split())], np.int64)
        written.clear()
        vocabulary.show(numbers, [seed], [manner])
        return [*written]

    return write_note


def repeated_forms(hand: NaturalHand, keys: Sequence[WordKey], *, of_at_least: int) -> list[tuple[str, str]]:
    """Letters that look as they did the last time, with their words. Two names do not know of each other."""
    last: dict[str, tuple[int, WordKey]] = {}
    found = []
    for key in keys:
        for char, form in zip(key.text, key.choice, strict=True):
            assert form < hand.count_forms(char)
            before, word = last.get(char, (None, key))
            are_two_names = word is not key and not word.text[0].islower() and not key.text[0].islower()
            if hand.count_forms(char) >= of_at_least and before == form and not are_two_names:
                found.append((char, key.text))
            last[char] = form, key
    return found


@pytest.mark.parametrize("style", NATURAL_STYLES, ids=lambda style: style.name)
def test_no_letter_has_the_form_that_it_had_before(style: Style, write_note: WriteNote) -> None:
    hand = natural_hand(style.number)
    assert max(map(hand.count_forms, "abcdefghijklmnopqrstuvwxyz")) >= 2
    for seed in range(6):
        keys = write_note(hand, ORDINARY_NOTE, seed, "natural")
        assert [key.text for key in keys] == ORDINARY_NOTE.split()
        assert repeated_forms(hand, keys, of_at_least=2) == []
        assert repeated_forms(hand, write_note(hand, NAMES_BETWEEN, seed, "natural"), of_at_least=3) == []


@pytest.mark.parametrize("number", designs.NATURAL_HANDS)
def test_all_forms_of_a_letter_are_used_about_as_often(number: int, write_note: WriteNote) -> None:
    hand = natural_hand(number)
    for char in "aeinorst":
        counts = np.zeros(hand.count_forms(char))
        for seed in range(40):
            for key in write_note(hand, ORDINARY_NOTE, seed, "natural"):
                np.add.at(counts, [form for other, form in zip(key.text, key.choice, strict=True) if other == char], 1)
        assert counts.min() > 0.7 * counts.mean(), char
        assert counts.max() < 1.3 * counts.mean(), char


def test_the_same_seed_text_and_manner_give_the_same_words_and_others_give_others(write_note: WriteNote) -> None:
    hand, again = natural_hand(designs.HALF_JOINED), designs.make_hands().hand(designs.HALF_JOINED)
    assert isinstance(again, NaturalHand)
    for manner in MANNER_NAMES:
        first = write_note(hand, NAMES_BETWEEN, 5, manner)
        assert first == write_note(hand, NAMES_BETWEEN, 5, manner) == write_note(again, NAMES_BETWEEN, 5, manner)
        assert [word.glyph for word in hand.write(first)] == [word.glyph for word in again.write(first)]
        assert {key.manner for key in first} == {manner}
    notes = {tuple(write_note(hand, NAMES_BETWEEN, seed, "natural")) for seed in range(200)}
    assert len(notes) == VARIANTS
    multiples = {tuple(write_note(hand, NAMES_BETWEEN, VARIANTS * seed, "natural")) for seed in range(200)}
    assert multiples == notes, "whatever the seeds have in common"


def test_a_name_leaves_the_words_around_it_as_they_are(write_note: WriteNote) -> None:
    """So the words that all notes of a batch share are written but a few times."""
    hand = natural_hand(designs.HALF_JOINED)
    one, other = (
        write_note(hand, f"hello {name} thank you for the lovely evening", 3, "natural") for name in ("Al", "Hannah")
    )
    assert (one[0], one[2:]) == (other[0], other[2:])
    assert one[1] != other[1]


def test_a_word_that_recurs_is_another_each_time(write_note: WriteNote) -> None:
    for text in ("no " * 60, "Ann " * 60, "I " * 60):
        keys = write_note(natural_hand(designs.UNJOINED), text, 1, "natural")
        assert len(set(keys)) == len(keys) == 60


def test_numbers_are_made_of_figures_that_all_of_them_share() -> None:
    vocabulary = NaturalVocabulary(natural_hand(designs.UNJOINED))
    numbers = np.array([vocabulary.word_numbers([str(number) for number in range(1000, 1400)])])
    shown = vocabulary.show(numbers, [1], ["natural"])
    assert len(set(shown.operators[0])) == 400
    assert len(vocabulary.fonts()[0].texts) < 150
    again = vocabulary.show(np.repeat(numbers[:, :1], 60, axis=1), [1], ["natural"])
    assert len(set(again.operators[0])) > 6, "a number that recurs is mostly another"
    assert (shown.measures[0, :, 0] > 0.4).all()
    assert (shown.measures[0, :, 0] < 2.5).all()
