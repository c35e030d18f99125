"""The API's description of itself: complete, and true."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema_rs
import pytest
from httpx2 import Response

from quillpost.app.container import Container
from support.described_operations import WITH_BODY, Json, Operation, resolved
from support.factories import Account, Clock, make_sub_account, people, person, run_jobs_for
from support.test_client import TestClient

TOOL = Path(__file__).parents[3] / "tools" / "lint_openapi.py"


def load_lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_openapi", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


LINT = load_lint()
# Drawn without anything that runs.
DRAWN = LINT.description()
WRITTEN = json.dumps(DRAWN)


@pytest.fixture
def description(http: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    return found


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
    assert owner.get("/openapi.json").json() == description == DRAWN
    assert http.get("/api/v2/openapi.json").status_code == 401
    assert description["openapi"].startswith("3.")
    assert description["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_the_lint_finds_nothing_wrong() -> None:
    assert list(LINT.find_errors(DRAWN)) == []


CANCEL, HOOKS, HOOK = "/api/v2/orders/{order_id}/cancel", "/api/v2/webhooks", "/api/v2/webhooks/{webhook_id}"
Spoil = Callable[[dict[str, Any], dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda paths, _: paths[HOOKS]["post"].pop("operationId"), "has no operationId"),
        (lambda paths, _: paths[HOOKS]["post"].pop("summary"), "has no summary"),
        (lambda paths, _: paths[HOOKS]["post"].pop("description"), "has no description"),
        (lambda paths, _: paths[HOOKS]["post"].pop("tags"), "has no tags"),
        (lambda paths, _: paths[HOOKS]["post"].update(security=[]), "has no security"),
        (lambda paths, _: paths[HOOKS]["post"].update(operationId="list_webhooks"), "has the operationId of"),
        (lambda paths, _: paths[HOOKS]["post"].update(operationId="createWebhook"), "in snake_case"),
        (lambda paths, _: paths[HOOKS]["post"].update(operationId="create_webhook_api_v2_webhooks_post"),
         "in snake_case"),
        (lambda paths, _: paths[HOOKS]["post"].update(operationId="make_" * 9 + "it"), "in snake_case"),
        (lambda paths, _: paths[HOOKS]["post"]["responses"].pop("201"), "has no answer of success"),
        (lambda paths, _: paths[HOOKS]["post"]["responses"]["201"].pop("content"), "neither a schema"),
        (lambda paths, _: paths[HOOKS]["post"]["responses"].pop("503"), "does not declare 503"),
        (lambda paths, _: paths[HOOKS]["post"]["responses"].pop("415"), "does not declare 415"),
        (lambda paths, _: paths[HOOK]["get"]["responses"].pop("404"), "does not declare 404"),
        (lambda paths, _: paths[HOOK]["get"]["responses"]["404"].pop("content"), "not of the shape Failure"),
        (lambda paths, _: paths[HOOK]["get"]["parameters"][0].pop("description"), "has no description"),
        (lambda paths, _: paths[HOOK]["get"]["parameters"].clear(), "webhook_id is not declared"),
        (lambda _, schemas: schemas["NewWebhook"].pop("examples"), "request body (application/json) has no"),
        (lambda _, schemas: schemas["CreatedWebhook"].pop("examples"), "answer 201 has no example"),
        (lambda _, schemas: schemas["Webhook"]["examples"][0].pop("id"), '"id" is a required property'),
        (lambda _, schemas: schemas["Webhook"]["properties"]["url"].pop("type"), "url has no type"),
        (lambda _, schemas: schemas.update(Loose={"type": "object"}), "component Loose: nothing uses it"),
        (lambda _, schemas: schemas.pop("WebhookPage"), "component WebhookPage: is used and does not exist"),
    ],
)  # fmt: skip
def test_the_lint_finds_every_error(spoil: Spoil, error: str) -> None:
    spoiled = json.loads(WRITTEN)
    spoil(spoiled["paths"], spoiled["components"]["schemas"])
    assert any(error in found for found in LINT.find_errors(spoiled))


def test_links_lead_from_what_was_made_to_what_can_be_done_with_it() -> None:
    paths = DRAWN["paths"]
    links = paths[HOOKS]["post"]["responses"]["201"]["links"]
    reading = paths[HOOK]["get"]["operationId"]
    assert links[reading] == {"operationId": reading, "parameters": {"webhook_id": "$response.body#/id"}}
    cancelling = paths[CANCEL]["put"]["operationId"]
    assert cancelling in paths["/api/v2/send/postcard"]["post"]["responses"]["200"]["links"]


@pytest.mark.usefixtures("clean_database")
def test_the_real_answers_are_the_described_ones(
    owner: Account, container: Container, clock: Clock, description: dict[str, Any]
) -> None:
    def check(path: str, method: str, answer: Response) -> Any:
        assert_described(description, f"/api/v2{path}", method, answer)
        return answer.json()

    branch = make_sub_account(container, owner)
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
    run_jobs_for(container, clock, seconds=45)
    check("/orders/list", "get", owner.get("/orders/list"))
    check("/orders/list", "get", owner.get("/orders/list?page=x"))
    check("/orders/list", "get", owner.get("/orders/list?sub_account_id=999"))
    check("/orders/{order_id}", "get", owner.get(f"/orders/{order}"))
    check("/orders/{order_id}", "get", owner.get("/orders/999"))
    check("/orders/{order_id}/track", "get", owner.get(f"/orders/{order}/track"))
    check("/orders/{order_id}/items", "get", owner.get(f"/orders/{order}/items"))
    check("/ping", "get", owner.get("/ping"))
    check("/ping", "get", owner.get("/ping", headers={"Authorization": "Bearer x"}))
    hook = check("/webhooks", "post", owner.post("/webhooks", {"url": "https://example.com", "type": "*"}))["id"]
    check("/webhooks", "get", owner.get("/webhooks"))
    check("/webhooks/{webhook_id}", "get", owner.get(f"/webhooks/{hook}"))
    path = "/webhooks/{webhook_id}"
    check(f"{path}/rotate-secret", "post", owner.post(f"/webhooks/{hook}/rotate-secret"))
    check(f"{path}/test", "post", owner.post(f"/webhooks/{hook}/test"))
    log = check(f"{path}/deliveries", "get", owner.get(f"/webhooks/{hook}/deliveries"))
    check(f"{path}/deliveries", "get", owner.get(f"/webhooks/{hook}/deliveries?status=x"))
    one, delivery = f"{path}/deliveries/{{delivery_id}}", f"/webhooks/{hook}/deliveries/{log['data'][0]['id']}"
    check(one, "get", owner.get(delivery))
    check(one, "get", owner.get(f"{delivery}0"))
    check(f"{one}/retry", "post", owner.post(f"{delivery}/retry"))
    for body in ({"from": "2026-05-04T12:00:00Z"}, {"from": "2026-05-04T12:00:00Z"}, {"to": "x"}):
        check(f"{path}/replay", "post", owner.post(f"/webhooks/{hook}/replay", body))
    check(path, "delete", owner.call("DELETE", f"/webhooks/{hook}"))


def test_scan_notifications_are_described_for_email_and_sms() -> None:
    field = resolved({"$ref": "#/components/schemas/SendPostcard"})["properties"]["notification_emails"]
    assert "scans" in field["description"]
    assert "@sms" in field["description"]
    assert "later release" not in WRITTEN


def may_be_null(schema: Json) -> bool:
    """Said of it, or not excluded by anything that is said."""
    found = resolved(schema)
    if "anyOf" in found:
        return any(may_be_null(choice) for choice in found["anyOf"])
    return found.get("type", "null") == "null" and "enum" not in found


@pytest.mark.parametrize("operation", [o for o in WITH_BODY if o.method == "POST"], ids=str)
def test_optional_fields_accept_null(operation: Operation) -> None:
    """In what is changed null clears a field; where there is nothing yet it is as good as left out."""
    assert operation.body_schema is not None
    for shape in (resolved(s) for s in (operation.body_schema, *operation.body_schema.get("anyOf", ()))):
        optional = shape.get("properties", {}).keys() - set(shape.get("required", ()))
        assert [name for name in optional if not may_be_null(shape["properties"][name])] == []


def test_every_address_may_be_equally_long() -> None:
    longest = {
        (name, choice.get("maxLength"))
        for operation in WITH_BODY
        for name, schema in (operation.body_schema or {}).get("properties", {}).items()
        if name == "url" or name.endswith("_url")
        for choice in (resolved(schema), *resolved(schema).get("anyOf", ()))
        if choice.get("type") == "string"
    }
    assert {"url", "qrcode_url", "pdf_only_url", "front_image_url"} <= {name for name, _ in longest}
    assert {most for _, most in longest} == {2_048}
