"""Who reads a page, and where a request that failed leads back to."""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from quillpost.accounts.users import sessions
from quillpost.accounts.users.sessions import SignedIn
from quillpost.accounts.users.sign_in import Visitor
from quillpost.app.container import Parts
from quillpost.core.errors import Forbidden, NotFound, QuillpostError, Unavailable
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.errors import Paths
from quillpost.web.api.responses import answer
from quillpost.web.cookies import KNOWN, SESSION, own_origins, read_cookie
from quillpost.web.rendering import go, own_path, safe_next, sign_in_first, with_next

OWNERS_ALONE = "Only an owner of this account may do this. Ask one of them."


class NotSignedIn(QuillpostError):
    """A page that needs somebody. Browsers are led to the sign-in page, and back; programs get a 401."""

    def __init__(self) -> None:
        super().__init__("Sign in first.")


class NotConfirmed(QuillpostError):
    """An act that needs the password again. Browsers are led to the page that asks for it, and back."""

    def __init__(self) -> None:
        super().__init__("Give your password again.")


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def visitor_of(request: Request) -> Visitor:
    """Whoever tries to sign in, as far as they can be told from others."""
    browser = request.headers.get("user-agent", "")[: sessions.LONGEST_BROWSER]
    return Visitor(address_of(request), browser or None, read_cookie(request, KNOWN))


def maybe_signed_in(request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> SignedIn | None:
    cookie = read_cookie(request, SESSION)
    if cookie is None:
        return None
    who = sessions.find_session(parts.db, cookie, address=address_of(request), now=parts.clock())
    # The next request of this session takes its turn among those of the account.
    request.state.account_id = None if who is None else who.here.account_id
    return who


async def reader_of(request: Request) -> SignedIn | None:
    """The same for a page about a failure, which is shown to whoever it may be."""
    try:
        return await run_in_threadpool(maybe_signed_in, request, request.app.state.parts)
    except Unavailable:
        return None


def signed_in(who: Annotated[SignedIn | None, Depends(maybe_signed_in)]) -> SignedIn:
    """Whoever is signed in, or `NotSignedIn`."""
    if who is None:
        raise NotSignedIn
    return who


def owner(who: Annotated[SignedIn, Depends(signed_in)]) -> SignedIn:
    """An owner of the account, or `Forbidden` in words that say who could do it."""
    if not who.is_owner:
        raise Forbidden(OWNERS_ALONE)
    return who


def confirmed_owner(
    who: Annotated[SignedIn, Depends(owner)], parts: Annotated[Parts, Depends(parts_of)]
) -> SignedIn:
    """The same, who has given their password a short while ago, or `NotConfirmed`."""
    return _confirmed(who, parts)


def confirmed(
    who: Annotated[SignedIn, Depends(signed_in)], parts: Annotated[Parts, Depends(parts_of)]
) -> SignedIn:
    """Whoever is signed in and has given their password a short while ago, or `NotConfirmed`."""
    return _confirmed(who, parts)


def operator(who: Annotated[SignedIn, Depends(signed_in)]) -> SignedIn:
    """Somebody who runs the service. For everybody else its print room is not there."""
    if not who.is_operator:
        raise NotFound
    return who


def confirmed_operator(
    who: Annotated[SignedIn, Depends(operator)], parts: Annotated[Parts, Depends(parts_of)]
) -> SignedIn:
    """The same, who has given their password a short while ago, or `NotConfirmed`."""
    return _confirmed(who, parts)


OurParts = Annotated[Parts, Depends(parts_of)]
MaybeReader = Annotated[SignedIn | None, Depends(maybe_signed_in)]
Reader = Annotated[SignedIn, Depends(signed_in)]
Owner = Annotated[SignedIn, Depends(owner)]
ConfirmedOwner = Annotated[SignedIn, Depends(confirmed_owner)]
ConfirmedReader = Annotated[SignedIn, Depends(confirmed)]
Operator = Annotated[SignedIn, Depends(operator)]
ConfirmedOperator = Annotated[SignedIn, Depends(confirmed_operator)]


def is_fragment(request: Request) -> bool:
    """Whether a page of ours asks for a part of itself."""
    return request.headers.get("hx-request") == "true"


def is_for_people(request: Request) -> bool:
    """Whether a browser shows the answer to somebody. Whoever calls the API is a program."""
    if request.url.path.startswith("/api/"):
        return False
    return "text/html" in request.headers.get("accept", "") or is_fragment(request)


def install(app: FastAPI) -> None:
    """How those failures look: a redirect, or a page, for people; our one shape for programs."""

    async def answer_not_signed_in(request: Request, failure: Exception) -> Response:
        if is_for_people(request):
            return lead(request, sign_in_first(page_of_form(request)))
        return answer({"message": str(failure)}, status=401, headers={"Cache-Control": "no-store"})

    async def answer_not_confirmed(request: Request, failure: Exception) -> Response:
        if is_for_people(request):
            return lead(request, with_next("/sign-in/confirm", page_of_form(request)))
        return answer({"message": str(failure)}, status=403, headers={"Cache-Control": "no-store"})

    app.add_exception_handler(NotSignedIn, answer_not_signed_in)
    app.add_exception_handler(NotConfirmed, answer_not_confirmed)


def lead(request: Request, path: str) -> Response:
    """On to another page of ours, the whole of it, whether all of this one was asked for or a part."""
    if is_fragment(request):
        return Response(status_code=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"})
    return go(path)


def page_of_form(request: Request) -> str:
    """Where the reader is: the page that they asked for or, of a form or a part, the one that it is on."""
    if request.method in ("GET", "HEAD") and not is_fragment(request):
        query = f"?{request.url.query}" if request.url.query else ""
        return safe_next(request.url.path + query)
    return safe_next(came_from(request))


def came_from(request: Request) -> str:
    """The page of ours that a browser says it was on, with its query; "/" if it does not say, or it was
    another site's."""
    page = urlsplit(request.headers.get("referer", ""))
    if f"{page.scheme}://{page.netloc}".lower() not in own_origins(request):
        return "/"
    return page.path + (f"?{page.query}" if page.query else "")


def _confirmed(who: SignedIn, parts: Parts) -> SignedIn:
    if parts.clock() - who.confirmed_at > sessions.CONFIRMED_FOR:
        raise NotConfirmed
    return who


def way_back(request: Request) -> str:
    """The page on which the form stands that was sent here: the one that the browser says it comes from, or
    this very path, or the nearest above it that is a page. To open it is to get a fresh form, which loading
    the answer again is not."""
    paths = Paths.of(request.app.routes)
    said = own_path(came_from(request)) if request.method == "POST" else "/"
    if said != "/" and _is_page(paths, said.partition("?")[0]):
        return said
    here = own_path(request.url.path)
    while here and not _is_page(paths, here):
        here = here.rpartition("/")[0]
    return here or "/"


def _is_page(paths: Paths, path: str) -> bool:
    return "GET" in paths.taken_at(path)
