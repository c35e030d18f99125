"""How large a body may be, how it is read, and how often one may call."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from httpx2 import Response

from quillpost.app.bootstrap import build_limits
from quillpost.app.container import Container
from quillpost.core import exact_json
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.core.settings import Settings
from quillpost.web import api
from quillpost.web.api import schemas as api_schemas
from quillpost.web.api.routes import V2Route
from quillpost.web.api.schemas import Body
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account, people, person, postcard
from support.list_webhooks import create_list_webhook
from support.test_client import TestClient
from support.traces import FORM, JSON, traces, unchanged
from support.uploads import form_of

PARTS = "multipart/form-data; boundary=x"
NARROW = {
    "body_nodes": 100, "body_keys": 300, "body_depth": 8, "key_bytes": 100, "unknown_keys": 10,
    "object_keys": 200, "text_bytes": 10_000,
    "inline_recipients": 5, "body_bytes": 20_000, "import_bytes": 20_000, "calls_a_minute": 10_000,
}  # fmt: skip

TOO_MUCH: dict[str, tuple[bytes, str]] = {
    "nodes": (json.dumps([0] * 100).encode(), "more than 100 nodes (objects, arrays and values in arrays)"),
    "keys": (json.dumps([{f"k{n}": n for n in range(101)}] * 3).encode(), "more than 300 keys"),
    "keys of one object": (
        json.dumps({f"k{n}": n for n in range(201)}).encode(),
        "An object of the body has more than 200 keys",
    ),
    "text length": (json.dumps(["k" * 10_001]).encode(), "A text of the body has more than 10,000 bytes"),
    "spaces": (b" " * 18_000 + b"{}", "more than 15,000 spaces or digits in a row"),
    "depth": (b"[" * 9 + b"]" * 9, "nested more than 8 levels deep"),
    "key length": (json.dumps({"k" * 101: 1}).encode(), "A key of the body has more than 100 bytes"),
}
"""Of JSON, whatever it is for."""

UNKNOWN = "more than 10 different keys that mean nothing here"
LONG = "A field's name has more than 100 bytes: use a shorter one."


@dataclass(frozen=True)
class House:
    """A service with narrow bounds, and everyone's way into it."""

    owner: Account
    hook: str
    list_id: int
    container: Container

    def call(self, path: str, kind: str, body: bytes) -> Response:
        token = {"Authorization": f"Bearer {self.owner.token}"} if path.startswith("/api/") else {}
        path = path.format(hook=self.hook, list=self.list_id)
        return self.owner.http.post(path, content=body, headers={"Content-Type": kind, **token})


@pytest.fixture
def house(container: Container) -> Iterator[House]:
    narrow = replace(container, limits=build_limits(Settings.model_validate(NARROW)))
    with TestClient(create_app(narrow), base_url="http://quillpost.test") as http:
        owner = make_account(narrow, http, "owner@example.com")
        hook = create_list_webhook(owner)
        yield House(owner, hook.key, hook.list_id, narrow)


def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("It was read.")


JSON_ENDPOINTS = (
    "/api/v2/send/postcard", "/api/v2/estimate/postcard", "/api/v2/stored_send/postcard",
    "/api/v2/recipients-utils/create-multiple", "/api/v2/recipients", "/api/v2/webhooks", "/hooks/lists/{hook}",
    "/tokens/leaked",
)  # fmt: skip


def test_json_is_limited_at_every_endpoint(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_json, "_decoder", type("Untouched", (), {"decode": refuse})())
    before = traces(house.container)
    for path in JSON_ENDPOINTS:
        for what, (body, error) in TOO_MUCH.items():
            answer = house.call(path, JSON, body)
            assert (answer.status_code, list(answer.json())) == (422, ["message", "errors"]), (path, what)
            assert list(answer.json()["errors"]) == ["body"], (path, what)
            assert error in answer.json()["message"], (path, what)
    assert traces(house.container) == before


MANY_UNKNOWN = {f"k{n}": n for n in range(11)}
WITH_UNKNOWN: list[tuple[str, Any]] = [
    ("/api/v2/send/postcard", MANY_UNKNOWN), ("/api/v2/send/postcard", {"recipients": [MANY_UNKNOWN]}),
    ("/api/v2/send/postcard", {"radius_search": MANY_UNKNOWN}),
    ("/api/v2/recipients-utils/create-multiple", [{f"k{n}": n} for n in range(4)] + [MANY_UNKNOWN]),
    ("/api/v2/automations", {"send": {"piece": "postcard", **MANY_UNKNOWN}}), ("/hooks/lists/{hook}", MANY_UNKNOWN),
    ("/hooks/lists/{hook}", {"contacts": [{"email": "a@b.co", "properties": MANY_UNKNOWN}]}),
]  # fmt: skip


