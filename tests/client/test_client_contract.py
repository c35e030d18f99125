"""Each method of the client is an operation of the API: the same path, the same type of answer, the same fields. All of
it is documented, and what the documentation shows works. Calls that fail are repeated where that helps."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any, get_args, get_type_hints
from uuid import UUID

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from quillpost import client
from quillpost.client import AsyncQuillpost, Quillpost
from quillpost.client.clients import RETRIES
from quillpost.client.errors import retry_after
from quillpost.client.requests import Listing, Operation, Resource
from quillpost.client.send import PieceName
from quillpost.client.transport import FIRST_PAUSE, LONGEST_PAUSE, Attempts, Patience, backoff
from quillpost.web import api
from quillpost.web.api.openapi import build_description
from support import client_transports
from support.client_transports import Call, respond_with
from support.factories import Account
from support.fake_server import Answer, ScriptedServer, stay_silent
from support.test_client import TestClient

PREFIX = "/api/v2"
PIECES = get_args(PieceName)

# Other ways to what a method does already.
OTHER_WAYS = {
    ("PUT", "/orders/{}/cancel"),
    ("DELETE", "/orders/{}/cancel"),
    ("PATCH", "/order-items/{}/invalidate-giftcard"),
    ("GET", "/order-items"),
    *(("GET", f"/stored_send/{piece}/{{}}") for piece in PIECES),
}
# `preview` is a method of its own.
NOT_GIVEN = {"preview"}
# Other names in queries, for those who write them by hand.
OTHER_NAMES = {"limit", "per_page", "sub_account", "mailing_list"}
# A URL that holds the path's ids, and a body that is an array.
OTHERWISE = {"send_stored", "recipients.create_multiple"}

Method = Operation[Any, Any] | Listing[Any, Any]
ApiCall = tuple[str, str]


def declared() -> Iterator[tuple[str, Method]]:
    """Every method of the client, by the name that its user writes."""
    with Quillpost("nobody") as client:
        resources = {"": client} | {f"{name}.": one for name, one in vars(client).items() if isinstance(one, Resource)}
        for prefix, resource in resources.items():
            for kind in type(resource).__mro__:
                for name, method in vars(kind).items():
                    if isinstance(method, Operation | Listing):
                        yield prefix + name, method


METHODS = dict(declared())
ROUTES: dict[ApiCall, APIRoute] = {
    (method, re.sub(r"\{\w+\}", "{}", route.path.removeprefix(PREFIX))): route
    for route in api.routes
    if isinstance(route, APIRoute) and route.include_in_schema
    for method in route.methods or ()
}
DESCRIPTION = build_description(api.routes)


def calls(method: Method) -> list[ApiCall]:
    """A method as the API has it: there, products are paths of their own."""
    pieces = PIECES if "{piece}" in method.route.path else ("",)
    paths = [method.route.path.replace("{piece}", piece) for piece in pieces]
    return [(method.route.method, re.sub(r"\{\w+\}", "{}", path)) for path in paths]


def test_every_operation_is_a_method_and_every_method_is_an_operation() -> None:
    offered = {call for method in METHODS.values() for call in calls(method)}
    assert (sorted(ROUTES.keys() - offered - OTHER_WAYS), sorted(offered - ROUTES.keys())) == ([], [])


def test_both_clients_have_the_same_methods() -> None:
    with Quillpost("nobody") as blocking:
        found = [
            (
                {name: type(one) for name, one in vars(client).items() if isinstance(one, Resource)},
                {name for name in dir(client) if not name.startswith("_")},
            )
            for client in (blocking, AsyncQuillpost("nobody"))
        ]
    assert found[0] == found[1]


def test_a_method_answers_with_the_type_that_the_api_describes(subtests: pytest.Subtests) -> None:
    for name, method in METHODS.items():
        [answer] = get_args(get_type_hints(method.declared)["return"])
        for call in calls(method):
            with subtests.test(name, call=call):
                described = ROUTES[call].response_model
                if isinstance(method, Listing):
                    assert get_type_hints(described)["data"] == list[answer]  # type: ignore[valid-type]
                elif method.route.is_file:
                    assert (described, answer) == (None, bytes)
                elif root := getattr(described, "model_fields", {}).get("root"):
                    assert get_args(root.annotation) == get_args(answer)
                else:
                    assert answer in (described, *get_args(described))


def test_a_method_takes_the_fields_that_the_api_takes(subtests: pytest.Subtests) -> None:
    for name, method in METHODS.items():
        in_bodies, in_queries = set[str](), set[str]()
        for call in calls(method):
            operation = DESCRIPTION["paths"][ROUTES[call].path][call[0].lower()]
            queries = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
            in_queries |= {query.partition("[")[0] for query in queries}
            for media in operation.get("requestBody", {}).get("content", {}).values():
                in_bodies |= {field for form in forms(media["schema"]) for field in form.get("properties", ())}
        if name not in OTHERWISE:
            with subtests.test(name):
                given = taken(method)
                assert given <= in_bodies | in_queries
                assert in_bodies - NOT_GIVEN <= given
                assert in_queries - OTHER_NAMES <= given


def taken(method: Method) -> set[str]:
    """The names of a method's arguments, without the ids of its path."""
    names = set[str]()
    for name, parameter in signature(method.declared).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            [fields] = get_args(parameter.annotation)
            names |= fields.__annotations__.keys()
        else:
            names.add(name.removesuffix("_"))  # of a field that is called like a word of Python's: `from`
    return names - {"self", "idempotency_key"} - set(re.findall(r"\{(\w+)\}", method.route.path))


