"""Error pages. Programs get the API's JSON."""

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
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.web import sessions
from quillpost.web.api.errors import UnreadableBody, respond_to_error
from quillpost.web.forms import AccountSwitched
from quillpost.web.rendering import render_page
from quillpost.web.security import STALE_FORM, DuplicateSubmission
from quillpost.web.sessions import form_page_path

ERROR_TITLES: Final[Mapping[int, str]] = {
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

NOT_A_PAGE = "Only forms and programs send something to this address. Nothing was done."


def install_error_pages(app: FastAPI) -> None:
    for error_type in (
        Forbidden,
        Invalid,
        Refused,
        Conflict,
        Throttled,
        Unavailable,
        UnreadableBody,
        UnprintableArt,
        405,
    ):
        app.add_exception_handler(error_type, respond_with_error_page)
    sessions.install_redirects(app)


async def respond_with_error_page(request: Request, error: Exception) -> Response:
    api_response = respond_to_error(request, error)
    if not sessions.is_for_browser(request):
        return api_response
    message = _error_message(error)
    response = render_page(
        request,
        "error_fragment.html" if sessions.is_fragment(request) else "error.html",
        # Who is turned away for want of time is not looked up.
        user=None if isinstance(error, Overloaded) else await sessions.find_user_if_available(request),
        status=api_response.status_code,
        title=_error_title(error, api_response.status_code),
        message=hide_secrets(message),
        back_url=_back_path(request, error),
        is_page_stale=_is_stale_form(error) or isinstance(error, (AccountSwitched, HTTPException)),
        unsaved_text=error.unsaved_text if isinstance(error, AccountSwitched) else {},
    )
    for name in ("Retry-After", "Connection", "Allow"):
        if name in api_response.headers:
            response.headers[name] = api_response.headers[name]
    return response


def _error_message(error: Exception) -> str:
    if isinstance(error, HTTPException):
        return NOT_A_PAGE
    return error.message if isinstance(error, (QuillpostError, UnreadableBody)) else str(error)


def _back_path(request: Request, error: Exception) -> str:
    if isinstance(error, DuplicateSubmission):
        return error.result_path
    is_form = request.method == "POST" or isinstance(error, HTTPException)
    return form_page_path(request) if is_form else "/"


def _is_stale_form(error: Exception) -> bool:
    return isinstance(error, Forbidden) and error.code == STALE_FORM.code


def _error_title(error: Exception, status: int) -> str:
    if isinstance(error, AccountSwitched):
        return f"You are in {error.mode} mode now." if error.mode else "You are in another account now."
    if isinstance(error, DuplicateSubmission):
        return "This was done already."
    return "Open the page anew." if _is_stale_form(error) else ERROR_TITLES[status]