def test_unknown_keys_are_bounded_and_as_many_as_may_be_are_named(house: House) -> None:
    for path, body in WITH_UNKNOWN:
        answer = house.call(path, JSON, json.dumps(body).encode())
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["body"]), (path, body)
        assert UNKNOWN in answer.json()["message"], (path, body)
    row = people(1)[0] | {"a": 1, "b": 2}
    few = {"recipients": [row, row | {"name": "Zoe", "address": "9 Oak Ave"}], "message": "Hello", "c": 3}
    answer = house.call("/api/v2/estimate/postcard", JSON, json.dumps(few).encode())
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Ignored-Fields"] == "c, recipients.*.a, recipients.*.b"


TOO_MANY: list[tuple[str, Any]] = [
    ("/api/v2/send/postcard", {"recipients": [{}] * 6}), ("/api/v2/estimate/letter", {"recipients": [7] * 6}),
    ("/api/v2/orders/1/replay", {"recipients": [{}] * 6}), ("/api/v2/recipients-utils/create-multiple", [{}] * 6),
    ("/api/v2/recipients_multi", {"recipients": [{}] * 6}), ("/hooks/lists/{hook}", [{}] * 6),
    ("/hooks/lists/{hook}", {"recipients": [{}] * 6}),
]  # fmt: skip


def test_recipients_are_counted_before_any_of_them_is_looked_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Body, "validated", refuse)
    monkeypatch.setattr("quillpost.recipients.webhooks.rules.read_person", refuse)
    for path, body in TOO_MANY:
        answer = house.call(path, JSON, json.dumps(body).encode())
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["recipients"]), (path, body)
        assert answer.json()["message"].startswith("At most 5 recipients in one call"), (path, body)


def parts_of(*names: str) -> bytes:
    return form_of("x", *((f'name="{name}"', b"1") for name in names))


def keys(how_many: int) -> list[str]:
    return [f"k{n}" for n in range(how_many)]


FORMS: list[tuple[str, str, bytes, str]] = [
    ("/api/v2/recipients", FORM, b"a&" * 1_000, "more than 1,000 fields"),
    ("/api/v2/recipients", FORM, b"k" * 101 + b"=1", LONG),
    ("/api/v2/image-templates", PARTS, parts_of(*keys(101)), "100 fields"),
    ("/api/v2/image-templates", PARTS, parts_of("k" * 101), LONG),
    ("/hooks/lists/{hook}", FORM, b"k" * 101 + b"=1", LONG),
    ("/hooks/lists/{hook}", PARTS, parts_of(*keys(101)), "100 fields"),
    ("/hooks/lists/{hook}", FORM, b"&".join(b"k%d=1" % n for n in range(11)), UNKNOWN),
    ("/api/v2/imports/preview", PARTS, parts_of("k" * 101), LONG),
    ("/api/v2/imports/preview", PARTS, parts_of(*keys(21)), "20 fields"),
    ("/sign-in", FORM, b"a=1&" * 200, "more than 200 fields"),
    ("/sign-in", FORM, b"k" * 101 + b"=1", LONG),
]
MAPPINGS: dict[str, str] = {
    json.dumps({"a": [0] * 101}): "more than 100 nodes",
    json.dumps(dict.fromkeys(keys(301), 1)): "An object of the body has more than 200 keys",
    "[" * 9 + "]" * 9: "nested more than 8 levels deep",
    json.dumps({"k" * 101: "name"}): "A key of the body has more than 100 bytes",
}


