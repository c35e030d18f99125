"""What can be wrong with texts and addresses that hold variables: one sentence, wherever they are given."""

import re
from collections.abc import Callable, Mapping

from quillpost.composition.content import NO_CUSTOM, Addressee, Sender
from quillpost.composition.hands.catalogue import Style
from quillpost.composition.words.variables import KNOWN, fill_url, holds_variable, unknown_variables

CheckUrl = Callable[[str], str | None]

LONGEST_URL = 2_048

SOMEONE = Sender("Someone", "Someone")
"""For the form of a URL any sender's name will do."""

# The same for recipients. A digit fits wherever a word does, and in the place of a port as well.
ANYONE = Addressee(
    name="1", company="1", address="1", address2="1", city="1", province="1", postal_code="1", country="1",
    email="1", phone="1", dob="1", anniversary="1", custom=("1",) * len(NO_CUSTOM),
)  # fmt: skip

# In a URL %C3%A9 is a letter. %DATE% is none: its second sign starts no code.
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}(?=[^%]*(?:%[0-9A-Fa-f]{2}|$))")


def wrong_variables(text: str) -> str | None:
    """What is wrong with the variables in a text that is written."""
    unknown = unknown_variables(text)
    if not unknown:
        return None
    names = ", ".join(f"%{name}%" for name in unknown)
    known = ", ".join(f"%{name}%" for name in KNOWN)
    return f"Unknown variable {names}. Known variables: {known}."


def wrong_variables_of_url(url: str) -> str | None:
    """The same for a URL, where a percent sign may also stand for a letter."""
    return wrong_variables(_ENCODED.sub(" ", url))


def wrong_saved_url(url: str, check_url: CheckUrl) -> str | None:
    """What is wrong with a URL that is filled later, for people who are not known yet."""
    if len(url) > LONGEST_URL:
        return f"The URL is longer than {LONGEST_URL} characters."
    return wrong_variables_of_url(url) or check_url(
        fill_url(url, ANYONE, SOMEONE) if holds_variable(url) else url
    )


def wrong_style(number: int, styles: Mapping[int, Style]) -> str | None:
    """What is wrong with a handwriting style's number."""
    if number in styles:
        return None
    known = ", ".join(f"{style.number} ({style.name})" for style in styles.values())
    return f"There is no handwriting style {number}. Known: {known}."
