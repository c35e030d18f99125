"""The API's description, at /openapi.json and, with a token, at /api/v2/openapi.json."""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.payloads import sample
from quillpost.web.api.errors import ERROR_SCHEMAS
from quillpost.web.api.responses import answer

Json = dict[str, Any]

REFERENCE = "#/components/schemas/"


def restore_nulls(drawn: Json) -> None:
    """Put null back where an example lacks a field that is always sent and may be null."""
    schemas: Json = drawn["components"]["schemas"]
    for schema in schemas.values():
        if "examples" in schema:
            schema["examples"] = [_whole(schemas, schema, example) for example in schema["examples"]]
    for media in _answers(drawn):
        if "example" in media:
            media["example"] = _whole(schemas, media["schema"], media["example"])
        for example in media.get("examples", {}).values():
            example["value"] = _whole(schemas, media["schema"], example["value"])


def _answers(drawn: Json) -> Iterator[Json]:
    for item in drawn["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                yield from response.get("content", {}).values()


def _whole(schemas: Json, schema: Json, value: Any) -> Any:
    if isinstance(value, list):
        items = _choice(schemas, schema, value).get("items", {})
        return [_whole(schemas, items, each) for each in value]
    if not isinstance(value, dict):
        return value
    chosen = _choice(schemas, schema, value)
    described = chosen.get("properties", {})
    nulls = {
        name: None
        for name in chosen.get("required", ())
        if name not in value and _may_be_null(described[name])
    }
    whole = nulls | {name: _whole(schemas, described.get(name, {}), each) for name, each in value.items()}
    return {name: whole[name] for name in (*described, *whole) if name in whole}


def _choice(schemas: Json, schema: Json, value: Any) -> Json:
    """The schema behind references and alternatives that describes this object or array."""
    if "$ref" in schema:
        return _choice(schemas, schemas[schema["$ref"].removeprefix(REFERENCE)], value)
    choices = [_choice(schemas, choice, value) for choice in schema.get("anyOf", ())]
    return next((choice for choice in choices if _suits(choice, value)), schema)


def _suits(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, list):
        return schema.get("type") == "array"
    return schema.get("type") == "object" and value.keys() <= schema.get("properties", value).keys()


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


ITEM = re.compile(r"(?P<collection>.*)/\{(?P<parameter>[^/{}]+)\}(?:/[^{}]*)?")
SENDS = re.compile(r"/api/v2/send/[^/{}]+")
ORDERS = "/api/v2/orders"


def add_links(drawn: dict[str, Any]) -> None:
    """Write OpenAPI links from every call that makes something to those that take its id in their path."""
    followers: dict[str, list[tuple[str, str]]] = {}
    for path, operation in _operations(drawn, "get", "put", "post", "delete"):
        if found := ITEM.fullmatch(path):
            step = (found["parameter"], operation["operationId"])
            followers.setdefault(found["collection"], []).append(step)
    for path, operation in _operations(drawn, "post"):
        steps = followers.get(ORDERS if SENDS.fullmatch(path) else path, [])
        made = next((operation["responses"][s] for s in ("201", "200") if s in operation["responses"]), None)
        if made is not None and steps and _has_id(drawn, _schema_of(made)):
            made["links"] = {
                name: {"operationId": name, "parameters": {parameter: "$response.body#/id"}}
                for parameter, name in steps
            }


def _schema_of(answer: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _has_id(drawn: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Not every answer to a POST names what was made by its id."""
    if "$ref" in schema:
        return _has_id(drawn, drawn["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = schema.get("anyOf", ())
    return "id" in schema.get("properties", ()) or any(_has_id(drawn, choice) for choice in choices)


def _operations(drawn: dict[str, Any], *methods: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in drawn["paths"].items():
        for method in methods:
            if method in item:
                yield path, item[method]


SAMPLE_ID = "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a"
SAMPLE_AT = datetime(2026, 5, 4, 12, tzinfo=UTC)

EVENT_SCHEMAS = {
    webhook_rules.ORDER_STATUS: ("OrderStatusUpdate", "An order was placed or changed its status"),
    webhook_rules.ITEM_STATUS: ("OrderItemStatusUpdate", "A piece was made or changed its status"),
    webhook_rules.DELIVERED: ("OrderItemDelivered", "A piece was delivered"),
    webhook_rules.SCAN: ("ScanUpdate", "A QR code was scanned"),
}

INTEGERS = {"order_item.id", "order.id", "order.sub_account_id", "order_item.scans"}
ORDER_NULLS = {"order.previous_status", "order.metadata"}
"""What may be null in the event of an order; in those of pieces everything may."""

ABOUT_DELIVERIES = (
    "Sent to subscriptions to this type or to *. Any 2xx within 15 seconds is success, and all else is "
    "tried again. Verify the signature, after Standard Webhooks, over the body as it came."
)
HEADERS = {
    "webhook-id": "The event's id: the same whenever the event is sent again.",
    "webhook-timestamp": "When this was sent, in seconds since 1970.",
    "webhook-signature": "One or more signatures with spaces between them; one that is right is enough.",
}


def add_events(drawn: Json) -> None:
    """Write each event's message as a component, and as a webhook that a receiver implements."""
    schemas = drawn["components"]["schemas"]
    for event_type, (name, summary) in EVENT_SCHEMAS.items():
        schemas[name] = message_schema(event_type, summary)
        drawn.setdefault("webhooks", {})[event_type] = {"post": _operation(name, summary)}


def message_schema(event_type: str, summary: str) -> Json:
    """The whole message of an event; the keys are those of a real one."""
    message = orjson.loads(webhook_rules.body(_sample(event_type)))
    types: Json = {
        "event_type": {"type": "string", "const": event_type},
        "event_id": {"type": "string", "format": "uuid"},
        "data": _data_schema(event_type),
        "timestamp": {"type": "integer", "description": "When it happened, in seconds since 1970."},
        "date_time": {"type": "string", "description": "The same as YYYY-MM-DD HH:MM:SS, in UTC."},
    }
    return _closed({key: types[key] for key in message}) | {
        "title": EVENT_SCHEMAS[event_type][0],
        "description": f"{summary}.",
        "examples": [message],
    }


def _data_schema(event_type: str) -> Json:
    keys = webhook_rules.data(_sample(event_type))
    nulls = ORDER_NULLS if event_type == webhook_rules.ORDER_STATUS else keys.keys()
    return _closed({key: _value_schema(key, may_be_null=key in nulls) for key in keys})


def _value_schema(key: str, *, may_be_null: bool) -> Json:
    kind = "integer" if key in INTEGERS else "object" if key == "order.metadata" else "string"
    schema: Json = {"type": kind, "format": "uri"} if key == "qrcode.url" else {"type": kind}
    return {"anyOf": [schema, {"type": "null"}]} if may_be_null else schema


def _closed(properties: Json) -> Json:
    """An object that has all of these and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _sample(event_type: str) -> webhook_rules.Told:
    return sample(event_type, SAMPLE_ID, sub_account_id=None, at=SAMPLE_AT)


def _operation(name: str, summary: str) -> Json:
    return {
        "tags": ["Webhooks"],
        "summary": summary,
        "description": ABOUT_DELIVERIES,
        "security": [],
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": about,
                "schema": {"type": "string"},
            }
            for header, about in HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": REFERENCE + name}}},
        },
        "responses": {
            "2XX": {"description": "The event has arrived."},
            "410": {"description": "Nobody is here any more: the subscription is disabled."},
        },
    }


ABOUT = """Printed direct mail on demand: this message, in this handwriting, on this piece, to these people.

Every call carries `Authorization: Bearer <token>`. Failures have one shape: `{"message": "..."}`, and
validation adds `errors` with every fault under the dotted path of its field. `Idempotency-Key` on a POST
makes it safe to repeat. Every answer carries `X-Request-Id`, `X-RateLimit-Limit` and
`X-RateLimit-Remaining`. HEAD answers wherever GET does, and OPTIONS names the methods of a path.

Outside of `/api/v2`, and without a token: `POST /hooks/lists/{api_key}` puts people on the list that has this
`api_key`. It takes one or many, as JSON or a form, by the names that CRMs, shops and other tools use, and
answers `[{"id": 41, "mailing_list_id": 12, "email": "jane@example.com", "result": "added", "ignored": []}]`.
`result` is `added`, `changed`, `unchanged` or, with an `error`, `refused`. An unknown key is 404."""

REFERENCE_PATTERN = re.compile(r'"#/components/schemas/([^"]+)"')


def describe(app: FastAPI) -> None:
    """Serve the description; it is drawn up once."""
    drawn: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not drawn:
            drawn.update(draw(app.routes))
        return drawn

    app.openapi = openapi  # type: ignore[method-assign]

    def show() -> Response:
        return answer(app.openapi())

    for path in ("/openapi.json", "/api/v2/openapi.json"):
        app.add_api_route(path, show, include_in_schema=False)


def draw(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of these routes. It needs nothing that runs."""
    drawn: dict[str, Any] = get_openapi(
        title="Quillpost API", version="1.0.0", description=ABOUT, routes=routes
    )
    components = drawn.setdefault("components", {})
    components.setdefault("schemas", {}).update(copy.deepcopy(ERROR_SCHEMAS))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    drawn["security"] = [{"token": []}]
    _remove_foreign_failures(drawn)
    add_events(drawn)
    _remove_leftovers(drawn)
    _allow_blanks(drawn)
    drawn = _with_whole_numbers(drawn)
    restore_nulls(drawn)
    add_links(drawn)
    return drawn


def _remove_foreign_failures(drawn: dict[str, Any]) -> None:
    """The framework adds a 422 of its own shape wherever we declare none; those calls have none."""
    for item in drawn["paths"].values():
        for operation in item.values():
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]


def _allow_blanks(drawn: dict[str, Any]) -> None:
    """What may be left out of a query may be left blank as well, unless it is an object."""
    for item in drawn["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                is_object = parameter["schema"].get("type") == "object"
                if parameter["in"] == "query" and not parameter["required"] and not is_object:
                    parameter["allowEmptyValue"] = True


def _with_whole_numbers(drawn: Any) -> Any:
    """The framework writes the bounds of integers in floating point, where large ones are read inexactly."""
    if isinstance(drawn, dict):
        return {name: _with_whole_numbers(value) for name, value in drawn.items()}
    if isinstance(drawn, list):
        return [_with_whole_numbers(value) for value in drawn]
    return int(drawn) if isinstance(drawn, float) and drawn.is_integer() else drawn


def _remove_leftovers(drawn: dict[str, Any]) -> None:
    """Schemas of the framework's making that nothing shows, and then those that only they showed."""
    schemas = drawn["components"]["schemas"]
    while leftovers := schemas.keys() - set(REFERENCE_PATTERN.findall(json.dumps(drawn))):
        for name in leftovers:
            del schemas[name]
