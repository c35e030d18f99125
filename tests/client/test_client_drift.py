"""The client and the service's description of itself, held against each other."""

import re
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest
from shared_service import shared_service

from quillpost.client import AsyncQuillpost, Quillpost
from quillpost.client.requests import Listing, Operation, Resource
from quillpost.client.send import PieceName
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.web.application import create_app

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

Schema = Mapping[str, Any]
Call = tuple[str, str]


def declared() -> Iterator[tuple[str, Operation[Any, Any] | Listing[Any, Any]]]:
    """Every call of the client, by the name that its user writes."""
    client = Quillpost("nobody")
    resources = {"": client} | {
        f"{name}.": found for name, found in vars(client).items() if isinstance(found, Resource)
    }
    for prefix, resource in resources.items():
        for kind in type(resource).__mro__:
            for name, found in vars(kind).items():
                if isinstance(found, Operation | Listing):
                    yield prefix + name, found
    client.close()


CALLS = dict(declared())


def plain(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path.removeprefix(PREFIX))


def ways(found: Operation[Any, Any] | Listing[Any, Any]) -> list[Call]:
    """The call as the description has it: pieces are paths of their own there."""
    route = found.route
    pieces = PIECES if "{piece}" in route.path else ("",)
    return [(route.method, plain(route.path.replace("{piece}", piece))) for piece in pieces]


@pytest.fixture(scope="module")
def description(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Schema]:
    with shared_service(postgres, template, tmp_path_factory.mktemp("drift") / "home") as parts:
        yield create_app(parts).openapi()


@pytest.fixture(scope="module")
def served(description: Schema) -> dict[Call, Schema]:
    return {
        (method.upper(), plain(path)): told
        for path, methods in description["paths"].items()
        for method, told in methods.items()
        if path.startswith(PREFIX)
    }


def test_every_operation_is_a_method_and_every_method_is_an_operation(served: dict[Call, Schema]) -> None:
    offered = {way for found in CALLS.values() for way in ways(found)}
    without_method = sorted(served.keys() - offered - OTHER_WAYS)
    without_operation = sorted(offered - served.keys())
    print("Operations without a method of the client:", *without_method, sep="\n  ")
    print("Methods of the client without an operation:", *without_operation, sep="\n  ")
    assert (without_method, without_operation) == ([], [])


def test_both_clients_have_the_same_methods() -> None:
    blocking, awaited = Quillpost("nobody"), AsyncQuillpost("nobody")
    assert {name: type(found) for name, found in vars(blocking).items() if isinstance(found, Resource)} == {
        name: type(found) for name, found in vars(awaited).items() if isinstance(found, Resource)
    }
    assert {name for name in dir(blocking) if not name.startswith("_")} == {
        name for name in dir(awaited) if not name.startswith("_")
    }
    blocking.close()


@pytest.mark.parametrize("name", CALLS)
def test_answers_have_the_fields_that_their_types_say(
    name: str, served: dict[Call, Schema], description: Schema
) -> None:
    found = CALLS[name]
    for way in ways(found):
        assert_same_shape(answered(found), told(served[way], description, found), description, name)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - OTHERWISE))
def test_methods_take_the_fields_that_the_service_takes(
    name: str, served: dict[Call, Schema], description: Schema
) -> None:
    found = CALLS[name]
    given = taken(found)
    in_bodies, in_queries = set[str](), set[str]()
    for way in ways(found):
        operation = served[way]
        in_queries |= {
            each["name"].partition("[")[0] for each in operation.get("parameters", ()) if each["in"] == "query"
        }
        for kind in ("application/json", "multipart/form-data"):
            body = operation.get("requestBody", {}).get("content", {}).get(kind, {})
            for form in resolved(body.get("schema", {}), description):
                in_bodies |= form.get("properties", {}).keys()
    assert given <= in_bodies | in_queries
    assert in_bodies - NOT_GIVEN <= given
    assert in_queries - OTHER_NAMES <= given


def taken(found: Operation[Any, Any] | Listing[Any, Any]) -> set[str]:
    """The names of a method's arguments, without the ids of its path."""
    names = set[str]()
    for name, parameter in signature(found.declared).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            [fields] = get_args(parameter.annotation)
            names |= fields.__annotations__.keys()
        else:
            names.add(name.removesuffix("_"))  # of a field that is called like a word of Python's: `from`
    return names - {"self", "idempotency_key"} - set(re.findall(r"\{(\w+)\}", found.route.path))


def answered(found: Operation[Any, Any] | Listing[Any, Any]) -> Any:
    """The T of the Request[T] that the declaration returns."""
    [kind] = get_args(get_type_hints(found.declared)["return"])
    return kind


def told(operation: Schema, description: Schema, found: object) -> list[Schema]:
    """The forms of the answer, or of a row of the list."""
    [answer] = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    content = answer.get("content", {}).get("application/json", {})
    forms = resolved(content.get("schema", {}), description)
    if isinstance(found, Listing):
        forms = [row for form in forms for row in resolved(form["properties"]["data"]["items"], description)]
    return forms


def resolved(schema: Schema, description: Schema) -> list[Schema]:
    """The object's schema, or each of its alternatives; null left out."""
    forms = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [
        description["components"]["schemas"][form["$ref"].rpartition("/")[2]] if "$ref" in form else form
        for form in forms
        if form.get("type") != "null"
    ]


def assert_same_shape(kind: Any, forms: list[Schema], description: Schema, where: str) -> None:
    """The TypedDict has the fields of one of the forms, and so have those that lie within."""
    if not is_typeddict(kind):
        return
    names = set(kind.__annotations__)
    near = min(forms, key=lambda form: len(names ^ set(form.get("properties", {}))))
    assert names == set(near.get("properties", {})), where
    for field, inner in get_type_hints(kind).items():
        for part in (inner, *get_args(inner)):
            schema = near["properties"][field]
            assert_same_shape(part, resolved(schema.get("items", schema), description), description, field)
