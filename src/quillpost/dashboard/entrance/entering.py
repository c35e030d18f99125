"""From an attempt that went well to a browser that is signed in."""

from fastapi import Request, Response

from quillpost.parts import Parts
from quillpost.people import known_browsers, sessions
from quillpost.people.signing_in import Attempt
from quillpost.reception.cookies import KNOWN, SESSION, VISITOR, drop_cookie, read_cookie, set_cookie
from quillpost.reception.show import go


def let_in(request: Request, parts: Parts, attempt: Attempt, wanted: str) -> Response:
    """On to where they wanted to go, signed in from now on."""
    if attempt.cookie is None:
        raise ValueError("Whoever is let in has a session.")
    end_session(request, parts)
    onward = go(wanted)
    set_session_cookie(request, onward, attempt.cookie)
    if attempt.known is not None:
        lasts = int(known_browsers.LASTS.total_seconds())
        set_cookie(request, onward, KNOWN, attempt.known, seconds=lasts)
    drop_cookie(request, onward, VISITOR)
    return onward


def set_session_cookie(request: Request, response: Response, cookie: str) -> None:
    set_cookie(request, response, SESSION, cookie, seconds=int(sessions.LASTS.total_seconds()))


def end_session(request: Request, parts: Parts) -> None:
    """The one that this browser has, whoever's it is."""
    cookie = read_cookie(request, SESSION)
    if cookie is not None:
        with parts.db.work() as tx:
            sessions.end_session(tx, cookie)
