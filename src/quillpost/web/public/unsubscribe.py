"""Where readers of notices say that it is enough, or that they have changed their mind.

Looking changes nothing, as mail scanners follow every link; a button does, and so does the one click of a
mail program (RFC 8058), which posts to the same address.
"""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response

from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, NotFound
from quillpost.notifications import unsubscribe
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import parts_of
from quillpost.web.public.partner_webhooks import at_most

router = APIRouter(include_in_schema=False)

LARGEST_BODY = 2_000
MOST_FIELDS = 10
STOP = {("List-Unsubscribe", "One-Click"), ("do", "stop")}
RESUME = ("do", "resume")

OurParts = Annotated[Parts, Depends(parts_of)]


@router.get("/unsubscribe/{token}")
def show_choice(request: Request, token: str, parts: OurParts) -> Response:
    """What they get at present, and the button that changes it."""
    try:
        return _page(request, parts, unsubscribe.reader_of(parts.sealer, token), is_changed=False)
    except NotFound:
        return _cut_off(request)


@router.post("/unsubscribe/{token}")
def change_mind(
    request: Request,
    token: str,
    parts: OurParts,
    body: Annotated[bytes, Depends(at_most(LARGEST_BODY))],
) -> Response:
    """Stop, or go on again; said twice, it changes nothing."""
    try:
        reader = unsubscribe.reader_of(parts.sealer, token)
        return _change(request, parts, reader, _fields(body))
    except NotFound:
        return _cut_off(request)


def _change(
    request: Request, parts: Parts, reader: unsubscribe.Reader, said: set[tuple[str, str]]
) -> Response:
    if RESUME not in said and not STOP & said:
        raise Invalid({"do": ["Say stop or resume."]})
    with parts.db.work() as tx:
        unsubscribe.sender_name(tx, reader)
        if RESUME in said:
            unsubscribe.accept(tx, reader)
        else:
            unsubscribe.refuse(tx, reader, now=parts.clock())
    return _page(request, parts, reader, is_changed=True)


def _fields(body: bytes) -> set[tuple[str, str]]:
    """The fields of a form, either as it is usually written or, as some mail programs do, in parts."""
    text = body.decode("ascii", errors="replace")
    if 'name="List-Unsubscribe"' in text and "One-Click" in text:
        return set(STOP)
    try:
        found = parse_qs(text, max_num_fields=MOST_FIELDS)
    except ValueError:
        return set()
    return {(name, value.strip()) for name, values in found.items() for value in values}


def _cut_off(request: Request) -> Response:
    """Long links are broken by mail programs: whoever has half of one is told so."""
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFound
    text = pages.text_of("doors/unsubscribe_cut.html", release=request.app.state.release)
    return _private(pages.page(text, status=404))


def _page(request: Request, parts: Parts, reader: unsubscribe.Reader, *, is_changed: bool) -> Response:
    with parts.db.work() as tx:
        values = {
            "sender": unsubscribe.sender_name(tx, reader),
            "has_refused": unsubscribe.has_refused(tx, reader),
        }
    text = pages.text_of(
        "doors/unsubscribe.html",
        **values,
        address=reader.address,
        is_changed=is_changed,
        release=request.app.state.release,
    )
    return _private(pages.page(text))


def _private(answer: Response) -> Response:
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Robots-Tag"] = "noindex"
    return answer
