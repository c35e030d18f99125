"""What went wrong, as a page for people. Programs get the one shape of all failures."""

from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from quillpost.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    Overloaded,
    QuillpostError,
    Refused,
    Throttled,
    Unavailable,
)
from quillpost.core.tokens import hide_secrets
from quillpost.rendering.images.limits import BadArt
from quillpost.web import sessions
from quillpost.web.api.errors import WrongBody, answer_to
from quillpost.web.csrf import STALE, DoneAlready
from quillpost.web.forms import MovedOn
from quillpost.web.rendering import show
from quillpost.web.sessions import way_back

TITLES: Final[Mapping[int, str]] = {
    400: "That cannot be done.",
    403: "You may not do this.",
    405: "This is no page.",
    408: "That took too long.",
    409: "Something else came first.",
    413: "That is too much at once.",
    415: "That is no form of ours.",
    422: "Please look at it once more.",
    429: "One moment, please.",
    503: "One moment, please.",
}

NO_PAGE = "Only forms and programs send something to this address. Nothing was done."


def install(app: FastAPI) -> None:
    """Both: who is led where before they see a page, and what they see if something goes wrong on it."""
    for kind in (Forbidden, Invalid, Refused, Conflict, Throttled, Unavailable, WrongBody, BadArt, 405):
        app.add_exception_handler(kind, answer_trouble)
    sessions.install(app)


async def answer_trouble(request: Request, failure: Exception) -> Response:
    told = answer_to(request, failure)
    if not sessions.is_for_people(request):
        return told
    message = _message(failure)
    shown = show(
        request,
        "part_trouble.html" if sessions.is_fragment(request) else "trouble.html",
        # Who is turned away for want of time is not looked up.
        who=None if isinstance(failure, Overloaded) else await sessions.reader_of(request),
        status=told.status_code,
        title=_title(failure, message, told.status_code),
        message=hide_secrets(message),
        back=_back(request, failure),
        is_anew=message in (STALE, NO_PAGE) or isinstance(failure, MovedOn),
        typed=failure.written if isinstance(failure, MovedOn) else {},
    )
    for name in ("Retry-After", "Connection", "Allow"):
        if name in told.headers:
            shown.headers[name] = told.headers[name]
    return shown


def _message(failure: Exception) -> str:
    if isinstance(failure, HTTPException):
        return NO_PAGE
    return failure.message if isinstance(failure, (QuillpostError, WrongBody)) else str(failure)


def _back(request: Request, failure: Exception) -> str:
    if isinstance(failure, DoneAlready):
        return failure.leads_to
    is_form = request.method == "POST" or isinstance(failure, HTTPException)
    return way_back(request) if is_form else "/"


def _title(failure: Exception, message: str, status: int) -> str:
    if isinstance(failure, MovedOn):
        return f"You are in {failure.mode} mode now." if failure.mode else "You are in another account now."
    if isinstance(failure, DoneAlready):
        return "This was done already."
    return "Open the page anew." if message == STALE else TITLES[status]
