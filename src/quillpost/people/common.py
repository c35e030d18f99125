"""Passwords that whoever guesses tries first: obvious words, however dressed up, runs and repetitions."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

WORDS = Path(__file__).with_name("common_words.txt")

RUNS = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890123456789",
    "qwertyuiop",
    "qwertzuiop",
    "azertyuiop",
    "asdfghjkl",
    "yxcvbnm",
    "zxcvbnm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
    "!@#$%^&*()_+",
    '!"§$%&/()=?',
)
"""Along the alphabet, and along the rows and columns of keyboards."""

SHORTEST_RUN = 4
FEWEST_LETTERS = 4
"""A password of fewer different characters is a pattern."""
SHORTEST_NAME = 4
MOST_TRIMMINGS = 8
"""With more figures and signs than that around it, even an obvious word is hard to guess."""

DISGUISES = str.maketrans("013457@$!|", "oieastasil")
NOT_LETTERS = re.compile(r"[^a-z]+")
AROUND = re.compile(r"^[^a-z]+|[^a-z]+$")


def is_common(password: str) -> bool:
    small = password.casefold()
    if len(set(small)) < FEWEST_LETTERS or _is_run(small):
        return True
    return any(_is_made_of(each, _words()) for each in _undressed(small))


def is_about(password: str, *, email: str, name: str) -> bool:
    """Whether little more than the person's own e-mail or name is in it."""
    local, _, domain = email.casefold().partition("@")
    told = {email.casefold(), local, domain, domain.partition(".")[0], name.casefold()}
    told |= set(re.split(r"[\s.+_-]+", f"{local} {name.casefold()}"))
    own = frozenset(NOT_LETTERS.sub("", each) for each in told)
    own = frozenset(each for each in own if len(each) >= SHORTEST_NAME)
    small = password.casefold()
    return small == email.casefold() or any(_is_made_of(each, own) for each in _undressed(small))


def _undressed(small: str) -> Iterator[str]:
    """The words that may be meant: without what is put around and between letters, and with figures and signs
    read as the letters that they resemble."""
    for read in (small, small.translate(DISGUISES), AROUND.sub("", small).translate(DISGUISES)):
        letters = NOT_LETTERS.sub("", read)
        if len(small) - len(letters) <= MOST_TRIMMINGS:
            yield letters


def _is_made_of(letters: str, words: frozenset[str]) -> bool:
    """Whether it is one of the words, or two of them, or one again and again."""
    return letters in words or any(
        letters[:end] in words and (letters[end:] in words or letters == _again(letters[:end], letters))
        for end in range(2, len(letters))
    )


def _again(piece: str, whole: str) -> str:
    return (piece * len(whole))[: len(whole)]


def _is_run(small: str) -> bool:
    """Whether it is nothing but pieces of runs, forward or backward, or one piece again and again."""
    at = 0
    while at < len(small):
        length = max(_run_at(small, at, run) for run in _both_ways())
        if length < SHORTEST_RUN:
            return _repeats(small)
        at += length
    return True


def _run_at(small: str, at: int, run: str) -> int:
    length = 0
    while at + length < len(small) and small[at : at + length + 1] in run:
        length += 1
    return length


def _repeats(small: str) -> bool:
    """Whether a piece of at most four characters is all that it consists of."""
    return any(small == _again(small[:width], small) for width in range(1, 5))


@cache
def _both_ways() -> tuple[str, ...]:
    return tuple(each for run in RUNS for each in (run, run[::-1]))


@cache
def _words() -> frozenset[str]:
    return frozenset(WORDS.read_text(encoding="ascii").split())
