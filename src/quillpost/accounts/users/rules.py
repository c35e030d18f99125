"""What an e-mail address, a name and a password may be."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from quillpost.core.text import to_one_line

MAX_EMAIL_LENGTH = 320
MAX_LOCAL_PART_LENGTH = 64
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
# Whether a server takes mail there, only the mail tells. A domain has a dot: `@sms` stands for a telephone.
EMAIL_PATTERN = re.compile(r"[^\s<>()\[\],;:\\\"@]+@[^\s<>()\[\],;:\\\"@.]+(\.[^\s<>()\[\],;:\\\"@.]+)+")


def normalize_email(email: str) -> str:
    """Without spaces around it, in lower case, without characters that no database would take."""
    return "".join(char if char.isprintable() else REPLACEMENT_CHARACTER for char in email.strip().lower())


def find_email_error(email: str) -> str | None:
    if not email:
        return "Give an e-mail address."
    if len(email) > MAX_EMAIL_LENGTH:
        return f"An e-mail address has at most {MAX_EMAIL_LENGTH} characters."
    local = email.rpartition("@")[0]
    if (
        len(local) > MAX_LOCAL_PART_LENGTH
        or REPLACEMENT_CHARACTER in normalize_email(email)
        or not EMAIL_PATTERN.fullmatch(email)
    ):
        return "This is not an e-mail address."
    return None


MAX_NAME_LENGTH = 100


def normalize_name(name: str) -> str:
    return to_one_line(name, max_length=MAX_NAME_LENGTH + 1)


def find_name_error(name: str) -> str | None:
    if not name:
        return "Give your name."
    if len(name) > MAX_NAME_LENGTH:
        return f"A name has at most {MAX_NAME_LENGTH} characters."
    return None


COMMON_WORDS_FILE = Path(__file__).with_name("common_words.txt")

KEYBOARD_RUNS = (
    "abcdefghijklmnopqrstuvwxyz", "01234567890123456789", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl",
    "yxcvbnm", "zxcvbnm", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "1q2w3e4r5t6y7u8i9o0p", "q1w2e3r4t5y6u7i8o9p0",
    "!@#$%^&*()_+", '!"§$%&/()=?',
)  # fmt: skip

MIN_RUN_LENGTH = 4
MIN_DISTINCT_CHARS = 4
MIN_NAME_LENGTH = 4
MAX_NON_LETTERS = 8
"""With more digits and signs than that around it, even an obvious word is hard to guess."""

LOOKALIKES = str.maketrans("013457@$!|", "oieastasil")
NON_LETTERS_PATTERN = re.compile(r"[^a-z]+")
OUTER_NON_LETTERS_PATTERN = re.compile(r"^[^a-z]+|[^a-z]+$")


def is_common_password(password: str) -> bool:
    lowercase = password.casefold()
    if len(set(lowercase)) < MIN_DISTINCT_CHARS or _is_run(lowercase):
        return True
    return any(_consists_of(candidate, _load_common_words()) for candidate in _generate_candidates(lowercase))


def is_personal_password(password: str, *, email: str, name: str) -> bool:
    """Whether it is little more than the person's own e-mail or name."""
    local, _, domain = email.casefold().partition("@")
    personal_texts = {email.casefold(), local, domain, domain.partition(".")[0], name.casefold()}
    personal_texts |= set(re.split(r"[\s.+_-]+", f"{local} {name.casefold()}"))
    personal_words = frozenset(NON_LETTERS_PATTERN.sub("", each) for each in personal_texts)
    personal_words = frozenset(each for each in personal_words if len(each) >= MIN_NAME_LENGTH)
    lowercase = password.casefold()
    return lowercase == email.casefold() or any(
        _consists_of(each, personal_words) for each in _generate_candidates(lowercase)
    )


def _generate_candidates(lowercase: str) -> Iterator[str]:
    """The words that may be meant: without what is around and between letters, and with digits and signs read as the
    letters that they resemble."""
    for variant in (
        lowercase,
        lowercase.translate(LOOKALIKES),
        OUTER_NON_LETTERS_PATTERN.sub("", lowercase).translate(LOOKALIKES),
    ):
        letters = NON_LETTERS_PATTERN.sub("", variant)
        if len(lowercase) - len(letters) <= MAX_NON_LETTERS:
            yield letters


def _consists_of(letters: str, words: frozenset[str]) -> bool:
    """Whether it is one of the words, two of them, or one repeated."""
    return letters in words or any(
        letters[:end] in words and (letters[end:] in words or letters == _repeat_to_length(letters[:end], letters))
        for end in range(2, len(letters))
    )


def _repeat_to_length(fragment: str, full_text: str) -> str:
    return (fragment * len(full_text))[: len(full_text)]


def _is_run(lowercase: str) -> bool:
    """Whether it consists of pieces of runs, forward or backward, or of one piece repeated."""
    index = 0
    while index < len(lowercase):
        length = max(_measure_run(lowercase, index, run) for run in _list_runs())
        if length < MIN_RUN_LENGTH:
            return any(lowercase == _repeat_to_length(lowercase[:width], lowercase) for width in range(1, 5))
        index += length
    return True


def _measure_run(lowercase: str, index: int, run: str) -> int:
    length = 0
    while index + length < len(lowercase) and lowercase[index : index + length + 1] in run:
        length += 1
    return length


@cache
def _list_runs() -> tuple[str, ...]:
    return tuple(direction for run in KEYBOARD_RUNS for direction in (run, run[::-1]))


@cache
def _load_common_words() -> frozenset[str]:
    return frozenset(COMMON_WORDS_FILE.read_text(encoding="ascii").split())


MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 10, 1_000


def check_password(password: str, *, email: str, name: str = "") -> list[str]:
    """What is wrong with a new password, in sentences; empty if it will do."""
    normalized = normalize_password(password)
    if len(normalized) < MIN_PASSWORD_LENGTH:
        return [f"A password has at least {MIN_PASSWORD_LENGTH} characters."]
    if len(normalized) > MAX_PASSWORD_LENGTH:
        return [f"A password has at most {MAX_PASSWORD_LENGTH:,} characters."]
    if is_common_password(normalized):
        return ["This password is among the first that others would try. Choose another."]
    if is_personal_password(normalized, email=email, name=name):
        return ["This password is your name or e-mail, or nearly. Choose another."]
    return []


def normalize_password(password: str) -> str:
    """NFKC, as NIST SP 800-63B recommends: keyboards compose é differently."""
    return unicodedata.normalize("NFKC", password)
