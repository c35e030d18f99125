"""Whoever is at the composer within another product's page: let in by the address of the frame alone, without
any cookie. Every answer names the one site that may show it, failures included."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import Depends, Request, Response

from quillpost.accounts.embedding import Closed, Pass, admit
from quillpost.accounts.rules import Allowance
from quillpost.accounts.service import count_embed, count_guest, count_kept
from quillpost.api.errors import WrongBody, answer_to
from quillpost.kit.errors import QuillpostError, Throttled
from quillpost.parts import Parts
from quillpost.reception.forms import Form, form_with_key
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts

CALLS_A_MINUTE: Final = 3_000
"""Of all frames that one token has opened: each key that is pressed is one."""
CALLS_OF_ONE: Final = 300
"""Of one frame. Whoever is over it takes nothing from the others."""
KEPT_OF_ONE: Final = 20
"""Sends that one frame stores: whoever changes their mind so often opens it anew."""
NO_FRAME: Final = "frame-ancestors 'none'"
NOTHING: Final = Form({})
UNEXPECTED: Final = (QuillpostError, WrongBody)


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody at the frame of a site, with a pass, or with what is wrong: that is told within the frame,
    once it is known whose that is."""

    origin: str | None
    guest: Pass | Exception
    form: Form = NOTHING


def at_the_frame(token: str, parts: OurParts) -> Visit:
    """Every request of a good pass counts, before anything of it is read."""
    origin: str | None = None
    try:
        guest = admit(parts.db, parts.sealer, token, now=parts.clock())
        origin = guest.origin
        _require_left(count_guest(parts.db, token, limit=CALLS_OF_ONE))
        _require_left(count_embed(parts.db, guest.token_id, limit=CALLS_A_MINUTE))
    except Closed as closed:
        return Visit(closed.origin, closed)
    except QuillpostError as wrong:
        return Visit(origin, wrong)
    return Visit(origin, guest)


AtTheFrame = Annotated[Visit, Depends(at_the_frame)]


async def with_form(request: Request, visit: AtTheFrame) -> Visit:
    """With what was sent; of whoever is not let in it is not even read."""
    if isinstance(visit.guest, Exception):
        return visit
    try:
        return replace(visit, form=await form_with_key(request))
    except UNEXPECTED as wrong:
        return replace(visit, guest=wrong)


WithForm = Annotated[Visit, Depends(with_form)]
Answer = Callable[[Pass], Response]


def within(request: Request, visit: Visit, answer: Answer) -> Response:
    """The answer to whoever holds a pass that still opens; to everybody else a few words."""
    try:
        if isinstance(visit.guest, Exception):
            raise visit.guest
        return framed(answer(visit.guest), visit.origin)
    except UNEXPECTED as wrong:
        return framed(_words(request, wrong), visit.origin)


def framed(shown: Response, origin: str | None) -> Response:
    """For this site's frame, and nobody else's; without one for none. No address of it is told to anybody."""
    policy = shown.headers.get("Content-Security-Policy")
    if origin is not None and policy is not None:
        shown.headers["Content-Security-Policy"] = policy.replace(NO_FRAME, f"frame-ancestors {origin}")
    shown.headers["Referrer-Policy"] = "no-referrer"
    return shown


def require_room(parts: Parts, token: str) -> None:
    """Before one more send is stored: `Throttled` if this frame has stored too many."""
    _require_left(count_kept(parts.db, token, limit=KEPT_OF_ONE))


def _require_left(allowance: Allowance) -> None:
    if allowance.is_spent:
        raise Throttled(retry_after=allowance.resets_in)


def _words(request: Request, wrong: Exception) -> Response:
    told = answer_to(request, wrong)
    message = wrong.message if isinstance(wrong, UNEXPECTED) else str(wrong)
    shown = show(request, "embed/words.html", status=told.status_code, message=message)
    if "Retry-After" in told.headers:
        shown.headers["Retry-After"] = told.headers["Retry-After"]
    return shown
