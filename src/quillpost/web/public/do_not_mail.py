"""Where whoever holds a piece of mail asks for no more of it, by the code that is printed there.

Looking changes nothing, as programs follow links; a button does. Nobody learns here whether a code, or an
address, is known: for every code the page, its words and the work behind it are the same.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.service import count_knock
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid
from quillpost.privacy import do_not_mail
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.responses import answer

router = APIRouter(include_in_schema=False)

DOOR = "stop"
OF_ONE_NETWORK = 10
OF_ALL = 600
"""Requests in a minute."""

WRONG_CODE = "A code has eight letters and digits, as they are printed on the mail."
DONE = "If this code is on mail that was sent with this service, its sender mails nothing there any more."
TOO_MANY = "Too many requests came at once. Try again in a minute."
ONE_BUTTON = "POST to this address asks for no more mail to the address of the piece with this code."
HOW = "POST to /stop/{code} with the code that is printed on the mail."

OurParts = Annotated[Parts, Depends(parts_of)]


@router.get("/stop")
def show_form(request: Request, code: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    """Asks for the code; with one, leads on to its page."""
    if code is None or not code.strip():
        return _shown(request, "ask", HOW)
    if (typed := do_not_mail.typed_code(code)) is None:
        return _wrong(request, code)
    return Response(status_code=303, headers={"Location": f"/stop/{typed}", **PRIVATE})


@router.get("/stop/{code}")
def show_choice(request: Request, code: str) -> Response:
    """Asks whether it is meant."""
    if (typed := do_not_mail.typed_code(code)) is None:
        return _wrong(request, code)
    if do_not_mail.is_specimen(typed):
        return _shown(request, "specimen", "This is the code of a preview. Each printed piece has its own.")
    return _shown(request, "choice", ONE_BUTTON, code=typed)


@router.post("/stop/{code}")
def stop_mail(request: Request, code: str, parts: OurParts) -> Response:
    """The request is stored before it is answered; asked twice, it is one."""
    if (typed := do_not_mail.typed_code(code)) is None or do_not_mail.is_specimen(typed):
        return _wrong(request, code)
    if (wait := _wait(request, parts)) is not None:
        return _shown(request, "throttled", TOO_MANY, code=typed, status=429, retry_after=wait)
    with parts.db.work() as tx:
        do_not_mail.ask(tx, typed, now=parts.clock())
    return _shown(request, "done", DONE)


PRIVATE = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}


def _wait(request: Request, parts: Parts) -> int | None:
    """How long to wait, if too many came from one network, or from all of them."""
    address = request.client.host if request.client else "unknown"
    for allowance in (
        count_knock(parts.db, DOOR, address, limit=OF_ONE_NETWORK),
        count_knock(parts.db, DOOR, None, limit=OF_ALL),
    ):
        if allowance.is_spent:
            return allowance.resets_in
    return None


def _wrong(request: Request, code: str) -> Response:
    if not _is_for_people(request):
        raise Invalid({"code": [WRONG_CODE]})
    return _shown(request, "wrong", WRONG_CODE, code=code[:20], status=422)


def _shown(
    request: Request,
    step: str,
    message: str,
    *,
    code: str = "",
    status: int = 200,
    retry_after: int | None = None,
) -> Response:
    """A page for a person, and the one shape of answers for a program."""
    headers = PRIVATE | ({} if retry_after is None else {"Retry-After": str(retry_after)})
    if not _is_for_people(request):
        return answer({"message": message}, status=status, headers=headers)
    text = pages.text_of("doors/stop.html", step=step, code=code, release=request.app.state.release)
    shown = pages.page(text, status=status)
    shown.headers.update(headers)
    return shown


def _is_for_people(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")
