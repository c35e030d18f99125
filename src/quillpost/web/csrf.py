"""CSRF tokens, and forms that act once however often they are sent."""

import hashlib
import hmac
import re
import secrets
from hashlib import sha256
from typing import Final, NamedTuple

import sqlalchemy as sa
from fastapi import Request

from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Forbidden
from quillpost.core.tokens import mint
from quillpost.web.cookies import SESSION, VISITOR, read_cookie

STALE = (
    "This form is not good any more: its page was open for too long, or this browser keeps no cookies. "
    "Nothing was done. Open the page anew, and fill in the form once more."
)

_ABOUT: Final = re.compile(r"([0-9]{1,19})-(test|live)")


class About(NamedTuple):
    """Which of its reader's accounts a page was about, in which mode; None: nobody was signed in."""

    membership_id: int | None = None
    mode: str | None = None

    @classmethod
    def of(cls, who: SignedIn | None) -> "About":
        return cls() if who is None else cls(who.here.membership_id, who.mode)

    @classmethod
    def read(cls, written: str) -> "About":
        """What stands before the dot of a word; `Forbidden` for anything else."""
        found = _ABOUT.fullmatch(written)
        if written and found is None:
            raise Forbidden(STALE)
        return cls(int(found[1]), found[2]) if found else cls()

    def __str__(self) -> str:
        return "" if self.membership_id is None else f"{self.membership_id}-{self.mode}"


NOBODYS: Final = About()


def csrf_token(request: Request, who: SignedIn | None) -> str:
    """For the forms of the page that answers this request: bound to the session or, before anyone is signed
    in, to the visitor's cookie (which `show` sets where there is none)."""
    cookie = _bound_to(request)
    if cookie is None:
        cookie = request.state.new_visitor = mint("visitor", secrets.token_bytes(24))
    return _words(request, cookie, str(About.of(who)))[0]


def about(request: Request, given: str) -> About:
    """What the page with this word was about. `Forbidden` if the word is not ours, or another browser's."""
    cookie, written = _bound_to(request), given.partition(".")[0]
    words = () if cookie is None else _words(request, cookie, written)
    if not any(hmac.compare_digest(given.encode(), word.encode()) for word in words):
        raise Forbidden(STALE)
    return About.read(written)


def _bound_to(request: Request) -> str | None:
    made: str | None = getattr(request.state, "new_visitor", None)
    return read_cookie(request, SESSION) or read_cookie(request, VISITOR) or made


def _words(request: Request, cookie: str, about: str) -> list[str]:
    """By the current key, and by the former ones: a page may have been open while the key was changed."""
    parts: Parts = request.app.state.parts
    bound = f"{about}.{cookie}".encode()
    keys = parts.sealer.derive_all("csrf")
    return [f"{about}.{hmac.new(key, bound, hashlib.sha256).hexdigest()}" for key in keys]


FIELD = "once"
KEY = re.compile(r"[A-Za-z0-9_-]{22}")
A_DAY = 24 * 60 * 60

COUNT = sa.text("select used from count_call(:key, :seconds)")


class DoneAlready(Conflict):
    """The same form once more. `leads_to` is where its reader finds what came of it."""

    def __init__(self, instead: str, leads_to: str) -> None:
        super().__init__(f"This was done already, and was not done again. {instead}")
        self.leads_to = leads_to


def new_key() -> str:
    """For the form of the page that is shown now."""
    return secrets.token_urlsafe(16)


def do_once(tx: Tx, who: SignedIn, key: str, *, instead: str, leads_to: str) -> None:
    """`DoneAlready`, in these words, if the form with this key was sent before, and what it asked for was
    done. Counted in the transaction of the act itself: of two at once one waits for the other, and what is
    refused may be sent again."""
    if not KEY.fullmatch(key):
        raise Forbidden(STALE)
    # The digest: what a browser sends is not kept.
    counted = f"day:once:{who.person_id}:{sha256(key.encode()).hexdigest()}"
    if tx.execute(COUNT, {"key": counted, "seconds": A_DAY}).scalar_one() > 1:
        raise DoneAlready(instead, leads_to)
