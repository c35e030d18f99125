"""Numbers, URLs, names and forms in requests: read alike wherever they come, or refused in plain words."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from httpx2 import Response
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.core.paging import Page, PageRequest
from quillpost.core.requests import ClientConnection, FairQueue, client_context
from quillpost.recipients.imports import files
from quillpost.web.api.imports.files import MAX_UPLOADS, MAX_UPLOADS_PER_ACCOUNT
from quillpost.web.api.requests import MAX_FIELD_BYTES, MAX_FIELDS, MAX_FILES
from quillpost.web.api.responses import IGNORED_HEADER, numbered_page_response
from quillpost.web.api.schemas import parse_integer
from quillpost.web.dependencies import ABOVE_MAX_ID
from quillpost.web.middleware.admission import MAX_CONCURRENT_REQUESTS, Admission
from support.described_operations import OPERATIONS
from support.factories import Account, Clock, make_sub_account, person, postcard
from support.images import ImageServer
from support.mailing_lists import Importer, ListOwner
from support.raw_http import build_guarded_app
from support.traces import unchanged
from support.uploads import form_of, png, workbook

JSON = {"Content-Type": "application/json"}
NUMBERS = {
    "page", "items_per_page", "limit", "per_page", "sub_account_id", "sub_account", "order_id",
    "mailing_list",
}  # fmt: skip


def send(owner: Account, path: str, body: Any, **texts: str) -> Any:
    """The body with some of its values written as these texts."""
    written = json.dumps(body)
    for name, text in texts.items():
        written = written.replace(f'"{{{name}}}"', text)
    return owner.call("POST", path, content=written, headers=JSON)


def test_integers_are_as_json_schema_has_them(owner: Account, container: Container) -> None:
    """3264.0 is one. What is the caller's own stays as it was written."""
    branch = make_sub_account(container, owner)
    sent = send(owner, "/send/postcard", postcard(sub_account_id="{id}"), id=f"{branch}.0")
    assert (sent.status_code, sent.json()["sub_account_id"]) == (200, branch), sent.text
    for text in ("1.0", "1e0", "0.1e1", "10E-1"):
        sent = send(owner, "/send/postcard", postcard(handwriting_style="{style}"), style=text)
        assert (sent.status_code, sent.json()["style"]) == (200, 1), text
    gift = postcard(giftcard_brand="brindlewick", giftcard_amount="{cents}")
    sent = send(owner, "/send/giftcard", gift, cents="2500.0")
    assert (sent.status_code, sent.json()["giftcard_amount"]) == (200, 2_500), sent.text
    for text in ("1.5", "1e-1", "1e400", "-1.0", '"1.0"', "true"):
        refused = send(owner, "/send/postcard", postcard(preview_recipient="{place}"), place=text)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["preview_recipient"]), text
    own = send(owner, "/send/postcard", postcard(metadata={"n": "{n}"}), n="3264.0").json()["id"]
    assert '"metadata":{"n":3264.0}' in owner.get(f"/orders/{own}").text
    assert owner.get(f"/orders/{own}.0").status_code == 404, "an id in a path is written plainly"


def test_integers_are_read_alike_in_lists_and_objects_and_a_number_is_no_body(owner: Account) -> None:
    """Where a body may be left out, too."""
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=list_id))
    sent = send(owner, "/send/postcard", {"mailing_list_ids": ["{id}"], "message": "Hi!"}, id=f"{list_id}.0")
    assert (sent.status_code, sent.json()["mailing_list_ids_used"]) == (200, str(list_id))
    search = {"radius_search": {"address": "12 Main St, Austin, TX 78701", "record_count": "{count}"}}
    refused = send(owner, "/estimate/postcard", search | {"message": "Hi!"}, count="5.5")
    assert list(refused.json()["errors"]) == ["radius_search.record_count"]
    counted = send(owner, "/estimate/postcard", search | {"message": "Hi!"}, count="5.0")
    assert "radius_search.record_count" not in counted.json().get("errors", {})
    webhook = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).json()["id"]
    for path in (f"/webhooks/{webhook}/test", "/send/postcard"):
        for number in ("5e-324", "0.5", "1.0", "7"):
            refused = owner.call("POST", path, content=number, headers=JSON)
            assert refused.json()["errors"] == {"body": ["This must be an object."]}, (path, number)


