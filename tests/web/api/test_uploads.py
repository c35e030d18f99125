"""Forms with files: bounded, in turns, and refused in plain words; no account takes all the places."""

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
from quillpost.web.api.requests import MAX_FIELD_BYTES, MAX_FIELDS, MAX_FILES
from quillpost.web.middleware.admission import MAX_CONCURRENT_REQUESTS, Admission
from support.factories import Account
from support.mailing_lists import Importer, ListOwner
from support.raw_http import build_guarded_app
from support.traces import unchanged
from support.uploads import form_of, png, workbook

TYPE, NAME = ('name="type"', b"postcard"), ('name="name"', b"Spring")
IMAGE = ('name="image"; filename="a.png"', png())
WHOLE = form_of("b", TYPE, NAME, IMAGE)
FORM = "multipart/form-data; boundary=b"
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no boundary": (WHOLE, "multipart/form-data"), "an empty boundary": (WHOLE, "multipart/form-data; boundary="),
    "a long boundary": (WHOLE, "multipart/form-data; boundary=" + "b" * 71),
    "an odd boundary": (WHOLE, 'multipart/form-data; boundary="b\\"c"'),
    "another boundary": (WHOLE, "multipart/form-data; boundary=other"), "cut off": (WHOLE[:-30], FORM),
    "no form": (b"nothing of the kind", FORM), "a long header": (b"--b\r\n" + b"x" * 9_000 + b"\r\n--b--", FORM),
    "no name": (form_of("b", ("filename=x", b"")), FORM),
    "no utf-8": (form_of("b", ('name="name"', b"\xff\xfe")), FORM),
    "a long field": (form_of("b", ('name="name"', b"x" * (MAX_FIELD_BYTES + 1))), FORM),
    "many fields": (form_of("b", *((f'name="f{n}"', b"") for n in range(MAX_FIELDS + 1))), FORM),
    "many files": (form_of("b", *((f'name="f{n}"; filename="f"', b"") for n in range(MAX_FILES + 1))), FORM),
}  # fmt: skip
WRONG_PARTS: list[tuple[str, list[tuple[str, bytes]]]] = [
    ("image", [TYPE, NAME]), ("image", [TYPE, NAME, ('name="image"', b"")]),
    ("image", [TYPE, NAME, ('name="image"; filename=""', b"")]), ("name", [TYPE, NAME, NAME, IMAGE]),
    ("image", [TYPE, NAME, IMAGE, IMAGE]), ("name", [TYPE, ('name="name"; filename="n"', b"Spring"), IMAGE]),
    ("sub_account_id", [TYPE, NAME, IMAGE, ('name="sub_account_id"', b"one")]),
]  # fmt: skip


def post(account: Account, body: bytes, kind: str = FORM, *, path: str = "/image-templates") -> Response:
    return account.call("POST", path, content=body, headers={"Content-Type": kind})


def test_an_unreadable_form_is_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    cases = [(name, "body", body, kind) for name, (body, kind) in UNREADABLE.items()]
    cases += [(str(parts)[:99], field, form_of("b", *parts), FORM) for field, parts in WRONG_PARTS]
    with unchanged(container):
        for name, field, body, kind in cases:
            with subtests.test(name):
                refused = post(owner, body, kind)
                assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
        for path in ("/message-templates", "/webhooks", "/send/postcard"):
            refused = post(owner, WHOLE, path=path)
            assert (refused.status_code, "No files are taken here" in refused.json()["message"]) == (415, True)


def test_whatever_its_letters_a_form_s_words_are_utf_8(owner: Account) -> None:
    body = form_of("b", TYPE, ('name="name"', "Frühling 漢".encode()), IMAGE)
    for kind in ("multipart/form-data; boundary=b; charset=UTF-8", 'Multipart/Form-Data; boundary="b"'):
        made = post(owner, body, kind)
        assert (made.status_code, made.json()["name"]) == (201, "Frühling 漢"), made.text


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


async def called(
    gate: ASGIApp, account: Account, path: str = FILE, *, patience: asyncio.Event | None = None
) -> tuple[int, Any]:
    """What is answered, though not read before anybody is patient no longer."""
    got: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"Name,Email\n"}

    async def send(message: Message) -> None:
        if patience is not None:
            await patience.wait()
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


def test_an_account_has_its_share_of_the_places_only(owner: Account, stranger: Account, container: Container) -> None:
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
        works, room = Works(), Admission(max_per_caller=MAX_CONCURRENT_REQUESTS, max_wait_seconds=30)
        gate = build_guarded_app(works, container, room)
        async with crowded(works, gate, [owner] * MAX_UPLOADS):
            answers = [await called(gate, stranger), await called(gate, stranger, "/api/v2/ping")]
        return [*answers, await called(gate, stranger)]

    refused, passed, later = asyncio.run(crowd())
    assert refused == (503, {"message": "Too many files arrive at once. Send this one again in a moment."})
    assert (passed[0], later[0]) == (200, 200)


def test_whoever_reads_an_answer_slowly_keeps_nobody_else_out(owner: Account, container: Container) -> None:
    async def everyone() -> tuple[int, Any]:
        gate, patience = build_guarded_app(Works(), container), asyncio.Event()
        async with asyncio.TaskGroup() as readers:
            for _ in range(2 * MAX_CONCURRENT_REQUESTS):
                readers.create_task(called(gate, owner, "/api/v2/ping", patience=patience))
            found = await called(gate, owner, "/api/v2/ping")
            patience.set()
        return found

    assert asyncio.run(everyone()) == (200, {})


def test_one_workbook_of_an_account_is_read_at_a_time(
    owner: Account, stranger: Account, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "reader_queue", FairQueue(files.MAX_CONCURRENT, files.MAX_PER_ACCOUNT, 0.01))
    people = workbook([["Name", "Email"], ["Jane Doe", "jane@example.com"]])

    def preview(whose: Account) -> Response:
        return Importer(ListOwner(whose), container).upload(0, people, name="people.xlsx", to="/imports/preview")

    with client_context(ClientConnection(lambda: owner.id)), files.reader_queue.slot(""):
        busy, other = preview(owner), preview(stranger)
    assert (busy.status_code, busy.json()) == (503, {"message": files.READER_BUSY})
    assert (other.status_code, preview(owner).status_code) == (200, 200)
