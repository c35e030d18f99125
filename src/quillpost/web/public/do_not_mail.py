"""Where whoever holds a piece of mail asks for no more of it, by the code that is printed there.

Looking changes nothing, as programs follow links; a button does. Nobody learns here whether a code, or an
address, is known: for every code the page, its words and the work behind it are the same.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from quillpost.accounts.service import count_public_call
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.privacy import do_not_mail
from quillpost.web import rendering
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services

router = APIRouter(include_in_schema=False)

RATE_LIMIT_NAME = "stop"
MAX_PER_NETWORK = 10
MAX_TOTAL = 600
"""Requests in a minute."""

INVALID_CODE = "A code has eight letters and digits, as they are printed on the mail."
DONE_MESSAGE = "If this code is on mail that was sent with this service, its sender mails nothing there any more."
TOO_MANY_MESSAGE = "Too many requests came at once. Try again in a minute."
CONFIRM_MESSAGE = "POST to this address asks for no more mail to the address of the piece with this code."
USAGE_MESSAGE = "POST to /stop/{code} with the code that is printed on the mail."


@router.get("/stop")
def show_form(request: Request, code: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    """Asks for the code; with one, leads on to its page."""
    if code is None or not code.strip():
        return _respond(request, "ask", USAGE_MESSAGE)
    if (parsed_code := do_not_mail.parse_code(code)) is None:
        return _invalid_code_response(request, code)
    return Response(status_code=303, headers={"Location": f"/stop/{parsed_code}", **PRIVATE_HEADERS})


@router.get("/stop/{code}")
def show_choice(request: Request, code: str) -> Response:
    """Asks whether it is meant."""
    if (parsed_code := do_not_mail.parse_code(code)) is None:
        return _invalid_code_response(request, code)
    if do_not_mail.is_specimen(parsed_code):
        return _respond(request, "specimen", "This is the code of a preview. Each printed piece has its own.")
    return _respond(request, "choice", CONFIRM_MESSAGE, code=parsed_code)


@router.post("/stop/{code}")
def stop_mail(request: Request, code: str, container: Services) -> Response:
    """The request is stored before it is answered; asked twice, it is one."""
    if (parsed_code := do_not_mail.parse_code(code)) is None or do_not_mail.is_specimen(parsed_code):
        return _invalid_code_response(request, code)
    if (wait := _seconds_to_wait(request, container)) is not None:
        return _respond(request, "throttled", TOO_MANY_MESSAGE, code=parsed_code, status=429, retry_after=wait)
    with container.db.system_transaction() as tx:
        do_not_mail.record_request(tx, parsed_code, now=container.clock())
    return _respond(request, "done", DONE_MESSAGE)


PRIVATE_HEADERS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}


def _seconds_to_wait(request: Request, container: Container) -> int | None:
    """How long to wait, if too many came from one network, or from all of them."""
    address = request.client.host if request.client else "unknown"
    for allowance in (
        count_public_call(container.db, RATE_LIMIT_NAME, address, limit=MAX_PER_NETWORK),
        count_public_call(container.db, RATE_LIMIT_NAME, None, limit=MAX_TOTAL),
    ):
        if allowance.is_exceeded:
            return allowance.resets_in
    return None


def _invalid_code_response(request: Request, code: str) -> Response:
    if not _is_for_people(request):
        raise Invalid({"code": [INVALID_CODE]})
    return _respond(request, "wrong", INVALID_CODE, code=code[:20], status=422)


def _respond(
    request: Request, step: str, message: str, *, code: str = "", status: int = 200, retry_after: int | None = None
) -> Response:
    """A page for a person, and the one shape of answers for a program."""
    headers = PRIVATE_HEADERS | ({} if retry_after is None else {"Retry-After": str(retry_after)})
    if not _is_for_people(request):
        return json_response({"message": message}, status=status, headers=headers)
    text = rendering.render_template("public/do_not_mail.html", step=step, code=code, release=request.app.state.release)
    response = rendering.html_response(text, status=status)
    response.headers.update(headers)
    return response


def _is_for_people(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")
