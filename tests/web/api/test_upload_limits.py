"""Files that arrive: no account takes all the places, and other calls always pass."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from httpx2 import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.core.requests import ClientConnection, FairQueue, client_context
from quillpost.recipients.imports import files
from quillpost.web.api.imports.files import MAX_UPLOADS, MAX_UPLOADS_PER_ACCOUNT
from quillpost.web.middleware.admission import MAX_CONCURRENT_REQUESTS, Admission
from support.factories import Account
from support.guarded_app import build_guarded_app
from support.imports import Importer
from support.mailing_lists import ListOwner
from support.workbooks import workbook

FILE = "/api/v2/imports/preview"


class Works:
    """An application in which whoever brings a file stays until they may leave."""

    def __init__(self) -> None:
        self.at_work, self.may_leave = asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == FILE:
            self.at_work.release()
            await self.may_leave.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


async def called(gate: ASGIApp, account: Account, path: str = FILE) -> tuple[int, Any]:
    got: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"Name,Email\n"}

    async def send(message: Message) -> None:
        got.append(message)

    headers = [(b"authorization", f"Bearer {account.token}".encode()), (b"content-type", b"text/csv")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    async with asyncio.timeout(30):
        await gate(scope, receive, send)
    return got[0]["status"], json.loads(got[1]["body"])


@asynccontextmanager
async def crowded(works: Works, gate: ASGIApp, senders: list[Account]) -> AsyncIterator[None]:
    """While each of them has a file there."""
    async with asyncio.TaskGroup() as others:
        for account in senders:
            others.create_task(called(gate, account))
        async with asyncio.timeout(30):
            for _ in senders:
                await works.at_work.acquire()
        yield
        works.may_leave.set()


def test_an_account_has_its_share_of_the_places_and_leaves_the_others(
    owner: Account, stranger: Account, container: Container
) -> None:
    async def crowd() -> list[tuple[int, Any]]:
        works = Works()
        gate = build_guarded_app(works, container)
        async with crowded(works, gate, [owner] * MAX_UPLOADS_PER_ACCOUNT):
            refused = await called(gate, owner)
            passed = await called(gate, owner, "/api/v2/ping")
            theirs = asyncio.create_task(called(gate, stranger))
        return [refused, passed, await theirs, await called(gate, owner)]

    refused, passed, theirs, later = asyncio.run(crowd())
    assert refused == (503, {"message": "2 of your files are being read already. Send this one when they are."})
    assert (passed[0], theirs[0], later[0]) == (200, 200, 200)


def test_all_together_leave_room_for_other_calls(
    owner: Account, stranger: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_UPLOADS < MAX_CONCURRENT_REQUESTS
    monkeypatch.setattr("quillpost.web.api.imports.files.MAX_UPLOADS_PER_ACCOUNT", MAX_UPLOADS)

    async def crowd() -> list[tuple[int, Any]]:
        works = Works()
        gate = build_guarded_app(
            works, container, Admission(max_per_caller=MAX_CONCURRENT_REQUESTS, max_wait_seconds=30)
        )
        async with crowded(works, gate, [owner] * MAX_UPLOADS):
            answers = [await called(gate, stranger), await called(gate, stranger, "/api/v2/ping")]
        return [*answers, await called(gate, stranger)]

    refused, passed, later = asyncio.run(crowd())
    assert refused == (503, {"message": "Too many files arrive at once. Send this one again in a moment."})
    assert (passed[0], later[0]) == (200, 200)


def test_one_workbook_of_an_account_is_read_at_a_time(
    owner: Account, stranger: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "reader_queue", FairQueue(files.MAX_CONCURRENT, files.MAX_PER_ACCOUNT, 0.01))
    importer = Importer(ListOwner(owner), container)
    people = workbook([["Name", "Email"], ["Jane Doe", "jane@example.com"]])

    others = Importer(ListOwner(stranger), container)

    def preview(whose: Importer) -> Response:
        return whose.upload(0, people, name="people.xlsx", to="/imports/preview")

    with client_context(ClientConnection(lambda: owner.id)), files.reader_queue.slot(""):
        busy, other = preview(importer), preview(others)
    assert (busy.status_code, busy.json()) == (503, {"message": files.READER_BUSY})
    assert (other.status_code, preview(importer).status_code) == (200, 200)
