"""What an e-mail address, a name and a password may be."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.users import people
from quillpost.core.errors import Invalid
from quillpost.core.text import one_line

LONGEST = 320
MOST_LOCAL = 64
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
# Whether a server takes mail there, only the mail tells. A domain has a dot: `@sms` stands for a telephone.
ADDRESS = re.compile(r"[^\s<>()\[\],;:\\\"@]+@[^\s<>()\[\],;:\\\"@.]+(\.[^\s<>()\[\],;:\\\"@.]+)+")


def normalize_email(email: str) -> str:
    """As it is compared and kept: without spaces around it, in small letters, nothing in it that no database
    would take."""
    return "".join(each if each.isprintable() else UNREADABLE for each in email.strip().lower())


def email_error(email: str) -> str | None:
    """What is wrong with it, in a sentence."""
    if not email:
        return "Give an e-mail address."
    if len(email) > LONGEST:
        return f"An e-mail address has at most {LONGEST} characters."
    local = email.rpartition("@")[0]
    if len(local) > MOST_LOCAL or UNREADABLE in normalize_email(email) or not ADDRESS.fullmatch(email):
        return "This is not an e-mail address."
    return None


LONGEST_NAME = 100


def normalize_name(name: str) -> str:
    """As it is kept: one line."""
    return one_line(name, most=LONGEST_NAME + 1)


def name_error(name: str) -> str | None:
    """What is wrong with a plain name, in a sentence."""
    if not name:
        return "Give your name."
    if len(name) > LONGEST_NAME:
        return f"A name has at most {LONGEST_NAME} characters."
    return None


def rename(tx: Tx, person_id: int, name: str, *, now: datetime) -> None:
    """`Invalid` (name) for none, or one that is too long. Takes the worker's transaction."""
    called = normalize_name(name)
    if fault := name_error(called):
        raise Invalid({"name": [fault]})
    tx.execute(sa.update(people).where(people.c.id == person_id).values(name=called, updated_at=now))


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
