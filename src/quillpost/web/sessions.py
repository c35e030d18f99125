"""The user of a page, and where a failed request leads back to."""

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from quillpost.accounts.users import sessions
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.accounts.users.sign_in import SignInVisitor
from quillpost.core.errors import Forbidden, NotFound, QuillpostError, Unavailable
from quillpost.web.api.errors import RoutePaths
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services
from quillpost.web.rendering import own_path, path_with_next, redirect, safe_next
from quillpost.web.security import KNOWN_BROWSER, SESSION, own_origins, read_cookie

OWNERS_ONLY = "Only an owner of this account may do this. Ask one of them."


class NotSignedIn(QuillpostError):
    """Browsers are redirected to the sign-in page, and back; programs get a 401."""

    def __init__(self) -> None:
        super().__init__("Sign in first.")


class PasswordNotConfirmed(QuillpostError):
    """Browsers are redirected to the page that asks for the password, and back."""

    def __init__(self) -> None:
        super().__init__("Give your password again.")


def get_client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def get_visitor(request: Request) -> SignInVisitor:
    browser = request.headers.get("user-agent", "")[: sessions.MAX_BROWSER_LENGTH]
    return SignInVisitor(get_client_address(request), browser or None, read_cookie(request, KNOWN_BROWSER))


def find_user(request: Request, container: Services) -> SignedInUser | None:
    cookie = read_cookie(request, SESSION)
    if cookie is None:
        return None
    user = sessions.find_session(container.db, cookie, address=get_client_address(request), now=container.clock())
    # The next request of this session takes its turn among those of the account.
    request.state.account_id = None if user is None else user.here.account_id
    return user


async def find_user_if_available(request: Request) -> SignedInUser | None:
    """For error pages, which are shown to everybody."""
    try:
        return await run_in_threadpool(find_user, request, request.app.state.container)
    except Unavailable:
        return None


async def require_user(user: Annotated[SignedInUser | None, Depends(find_user)]) -> SignedInUser:
    if user is None:
        raise NotSignedIn
    return user


async def require_owner(user: Annotated[SignedInUser, Depends(require_user)]) -> SignedInUser:
    if not user.is_owner:
        raise Forbidden(OWNERS_ONLY)
    return user


async def require_operator(user: Annotated[SignedInUser, Depends(require_user)]) -> SignedInUser:
    """For everybody else the print room does not exist."""
    if not user.is_operator:
        raise NotFound
    return user


RequireUser = Callable[..., Awaitable[SignedInUser]]


def _require_confirmed(require: RequireUser) -> RequireUser:
    """The same, of a user who has given their password lately."""

    async def require_confirmed(user: Annotated[SignedInUser, Depends(require)], container: Services) -> SignedInUser:
        if container.clock() - user.confirmed_at > sessions.CONFIRMATION_LIFETIME:
            raise PasswordNotConfirmed
        return user

    return require_confirmed


require_confirmed_user = _require_confirmed(require_user)
require_confirmed_owner = _require_confirmed(require_owner)
require_confirmed_operator = _require_confirmed(require_operator)


OptionalUser = Annotated[SignedInUser | None, Depends(find_user)]
CurrentUser = Annotated[SignedInUser, Depends(require_user)]
ConfirmedOwner = Annotated[SignedInUser, Depends(require_confirmed_owner)]


def is_fragment(request: Request) -> bool:
    """Whether a page of ours asks for a part of itself."""
    return request.headers.get("hx-request") == "true"


def is_for_browser(request: Request) -> bool:
    """The API's callers are programs."""
    if request.url.path.startswith("/api/"):
        return False
    return "text/html" in request.headers.get("accept", "") or is_fragment(request)


def install_redirects(app: FastAPI) -> None:
    """A redirect for people, JSON for programs."""

    def add_redirect(error_type: type[QuillpostError], path: str, status: int) -> None:
        async def respond(request: Request, error: Exception) -> Response:
            if is_for_browser(request):
                return redirect_page(request, path_with_next(path, current_page_path(request)))
            return json_response({"message": str(error)}, status=status, headers={"Cache-Control": "no-store"})

        app.add_exception_handler(error_type, respond)

    add_redirect(NotSignedIn, "/sign-in", 401)
    add_redirect(PasswordNotConfirmed, "/sign-in/confirm", 403)


def redirect_page(request: Request, path: str) -> Response:
    """Redirect the whole page, even if only a part of it was requested."""
    if is_fragment(request):
        return Response(status_code=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"})
    return redirect(path)


def current_page_path(request: Request) -> str:
    """The requested page or, for a form or a fragment, the page that it is on."""
    if request.method in ("GET", "HEAD") and not is_fragment(request):
        query = f"?{request.url.query}" if request.url.query else ""
        return safe_next(request.url.path + query)
    return safe_next(referer_path(request))


def referer_path(request: Request) -> str:
    """The page of ours that the browser came from, with its query; else "/"."""
    page = urlsplit(request.headers.get("referer", ""))
    if f"{page.scheme}://{page.netloc}".lower() not in own_origins(request):
        return "/"
    return page.path + (f"?{page.query}" if page.query else "")


def form_page_path(request: Request) -> str:
    """The page of the form that was sent: the referer, this path, or the nearest page above it. Opening it gives a
    fresh form, which reloading the answer does not."""
    paths = RoutePaths.from_routes(request.app.routes)
    referer = own_path(referer_path(request)) if request.method == "POST" else "/"
    if referer != "/" and _is_page(paths, referer.partition("?")[0]):
        return referer
    path = own_path(request.url.path)
    while path and not _is_page(paths, path):
        path = path.rpartition("/")[0]
    return path or "/"


def _is_page(paths: RoutePaths, path: str) -> bool:
    return "GET" in paths.declared_methods(path)
