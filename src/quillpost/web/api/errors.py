"""How errors look on the wire. Nothing deeper knows HTTP."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, compile_path

from quillpost.core import errors as core_errors
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.core.requests import ClientDisconnected
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.web.api.responses import add_ignored_header, json_response


class Failure(BaseModel):
    """Every failure has a message that says what to do."""

    message: str


class ValidationFailure(Failure):
    """All faults at once (the first hundred), each under the dotted path of its field."""

    errors: dict[str, list[str]] = Field(examples=[{"recipients.0.postal_code": ["A ZIP code has 5 digits, or 5-4."]}])


STATUS_DESCRIPTIONS: dict[int, tuple[str, type[Failure]]] = {
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

COMMON_STATUSES = (401, 403, 429, 503)

ERROR_SCHEMAS = {shape.__name__: shape.model_json_schema() for shape in (Failure, ValidationFailure)}
"""The description's own: to the framework each use of a shape would be another to build when we start."""


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of an operation: the common ones and its own."""
    return {status: _describe_error(*STATUS_DESCRIPTIONS[status]) for status in sorted({*COMMON_STATUSES, *statuses})}


def _describe_error(text: str, shape: type[Failure]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


BODY_ERRORS = (400, 408, 409, 413, 415, 422)

ROUTED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
KNOWN_METHODS = frozenset((*ROUTED_METHODS, "OPTIONS"))


@dataclass(frozen=True, slots=True)
class RoutePaths:
    """A literal path hides patterns that fit it: PUT /orders/list is a wrong method, not an order named "list"."""

    literal_paths: Mapping[str, frozenset[str]]
    patterns: Sequence[tuple[re.Pattern[str], frozenset[str]]]

    @classmethod
    def from_routes(cls, routes: Sequence[BaseRoute]) -> Self:
        methods_by_path: dict[str, frozenset[str]] = {}
        for route in iter_route_contexts(routes):
            if route.path is not None:
                methods_by_path[route.path] = methods_by_path.get(route.path, frozenset()) | (
                    route.methods or frozenset()
                )
        return cls(
            literal_paths={path: methods for path, methods in methods_by_path.items() if "{" not in path},
            patterns=[(_compile_path(path), methods) for path, methods in methods_by_path.items() if "{" in path],
        )

    def declared_methods(self, path: str) -> frozenset[str]:
        if path in self.literal_paths:
            return self.literal_paths[path]
        return frozenset[str]().union(*(methods for pattern, methods in self.patterns if pattern.match(path)))

    def allowed_methods(self, path: str) -> list[str]:
        """Every method that is answered here, as `Allow` lists them; none where there is nothing."""
        methods = self.declared_methods(path)
        if "GET" in methods:
            methods |= {"HEAD"}
        return [*(method for method in ROUTED_METHODS if method in methods), "OPTIONS"] if methods else []

    def refuses_method(self, method: str, path: str) -> bool:
        """Whether this path is spelled out, and for other methods."""
        return path in self.literal_paths and method not in self.literal_paths[path]


def method_label(method: str) -> str:
    """Callers can invent methods without end; the metrics do not grow with them."""
    return method if method in KNOWN_METHODS else "other"


@cache  # Python keeps some patterns that were compiled, and we have more
def _compile_path(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]


log = structlog.get_logger(__name__)

CLIENT_CLOSED_REQUEST = 499

STATUS_BY_ERROR: Mapping[type[core_errors.QuillpostError], int] = {
    core_errors.Invalid: 422,
    core_errors.Refused: 400,
    core_errors.Unauthenticated: 401,
    core_errors.Unpaid: 402,
    core_errors.Forbidden: 403,
    core_errors.NotFound: 404,
    core_errors.Conflict: 409,
    core_errors.Throttled: 429,
    core_errors.Unavailable: 503,
}

DEFAULT_MESSAGES = {
    404: "Not Found",
    405: "This method is not allowed here.",
    408: "The body came too slowly. Send it again over a faster line, or less at once.",
    413: "The body is larger than this service accepts.",
    415: "Send application/json (or a form where every field is a single value).",
}

VALIDATION_MESSAGES = {
    "missing": "This field is required.",
    "string_type": "This must be a string.",
    "int_type": "This must be an integer.",
    "bool_type": "This must be true or false.",
    "dict_type": "This must be an object.",
    "list_type": "This must be an array.",
    "string_unicode": "This text holds a character that does not exist (a lone surrogate).",
    "model_type": "This must be an object.",
    "model_attributes_type": "This must be an object.",
}


# A text that may also be null is measured by the second, as an array is.
LENGTH_ERROR_TYPES = ("string_too_long", "too_long")

FIELD_NAME = re.compile(r"[A-Za-z0-9_-]+")
SETTING_HINTS = {"giftcard_amount_in_cents": "Or set QUILLPOST_LEGACY_FIELDS=true, and this name is taken as well."}
"""Fields that an operator can have taken by a setting: only operators read it, the only ones who can set it."""

TYPE_STEPS = frozenset({"none", "bool", "int", "float", "str"})
"""Steps of a path that are no field's: which of several types a value was read as. Others are no `FIELD_NAME`."""


class RequestAborted(Exception):
    """The caller left before there was an answer."""


class UnreadableBody(Exception):
    """A body that cannot be read at all: too large, too slow, or of a type we do not take."""

    def __init__(self, status: int, message: str | None = None) -> None:
        self.status = status
        self.message = message or DEFAULT_MESSAGES[status]


