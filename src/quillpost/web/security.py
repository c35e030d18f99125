"""Cookies, CSRF tokens, forms that act only once, and the reader's time zone."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

import sqlalchemy as sa
from fastapi import Request, Response

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Forbidden, Message
from quillpost.core.text import is_loopback_host
from quillpost.core.tokens import SecretKind, is_of_kind, mint_secret

SESSION, VISITOR, KNOWN_BROWSER = "quillpost_session", "quillpost_visitor", "quillpost_known"
"""The session; whose form it is before anyone signs in; and that a user signed in here before."""

COOKIE_KINDS: Final[Mapping[str, SecretKind]] = {SESSION: "session", VISITOR: "visitor", KNOWN_BROWSER: "known"}


def read_cookie(request: Request, name: str) -> str | None:
    """The value, if it looks like one of ours."""
    value = request.cookies.get(_full_name(request, name))
    return value if value is not None and is_of_kind(value, COOKIE_KINDS[name]) else None


def set_cookie(request: Request, response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
    """HttpOnly, SameSite=Lax, Secure over https; without `seconds` until the browser is closed."""
    response.set_cookie(
        _full_name(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(
        _full_name(request, name), path="/", secure=_is_secure(request), httponly=True, samesite="lax"
    )


def _full_name(request: Request, name: str) -> str:
    return f"__Host-{name}" if _is_secure(request) else name


def _is_secure(request: Request) -> bool:
    """As the browser sees it: a trusted proxy says so."""
    return request.url.scheme == "https"


def is_local_visitor(request: Request) -> bool:
    """Whether it comes from this machine, and under a name of this machine: another site that points its name here
    learns nothing."""
    if request.client is None:
        return False
    return is_loopback_host(request.client.host) and is_loopback_host(request.url.hostname or "")


ZONE_COOKIE: Final = "quillpost_zone"
UTC: Final = ZoneInfo("UTC")


def get_zone(request: Request) -> ZoneInfo:
    return find_zone(request.cookies.get(ZONE_COOKIE, "")) or UTC


def find_zone(name: str) -> ZoneInfo | None:
    """What others write is only compared with known names: it opens no file and is kept nowhere."""
    return ZoneInfo(name) if name in _zone_names() else None


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


OWN_FETCH_SITES = frozenset({"same-origin", "none"})
"""What browsers send (Sec-Fetch-Site) with a request of our own page, or of their user's own making."""

FOREIGN_FORM = "This form was sent by another site. Open the page here, and send it from there."


def own_origins(request: Request) -> frozenset[str]:
    """The origin of this request, and that of the settings, which know of any proxy."""
    container: Container = request.app.state.container
    base = urlsplit(container.base_url)
    request_origin = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return frozenset({request_origin.lower(), f"{base.scheme}://{base.netloc}".lower()})


def require_own_site(request: Request) -> None:
    """`Forbidden` if the browser says that another site sent it."""
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() not in own_origins(request):
        raise Forbidden(FOREIGN_FORM)
    if request.headers.get("sec-fetch-site", "same-origin") not in OWN_FETCH_SITES:
        raise Forbidden(FOREIGN_FORM)


STALE_FORM = Message(
    "stale_form",
    "This form is not good any more: its page was open for too long, or this browser keeps no cookies. "
    "Nothing was done. Open the page anew, and fill in the form once more.",
)

_CONTEXT_PATTERN: Final = re.compile(r"([0-9]{1,19})-(test|live)")


class PageContext(NamedTuple):
    """Which of the user's accounts a page was about, and in which mode; None if no user was signed in."""

    membership_id: int | None = None
    mode: str | None = None

    @classmethod
    def from_user(cls, user: SignedInUser | None) -> "PageContext":
        return cls() if user is None else cls(user.here.membership_id, user.mode)

    @classmethod
    def parse(cls, text: str) -> "PageContext":
        """The part of a CSRF token before its dot; `Forbidden` if it is malformed."""
        match = _CONTEXT_PATTERN.fullmatch(text)
        if text and match is None:
            raise Forbidden(STALE_FORM)
        return cls(int(match[1]), match[2]) if match else cls()

    def __str__(self) -> str:
        return "" if self.membership_id is None else f"{self.membership_id}-{self.mode}"


NO_CONTEXT: Final = PageContext()


def create_csrf_token(request: Request, user: SignedInUser | None) -> str:
    """For the forms of a page: bound to the session or, before anyone is signed in, to the visitor cookie, which
    `render_page` sets."""
    cookie = _bound_cookie(request)
    if cookie is None:
        cookie = request.state.new_visitor = mint_secret("visitor", secrets.token_bytes(24))
    return _sign_tokens(request, cookie, str(PageContext.from_user(user)))[0]


def verify_csrf_token(request: Request, token: str) -> PageContext:
    """The context of the page with this token; `Forbidden` if it is not ours or another browser's."""
    cookie, context = _bound_cookie(request), token.partition(".")[0]
    valid_tokens = () if cookie is None else _sign_tokens(request, cookie, context)
    if not any(hmac.compare_digest(token.encode(), valid_token.encode()) for valid_token in valid_tokens):
        raise Forbidden(STALE_FORM)
    return PageContext.parse(context)


def _bound_cookie(request: Request) -> str | None:
    new_visitor: str | None = getattr(request.state, "new_visitor", None)
    return read_cookie(request, SESSION) or read_cookie(request, VISITOR) or new_visitor


def _sign_tokens(request: Request, cookie: str, context: str) -> list[str]:
    """With the current key and the former ones: a page may have been open while the key changed."""
    container: Container = request.app.state.container
    payload = f"{context}.{cookie}".encode()
    keys = container.encryptor.derive_keys("csrf")
    return [f"{context}.{hmac.new(key, payload, hashlib.sha256).hexdigest()}" for key in keys]


ONE_TIME_FIELD = "once"
ONE_TIME_KEY = re.compile(r"[A-Za-z0-9_-]{22}")
DAY_SECONDS = 24 * 60 * 60

COUNT_CALL = sa.text("select used from count_call(:key, :seconds)")


class DuplicateSubmission(Conflict):
    """A form that was sent before; `result_path` shows what came of it."""

    def __init__(self, hint: str, result_path: str) -> None:
        super().__init__(f"This was done already, and was not done again. {hint}")
        self.result_path = result_path


def create_one_time_key() -> str:
    return secrets.token_urlsafe(16)


def use_one_time_key(tx: Tx, user: SignedInUser, key: str, *, hint: str, result_path: str) -> None:
    """`DuplicateSubmission` if a form with this key was sent before and succeeded. Counted in the transaction of the
    action: of two at once one waits for the other, and a refused form may be sent again."""
    if not ONE_TIME_KEY.fullmatch(key):
        raise Forbidden(STALE_FORM)
    # The digest: what a browser sends is not kept.
    counter_key = f"day:once:{user.person_id}:{sha256(key.encode()).hexdigest()}"
    if tx.execute(COUNT_CALL, {"key": counter_key, "seconds": DAY_SECONDS}).scalar_one() > 1:
        raise DuplicateSubmission(hint, result_path)
