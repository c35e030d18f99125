"""Bodies of handwriting styles and signatures."""

import base64
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator

from quillpost.orders.handwriting.models import LetterKey
from quillpost.orders.handwriting.rules import MAX_NAME_LENGTH
from quillpost.web.api.schemas import MULTIPART, NOT_BLANK, STOP_AT_ERROR_LIMIT, Body, FormFile, Id, Text

MAX_STROKES = 300
DEFAULT_PEN_WIDTH = 4.0
MAX_STROKE_POINTS = 5_000
_MAX_COORDINATE = 100_000


def _require_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("This cannot be blank.")
    return text


def _read_file(value: object) -> FormFile:
    """Uploaded, or in JSON as base64."""
    if isinstance(value, FormFile):
        return value
    if isinstance(value, str) and value:
        with suppress(ValueError):
            return FormFile(base64.b64decode(value, validate=True))
    raise ValueError(f"Upload a picture or a PDF as {MULTIPART}, or give its bytes in base64.")


def _read_optional_file(value: object) -> FormFile | None:
    return None if value is None else _read_file(value)


Name = Annotated[
    Text,
    Field(max_length=MAX_NAME_LENGTH, json_schema_extra={"pattern": NOT_BLANK}),
    AfterValidator(_require_not_blank),
]
_Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]
Upload = Annotated[FormFile, PlainValidator(_read_file, json_schema_input_type=_Base64)]
OptionalUpload = Annotated[FormFile | None, PlainValidator(_read_optional_file, json_schema_input_type=_Base64 | None)]
Coordinate = Annotated[float, Field(ge=-_MAX_COORDINATE, le=_MAX_COORDINATE)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=2)]

SUB_ACCOUNT = "The sub account that it belongs to, and for whose mail alone it is used."


class NewHandwritingStyle(Body):
    name: Name = Field(description="Yours; it is not printed.")
    page_1: Upload = Field(
        description="A photograph or scan of the sheet: its first page, or a PDF of both; in JSON, in base64."
    )
    page_2: OptionalUpload = Field(None, description="The second page, where the first file does not have it.")
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT)

    @property
    def files(self) -> list[bytes]:
        return [page.body for page in (self.page_1, self.page_2) if page is not None]


class SheetLetterKey(Body):
    character: Annotated[Text, Field(min_length=1, max_length=40)]
    instance: Annotated[int, Field(ge=1, le=100)]


class AcceptedLetters(Body):
    rejected: Annotated[list[SheetLetterKey], Field(max_length=500), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="Letters that the style must not have; those that are doubtful, when nothing is said."
    )

    @property
    def rejected_keys(self) -> frozenset[LetterKey] | None:
        if self.rejected is None:
            return None
        return frozenset((letter.character, letter.instance) for letter in self.rejected)


class NewSignature(Body):
    name: Name = Field(description="Yours; it is not printed.")
    picture: OptionalUpload = Field(None, description="A photograph, scan or drawing: dark on white.")
    strokes: (
        Annotated[
            list[Annotated[list[Point], Field(max_length=MAX_STROKE_POINTS), STOP_AT_ERROR_LIMIT]],
            Field(max_length=MAX_STROKES),
            STOP_AT_ERROR_LIMIT,
        ]
        | None
    ) = Field(
        None,
        description="Or strokes drawn on a screen: each a list of points [x, y] in pixels, y downward.",
        examples=[[[[10.0, 40.0], [30.0, 12.0], [60.0, 44.0]]]],
    )
    pen_width: Annotated[float, Field(gt=0, le=200)] | None = Field(
        None, description="Of the strokes, in pixels; 4 when nothing is said."
    )
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT)

    def column_values(self) -> dict[str, Any]:
        return {"name": self.name, "sub_account_id": self.sub_account_id}
