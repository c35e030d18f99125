"""Sentences that the services write for programs, as people read them on pages."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

FRONT: Final = "the picture on the front"

NAMES: Final[Mapping[str, str]] = {
    "front_image_url": FRONT,
    "image_template": FRONT,
    "custom_background_image": "the picture under the handwriting",
    "custom_background_url": "the picture under the handwriting",
    "additional_pages": "the PDF",
    "additional_pages_url": "the PDF",
    "pdf_only_url": "the PDF",
    "message_template": "the saved message",
    "sub_account_id": "the sub account",
    "mailing_list_ids": "the list",
    "landing_page_url": "the page to visit first",
    "qrcode_url": "the link of the QR code",
    "handwriting_color": "ink",
    "handwriting_realism": "unevenness",
    "font_size": "size",
    "record_types": "kinds of people",
}
"""What a field of the API is to somebody who has never seen one."""

PHRASES: Final[Mapping[str, str]] = {
    ", or give postal_code beside it.": ".",
    ", or set allow_duplicates.": ", or choose to mail to them all the same.",
    " Set allow_duplicates to mail to them all the same.": "",
}

_NAMED = re.compile(rf"(?<![\w%~])(?:{'|'.join(map(re.escape, sorted(NAMES, key=len, reverse=True)))})(?!\w)")
_UNKNOWN = re.compile(r"Unknown variable (?P<unknown>%.+?%)\. Known variables: (?P<known>%.+%)\.")


def plainly(sentence: str) -> str:
    """The same without a word that only programs know."""
    for theirs, ours in PHRASES.items():
        sentence = sentence.replace(theirs, ours)
    sentence = _UNKNOWN.sub(lambda found: _suggested(found["unknown"], found["known"]), sentence)
    told = _NAMED.sub(lambda found: NAMES[found[0]], sentence).replace(" (its the ", " (its ")
    return told if told == sentence else told[:1].upper() + told[1:]


def _suggested(unknown: str, known: str) -> str:
    """For each variable that there is not, the one that was meant. All that there are would be a wall."""
    names = [name.strip("%") for name in known.split(", ")]
    return " ".join(_meant(each.strip("%"), names) for each in unknown.split(", "))


def _meant(name: str, names: Sequence[str]) -> str:
    told = f"%{name}% is not known."
    nearest = get_close_matches(name.upper(), names, n=1)
    return f"{told} Did you mean %{nearest[0]}%?" if nearest else told
