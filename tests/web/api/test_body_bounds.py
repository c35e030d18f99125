"""A body that holds too much is refused at once, at every door, in words that name what and how much."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core import exact_json
from quillpost.core.exact_json import MAX_REPORTED_ERRORS
from quillpost.web import api
from quillpost.web.api import schemas as api_schemas
from quillpost.web.api.routes import V2Route
from quillpost.web.api.schemas import Body
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account, people, person
from support.list_webhook import create_list_webhook
from support.test_client import TestClient
from support.traces import FORM, JSON, traces
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
def house(build: Build) -> Iterator[House]:
    container = build(**NARROW)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        hook = create_list_webhook(owner)
        yield House(owner, hook.key, hook.list_id, container)


JSON_ENDPOINTS = {
    "a send": "/api/v2/send/postcard",
    "an estimate": "/api/v2/estimate/postcard",
    "a stored send": "/api/v2/stored_send/postcard",
    "create-multiple": "/api/v2/recipients-utils/create-multiple",
    "one recipient": "/api/v2/recipients",
    "a webhook": "/api/v2/webhooks",
    "hooks in": "/hooks/lists/{hook}",
    "leaked tokens": "/tokens/leaked",
}


@pytest.mark.parametrize("endpoint", JSON_ENDPOINTS)
def test_json_is_limited_at_every_endpoint(house: House, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Untouched:
        def decode(self, text: str) -> Any:
            raise AssertionError("It was parsed.")

    monkeypatch.setattr(exact_json, "_decoder", Untouched())
    before = traces(house.container)
    for what, (body, error) in TOO_MUCH.items():
        answer = house.call(JSON_ENDPOINTS[endpoint], JSON, body)
        assert (answer.status_code, list(answer.json())) == (422, ["message", "errors"]), (endpoint, what)
        assert list(answer.json()["errors"]) == ["body"], (endpoint, what)
        assert error in answer.json()["message"], (endpoint, what)
    assert traces(house.container) == before


MANY_UNKNOWN = {f"k{n}": n for n in range(11)}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v2/send/postcard", MANY_UNKNOWN),
        ("/api/v2/send/postcard", {"recipients": [MANY_UNKNOWN]}),
        ("/api/v2/send/postcard", {"radius_search": MANY_UNKNOWN}),
        ("/api/v2/recipients-utils/create-multiple", [{f"k{n}": n} for n in range(4)] + [MANY_UNKNOWN]),
        ("/api/v2/automations", {"send": {"piece": "postcard", **MANY_UNKNOWN}}),
        ("/hooks/lists/{hook}", MANY_UNKNOWN),
        ("/hooks/lists/{hook}", {"contacts": [{"email": "a@b.co", "properties": MANY_UNKNOWN}]}),
    ],
)
def test_unknown_keys_are_bounded(house: House, path: str, body: Any) -> None:
    answer = house.call(path, JSON, json.dumps(body).encode())
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["body"])
    assert UNKNOWN in answer.json()["message"]


def test_as_many_unknown_keys_as_may_be_are_named_as_before(house: House) -> None:
    row = people(1)[0] | {"a": 1, "b": 2}
    body = {"recipients": [row, row | {"name": "Zoe", "address": "9 Oak Ave"}], "message": "Hello", "c": 3}
    answer = house.call("/api/v2/estimate/postcard", JSON, json.dumps(body).encode())
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Ignored-Fields"] == "c, recipients.*.a, recipients.*.b"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v2/send/postcard", {"recipients": [{}] * 6}),
        ("/api/v2/estimate/letter", {"recipients": [7] * 6}),
        ("/api/v2/orders/1/replay", {"recipients": [{}] * 6}),
        ("/api/v2/recipients-utils/create-multiple", [{}] * 6),
        ("/api/v2/recipients_multi", {"recipients": [{}] * 6}),
        ("/hooks/lists/{hook}", [{}] * 6),
        ("/hooks/lists/{hook}", {"recipients": [{}] * 6}),
    ],
)
def test_recipients_are_counted_before_any_of_them_is_looked_at(
    house: House, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untouched(*_: object, **__: object) -> Any:
        raise AssertionError("It was validated.")

    monkeypatch.setattr(Body, "validated", untouched)
    monkeypatch.setattr("quillpost.recipients.webhooks.rules.read_person", untouched)
    answer = house.call(path, JSON, json.dumps(body).encode())
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["recipients"])
    assert answer.json()["message"].startswith("At most 5 recipients in one call")


def parts_of(names: list[str]) -> bytes:
    return form_of("x", *((f'name="{name}"', b"1") for name in names))


LONG = "A field's name has more than 100 bytes: use a shorter one."
FORMS: dict[str, tuple[str, str, bytes, int, str]] = {
    "an API form's fields": ("/api/v2/recipients", FORM, b"a&" * 1_000, 422, "more than 1,000 fields"),
    "an API form's names": ("/api/v2/recipients", FORM, b"k" * 101 + b"=1", 422, LONG),
    "a form with files, its fields": (
        "/api/v2/image-templates", PARTS, parts_of([f"k{n}" for n in range(101)]), 422, "100 fields",
    ),
    "a form with files, its names": ("/api/v2/image-templates", PARTS, parts_of(["k" * 101]), 422, LONG),
    "hooks in, a form's names": ("/hooks/lists/{hook}", FORM, b"k" * 101 + b"=1", 422, LONG),
    "hooks in, a form in parts": (
        "/hooks/lists/{hook}", PARTS, parts_of([f"k{n}" for n in range(101)]), 422, "100 fields",
    ),
    "hooks in, a form's unknown fields": (
        "/hooks/lists/{hook}", FORM, b"&".join(b"k%d=1" % n for n in range(11)), 422, UNKNOWN,
    ),
    "an import's names": ("/api/v2/imports/preview", PARTS, parts_of(["k" * 101]), 422, LONG),
    "an import's fields": (
        "/api/v2/imports/preview", PARTS, parts_of([f"k{n}" for n in range(21)]), 422, "20 fields",
    ),
    "a page's fields": ("/sign-in", FORM, b"a=1&" * 200, 422, "more than 200 fields"),
    "a page's names": ("/sign-in", FORM, b"k" * 101 + b"=1", 422, LONG),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_forms_are_limited_at_every_endpoint(house: House, case: str) -> None:
    path, kind, body, status, error = FORMS[case]
    answer = house.call(path, kind, body)
    assert (answer.status_code, error in answer.text.replace("&#39;", "'")) == (status, True), answer.text


@pytest.mark.parametrize(
    ("body", "error"),
    [(b"a=1&" * 50, "The form has more than 50 fields: send 50 at most."), (b"k" * 101 + b"=1", LONG)],
)
def test_forms_of_apps_are_bounded_in_their_own_words(house: House, body: bytes, error: str) -> None:
    answer = house.call("/oauth/token", FORM, body)
    expected = {"error": "invalid_request", "error_description": error}
    assert (answer.status_code, answer.json()) == (400, expected)


MAPPINGS: dict[str, tuple[str, str]] = {
    "nodes": (json.dumps({"a": [0] * 101}), "more than 100 nodes"),
    "keys": (json.dumps({f"k{n}": n for n in range(301)}), "An object of the body has more than 200 keys"),
    "depth": ("[" * 9 + "]" * 9, "nested more than 8 levels deep"),
    "key length": (json.dumps({"k" * 101: "name"}), "A key of the body has more than 100 bytes"),
}


@pytest.mark.parametrize("what", MAPPINGS)
def test_an_import_s_mapping_is_bounded(house: House, what: str) -> None:
    mapping, error = MAPPINGS[what]
    file = ('name="file"; filename="a.csv"', b"Name,Street\nJane,12 Main St\n")
    body = form_of("x", file, ('name="mapping"', mapping.encode()))
    answer = house.call("/api/v2/imports/preview", PARTS, body)
    assert (answer.status_code, error in answer.json()["message"]) == (422, True), answer.text


def test_a_mapping_that_names_a_thousand_columns_tells_of_a_hundred(build: Build) -> None:
    container = build()
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        mapping = json.dumps({f"k{n}": "name" for n in range(1_000)})
        answer = owner.call(
            "POST", "/imports/preview", files={"file": ("a.csv", b"Name,Street\nJane,12 Main St\n")},
            data={"mapping": mapping},
        )  # fmt: skip
    assert (answer.status_code, len(answer.json()["errors"])) == (422, MAX_REPORTED_ERRORS)
    assert answer.json()["message"].endswith("(and 99 more errors)")


@pytest.mark.parametrize(
    "path", ["/api/v2/send/postcard", "/api/v2/imports/preview", "/hooks/lists/{hook}", "/sign-in"]
)
def test_too_many_bytes_are_a_413_that_names_the_limit(house: House, path: str) -> None:
    kind = {"/sign-in": FORM, "/api/v2/imports/preview": "text/csv"}.get(path, JSON)
    answer = house.call(path, kind, b"[" + b" " * 60_000 + b"]")
    limit = "50,000 bytes" if path == "/sign-in" else "20,000 bytes"
    assert (answer.status_code, limit in answer.text) == (413, True), answer.text


CHARSETS = {
    "utf-16": 415, "UTF-16LE": 415, "iso-8859-1": 415, "windows-1252": 415, '"utf-16"': 415, "nonsense": 415,
    "utf-8": 0, "UTF-8": 0, '"utf-8"': 0, "'utf-8'": 0, "utf8": 0, " UTF-8 ": 0, "us-ascii": 0, "": 0,
}  # fmt: skip


@pytest.mark.parametrize("charset", CHARSETS)
def test_a_body_that_is_declared_in_other_letters_is_not_guessed_at(house: House, charset: str) -> None:
    row = b'{"name": "Jane Doe", "email": "jane@example.com"}'
    endpoints: list[tuple[str, str, bytes]] = [
        ("/api/v2/recipients", JSON, b'{"mailing_list_id": %d, "email": "j@example.com"}' % house.list_id),
        ("/api/v2/recipients", FORM, b"mailing_list_id=%d&email=k@example.com" % house.list_id),
        ("/api/v2/image-templates", PARTS, parts_of(["name"])),
        ("/api/v2/imports/preview", PARTS, parts_of(["file"])),
        ("/hooks/lists/{hook}", JSON, row),
        ("/hooks/lists/{hook}", FORM, b"email=jane@example.com"),
        ("/tokens/leaked", JSON, b'{"tokens": []}'),
        ("/oauth/token", FORM, b"grant_type=none"),
        ("/sign-in", FORM, b"email=jane@example.com"),
    ]
    for path, kind, body in endpoints:
        answer = house.call(path, f"{kind}; Charset={charset}", body)
        is_refused = "is declared as charset=" in answer.text and "send it in UTF-8" in answer.text
        assert (answer.status_code == 415, is_refused) == (bool(CHARSETS[charset]),) * 2, (path, kind)


def test_a_file_of_people_may_be_in_other_letters(house: House) -> None:
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


@pytest.mark.parametrize("name", all_bodies())
def test_no_body_has_more_than_a_hundred_errors(name: str) -> None:
    """Each of its fields wrong, in whatever way, and each of its arrays wrong all through."""
    body = all_bodies()[name]
    spellings = api_schemas._field_spellings(body)
    for wrong in WRONG:
        sent = {names[0]: wrong for names in spellings.values()}
        found = body.validated(sent)
        if found.error is not None:
            assert found.error.error_count() <= MAX_REPORTED_ERRORS, (name, wrong)


def test_validation_stops_at_a_hundred_errors() -> None:
    wrong = dict.fromkeys(("name", "address", "city", "email", "custom1"), 5)
    found = all_bodies()["SendPostcard"].validated({"recipients": [wrong] * 5_000, "message": 5})
    assert found.error is not None
    assert found.error.error_count() == MAX_REPORTED_ERRORS
    places = [error["loc"][1] for error in found.error.errors() if error["loc"][0] == "recipients"]
    assert places == [place // 5 for place in range(MAX_REPORTED_ERRORS - 1)]


@pytest.mark.parametrize("rows", [[5] * 1_000, [person(postal_code="1")] * 1_000], ids=["types", "addresses"])
def test_a_send_with_a_thousand_wrong_recipients_tells_of_a_hundred(owner: Account, rows: list[Any]) -> None:
    refused = owner.send(recipients=rows)
    assert (refused.status_code, len(refused.json()["errors"])) == (422, MAX_REPORTED_ERRORS)
    assert refused.json()["message"].endswith("(and 99 more errors)")


def test_a_report_of_a_thousand_tokens_that_are_none_tells_of_a_hundred(owner: Account) -> None:
    answer = owner.http.post("/tokens/leaked", json={"tokens": [5] * 1_000})
    assert (answer.status_code, len(answer.json()["errors"])) == (422, MAX_REPORTED_ERRORS)
