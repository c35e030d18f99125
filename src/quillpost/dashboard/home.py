"""The first page, and a kind word where there is none."""

from ipaddress import ip_address
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from quillpost import pages
from quillpost.api.errors import answer_to
from quillpost.api.needs import parts_of
from quillpost.kit.errors import NotFound
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """What this is, and where to go from here."""
    return pages.page(
        pages.text_of(
            "home.html",
            release=request.app.state.release,
            has_receiver=parts.receiver_key is not None,
            receiver_path=f"/receiver/{parts.receiver_key}" if _may_see_receiver(request, parts) else None,
        )
    )


def add_missing_page(app: FastAPI) -> None:
    """People who lose their way get a page; programs, and whoever calls the API, get JSON."""

    async def answer_missing(request: Request, failure: Exception) -> Response:
        if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            return answer_to(request, failure)
        return pages.page(pages.text_of("missing.html", release=app.state.release), status=404)

    app.add_exception_handler(NotFound, answer_missing)
    app.add_exception_handler(404, answer_missing)


def _may_see_receiver(request: Request, parts: Parts) -> bool:
    """The receiver's address is its key. Only a visitor from this machine is told it, and only under a
    name of this machine: another site that points its own name here learns nothing."""
    if parts.receiver_key is None or request.client is None:
        return False
    return _is_this_machine(request.client.host) and _is_this_machine(request.url.hostname or "")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
