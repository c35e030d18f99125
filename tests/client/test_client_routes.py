"""Each method of the client is an operation of the API: the same path, the same type of answer, the same fields. All
of it is documented, and what the documentation shows works as it stands."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from quillpost import client
from quillpost.client import AsyncQuillpost, Quillpost
from quillpost.client.requests import Listing, Operation, Resource
from quillpost.client.send import PieceName
from quillpost.web import api
from quillpost.web.api.openapi import build_description
from support.client_transports import InProcessTransport
from support.factories import Account
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
Call = tuple[str, str]


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
ROUTES: dict[Call, APIRoute] = {
    (method, re.sub(r"\{\w+\}", "{}", route.path.removeprefix(PREFIX))): route
    for route in api.routes
    if isinstance(route, APIRoute) and route.include_in_schema
    for method in route.methods or ()
}
DESCRIPTION = build_description(api.routes)


def calls(method: Method) -> list[Call]:
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
def test_docs_run(name: str, app: FastAPI, http: TestClient, owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    blocking, awaited = client.Quillpost, client.AsyncQuillpost
    monkeypatch.setattr(client, "Quillpost", partial(blocking, transport=InProcessTransport(http)))
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