def test_forms_are_limited_at_every_endpoint_and_too_many_bytes_are_a_413(house: House) -> None:
    for path, kind, body, error in FORMS:
        answer = house.call(path, kind, body)
        assert (answer.status_code, error in answer.text.replace("&#39;", "'")) == (422, True), (path, answer.text)
    for body, error in (
        (b"a=1&" * 50, "The form has more than 50 fields: send 50 at most."),
        (b"k" * 101 + b"=1", LONG),
    ):
        answer = house.call("/oauth/token", FORM, body)
        expected = {"error": "invalid_request", "error_description": error}
        assert (answer.status_code, answer.json()) == (400, expected)
    file = ('name="file"; filename="a.csv"', b"Name,Street\nJane,12 Main St\n")
    for mapping, error in MAPPINGS.items():
        answer = house.call("/api/v2/imports/preview", PARTS, form_of("x", file, ('name="mapping"', mapping.encode())))
        assert (answer.status_code, error in answer.json()["message"]) == (422, True), answer.text
    for path, kind, limit in (
        ("/api/v2/send/postcard", JSON, "20,000 bytes"), ("/api/v2/imports/preview", "text/csv", "20,000 bytes"),
        ("/hooks/lists/{hook}", JSON, "20,000 bytes"), ("/sign-in", FORM, "50,000 bytes"),
    ):  # fmt: skip
        answer = house.call(path, kind, b"[" + b" " * 60_000 + b"]")
        assert (answer.status_code, limit in answer.text) == (413, True), (path, answer.text)


CHARSETS = {
    "utf-16": 415, "UTF-16LE": 415, "iso-8859-1": 415, "windows-1252": 415, '"utf-16"': 415, "nonsense": 415,
    "utf-8": 0, "UTF-8": 0, '"utf-8"': 0, "'utf-8'": 0, "utf8": 0, " UTF-8 ": 0, "us-ascii": 0, "": 0,
}  # fmt: skip


def test_a_body_that_is_declared_in_other_letters_is_not_guessed_at(house: House) -> None:
    """But a file of people is."""
    row = b'{"name": "Jane Doe", "email": "jane@example.com"}'
    endpoints: list[tuple[str, str, bytes]] = [
        ("/api/v2/recipients", JSON, b'{"mailing_list_id": %d, "email": "j@example.com"}' % house.list_id),
        ("/api/v2/recipients", FORM, b"mailing_list_id=%d&email=k@example.com" % house.list_id),
        ("/api/v2/image-templates", PARTS, parts_of("name")), ("/api/v2/imports/preview", PARTS, parts_of("file")),
        ("/hooks/lists/{hook}", JSON, row), ("/hooks/lists/{hook}", FORM, b"email=jane@example.com"),
        ("/tokens/leaked", JSON, b'{"tokens": []}'), ("/oauth/token", FORM, b"grant_type=none"),
        ("/sign-in", FORM, b"email=jane@example.com"),
    ]  # fmt: skip
    for charset, status in CHARSETS.items():
        for path, kind, body in endpoints:
            answer = house.call(path, f"{kind}; Charset={charset}", body)
            is_refused = "is declared as charset=" in answer.text and "send it in UTF-8" in answer.text
            assert (answer.status_code == 415, is_refused) == (status == 415,) * 2, (charset, path, kind)
    body = "Name,Street\nJané,12 Main St\n".encode("utf-16")
    answer = house.call("/api/v2/imports/preview", "text/csv; charset=utf-16", body)
    assert (answer.status_code, answer.json()["rows"]) == (200, [["Jané", "12 Main St"]])


def all_bodies() -> dict[str, type[Body]]:
    routes = [route for route in api.routes if isinstance(route, V2Route)]
    found = {body.__name__: body for route in routes if (body := route._body_type()) is not None}
    assert len(found) > 15
    return found


PERSON: dict[str, Any] = {name: [] for name in ("name", "address", "city", "email", "custom1", "position", "item_id")}
WRONG: list[Any] = [{}, [], [[]] * 90, [PERSON] * 90, 5, True, None, "?", "\x00"]


