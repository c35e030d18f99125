"""What the API description says of failures, the same for every operation."""

from typing import Any

from pydantic import BaseModel, Field


class Failure(BaseModel):
    """Every failure has a message that says what to do."""

    message: str


class ValidationFailure(Failure):
    """All faults at once (the first hundred), each under the dotted path of its field."""

    errors: dict[str, list[str]] = Field(
        examples=[{"recipients.0.postal_code": ["A ZIP code has 5 digits, or 5-4."]}]
    )


EXPLAINED: dict[int, tuple[str, type[Failure]]] = {
    400: ("An id in the body or the query that is not yours, or a state in which this is not done.", Failure),
    401: ("No token, or one that is unknown, expired or revoked.", Failure),
    402: ("The account's credit does not cover it; nothing was left behind.", Failure),
    403: ("The token lacks the scope, is limited to a sub account, or is no operator's.", Failure),
    404: ("Unknown, or another account's.", Failure),
    405: ("This method is not allowed here.", Failure),
    408: ("The body came too slowly.", Failure),
    409: (
        "The idempotency key is in use or was used with another body; someone was faster: try again; or the"
        " state of the order or batch does not allow it.",
        Failure,
    ),
    413: ("The body is over the limit.", Failure),
    415: ("The body is neither JSON nor a form.", Failure),
    422: ("Something in the request is wrong.", ValidationFailure),
    429: ("Too many calls in this minute; see Retry-After.", Failure),
    503: ("Storage or database out of reach, or too much at once; nothing was half-written.", Failure),
}

ALWAYS = (401, 403, 429, 503)


SHAPES = {shape.__name__: shape.model_json_schema() for shape in (Failure, ValidationFailure)}
"""The description's own: to the framework each use of a shape would be another to build when we start."""


def errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """The failures of an operation: those that any may have, and its own."""
    return {status: _explained(*EXPLAINED[status]) for status in sorted({*ALWAYS, *more})}


def _explained(text: str, shape: type[Failure]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


BODY_ERRORS = (400, 408, 409, 413, 415, 422)
