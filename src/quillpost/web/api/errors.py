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
from quillpost.core.body_limits import MOST_FAULTS
from quillpost.core.clients import ClientGone
from quillpost.rendering.images.limits import BadArt
from quillpost.web.api.responses import answer, name_ignored


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


ERROR_SCHEMAS = {shape.__name__: shape.model_json_schema() for shape in (Failure, ValidationFailure)}
"""The description's own: to the framework each use of a shape would be another to build when we start."""


def errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """The failures of an operation: those that any may have, and its own."""
    return {status: _explained(*EXPLAINED[status]) for status in sorted({*ALWAYS, *more})}


def _explained(text: str, shape: type[Failure]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


BODY_ERRORS = (400, 408, 409, 413, 415, 422)


ROUTED = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
KNOWN = frozenset((*ROUTED, "OPTIONS"))


@dataclass(frozen=True, slots=True)
class Paths:
    """A path that is spelled out is no one's id: it hides the patterns that would fit it too, so that
    PUT /orders/list is a wrong method and does not look for an order named "list"."""

    spelled_out: Mapping[str, frozenset[str]]
    patterns: Sequence[tuple[re.Pattern[str], frozenset[str]]]

    @classmethod
    def of(cls, routes: Sequence[BaseRoute]) -> Self:
        taken: dict[str, frozenset[str]] = {}
        for route in iter_route_contexts(routes):
            if route.path is not None:
                taken[route.path] = taken.get(route.path, frozenset()) | (route.methods or frozenset())
        return cls(
            spelled_out={path: methods for path, methods in taken.items() if "{" not in path},
            patterns=[(_pattern(path), methods) for path, methods in taken.items() if "{" in path],
        )

    def taken_at(self, path: str) -> frozenset[str]:
        """The methods that routes declare here."""
        if path in self.spelled_out:
            return self.spelled_out[path]
        return frozenset[str]().union(*(methods for fits, methods in self.patterns if fits.match(path)))

    def allowed_at(self, path: str) -> list[str]:
        """Every method that is answered here, as `Allow` lists them; none where there is nothing."""
        taken = self.taken_at(path)
        if "GET" in taken:
            taken |= {"HEAD"}
        return [*(method for method in ROUTED if method in taken), "OPTIONS"] if taken else []

    def refuses(self, method: str, path: str) -> bool:
        """Whether this path is spelled out, and for other methods."""
        return path in self.spelled_out and method not in self.spelled_out[path]


def method_label(method: str) -> str:
    """Callers can invent methods without end; the metrics do not grow with them."""
    return method if method in KNOWN else "other"


@cache  # Python keeps some patterns that were compiled, and we have more
def _pattern(path: str) -> re.Pattern[str]:
    return compile_path(path)[0]


log = structlog.get_logger(__name__)

HUNG_UP = 499
"""What proxies count a request under whose caller left before there was an answer."""

STATUS: Mapping[type[core_errors.QuillpostError], int] = {
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

PLAIN = {
    404: "Not Found",
    405: "This method is not allowed here.",
    408: "The body came too slowly. Send it again over a faster line, or less at once.",
    413: "The body is larger than this service accepts.",
    415: "Send application/json (or a form where every field is a single value).",
}

SENTENCES = {
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
TOO_LONG = ("string_too_long", "too_long")

STEP = re.compile(r"[A-Za-z0-9_-]+")
SWITCHES = {
    "giftcard_amount_in_cents": "Or set QUILLPOST_LEGACY_FIELDS=true, and this name is taken as well.",
}
"""Fields that an operator can have taken by a setting: only operators read so, as nobody else can set it."""

BRANCHES = frozenset({"none", "bool", "int", "float", "str"})
"""Steps of a path that are no field's: which of several types a value was read as. Others are no `STEP`."""


class HungUp(Exception):
    """The caller left before there was an answer: what is not done yet is not done, and nobody is there to be
    told."""


class WrongBody(Exception):
    """A body that cannot be read at all: too large, too slow, or of a type we do not take."""

    def __init__(self, status: int, message: str | None = None) -> None:
        self.status = status
        self.message = message or PLAIN[status]


def response_for(failure: Exception) -> Response:
    """The answer to a failure: one shape for all."""
    if isinstance(failure, core_errors.Invalid):
        return _invalid(failure)
    if isinstance(failure, RequestValidationError):
        # The framework's paths begin with the part of the request: body, query, path or header.
        return _invalid(invalid_of(failure.errors(), skip=1))
    if isinstance(failure, core_errors.QuillpostError):
        no_match = {"failure": True} if isinstance(failure, core_errors.NoMatch) else {}
        return answer(
            {"message": failure.message, **no_match},
            status=next(status for kind, status in STATUS.items() if isinstance(failure, kind)),
            headers=_headers(failure),
        )
    if isinstance(failure, BadArt):
        return answer({"message": failure.message}, status=422)
    if isinstance(failure, WrongBody):
        # Whoever still sends a body that nobody reads is not listened to any longer.
        headers = {"Connection": "close"} if failure.status == 408 else {}
        return answer({"message": failure.message}, status=failure.status, headers=headers)
    if isinstance(failure, HTTPException):
        message = PLAIN.get(failure.status_code, str(failure.detail))
        return answer({"message": message}, status=failure.status_code, headers=failure.headers)
    raise failure


def answer_to(request: Request, failure: Exception) -> Response:
    """The same to a request that failed: what is missing may be there, under a name that we do not know."""
    if isinstance(failure, core_errors.Invalid) and _is_operators(request):
        failure = _with_switches(failure)
    response = response_for(failure)
    if response.status_code == 405:
        # The router itself knows only the methods of the first route that it found.
        allowed = Paths.of(request.app.routes).allowed_at(request.scope["path"])
        response.headers["Allow"] = ", ".join(allowed)
    return name_ignored(response, getattr(request.state, "ignored", ()))


def _is_operators(request: Request) -> bool:
    """Whether the token is an operator's own; a connected app's is none."""
    who = getattr(request.state, "who", None)
    return who is not None and who.is_operator and who.grant_id is None


def _with_switches(failure: core_errors.Invalid) -> core_errors.Invalid:
    """The same faults, with the setting behind those that an operator can lift."""
    return core_errors.Invalid(
        {
            field: [f"{told} {switch}" for told in sentences]
            if (switch := SWITCHES.get(field.rpartition(".")[2]))
            else sentences
            for field, sentences in failure.fields.items()
        }
    )


def unexpected() -> Response:
    """Our own fault. The caller learns nothing of it but the request id; the log has the rest."""
    return answer({"message": "Something went wrong on our side. Quote the request id."}, status=500)


def invalid_of(found: Any, *, skip: int = 0) -> core_errors.Invalid:
    """Validation errors by the dotted path of their field but for its first steps, in plain words."""
    faults: dict[str, list[str]] = {}
    for fault in list(found)[:MOST_FAULTS]:
        told, sentence = faults.setdefault(_path(fault["loc"][skip:]) or "body", []), _sentence(fault)
        # That it is not null either helps nobody who has been told what it should be.
        if sentence not in told and not (told and fault["type"] == "none_required"):
            told.append(sentence)
    return core_errors.Invalid(faults)


def _path(steps: Iterable[str | int]) -> str:
    """The field's alone: where a value may be of several types, each has its fault at the same path."""
    return ".".join(step for step in map(str, steps) if STEP.fullmatch(step) and step not in BRANCHES)


def _sentence(fault: Mapping[str, Any]) -> str:
    if fault["type"] in SENTENCES:
        return SENTENCES[fault["type"]]
    if fault["type"] in TOO_LONG:
        unit = "items" if fault["ctx"].get("field_type") == "List" else "characters"
        return f"At most {fault['ctx']['max_length']:,} {unit}, please."
    text = str(fault["msg"]).removeprefix("Value error, ")
    return text if text.endswith(".") else text + "."


def _invalid(failure: core_errors.Invalid) -> Response:
    fields = dict(list(failure.fields.items())[:MOST_FAULTS])
    message = failure.message
    if len(failure.fields) > 1:
        more = len(failure.fields) - 1
        message = f"{message} (and {more} more {'error' if more == 1 else 'errors'})"
    return answer({"message": message, "errors": fields}, status=422)


def _headers(failure: core_errors.QuillpostError) -> dict[str, str]:
    if isinstance(failure, core_errors.Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(failure, core_errors.Throttled):
        return {"Retry-After": str(failure.retry_after), "RateLimit-Reset": str(failure.retry_after)}
    if isinstance(failure, core_errors.Conflict) and failure.retry_after is not None:
        return {"Retry-After": str(failure.retry_after)}
    if isinstance(failure, core_errors.Unavailable):
        return {"Retry-After": "5"}
    return {}


def install(app: FastAPI) -> None:
    async def handle(request: Request, failure: Exception) -> Response:
        return answer_to(request, failure)

    async def note(_request: Request, _failure: Exception) -> Response:
        return Response(status_code=HUNG_UP)

    for kind in (core_errors.QuillpostError, RequestValidationError, HTTPException, WrongBody, BadArt):
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(HungUp, note)
    app.add_exception_handler(ClientGone, note)
