"""The API's description of itself: complete, and true of bodies, answers and files."""

import importlib.util
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.fulfillment.print_room.queries import BatchFileInfo
from quillpost.web.api.print_room.endpoints import FILE_CONTENT
from support import described_operations
from support.described_operations import DESCRIPTION, OPERATIONS, WITH_BODY, Json, Operation, resolved, validator_for
from support.factories import GIFT, Account, Clock, make_sub_account, people, person, run_jobs_for
from support.test_client import TestClient
from support.uploads import upload

TOOL = Path(__file__).parents[3] / "tools" / "lint_openapi.py"
BY_LABEL = {operation.label: operation for operation in OPERATIONS}


def load_lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_openapi", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


LINT = load_lint()
CANCEL, HOOKS, HOOK = "/api/v2/orders/{order_id}/cancel", "/api/v2/webhooks", "/api/v2/webhooks/{webhook_id}"


def test_it_is_open_at_the_root_and_behind_a_token_under_the_api(owner: Account, http: TestClient) -> None:
    shown = http.get("/openapi.json").json()
    assert owner.get("/openapi.json").json() == shown == LINT.description() == DESCRIPTION
    assert http.get("/api/v2/openapi.json").status_code == 401
    assert shown["openapi"].startswith("3.")
    assert shown["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


Spoil = Callable[[Json, Json], Any]
ERRORS: dict[str, Spoil] = {
    "has no operationId": lambda post, _: post.pop("operationId"),
    "has no summary": lambda post, _: post.pop("summary"),
    "has no description": lambda post, _: post.pop("description"),
    "has no tags": lambda post, _: post.pop("tags"),
    "has no security": lambda post, _: post.update(security=[]),
    "has the operationId of": lambda post, _: post.update(operationId="list_webhooks"),
    "createWebhook is not a short name in snake_case": lambda post, _: post.update(operationId="createWebhook"),
    "v2_webhooks_post is not a short name": lambda post, _: post.update(
        operationId="create_webhook_api_v2_webhooks_post"
    ),
    "make_it is not a short name": lambda post, _: post.update(operationId="make_" * 9 + "it"),
    "has no answer of success": lambda post, _: post["responses"].pop("201"),
    "neither a schema": lambda post, _: post["responses"]["201"].pop("content"),
    "does not declare 503": lambda post, _: post["responses"].pop("503"),
    "does not declare 415": lambda post, _: post["responses"].pop("415"),
    "does not declare 404": lambda _, get: get["responses"].pop("404"),
    "not of the shape Failure": lambda _, get: get["responses"]["404"].pop("content"),
    "webhook_id has no description": lambda _, get: get["parameters"][0].pop("description"),
    "webhook_id is not declared": lambda _, get: get["parameters"].clear(),
}
ERRORS_OF_SCHEMAS: dict[str, Callable[[Json], Any]] = {
    "request body (application/json) has no": lambda schemas: schemas["NewWebhook"].pop("examples"),
    "answer 201 has no example": lambda schemas: schemas["CreatedWebhook"].pop("examples"),
    '"id" is a required property': lambda schemas: schemas["Webhook"]["examples"][0].pop("id"),
    "url has no type": lambda schemas: schemas["Webhook"]["properties"]["url"].pop("type"),
    "component Loose: nothing uses it": lambda schemas: schemas.update(Loose={"type": "object"}),
    "component WebhookPage: is used and does not exist": lambda schemas: schemas.pop("WebhookPage"),
}


def test_the_lint_finds_every_error_and_none_in_the_description(subtests: pytest.Subtests) -> None:
    assert list(LINT.find_errors(DESCRIPTION)) == []
    paths = {path: DESCRIPTION["paths"][path] for path in (HOOKS, HOOK)}
    schemas = LINT._behind(DESCRIPTION["components"]["schemas"], paths)
    small = json.dumps(DESCRIPTION | {"paths": paths, "components": {"schemas": schemas}})
    for error in (*ERRORS, *ERRORS_OF_SCHEMAS):
        with subtests.test(error):
            spoiled = json.loads(small)
            if error in ERRORS:
                ERRORS[error](spoiled["paths"][HOOKS]["post"], spoiled["paths"][HOOK]["get"])
            else:
                ERRORS_OF_SCHEMAS[error](spoiled["components"]["schemas"])
            found = list(LINT.find_errors(spoiled))
            assert any(error in each for each in found), found


def test_links_lead_on_from_what_was_made_and_scan_notifications_are_described() -> None:
    paths = DESCRIPTION["paths"]
    links = paths[HOOKS]["post"]["responses"]["201"]["links"]
    reading = paths[HOOK]["get"]["operationId"]
    assert links[reading] == {"operationId": reading, "parameters": {"webhook_id": "$response.body#/id"}}
    canceling = paths[CANCEL]["put"]["operationId"]
    assert canceling in paths["/api/v2/send/postcard"]["post"]["responses"]["200"]["links"]
    field = resolved({"$ref": "#/components/schemas/SendPostcard"})["properties"]["notification_emails"]
    assert [word for word in ("scans", "@sms") if word not in field["description"]] == []
    assert "later release" not in json.dumps(DESCRIPTION)


@pytest.mark.usefixtures("clean_database")
def test_all_answers_of_an_order_s_life_are_described(owner: Account, container: Container, clock: Clock) -> None:
    """And have no other keys; `test_odd_values.py` looks at the answers of every operation."""

    def check(method: str, pattern: str, *ids: int, query: str = "", **how: Any) -> Any:
        operation, numbers = BY_LABEL[f"{method} /api/v2{pattern}"], iter(ids)
        path = "".join(f"/{next(numbers)}" if part[0] == "{" else f"/{part}" for part in pattern.split("/")[1:])
        answer = owner.call(method, path + query, **how)
        assert described_operations.find_undescribed(operation, answer) == [], (operation, query)
        return answer.json()

    audience = [*people(2), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    common = {"message": "漢", "recipients": audience, "sub_account_id": make_sub_account(container, owner)}
    order = check("POST", "/send/postcard", json=common | {"metadata": {"a": [1, None]}})["id"]
    check("POST", "/send/postcard", json=common | {"preview": True})
    check("POST", "/send/postcard", json=common | {"sub_account_id": 10**9})
    canceled = owner.send().json()["id"]
    for method in ("PUT", "POST", "DELETE"):
        check(method, "/orders/{order_id}/cancel", canceled)
    hook = check("POST", "/webhooks", json={"url": "https://example.com", "type": "*"})["id"]
    run_jobs_for(container, clock, seconds=45)
    check("GET", "/orders/list")
    check("GET", "/orders/list", query="?sub_account_id=999999")
    for pattern in ("/orders/{order_id}", "/orders/{order_id}/track", "/orders/{order_id}/items"):
        check("GET", pattern, order)
    check("POST", "/webhooks/{webhook_id}/test", hook)
    log = check("GET", "/webhooks/{webhook_id}/deliveries", hook)["data"]
    one = "/webhooks/{webhook_id}/deliveries/{delivery_id}"
    check("GET", one, hook, log[0]["id"])
    check("POST", f"{one}/retry", hook, log[0]["id"])
    for _ in range(2):
        check("POST", "/webhooks/{webhook_id}/replay", hook, json={"from": "2026-05-04T12:00:00Z"})


def may_be_null(schema: Json) -> bool:
    """Said of it, or not excluded by anything that is said."""
    found = resolved(schema)
    if "anyOf" in found:
        return any(may_be_null(choice) for choice in found["anyOf"])
    return found.get("type", "null") == "null" and "enum" not in found


def test_optional_fields_accept_null_and_every_address_may_be_equally_long() -> None:
    """In what is changed null clears a field; where there is nothing yet it is as good as left out."""
    longest = set[tuple[str, int]]()
    for operation in WITH_BODY:
        schema = operation.body_schema or {}
        for shape in (resolved(each) for each in (schema, *schema.get("anyOf", ()))):
            optional = shape.get("properties", {}).keys() - set(shape.get("required", ()))
            never = [name for name in optional if not may_be_null(shape["properties"][name])]
            assert never == [] or operation.method != "POST", operation
        longest |= {
            (name, choice.get("maxLength"))
            for name, field in schema.get("properties", {}).items()
            if name == "url" or name.endswith("_url")
            for choice in (resolved(field), *resolved(field).get("anyOf", ()))
            if choice.get("type") == "string"
        }
    assert {"url", "qrcode_url", "pdf_only_url", "front_image_url"} <= {name for name, _ in longest}
    assert {most for _, most in longest} == {2_048}


AUDIENCE: Json = {"recipients": [person()], "allow_duplicates": True}
HOME = {"return_address": "1 Orchard Rd", "return_city": "Austin", "return_state": "TX", "return_postal_code": "78701"}
LETTERS = ("windowed-letter", "windowless-letter")


@cache
def accepts(path: str) -> Callable[[Json], bool]:
    """Whether a body is one as the description has them."""
    body = BY_LABEL[f"POST /api/v2{path}"].described["requestBody"]["content"]["application/json"]
    found: Callable[[Json], bool] = validator_for(body["schema"]).is_valid
    return found


def outcomes(owner: Account, path: str, bodies: list[Json]) -> list[tuple[bool, bool]]:
    """What the description says of each, and what the service says."""
    answers = [owner.post(path, body) for body in bodies]
    assert {answer.status_code for answer in answers} <= {200, 201, 404, 422}, [each.text for each in answers]
    return [(accepts(path)(body), answer.status_code != 422) for body, answer in zip(bodies, answers, strict=True)]


@pytest.mark.parametrize("piece", ["postcard", "notecard", "magnacard", *LETTERS, "giftcard"])
def test_what_a_send_requires_is_described(owner: Account, piece: str) -> None:
    gift = GIFT if piece == "giftcard" else {}
    good: Json = AUDIENCE | {"message": "Hi!"} | gift
    accepted: list[Json] = [good, good | HOME, good | {"return_address": "1 Orchard Rd, Austin, TX 78701"}]
    accepted += [good | {"radius_search": None, "mailing_list_ids": []}]
    refused: list[Json] = [
        {}, gift, {"message": "Hi!"} | gift, good | {"recipients": []}, good | {"recipients": None}, AUDIENCE | gift,
        AUDIENCE | {"message": " "} | gift, good | {"return_city": "Austin"}, good | {"return_address": "1 Orchard Rd"},
        good | {"radius_search": {"address": "12 Main St, Austin, TX 78701", "record_count": 5}},
    ]  # fmt: skip
    if piece == "giftcard":
        refused += [AUDIENCE | {"message": "Hi!"}, good | {"giftcard_amount": None}]
    if piece == "postcard":
        words = owner.post("/message-templates", {"type": piece, "name": "Hi", "content": "Hi!"}).json()["id"]
        accepted += [AUDIENCE | {"message_template": words, "image_template": upload(owner).json()["id"]}]
        refused += [AUDIENCE | {"message_template": words}]
    for path in (f"/estimate/{piece}", f"/stored_send/{piece}"):
        assert outcomes(owner, path, accepted) == [(True, True)] * len(accepted), path
        assert outcomes(owner, path, refused) == [(False, False)] * len(refused), path


def test_what_bodies_need_and_may_leave_blank_is_described(owner: Account, container: Container) -> None:
    blank = AUDIENCE | {"message": ""}
    may_be = accepts("/send/postcard")
    assert not may_be(blank)
    assert may_be(blank | {"custom_background_image": "https://example.com/a.png"})
    assert may_be(blank | {"sub_account_id": make_sub_account(container, owner)})
    assert not accepts("/send/giftcard")(blank | GIFT)
    for piece in LETTERS:
        assert accepts(f"/send/{piece}")(AUDIENCE | {"pdf_only_url": "https://example.com/a.pdf"})
        assert accepts(f"/send/{piece}")(AUDIENCE | {"message_template": 12})
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    common: Json = {"mailing_list_id": list_id, "name": "Saved", "trigger": "list_entry"}
    for path, good, bad in BODIES:
        good_outcome, bad_outcome = outcomes(owner, path, [common | good, common | bad])
        assert (good_outcome[0], bad_outcome) == (True, (False, False)), (path, bad)


BODIES: list[tuple[str, Json, Json]] = [
    # Path, a good body, and one that lacks something.
    ("/recipients", {"email": "jane@example.com"}, {"name": "Jane"}),
    ("/recipients", {"address": "12 Main St, Austin, TX 78701"}, {"address": " "}),
    ("/recipients-utils/delete-by-address", {"email": "jane@example.com"}, {"city": "Austin"}),
    ("/recipients/erase", {"email": "jane@example.com"}, {}),
    ("/message-templates", {"type": "postcard", "content": "Hi!"}, {"type": "postcard"}),
    ("/message-templates", {"type": "notecard", "custom_background_url": "https://example.com/a.png"},
        {"type": "letter", "content": ""}),
    ("/message-templates", {"type": "giftcard", "content": "Hi!", "giftcard_brand_code": "brindlewick",
        "giftcard_amount": 2_500}, {"type": "giftcard", "content": "Hi!"}),
    ("/automations", {"send": {"piece": "postcard", "message": "Hi!"}}, {"send": {"message": "Hi!"}}),
]  # fmt: skip


def test_files_have_the_types_that_are_described_and_an_empty_one_has_no_preview(owner: Account) -> None:
    for name in ("print.pdf", "manifest.csv", "manifest.json", "ticket.xjdf"):
        assert BatchFileInfo(name, 1, "").content_type.partition(";")[0] in FILE_CONTENT
    order = owner.send().json()["id"]
    list_id = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    for path, pattern in (
        (f"/orders/{order}/proof", "/orders/{order_id}/proof"),
        (f"/mailing-lists/{list_id}/export", "/mailing-lists/{mailing_list_id}/export"),
    ):
        described: Operation = BY_LABEL[f"GET /api/v2{pattern}"]
        answer = owner.get(path)
        assert answer.status_code == 200
        content_type = answer.headers["Content-Type"].partition(";")[0]
        assert [content_type] == list(described.described["responses"]["200"]["content"])
    for empty in EMPTY:
        whole = owner.call("POST", "/imports/preview", content=empty, headers={"Content-Type": "text/csv"})
        form = owner.call("POST", "/imports/preview", files={"file": ("a.csv", empty, "text/csv")})
        for refused in (whole, form):
            assert (refused.status_code, list(refused.json()["errors"])) == (422, ["file"]), (empty, refused.text)


EMPTY = (b"", b" \n", b",", b",,\n,,\n", b'""', b'"",""\n"",""', b";;", b"\xef\xbb\xbf,,", b"\0", b"\xff\xfe\n\0")
