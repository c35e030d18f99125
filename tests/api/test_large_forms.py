"""A large form keeps nobody else waiting, and takes no longer than its length warrants."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message
from traces import FORM

from quillpost.api import bodies
from quillpost.kit.errors import Invalid


def request_with(body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": [(b"content-type", FORM.encode())]}, receive)


def test_others_are_served_while_a_large_form_is_read() -> None:
    async def turns_meanwhile() -> int:
        reading = asyncio.create_task(bodies.understand(request_with(b"message=" + b"%41" * 1_000_000)))
        turns = 0
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        understood = await (await reading).json()
        assert understood == {"message": "A" * 1_000_000}
        return turns

    assert asyncio.run(turns_meanwhile()) > 10


class Compared(str):
    """Counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_every_name_is_looked_at_once() -> None:
    pairs = [(Compared(f"name {n}"), n) for n in range(1_000)]
    assert bodies._once_each(pairs) == dict(pairs)
    assert Compared.times < 10 * len(pairs)


def test_the_first_name_that_comes_twice_is_named() -> None:
    body = b"a=1&b=2&c=3&c=4&b=5&a=6&" + b"x" * bodies.LARGE_BODY + b"="
    with pytest.raises(Invalid) as refused:
        asyncio.run(bodies.understand(request_with(body)))
    assert refused.value.fields == {"a": ["This field is given twice."]}