INTEGERS = {
    "8": 8, "8.0": 8, "-8.0": -8, "80e-1": 8, "8.5": None, "1e30": ABOVE_MAX_ID, "-1e30": -ABOVE_MAX_ID,
    "9007199254740993.0": 9_007_199_254_740_993, "1" * 5_000: ABOVE_MAX_ID, "0e999": 0, "1e-999": None,
    "1e9999": None, "x": None, "": None,
}  # fmt: skip


def test_integers_are_read_exactly() -> None:
    assert {text: parse_integer(text) for text in INTEGERS} == INTEGERS


def test_numbers_of_queries_are_integers_from_1_of_which_the_first_counts(owner: Account) -> None:
    schemas = {
        (str(operation), parameter["name"]): parameter["schema"]
        for operation in OPERATIONS
        for parameter in operation.described.get("parameters", ())
        if parameter["in"] == "query" and parameter["name"] in NUMBERS
    }
    assert {name for _, name in schemas} == NUMBERS
    assert {(schema["type"], schema["minimum"]) for schema in schemas.values()} == {("integer", 1)}
    for query, per_page in (
        ("items_per_page=7&limit=9", 7), ("items_per_page=&limit=9", 9), ("items_per_page=%20&limit=", 25),
        ("limit=1000", 100), ("limit=2.0", 2), ("limit=2e0", 2),
    ):  # fmt: skip
        assert owner.get(f"/webhooks?{query}").json()["meta"]["per_page"] == per_page, query
    for path, wrong in (
        ("/webhooks?items_per_page=7&limit=0", "limit"), ("/webhooks?limit=8.5", "limit"),
        ("/order-items?items_per_page=7&per_page=x", "per_page"),
        ("/orders/list?sub_account_id=&sub_account=-1", "sub_account"),
        ("/orders/list?sub_account_id=1&sub_account=x", "sub_account"), (f"/order-items?order_id={2**63}", "order_id"),
        *((f"/orders?items_per_page={text}", "items_per_page") for text in ("2.5", "0.0", "-2.0", "2.", "nan", "1e")),
    ):  # fmt: skip
        refused = owner.get(path)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [wrong]), path


def test_a_blank_type_is_none_and_parameters_that_mean_nothing_are_named(owner: Account) -> None:
    """`test_odd_values.py` tries some with every call that lists something."""
    for path in ("/image-templates", "/message-templates", "/orders/list"):
        assert [owner.get(f"{path}?type={kind}").status_code for kind in ("", "x")] == [200, 422], path
    known = {"page": "1", "limit": "5", "sub_account_id": "", "type": "postcard", "metadata[a][b]": "c"}
    answer = owner.call("GET", "/orders", params=known)
    assert (answer.status_code, answer.headers.get(IGNORED_HEADER)) == (200, None)
    refused = owner.call("GET", "/orders", params={"page": "none", "serch": "x"})
    assert (refused.status_code, refused.headers[IGNORED_HEADER]) == (422, "serch")
    made = owner.call("POST", "/mailing-lists?preview=true", json={"description": "Visitors", "color": "red"})
    assert (made.status_code, made.headers[IGNORED_HEADER]) == (201, "color, preview")


ODD_HOSTS = [
    "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.1/", "http://127.1/", "http://a..b/",
    "http://-a.example/", "http://xn--a/", f"http://{'a' * 64}.example/", f"http://{'.'.join(['abcdefghi'] * 26)}/",
]  # fmt: skip


def test_a_url_whose_host_nobody_can_have_is_refused_when_it_is_given(owner: Account, container: Container) -> None:
    hook = f"/webhooks/{owner.post('/webhooks', {'url': 'https://example.com/hook', 'type': '*'}).json()['id']}"
    with unchanged(container):
        for url in ODD_HOSTS:
            for field, refused in (
                ("url", owner.post("/webhooks", {"url": url, "type": "*"})), ("url", owner.put(hook, {"url": url})),
                ("front_image_url", owner.send(front_image_url=url)), ("qrcode_url", owner.send(qrcode_url=url)),
                ("image", owner.post("/image-templates", {"type": "postcard", "name": "Spring", "image": url})),
            ):  # fmt: skip
                assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), url


PATH = "http://quillpost.test/api/v2/mailing-lists-utils/recipients/7"


