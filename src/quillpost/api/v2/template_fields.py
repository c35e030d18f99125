"""What the bodies of image and message templates have in common."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from quillpost.api.bodies import NOT_BLANK, Text
from quillpost.creative.wording import LONGEST_URL


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("This cannot be blank.")
    return text


def _not_null(value: object) -> object:
    if value is None:
        raise ValueError("This cannot be null.")
    return value


def blank_is_none(text: str | None) -> str | None:
    return text if text and text.strip() else None


NOT_NULL = BeforeValidator(_not_null)
"""For a field of an update that may be left out, and not be emptied."""
Name = Annotated[
    Text, Field(max_length=255, json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_not_blank)
]
MaybeText = Annotated[Annotated[Text, Field(max_length=255)] | None, AfterValidator(blank_is_none)]
MaybeUrl = Annotated[Annotated[Text, Field(max_length=LONGEST_URL)] | None, AfterValidator(blank_is_none)]
