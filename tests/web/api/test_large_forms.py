"""A large form keeps nobody else waiting, and takes no longer than its length warrants."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from quillpost.app.container import Limits
from quillpost.core.errors import Invalid
from quillpost.web import forms as web_forms
from quillpost.web.api import requests
from support.traces import FORM


def request_with(body: bytes) -> Request:
    async def receive() -> Message:
        return given.pop() if given else await asyncio.get_running_loop().create_future()

    given: list[Message] = [{"type": "http.request", "body": body}]
    app = SimpleNamespace(state=SimpleNamespace(container=SimpleNamespace(limits=Limits())))
    scope = {"type": "http", "headers": [(b"content-type", FORM.encode())], "app": app}
    return Request(scope, receive)


async def turns_during(reading: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How often the loop turned to others meanwhile, and what was read."""
    task, turns = asyncio.create_task(reading), 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return turns, await task


def test_others_are_served_while_a_large_form_is_read() -> None:
    names = [f"field{number}" for number in range(4)]
    sent = request_with(b"&".join(name.encode() + b"=" + b"%41" * 300_000 for name in names))
    turns, read = asyncio.run(turns_during(requests.parse_request(sent)))
    assert turns > 10
    assert asyncio.run(read.json()) == dict.fromkeys(names, "A" * 300_000)


def test_others_are_served_while_a_large_form_of_a_page_is_read() -> None:
    turns, read = asyncio.run(turns_during(web_forms.read_form_with_key(request_with(b"people=" + b"%41" * 300_000))))
    assert turns > 10
    assert read.fields == {"people": ["A" * 300_000]}


class Compared(str):
    """Counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_every_name_is_looked_at_once() -> None:
    pairs = [(Compared(f"name {n}"), n) for n in range(1_000)]
    assert requests._reject_duplicates(pairs) == dict(pairs)
    assert Compared.times < 10 * len(pairs)


def test_the_first_name_that_comes_twice_is_named() -> None:
    body = b"a=1&b=2&c=3&c=4&b=5&a=6&x=" + b"x" * requests.LARGE_BODY_BYTES
    with pytest.raises(Invalid) as refused:
        asyncio.run(requests.parse_request(request_with(body)))
    assert refused.value.fields == {"a": ["This field is given twice."]}