def error_response(error: Exception) -> Response:
    if isinstance(error, core_errors.Invalid):
        return _invalid_response(error)
    if isinstance(error, RequestValidationError):
        # The framework's paths begin with the part of the request: body, query, path or header.
        return _invalid_response(to_invalid(error.errors(), skip=1))
    if isinstance(error, core_errors.QuillpostError):
        extra_fields = {"failure": True} if isinstance(error, core_errors.NoMatch) else {}
        return json_response(
            {"message": error.message, **extra_fields},
            status=next(status for error_type, status in STATUS_BY_ERROR.items() if isinstance(error, error_type)),
            headers=_error_headers(error),
        )
    if isinstance(error, UnprintableArt):
        return json_response({"message": error.message}, status=422)
    if isinstance(error, UnreadableBody):
        # A client that still sends a body which is not read any more is cut off.
        headers = {"Connection": "close"} if error.status == 408 else {}
        return json_response({"message": error.message}, status=error.status, headers=headers)
    if isinstance(error, HTTPException):
        message = DEFAULT_MESSAGES.get(error.status_code, str(error.detail))
        return json_response({"message": message}, status=error.status_code, headers=error.headers)
    raise error


def respond_to_error(request: Request, error: Exception) -> Response:
    """The same to a request that failed: what is missing may be there, under a name that we do not know."""
    if isinstance(error, core_errors.Invalid) and _is_operator_token(request):
        error = _add_setting_hints(error)
    response = error_response(error)
    if response.status_code == 405:
        # The router itself knows only the methods of the first route that it found.
        allowed = RoutePaths.from_routes(request.app.routes).allowed_methods(request.scope["path"])
        response.headers["Allow"] = ", ".join(allowed)
    return add_ignored_header(response, getattr(request.state, "ignored_fields", ()))


def _is_operator_token(request: Request) -> bool:
    """A connected app's token is not an operator's."""
    caller = getattr(request.state, "caller", None)
    return caller is not None and caller.is_operator and caller.grant_id is None


def _add_setting_hints(error: core_errors.Invalid) -> core_errors.Invalid:
    return core_errors.Invalid(
        {
            field: [f"{message} {hint}" for message in messages]
            if (hint := SETTING_HINTS.get(field.rpartition(".")[2]))
            else messages
            for field, messages in error.fields.items()
        }
    )


def unexpected_error_response() -> Response:
    """Our own fault. The caller learns nothing of it but the request id; the log has the rest."""
    return json_response({"message": "Something went wrong on our side. Quote the request id."}, status=500)


def to_invalid(details: Any, *, skip: int = 0) -> core_errors.Invalid:
    """Validation errors by the dotted path of their field but for its first steps, in plain words."""
    errors: dict[str, list[str]] = {}
    for error in list(details)[:MAX_REPORTED_ERRORS]:
        messages, message = (errors.setdefault(_dotted_path(error["loc"][skip:]) or "body", []), _error_message(error))
        # Beside what it should be, that it is not null says nothing new.
        if message not in messages and not (messages and error["type"] == "none_required"):
            messages.append(message)
    return core_errors.Invalid(errors)


def _dotted_path(steps: Iterable[str | int]) -> str:
    """The field's alone: where a value may be of several types, each has its fault at the same path."""
    return ".".join(step for step in map(str, steps) if FIELD_NAME.fullmatch(step) and step not in TYPE_STEPS)


def _error_message(error: Mapping[str, Any]) -> str:
    if error["type"] in VALIDATION_MESSAGES:
        return VALIDATION_MESSAGES[error["type"]]
    if error["type"] in LENGTH_ERROR_TYPES:
        unit = "items" if error["ctx"].get("field_type") == "List" else "characters"
        return f"At most {error['ctx']['max_length']:,} {unit}, please."
    text = str(error["msg"]).removeprefix("Value error, ")
    return text if text.endswith(".") else text + "."


def _invalid_response(error: core_errors.Invalid) -> Response:
    fields = dict(list(error.fields.items())[:MAX_REPORTED_ERRORS])
    message = error.message
    if len(error.fields) > 1:
        remaining = len(error.fields) - 1
        message = f"{message} (and {remaining} more {'error' if remaining == 1 else 'errors'})"
    return json_response({"message": message, "errors": fields}, status=422)


def _error_headers(error: core_errors.QuillpostError) -> dict[str, str]:
    if isinstance(error, core_errors.Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, core_errors.Throttled):
        return {"Retry-After": str(error.retry_after), "RateLimit-Reset": str(error.retry_after)}
    if isinstance(error, core_errors.Conflict) and error.retry_after is not None:
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, core_errors.Unavailable):
        return {"Retry-After": "5"}
    return {}


def install_error_handlers(app: FastAPI) -> None:
    async def handle(request: Request, error: Exception) -> Response:
        return respond_to_error(request, error)

    async def respond_aborted(_request: Request, _error: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    for error_type in (
        core_errors.QuillpostError,
        RequestValidationError,
        HTTPException,
        UnreadableBody,
        UnprintableArt,
    ):
        app.add_exception_handler(error_type, handle)
    app.add_exception_handler(RequestAborted, respond_aborted)
    app.add_exception_handler(ClientDisconnected, respond_aborted)