def forms(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The object's schema, or each of its alternatives."""
    schemas = DESCRIPTION["components"]["schemas"]
    choices = schema.get("anyOf", [schema])
    return [schemas[choice["$ref"].rpartition("/")[2]] if "$ref" in choice else choice for choice in choices]


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text()
DOCUMENTS = {"README.md": (ROOT / "README.md").read_text(), "docs/client.md": PAGE}


def examples(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_examples_of_the_documents_run(
    name: str, app: FastAPI, http: TestClient, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocking, awaited = client.Quillpost, client.AsyncQuillpost
    monkeypatch.setattr(client, "Quillpost", partial(blocking, transport=client_transports.InProcessTransport(http)))
    monkeypatch.setattr(client, "AsyncQuillpost", partial(awaited, transport=httpx2.ASGITransport(app=app)))
    names: dict[str, Any] = {}
    assert examples(DOCUMENTS[name])
    for example in examples(DOCUMENTS[name]):
        exec(example.replace("qp_test_...", owner.token), names)
    assert owner.get("/orders/list").json()["meta"]["total"] >= 1


def test_every_method_is_documented() -> None:
    rows = dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", PAGE, re.MULTILINE))
    with client.Quillpost("nobody") as one:
        within = {name: found for name, found in vars(one).items() if isinstance(found, Resource)}
        for name, resource in (within | {"itself": one}).items():
            methods = {each for each in dir(resource) if not each.startswith("_")} - vars(resource).keys()
            assert set(re.findall(r"`(\w+)`", rows[name])) == methods


def test_every_failure_is_documented() -> None:
    exported = [vars(client)[name] for name in client.__all__]
    kinds = [kind for kind in exported if isinstance(kind, type) and issubclass(kind, client.QuillpostError)]
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in PAGE] == []


PONG = respond_with(200)
AWAY = respond_with(503, {"message": "Out of reach."}, X_Request_Id="abc")


@pytest.fixture(params=[client_transports.call_blocking, client_transports.call_awaited], ids=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


def attempt(call: Call, *script: Answer, name: str = "ping", **how: Any) -> tuple[list[bytes], list[float], Any]:
    """The requests of a call, its pauses, and its answer or failure."""
    slept: list[float] = []
    with ScriptedServer(client_transports.scripted_transport(*script)) as server:
        try:
            outcome = call(server.url(), name, slept=slept, **how)
        except client.QuillpostError as failed:
            outcome = failed
    return server.requests, slept, outcome


def test_temporary_failures_are_retried_with_the_same_request(call: Call, subtests: pytest.Subtests) -> None:
    failures: dict[str, Answer] = {str(status): respond_with(status) for status in (429, 502, 503, 504)}
    failures |= {"409 for now": respond_with(409, Retry_After="1"), "hangs up": client_transports.disconnect}
    for reason, failure in failures.items():
        with subtests.test(reason):
            message = {"fields": {"message": "Hi"}}
            requests, slept, answer = attempt(call, failure, failure, PONG, name="send.postcard", **message)
            assert answer == {"message": "pong"}
            assert (len(requests), len(set(requests)), len(slept)) == (3, 1, 2)
            assert UUID(client_transports.header(requests[0], "Idempotency-Key")).version == 4


def test_what_is_final_or_takes_too_long_is_not_retried(call: Call, subtests: pytest.Subtests) -> None:
    finals = {
        400: client.QuillpostError,
        404: client.NotFoundError,
        409: client.ConflictError,
        422: client.ValidationError,
        500: client.ServerError,
    }
    cases: list[tuple[type[client.QuillpostError], Answer, dict[str, Any]]] = [
        *((kind, respond_with(status), {}) for status, kind in finals.items()),
        (client.ConflictError, respond_with(409, RateLimit_Reset="40"), {}),  # that is no request to come again
        (client.UnavailableError, respond_with(503, Retry_After="5"), {"retries": 0}),
        (client.RateLimitError, respond_with(429, Retry_After="60"), {"deadline": 30}),
    ]
    for number, (kind, answer, how) in enumerate(cases):
        with subtests.test(kind.__name__, number=number, **how):
            requests, slept, failed = attempt(call, answer, **how)
            assert isinstance(failed, kind)
            assert (len(requests), slept) == (1, [])
            assert failed.status in finals or failed.retry_after == (5 if failed.status == 503 else 60)


def test_a_client_waits_as_long_and_retries_as_often_as_the_server_says(call: Call) -> None:
    """As while a server starts, or another call with the same key runs."""
    for name in ("Retry_After", "RateLimit_Reset"):
        assert attempt(call, respond_with(429, **{name: "40"}), PONG)[1] == [40]
    busy, runs = respond_with(503, Retry_After="5"), respond_with(409, Retry_After="1")
    how = {"retries": 1, "deadline": 10_000, "fields": {"message": "Hi"}}
    _, slept, _ = attempt(call, *[busy, runs] * 8, PONG, name="send.postcard", **how)
    assert len(slept) == 16
    assert all(pause >= retry_after for pause, retry_after in zip(slept, [5, 1] * 8, strict=True))


def test_after_so_many_retries_the_client_gives_up(call: Call) -> None:
    requests, _, failed = attempt(call, AWAY, retries=2)
    assert (len(requests), type(failed)) == (3, client.UnavailableError)
    assert (failed.message, failed.request_id) == ("Out of reach.", "abc")
    assert str(failed) == "Out of reach. (503, request abc)"
    _, slept, silent = attempt(call, stay_silent, timeout=0.02, retries=1)
    assert (len(slept), type(silent), silent.status) == (1, client.UnreachableError, None)
    assert re.search(r"127\.0\.0\.1:\d+ cannot be reached", silent.message)
    never: list[float] = []
    with pytest.raises(client.UnreachableError):
        call("gopher://127.0.0.1", "ping", slept=never)
    assert never == []


def test_an_upload_is_repeated_to_the_last_byte(call: Call, tmp_path: Path) -> None:
    """A form with another boundary would be another body, which the key forbids."""
    picture = tmp_path / "front.png"
    picture.write_bytes(b"\x89PNG and more")
    with ScriptedServer(client_transports.scripted_transport(respond_with(503), respond_with(201))) as server:
        call(server.url(), "image_templates.create", "postcard", "Spring", picture, slept=[])
    first, second = server.requests
    assert first == second
    assert b'filename="front.png"' in first
    assert b"\x89PNG and more" in first


def test_every_next_page_has_its_own_patience(call: Call) -> None:
    first = respond_with(200, {"data": [1], "links": {"next": "https://elsewhere.example/x?page=2&type=letter"}})
    script = respond_with(502), first, respond_with(502), respond_with(200, {"data": [2]})
    requests, slept, answer = attempt(call, *script, name="orders.list", retries=1)
    assert (answer, len(slept)) == ([1, 2], 2)
    assert requests[-1].startswith(b"GET /api/v2/orders/list?page=2&type=letter HTTP/1.1\r\n")


def test_pauses_grow_and_are_left_to_chance() -> None:
    for retry in range(12):
        most = min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry)
        pauses = [backoff(retry) for _ in range(50)]
        assert all(0 <= pause <= most for pause in pauses)
        assert max(pauses) > most / 2
        assert len(set(pauses)) > 1


def test_a_server_that_starts_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there to say for how long: half of the longest pauses, as chance has it, is a minute."""
    monkeypatch.setattr(client.transport, "backoff", lambda retry: min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry) / 2)
    now = [0.0]
    attempts = Attempts(Patience(timeout=30, retries=RETRIES, deadline=120), clock=lambda: now[0])
    refused = httpx2.ConnectError("Refused.", request=httpx2.Request("GET", "http://127.0.0.1/"))
    for _ in range(RETRIES):
        now[0] += attempts.pause_after(refused)
    assert 60 < now[0] < 120
    with pytest.raises(client.UnreachableError):
        attempts.pause_after(refused)


def test_the_last_attempt_gets_what_is_left_of_the_time() -> None:
    clock = count(0, 4)  # four seconds pass between any two looks
    attempts = Attempts(Patience(timeout=30, retries=9, deadline=10), clock=lambda: float(next(clock)))
    assert attempts.timeout == 6
    assert attempts.timeout == 2
    with pytest.raises(client.ServerError):
        attempts.pause_after(httpx2.Response(502))


def test_how_long_headers_ask_to_wait() -> None:
    now, cases = datetime(2026, 5, 4, 12, tzinfo=UTC), list[tuple[dict[str, str], float | None]]()
    cases += [({}, None), ({"retry-after": "7"}, 7), ({"retry-after": "soon"}, None)]
    cases += [({"retry-after": f"Mon, 04 May 2026 {at} GMT"}, wait) for at, wait in (("12:00:30", 30), ("11:00:00", 0))]
    cases += [({"retry-after": "soon", "ratelimit-reset": "9"}, 9)]
    assert [(headers, retry_after(429, headers, now=now)) for headers, _ in cases] == cases
