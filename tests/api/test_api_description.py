"""The API's description of itself: complete, and true."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from makers import Account, Clock, carry_on, make_sub_account, people, person
from quillpost.parts import Parts

METHODS = {"get", "post", "put", "delete", "patch"}
ALWAYS = {"401", "403", "429", "503"}


@pytest.fixture
def description(http: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    return found


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in description["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield f"{method.upper()} {path}", operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def assert_described(description: dict[str, Any], path: str, method: str, answer: Response) -> None:
    """The answer is one of those that the operation declares, and has that one's schema."""
    declared = description["paths"][path][method]["responses"]
    assert str(answer.status_code) in declared, answer.text
    schema = declared[str(answer.status_code)]["content"]["application/json"]["schema"]
    whole = {"$ref": "#/wanted", "wanted": _closed(schema), "components": _closed(description["components"])}
    jsonschema_rs.validate(whole, answer.json())


def _closed(schema: Any) -> Any:
    """The schema with no room for keys that it does not name."""
    if isinstance(schema, dict):
        closed = {name: _closed(inner) for name, inner in schema.items()}
        if isinstance(schema.get("properties"), dict):
            closed["additionalProperties"] = False
        return closed
    return [_closed(inner) for inner in schema] if isinstance(schema, list) else schema


def test_it_is_open_at_the_root_and_behind_a_token_under_the_api(
    owner: Account, http: TestClient, description: dict[str, Any]
) -> None:
    assert owner.get("/openapi.json").json() == description
    assert http.get("/api/v2/openapi.json").status_code == 401
    assert description["openapi"].startswith("3.")
    assert description["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_every_operation_is_explained_with_its_answers_and_its_failures(description: dict[str, Any]) -> None:
    ids = []
    for name, operation in operations(description):
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["tags"], name
        ids.append(operation["operationId"])
        responses = operation["responses"]
        assert set(responses) >= ALWAYS, name
        assert any(status.startswith("2") for status in responses), name
        if "requestBody" in operation:
            assert set(responses) >= {"400", "409", "413", "415", "422"}, name
        if "{" in name:
            assert "404" in responses, name
        for status, response in responses.items():
            schema = response["content"]["application/json"]["schema"]
            assert schema, (name, status)
            if not status.startswith("2"):
                wanted = "ValidationFailure" if status == "422" else "Failure"
                assert schema == {"$ref": f"#/components/schemas/{wanted}"}, (name, status)
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (name, parameter["name"])
    assert len(ids) == len(set(ids))
    assert len(ids) >= 12


def test_every_reference_leads_somewhere_and_every_schema_is_used(description: dict[str, Any]) -> None:
    wanted = {reference.removeprefix("#/components/schemas/") for reference in references(description)}
    assert wanted == set(description["components"]["schemas"])


def test_the_real_answers_are_the_described_ones(
    owner: Account, parts: Parts, clock: Clock, description: dict[str, Any]
) -> None:
    def check(path: str, method: str, answer: Response) -> Any:
        assert_described(description, f"/api/v2{path}", method, answer)
        return answer.json()

    branch = make_sub_account(parts, owner)
    audience = [*people(2), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    order = check(
        "/send/postcard",
        "post",
        owner.send(recipients=audience, sub_account_id=branch, metadata={"a": [1, None]}, message="漢"),
    )["id"]
    check("/send/postcard", "post", owner.send(preview=True))
    check("/send/postcard", "post", owner.send(sub_account_id=10**9))
    check("/send/postcard", "post", owner.send(message=5))
    check("/send/postcard", "post", owner.call("POST", "/send/postcard", content=b"x"))
    cancelled = owner.send().json()["id"]
    for method in ("put", "post", "delete"):
        check("/orders/{order_id}/cancel", method, owner.call(method, f"/orders/{cancelled}/cancel"))
        check("/orders/{order_id}/cancel", method, owner.call(method, "/orders/999/cancel"))
    carry_on(parts, clock, seconds=45)
    check("/orders/list", "get", owner.get("/orders/list"))
    check("/orders/list", "get", owner.get("/orders/list?page=x"))
    check("/orders/list", "get", owner.get("/orders/list?sub_account_id=999"))
    check("/orders/{order_id}", "get", owner.get(f"/orders/{order}"))
    check("/orders/{order_id}", "get", owner.get("/orders/999"))
    check("/orders/{order_id}/track", "get", owner.get(f"/orders/{order}/track"))
    check("/orders/{order_id}/items", "get", owner.get(f"/orders/{order}/items"))
    check("/ping", "get", owner.get("/ping"))
    check("/ping", "get", owner.get("/ping", headers={"Authorization": "Bearer x"}))
    hook = check("/webhooks", "post", owner.post("/webhooks", {"url": "https://example.com", "type": "*"}))[
        "id"
    ]
    check("/webhooks", "get", owner.get("/webhooks"))
    check("/webhooks/{webhook_id}", "get", owner.get(f"/webhooks/{hook}"))
    check("/webhooks/{webhook_id}", "delete", owner.call("DELETE", f"/webhooks/{hook}"))