def shown(rows: list[int], total: int, *, page: int, per_page: int, query: str = "") -> dict[str, Any]:
    """The page-number envelope; the one of links and meta is in the specification's tables."""
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": PATH.removeprefix("http://quillpost.test")}
    request = Request(scope | {"query_string": query.encode(), "headers": [(b"host", b"quillpost.test")]})
    answer = numbered_page_response(request, Page(rows, total, PageRequest(page, per_page)), lambda row: {"id": row})
    body: dict[str, Any] = json.loads(bytes(answer.body))
    return body


def test_a_numbered_page_knows_its_neighbors() -> None:
    assert shown([3, 4], 5, page=2, per_page=2, query="limit=2&page=2&tag=a%26b") == {
        "current_page": 2, "data": [{"id": 3}, {"id": 4}], "first_page_url": f"{PATH}?limit=2&tag=a%26b&page=1",
        "from": 3, "last_page": 3, "last_page_url": f"{PATH}?limit=2&tag=a%26b&page=3",
        "next_page_url": f"{PATH}?limit=2&tag=a%26b&page=3", "path": PATH, "per_page": 2,
        "prev_page_url": f"{PATH}?limit=2&tag=a%26b&page=1", "to": 4, "total": 5,
    }  # fmt: skip
    empty = shown([], 0, page=1, per_page=25)
    assert (empty["from"], empty["to"], empty["last_page"], empty["total"]) == (None, None, 1, 0)
    assert (empty["next_page_url"], empty["prev_page_url"]) == (None, None)
    assert empty["first_page_url"] == empty["last_page_url"] == f"{PATH}?page=1"
    beyond = shown([], 5, page=9, per_page=2)
    assert (beyond["from"], beyond["to"], beyond["next_page_url"]) == (None, None, None)
    assert beyond["prev_page_url"] == f"{PATH}?page=3"


def test_a_sub_account_has_its_title_for_a_name(owner: Account) -> None:
    made = owner.post("/sub-accounts", {"title": "Austin office"}).json()
    changed = owner.put(f"/sub-accounts/{made['id']}", {"name": "Dallas office"}).json()
    assert changed["name"] == changed["title"] == "Dallas office"
    assert [each["name"] for each in owner.get("/sub-accounts").json()["data"]] == ["Dallas office"]
    assert owner.send(sub_account_id=made["id"]).json()["sub_account"]["name"] == "Dallas office"


@pytest.mark.usefixtures("loopback_urls")
def test_image_templates_and_orders_show_one_lasting_address(owner: Account, art: ImageServer, clock: Clock) -> None:
    made = owner.post("/image-templates", {"type": "postcard", "name": "Saved", "image": art.picture()})
    assert made.status_code == 201, made.text
    path, image = f"/image-templates/{made.json()['id']}", made.json()["image"]
    clock.advance(hours=5)
    sent = owner.send(image_template=made.json()["id"]).json()
    order = owner.get(f"/orders/{sent['id']}").json()
    [listed] = owner.get("/orders").json()["data"]
    assert {each["front_image"] for each in (sent, order, listed)} == {owner.get(path).json()["image"]} == {image}
    picture = owner.http.get(image)
    assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/png")
    assert owner.put(path, {"image": art.picture("gold")}).json()["image"] != image
    assert owner.get(f"/orders/{sent['id']}").json()["front_image"] == image
    clock.advance(days=40 * 365)
    assert owner.http.get(image).content == picture.content


def test_a_message_template_always_says_how_it_is_written(owner: Account) -> None:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!"}).json()
    as_a_send = owner.send(message="Hi!").json()
    assert made["font_size"] == as_a_send["font_size"] == "auto"
    assert made["font_color"] == as_a_send["handwriting_color"] == "rgba(20,42,130,1)"
    assert made["handwriting_realism"] is True
    assert made["handwriting_style_id"] == as_a_send["style"]
    own = {"font_size": "small", "font_color": "#123456", "handwriting_realism": False}
    changed = owner.put(f"/message-templates/{made['id']}", own).json()
    assert {name: changed[name] for name in own} == own
    cleared = owner.put(f"/message-templates/{made['id']}", dict.fromkeys(own)).json()
    assert {name: cleared[name] for name in own} == {name: made[name] for name in own}


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


def test_a_form_is_read_as_utf_8_or_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
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
