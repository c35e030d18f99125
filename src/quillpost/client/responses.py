"""Answers: plain dicts and lists that also know what the headers said."""

import json
from typing import Any, TypedDict

import httpx2

from quillpost.client.errors import QuillpostError, listed


class Message(TypedDict):
    """What a call without anything to show answers."""

    message: str


class ResponseInfo:
    """What the headers of an answer said of the call."""

    warnings: tuple[str, ...] = ()
    """What deserves a look, such as a letter that the hand does not have."""

    ignored_fields: tuple[str, ...] = ()
    """What was sent and means nothing here: mostly typing errors."""

    request_id: str | None = None


class ResponseObject(ResponseInfo, dict[str, Any]):
    """A JSON object. Metadata is as it was sent: integers of any length, key order, 1.0 a float."""


class ResponseArray(ResponseInfo, list[Any]):
    """A JSON array."""


def about(answer: object) -> ResponseInfo:
    """What was said beside the answer, for type checkers, to whom an answer is a TypedDict and no more."""
    if not isinstance(answer, ResponseInfo):
        raise TypeError("This is not the answer to a call, or it is only a part of one.")
    return answer


def read_response(response: httpx2.Response) -> ResponseObject | ResponseArray:
    try:
        found = json.loads(response.content)
    except ValueError:
        found = None
    if not isinstance(found, dict | list):
        raise QuillpostError(
            "What answered does not speak JSON: does base_url lead to Quillpost?",
            status=response.status_code,
            request_id=response.headers.get("x-request-id"),
        )
    answer = ResponseObject(found) if isinstance(found, dict) else ResponseArray(found)
    answer.warnings = _warnings(response.headers.get("x-warnings"))
    answer.ignored_fields = listed(response.headers.get("x-ignored-fields"), ", ")
    answer.request_id = response.headers.get("x-request-id")
    return answer


def _warnings(header: str | None) -> tuple[str, ...]:
    """The header is a JSON array of sentences; anything else stands as it came."""
    if not header:
        return ()
    try:
        found = json.loads(header)
    except ValueError:
        return (header,)
    return tuple(map(str, found)) if isinstance(found, list) else (header,)
