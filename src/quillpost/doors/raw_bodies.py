"""Bodies of those who come without a token: to the letter, as their signature needs them, and not endless."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from quillpost.api.arrival import HungUp, whole_body
from quillpost.kit.errors import Invalid


def at_most(largest: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: the whole body, in time, up to so many bytes."""

    async def raw_body(request: Request) -> bytes:
        try:
            return await whole_body(request.scope, request.receive, largest=largest, grow=lambda _: None)
        except HungUp:  # nobody is there to be told
            raise Invalid({"body": ["The body breaks off: send it whole."]}) from None

    return raw_body
