"""The word that every form of ours carries. No other site can know it, and it names the account that the page
is about: what is begun in one account is not finished in another."""

import hashlib
import hmac
import secrets

from fastapi import Request

from quillpost.kit.errors import Forbidden
from quillpost.kit.tokens import mint
from quillpost.parts import Parts
from quillpost.reception.cookies import SESSION, VISITOR, read_cookie

STALE = (
    "This form is not good any more: its page was open for too long, or this browser keeps no cookies. "
    "Nothing was done. Open the page anew, and fill in the form once more."
)


def csrf_token(request: Request, membership_id: int | None) -> str:
    """For the forms of the page that answers this request: bound to the session or, before anyone is signed
    in, to the visitor's cookie (which `show` sets where there is none)."""
    cookie = _bound_to(request)
    if cookie is None:
        cookie = request.state.new_visitor = mint("visitor", secrets.token_bytes(24))
    return _words(request, cookie, "" if membership_id is None else str(membership_id))[0]


def membership_of(request: Request, given: str) -> int | None:
    """Which of its reader's accounts the page with this word was about; None: nobody was signed in.
    `Forbidden` if the word is not ours, or another browser's."""
    cookie, about = _bound_to(request), given.partition(".")[0]
    words = () if cookie is None else _words(request, cookie, about)
    if not any(hmac.compare_digest(given.encode(), word.encode()) for word in words):
        raise Forbidden(STALE)
    return int(about) if about else None


def _bound_to(request: Request) -> str | None:
    made: str | None = getattr(request.state, "new_visitor", None)
    return read_cookie(request, SESSION) or read_cookie(request, VISITOR) or made


def _words(request: Request, cookie: str, about: str) -> list[str]:
    """By the current key, and by the former ones: a page may have been open while the key was changed."""
    parts: Parts = request.app.state.parts
    bound = f"{about}.{cookie}".encode()
    keys = parts.sealer.derive_all("csrf")
    return [f"{about}.{hmac.new(key, bound, hashlib.sha256).hexdigest()}" for key in keys]
