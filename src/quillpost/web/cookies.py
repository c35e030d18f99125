"""Our cookies, the reader's time zone, and whether a request comes from our own pages."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from fastapi import Request, Response

from quillpost.app.container import Container
from quillpost.core.errors import Forbidden
from quillpost.core.tokens import SecretKind, is_of_kind

SESSION, VISITOR, KNOWN_BROWSER = "quillpost_session", "quillpost_visitor", "quillpost_known"
"""Who is signed in; whose form it is before anyone is; and that this browser was let in before."""

COOKIE_KINDS: Final[Mapping[str, SecretKind]] = {SESSION: "session", VISITOR: "visitor", KNOWN_BROWSER: "known"}


def read_cookie(request: Request, name: str) -> str | None:
    """Its value, if it has the form of one that we gave."""
    value = request.cookies.get(_full_name(request, name))
    return value if value is not None and is_of_kind(value, COOKIE_KINDS[name]) else None


def set_cookie(request: Request, response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
    """HttpOnly, SameSite=Lax, Path=/, Secure over https; without `seconds` until the browser is closed."""
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
    """As the reader's browser sees it: a proxy that is trusted says so."""
    return request.url.scheme == "https"


ZONE_COOKIE: Final = "quillpost_zone"
UTC: Final = ZoneInfo("UTC")


def get_zone(request: Request) -> ZoneInfo:
    return find_zone(request.cookies.get(ZONE_COOKIE, "")) or UTC


def find_zone(name: str) -> ZoneInfo | None:
    """The zone of this name; nothing where there is none. What others write is looked up among the names that
    there are, opens no file, and is kept nowhere."""
    return ZoneInfo(name) if name in _zone_names() else None


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


OWN_FETCH_SITES = frozenset({"same-origin", "none"})
"""What browsers say of a request (Sec-Fetch-Site) that a page of ours, or their user's own hand, has made."""

FOREIGN_FORM = "This form was sent by another site. Open the page here, and send it from there."


def own_origins(request: Request) -> frozenset[str]:
    """As this request found us, and as the settings say, which knows of any proxy."""
    container: Container = request.app.state.container
    base = urlsplit(container.base_url)
    request_origin = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return frozenset({request_origin.lower(), f"{base.scheme}://{base.netloc}".lower()})


def require_own_site(request: Request) -> None:
    """`Forbidden` if a browser says that another site has sent it."""
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() not in own_origins(request):
        raise Forbidden(FOREIGN_FORM)
    if request.headers.get("sec-fetch-site", "same-origin") not in OWN_FETCH_SITES:
        raise Forbidden(FOREIGN_FORM)
