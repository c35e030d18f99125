"""What public endpoints share: bounded bodies, pages without a user, and limits for anonymous callers."""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import Request, Response

from quillpost.accounts.rate_limits.service import count_public_call
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.web import rendering
from quillpost.web.api.arrival import read_whole_body
from quillpost.web.api.errors import RequestAborted
from quillpost.web.sessions import get_client_address


def limit_body(max_bytes: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: the whole body, in time, up to `max_bytes`."""

    async def raw_body(request: Request) -> bytes:
        try:
            return await read_whole_body(
                request.scope, request.receive, max_bytes=max_bytes, report_size=lambda _: None
            )
        except RequestAborted:  # the caller is gone
            raise Invalid({"body": ["The body breaks off: send it whole."]}) from None

    return raw_body


def is_for_people(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def render_public_page(
    request: Request, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: object
) -> Response:
    text = rendering.render_template(template, release=request.app.state.release, **values)
    response = rendering.html_response(text, status=status)
    response.headers.update(headers or {})
    return response


def seconds_to_wait(
    request: Request, container: Container, name: str, *, max_per_network: int, max_total: int
) -> int | None:
    """Count a call in this minute; the seconds to wait if its network, or all of them together, made too many."""
    allowances = [
        count_public_call(container.db, name, network, limit=limit)
        for network, limit in ((get_client_address(request), max_per_network), (None, max_total))
    ]
    return next((allowance.resets_in for allowance in allowances if allowance.is_exceeded), None)
