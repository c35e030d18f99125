"""E-mail addresses, as people sign in with them."""

import re

LONGEST = 320
MOST_LOCAL = 64
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
# Whether a server takes mail there, only the mail tells. A domain has a dot: `@sms` stands for a telephone.
ADDRESS = re.compile(r"[^\s<>()\[\],;:\\\"@]+@[^\s<>()\[\],;:\\\"@.]+(\.[^\s<>()\[\],;:\\\"@.]+)+")


def plain(email: str) -> str:
    """As it is compared and kept: without spaces around it, in small letters, nothing in it that no database
    would take."""
    return "".join(each if each.isprintable() else UNREADABLE for each in email.strip().lower())


def fault_of(email: str) -> str | None:
    """What is wrong with it, in a sentence."""
    if not email:
        return "Give an e-mail address."
    if len(email) > LONGEST:
        return f"An e-mail address has at most {LONGEST} characters."
    local = email.rpartition("@")[0]
    if len(local) > MOST_LOCAL or UNREADABLE in plain(email) or not ADDRESS.fullmatch(email):
        return "This is not an e-mail address."
    return None
