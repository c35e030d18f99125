"""What an e-mail address, a name and a password may be."""

import re
import unicodedata
from collections.abc import Iterable

from zxcvbn_rs_py import zxcvbn

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


MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 10, 1_000
MIN_GUESSES = 10**9
MAX_RATED_LENGTH = 20
"""The beginning of a longer password is rated: the time that it takes grows fast with look-alike characters."""
FAMOUS_PASSWORDS = ("quillpost", "correct horse battery staple")
"""What anyone would try here, beyond the library's lists of common passwords and words."""


def check_password(password: str, *, email: str, name: str = "") -> list[str]:
    """What is wrong with a new password, in sentences; empty if it will do."""
    normalized = normalize_password(password)
    if len(normalized) < MIN_PASSWORD_LENGTH:
        return [f"A password has at least {MIN_PASSWORD_LENGTH} characters."]
    if len(normalized) > MAX_PASSWORD_LENGTH:
        return [f"A password has at most {MAX_PASSWORD_LENGTH:,} characters."]
    guesses = _count_guesses(normalized)
    if _count_guesses(normalized, _list_personal_texts(email, name)) < min(guesses, MIN_GUESSES):
        return ["This password is your name or e-mail, or nearly. Choose another."]
    if guesses < MIN_GUESSES:
        return ["This password is among the first that others would try. Choose another."]
    return []


def _list_personal_texts(email: str, name: str) -> list[str]:
    local, _, domain = email.partition("@")
    site = domain.partition(".")[0]
    words = re.split(r"[\s.+_-]+", f"{local} {name}")
    return [text.lower() for text in (email, local, domain, site, "".join(name.split()), name, *words)]


def _count_guesses(password: str, personal_texts: Iterable[str] = ()) -> int:
    """How many passwords an attacker who knows these texts tries before this one."""
    rated = password[:MAX_RATED_LENGTH].encode(errors="replace").decode()
    if len(set(rated[1::2])) == 1:  # p.a.s.s.w.o.r.d
        rated = rated[::2]
    return zxcvbn(rated, [text[:MAX_RATED_LENGTH] for text in (*FAMOUS_PASSWORDS, *personal_texts)]).guesses


def normalize_password(password: str) -> str:
    """NFKC, as NIST SP 800-63B recommends: keyboards compose é differently."""
    return unicodedata.normalize("NFKC", password)
