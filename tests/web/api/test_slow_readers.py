"""Whoever reads an answer slowly keeps nobody else out."""

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.web.middleware.admission import MAX_CONCURRENT_REQUESTS
from support.factories import Account
from support.guarded_app import build_guarded_app


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def test_a_full_room_of_slow_readers_is_no_room_at_all(owner: Account, container: Container) -> None:
    headers = [(b"authorization", f"Bearer {owner.token}".encode())]
    call = {"type": "http", "method": "GET", "path": "/api/v2/ping", "client": ("127.0.0.1", 1)}
    scope: Scope = call | {"headers": headers}

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def everyone() -> list[Message]:
        gate, patience = build_guarded_app(answering, container), asyncio.Event()

        async def slow(message: Message) -> None:
            await patience.wait()

        async with asyncio.TaskGroup() as readers:
            for _ in range(2 * MAX_CONCURRENT_REQUESTS):
                readers.create_task(gate({**scope}, receive, slow))
            got: list[Message] = []

            async def quick(message: Message) -> None:
                got.append(message)

            async with asyncio.timeout(30):
                await gate({**scope}, receive, quick)
            patience.set()
        return got

    found: list[Any] = asyncio.run(everyone())
    assert [message["type"] for message in found] == ["http.response.start", "http.response.body"]
