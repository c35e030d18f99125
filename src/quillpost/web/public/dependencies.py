"""What public endpoints share: bounded bodies and limits for anonymous callers."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from quillpost.accounts.rate_limits import count_public_call
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
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
        except RequestAborted:  # nobody is there to be told
            raise Invalid({"body": ["The body breaks off: send it whole."]}) from None

    return raw_body


def seconds_to_wait(
    request: Request, container: Container, name: str, *, max_per_network: int, max_total: int
) -> int | None:
    """Count a call in this minute; the seconds to wait if its network, or all of them together, made too many."""
    allowances = [
        count_public_call(container.db, name, network, limit=limit)
        for network, limit in ((get_client_address(request), max_per_network), (None, max_total))
    ]
    return next((allowance.resets_in for allowance in allowances if allowance.is_exceeded), None)
