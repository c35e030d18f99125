"""The cookies of our pages. Over https their names begin with `__Host-`: no other host can set them."""

from collections.abc import Mapping
from typing import Final

from fastapi import Request, Response

from quillpost.kit.tokens import Kind, is_of_kind

SESSION, VISITOR, KNOWN = "quillpost_session", "quillpost_visitor", "quillpost_known"
"""Who is signed in; whose form it is before anyone is; and that this browser was let in before."""

KINDS: Final[Mapping[str, Kind]] = {SESSION: "session", VISITOR: "visitor", KNOWN: "known"}


def read_cookie(request: Request, name: str) -> str | None:
    """Its value, if it has the form of one that we gave."""
    value = request.cookies.get(_full_name(request, name))
    return value if value is not None and is_of_kind(value, KINDS[name]) else None


def set_cookie(
    request: Request, response: Response, name: str, value: str, *, seconds: int | None = None
) -> None:
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


def drop_cookie(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(
        _full_name(request, name), path="/", secure=_is_secure(request), httponly=True, samesite="lax"
    )


def _full_name(request: Request, name: str) -> str:
    return f"__Host-{name}" if _is_secure(request) else name


def _is_secure(request: Request) -> bool:
    """As the reader's browser sees it: a proxy that is trusted says so."""
    return request.url.scheme == "https"
