"""Whom to tell of scans: e-mail addresses, and phones that take text messages."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from quillpost.api.bodies import Text
from quillpost.api.rows import STOPS_EARLY
from quillpost.audience.rules import EMAIL, LONGEST

MOST_NOTIFIED = 100
NOT_IN_ADDRESSES = frozenset('<>()[],;:\\"')
TEXT_MESSAGE = re.compile(r"\+[0-9]{8,15}@sms")


def _addresses(value: object) -> object:
    """An array, or one text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _reachable(text: str) -> str:
    if len(text) > LONGEST or not (_is_mail(text) or TEXT_MESSAGE.fullmatch(text)):
        raise ValueError("This is neither an e-mail address nor of the form +15125550100@sms.")
    return text


def _is_mail(text: str) -> bool:
    """An address alone, as a mail server takes it: neither a name around it nor marks that mean something to
    one."""
    return bool(EMAIL.fullmatch(text)) and text.isprintable() and not NOT_IN_ADDRESSES & set(text)


Notified = Annotated[
    list[Annotated[Text, AfterValidator(_reachable)]],
    Field(max_length=MOST_NOTIFIED),
    STOPS_EARLY,
    BeforeValidator(_addresses),
]