def test_no_body_and_no_answer_has_more_than_a_hundred_errors(owner: Account) -> None:
    """Each of its fields wrong, in whatever way, and each of its arrays wrong all through."""
    for name, body in all_bodies().items():
        for wrong in WRONG:
            found = body.validated({names[0]: wrong for names in api_schemas._field_spellings(body).values()})
            if found.error is not None:
                assert found.error.error_count() <= MAX_REPORTED_ERRORS, (name, wrong)
    rows = [dict.fromkeys(("name", "address", "city", "email", "custom1"), 5)] * 5_000
    found = all_bodies()["SendPostcard"].validated({"recipients": rows, "message": 5})
    assert found.error is not None
    assert found.error.error_count() == MAX_REPORTED_ERRORS
    places = [error["loc"][1] for error in found.error.errors() if error["loc"][0] == "recipients"]
    assert places == [place // 5 for place in range(MAX_REPORTED_ERRORS - 1)], "the first ones"
    mapping = json.dumps(dict.fromkeys(keys(1_000), "name"))
    file = {"file": ("a.csv", b"Name,Street\nJane,12 Main St\n")}
    for refused in (
        owner.send(recipients=[5] * 1_000),
        owner.send(recipients=[person(postal_code="1")] * 1_000),
        owner.call("POST", "/imports/preview", files=file, data={"mapping": mapping}),
        owner.http.post("/tokens/leaked", json={"tokens": [5] * 1_000}),
    ):
        assert (refused.status_code, len(refused.json()["errors"])) == (422, MAX_REPORTED_ERRORS)
        assert refused.json()["message"].endswith("(and 99 more errors)")


LARGEST, CALLS = 2_000, 5
COUNTDOWN = ["4", "3", "2", "1", "0", "0"]


def in_chunks(body: bytes) -> Iterator[bytes]:
    """Sent so, a body has no Content-Length."""
    for start in range(0, len(body), 500):
        yield body[start : start + 500]


def padded(size: int) -> bytes:
    start = b'{"url": "https://example.com/hook", "type": "*"'
    return start + b" " * (size - len(start) - 1) + b"}"


def remaining(answers: Iterable[Response]) -> list[str]:
    return [answer.headers["X-RateLimit-Remaining"] for answer in answers]


class TestSmallLimits:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        """A service that tires quickly."""
        return build(calls_a_minute=CALLS, body_bytes=LARGEST)

    def test_a_body_over_the_limit_is_413(self, owner: Account, stranger: Account, container: Container) -> None:
        send: Callable[[bytes], bytes | Iterator[bytes]]
        for caller, send, key in (
            (owner, bytes, {}), (owner, in_chunks, {}), (stranger, in_chunks, {"Idempotency-Key": "k"}),
        ):  # fmt: skip
            headers = {"Content-Type": JSON} | key
            with unchanged(container):
                refused = caller.call("POST", "/webhooks", content=send(padded(LARGEST + 1)), headers=headers)
            message = f"The body is larger than this service accepts here ({LARGEST:,} bytes)."
            assert (refused.status_code, refused.json()) == (413, {"message": message})
            assert caller.call("POST", "/webhooks", content=send(padded(LARGEST)), headers=headers).status_code == 201

    def test_the_limit_counts_down_and_then_holds_for_each_caller_on_all_servers(
        self, owner: Account, stranger: Account, container: Container, http: TestClient, build: Build
    ) -> None:
        with TestClient(create_app(build(calls_a_minute=CALLS))) as second:
            elsewhere = Account(owner.id, owner.token, second)
            answers = [account.get("/ping") for account in (owner, elsewhere, owner, elsewhere, owner)]
            with unchanged(container):
                refused = [account.post("/send/postcard", postcard()) for account in (elsewhere, owner)]
        assert [answer.status_code for answer in (*answers, *refused)] == [200] * CALLS + [429] * 2
        assert remaining([*answers, refused[0]]) == COUNTDOWN
        for answer in refused:
            assert list(answer.json()) == ["message"]
            assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("5", "0")
            assert 1 <= int(answer.headers["Retry-After"]) <= 60
            assert answer.headers["RateLimit-Reset"] == answer.headers["Retry-After"]
        unknown = [http.get("/api/v2/ping") for _ in range(CALLS + 1)]  # without a good token
        assert [answer.status_code for answer in unknown] == [401] * CALLS + [429]
        assert (remaining(unknown), "Retry-After" in unknown[-1].headers) == (COUNTDOWN, True)
        assert stranger.get("/ping").status_code == 200

    def test_every_kind_of_answer_carries_the_limit(self, owner: Account) -> None:
        large = {"content": b"x" * (LARGEST + 1), "headers": {"Content-Type": JSON}}
        answers = [
            owner.get("/ping"), owner.get("/no/such/path"), owner.call("PATCH", "/ping"), owner.send(message=""),
            owner.call("POST", "/send/postcard", **large), owner.get("/ping"),
        ]  # fmt: skip
        assert [answer.status_code for answer in answers] == [200, 404, 405, 422, 413, 429]
        assert {answer.headers["X-RateLimit-Limit"] for answer in answers} == {"5"}
        assert remaining(answers) == COUNTDOWN
