"""Handwriting styles, an account's own among them, and signatures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Files, Id, MessageResponse, Timestamp


class HandwritingStyle(TypedDict):
    handwriting_style_id: Annotated[int, Doc(examples=[1])]
    name: Annotated[str, Doc(examples=["Zeyada"])]
    sample: Annotated[
        str, Doc("A PNG of one line in this style.", examples=["https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a"])
    ]
    type: Annotated[
        Literal["Realistic", "Bold", "International", "AI"],
        Doc("AI is natural handwriting. The others are lettering, set from a typeface.", examples=["AI"]),
    ]


class SheetLetter(TypedDict):
    """A letter of a sheet: which character, and the how manieth of it."""

    character: str
    instance: int


class OwnHandwritingStyle(TypedDict):
    """A style made from a sheet that somebody wrote. Sends name its id as `handwriting_style`."""

    id: int
    name: str
    is_ready: Annotated[bool, Doc("False until its letters are accepted: then sends may name it.")]
    sample: Annotated[str | None, Doc("A PNG of one line; null until it is ready.")]
    doubtful: Annotated[list[SheetLetter], Doc("Letters that look like slips, and are left out unless accepted.")]
    missing: Annotated[list[SheetLetter], Doc("Boxes of the sheet without any ink.")]
    problems: Annotated[list[str], Doc("What is wrong with the pictures of the sheet.")]
    created_at: Timestamp


class MessageSignature(TypedDict):
    """It closes the messages of sends that name its id as `signature`."""

    id: int
    name: str
    created_at: Timestamp


Picture = Path | bytes
Stroke = Sequence[tuple[float, float]]


class HandwritingStyles(Resource[Kind]):
    @listing("/handwriting-styles")
    def list(self) -> Request[HandwritingStyle]:
        """Every style that a send may name, with a picture of one line."""
        return Request()

    @operation("POST /handwriting-styles")
    def create(
        self,
        name: str,
        page_1: Picture,
        page_2: Picture | None = None,
        *,
        sub_account_id: Id | None = None,
        idempotency_key: str | None = None,
    ) -> Request[OwnHandwritingStyle]:
        """Read a sheet from its pictures: two photographs, or one scan of both pages."""
        pages = {"page_1": page_1} | ({} if page_2 is None else {"page_2": page_2})
        body = _given(name=name, sub_account_id=sub_account_id)
        return Request(body=body, files=_to_files(pages), idempotency_key=idempotency_key)

    @operation("GET /handwriting-styles/{handwriting_style_id}")
    def read(self, handwriting_style_id: Id) -> Request[OwnHandwritingStyle]:
        """One of the account's own."""
        return Request(handwriting_style_id)

    @operation("POST /handwriting-styles/{handwriting_style_id}/accept")
    def accept(
        self,
        handwriting_style_id: Id,
        rejected: Sequence[SheetLetter] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Request[OwnHandwritingStyle]:
        """Make the style, without these letters; None: without those that are doubtful."""
        body = {} if rejected is None else {"rejected": rejected}
        return Request(handwriting_style_id, body=body, idempotency_key=idempotency_key)

    @operation("DELETE /handwriting-styles/{handwriting_style_id}")
    def delete(self, handwriting_style_id: Id) -> Request[MessageResponse]:
        """Delete one of the account's own."""
        return Request(handwriting_style_id)


class Signatures(Resource[Kind]):
    @listing("/signatures")
    def list(self) -> Request[MessageSignature]:
        """Signatures, newest first."""
        return Request()

    @operation("POST /signatures")
    def create(
        self,
        name: str,
        picture: Picture | None = None,
        *,
        strokes: Sequence[Stroke] | None = None,
        pen_width: float | None = None,
        sub_account_id: Id | None = None,
        idempotency_key: str | None = None,
    ) -> Request[MessageSignature]:
        """From a picture on white paper, or from strokes drawn on a screen."""
        body = _given(name=name, strokes=strokes, pen_width=pen_width, sub_account_id=sub_account_id)
        files = None if picture is None else _to_files({"picture": picture})
        return Request(body=body, files=files, idempotency_key=idempotency_key)

    @operation("DELETE /signatures/{signature_id}")
    def delete(self, signature_id: Id) -> Request[MessageResponse]:
        """Delete a signature that no template uses."""
        return Request(signature_id)


def _given(**fields: object) -> dict[str, object]:
    """Those that are said."""
    return {name: value for name, value in fields.items() if value is not None}


def _to_files(pictures: dict[str, Picture]) -> Files:
    return {
        field: (picture.name, picture.read_bytes()) if isinstance(picture, Path) else (field, picture)
        for field, picture in pictures.items()
    }
