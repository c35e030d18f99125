"""The API's description, at /openapi.json and, with a token, at /api/v2/openapi.json."""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.web.api.errors import ERROR_SCHEMAS
from quillpost.web.api.responses import json_response

Json = dict[str, Any]

REFERENCE_PREFIX = "#/components/schemas/"


def add_examples(description: Json) -> None:
    """Write the components' examples, which are in `examples.json` by the components' names."""
    examples: Json = json.loads(files("quillpost.web.api").joinpath("examples.json").read_text("utf-8"))
    for name, found in examples.items():
        several = found if isinstance(found, list) else [found]
        description["components"]["schemas"][name]["examples"] = [_expand(examples, each) for each in several]


def _expand(examples: Json, value: Any) -> Any:
    """`like` names an example that this one changes or adds to; `page` is the path of a page `of` such examples."""
    if isinstance(value, list):
        return [_expand(examples, each) for each in value]
    if not isinstance(value, dict):
        return value
    if "page" in value:
        return _page_example(value["page"], _expand(examples, examples[value["of"]]), value.get("meta", {}))
    base = _expand(examples, examples[value["like"]]) if "like" in value else {}
    return base | {name: _expand(examples, inner) for name, inner in value.items() if name != "like"}


def _page_example(path: str, row: Json, extra_meta: Json) -> Json:
    url = f"https://mail.example.com/api/v2{path}"
    meta = {"current_page": 1, "from": 1, "last_page": 1, "path": url, "per_page": 25, "to": 1, "total": 1}
    links = {"first": f"{url}?page=1", "last": f"{url}?page=1", "prev": None, "next": None}
    return {"data": [row], "links": links, "meta": meta | extra_meta}


def restore_nulls(description: Json) -> None:
    """Put null back where an example lacks a field that is always sent and may be null."""
    schemas: Json = description["components"]["schemas"]
    for schema in schemas.values():
        if "examples" in schema:
            schema["examples"] = [_fill_nulls(schemas, schema, example) for example in schema["examples"]]
    for media in _response_media(description):
        if "example" in media:
            media["example"] = _fill_nulls(schemas, media["schema"], media["example"])
        for example in media.get("examples", {}).values():
            example["value"] = _fill_nulls(schemas, media["schema"], example["value"])


def _response_media(description: Json) -> Iterator[Json]:
    for item in description["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                yield from response.get("content", {}).values()


def _fill_nulls(schemas: Json, schema: Json, value: Any) -> Any:
    if isinstance(value, list):
        items = _resolve_schema(schemas, schema, value).get("items", {})
        return [_fill_nulls(schemas, items, item) for item in value]
    if not isinstance(value, dict):
        return value
    resolved = _resolve_schema(schemas, schema, value)
    properties = resolved.get("properties", {})
    nulls = {
        name: None for name in resolved.get("required", ()) if name not in value and _is_nullable(properties[name])
    }
    filled = nulls | {name: _fill_nulls(schemas, properties.get(name, {}), item) for name, item in value.items()}
    return {name: filled[name] for name in (*properties, *filled) if name in filled}


def _resolve_schema(schemas: Json, schema: Json, value: Any) -> Json:
    """The schema behind references and alternatives that describes this object or array."""
    if "$ref" in schema:
        return _resolve_schema(schemas, schemas[schema["$ref"].removeprefix(REFERENCE_PREFIX)], value)
    choices = [_resolve_schema(schemas, choice, value) for choice in schema.get("anyOf", ())]
    return next((choice for choice in choices if _matches(choice, value)), schema)


def _matches(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, list):
        return schema.get("type") == "array"
    return schema.get("type") == "object" and value.keys() <= schema.get("properties", value).keys()


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


ITEM_PATH = re.compile(r"(?P<collection>.*)/\{(?P<parameter>[^/{}]+)\}(?:/[^{}]*)?")
SEND_PATH = re.compile(r"/api/v2/send/[^/{}]+")
ORDERS_PATH = "/api/v2/orders"


def add_links(description: dict[str, Any]) -> None:
    """Write OpenAPI links from every call that makes something to those that take its id in their path."""
    followers: dict[str, list[tuple[str, str]]] = {}
    for path, operation in _operations(description, "get", "put", "post", "delete"):
        if match := ITEM_PATH.fullmatch(path):
            follower = (match["parameter"], operation["operationId"])
            followers.setdefault(match["collection"], []).append(follower)
    for path, operation in _operations(description, "post"):
        links = followers.get(ORDERS_PATH if SEND_PATH.fullmatch(path) else path, [])
        response = next((operation["responses"][s] for s in ("201", "200") if s in operation["responses"]), None)
        if response is not None and links and _has_id(description, _response_schema(response)):
            response["links"] = {
                name: {"operationId": name, "parameters": {parameter: "$response.body#/id"}}
                for parameter, name in links
            }


def _response_schema(response: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = response.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _has_id(description: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Not every answer to a POST names what was made by its id."""
    if "$ref" in schema:
        return _has_id(description, description["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = schema.get("anyOf", ())
    return "id" in schema.get("properties", ()) or any(_has_id(description, choice) for choice in choices)


def _operations(description: dict[str, Any], *methods: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in description["paths"].items():
        for method in methods:
            if method in item:
                yield path, item[method]


SAMPLE_ID = "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a"
SAMPLE_AT = datetime(2026, 5, 4, 12, tzinfo=UTC)

EVENT_SCHEMAS = {
    webhook_rules.ORDER_STATUS_EVENT: ("OrderStatusUpdate", "An order was placed or changed its status"),
    webhook_rules.ITEM_STATUS_EVENT: ("OrderItemStatusUpdate", "A piece was made or changed its status"),
    webhook_rules.DELIVERED_EVENT: ("OrderItemDelivered", "A piece was delivered"),
    webhook_rules.SCAN_EVENT: ("ScanUpdate", "A QR code was scanned"),
}

INTEGER_KEYS = {"order_item.id", "order.id", "order.sub_account_id", "order_item.scans"}
NULLABLE_ORDER_KEYS = {"order.previous_status", "order.metadata"}
"""What may be null in the event of an order; in those of pieces everything may."""

DELIVERY_DESCRIPTION = (
    "Sent to subscriptions to this type or to *. Any 2xx within 15 seconds is success, and all else is "
    "tried again. Verify the signature, after Standard Webhooks, over the body as it came."
)
WEBHOOK_HEADERS = {
    "webhook-id": "The event's id: the same whenever the event is sent again.",
    "webhook-timestamp": "When this was sent, in seconds since 1970.",
    "webhook-signature": "One or more signatures with spaces between them; one that is right is enough.",
}


def add_events(description: Json) -> None:
    """Write each event's message as a component, and as a webhook that a receiver implements."""
    schemas = description["components"]["schemas"]
    for event_type, (name, summary) in EVENT_SCHEMAS.items():
        schemas[name] = build_message_schema(event_type, summary)
        description.setdefault("webhooks", {})[event_type] = {"post": _webhook_operation(name, summary)}


def build_message_schema(event_type: str, summary: str) -> Json:
    """The whole message of an event; the keys are those of a real one."""
    message = orjson.loads(webhook_rules.build_body(_sample_event(event_type)))
    types: Json = {
        "event_type": {"type": "string", "const": event_type},
        "event_id": {"type": "string", "format": "uuid"},
        "data": _build_data_schema(event_type),
        "timestamp": {"type": "integer", "description": "When it happened, in seconds since 1970."},
        "date_time": {"type": "string", "description": "The same as YYYY-MM-DD HH:MM:SS, in UTC."},
    }
    return _closed_object({key: types[key] for key in message}) | {
        "title": EVENT_SCHEMAS[event_type][0],
        "description": f"{summary}.",
        "examples": [message],
    }


def _build_data_schema(event_type: str) -> Json:
    data = webhook_rules.build_data(_sample_event(event_type))
    nullable = NULLABLE_ORDER_KEYS if event_type == webhook_rules.ORDER_STATUS_EVENT else data.keys()
    return _closed_object({key: _build_value_schema(key, may_be_null=key in nullable) for key in data})


def _build_value_schema(key: str, *, may_be_null: bool) -> Json:
    kind = "integer" if key in INTEGER_KEYS else "object" if key == "order.metadata" else "string"
    schema: Json = {"type": kind, "format": "uri"} if key == "qrcode.url" else {"type": kind}
    return {"anyOf": [schema, {"type": "null"}]} if may_be_null else schema


def _closed_object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _sample_event(event_type: str) -> webhook_rules.WebhookEvent:
    return build_sample_event(event_type, SAMPLE_ID, sub_account_id=None, at=SAMPLE_AT)


def _webhook_operation(name: str, summary: str) -> Json:
    return {
        "tags": ["Webhooks"],
        "summary": summary,
        "description": DELIVERY_DESCRIPTION,
        "security": [],
        "parameters": [
            {"name": header, "in": "header", "required": True, "description": description, "schema": {"type": "string"}}
            for header, description in WEBHOOK_HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": REFERENCE_PREFIX + name}}},
        },
        "responses": {
            "2XX": {"description": "The event has arrived."},
            "410": {"description": "Nobody is here any more: the subscription is disabled."},
        },
    }


API_DESCRIPTION = """Printed direct mail on demand: this message, in this handwriting, on this piece, to these people.

Every call carries `Authorization: Bearer <token>`. Failures have one shape: `{"message": "..."}`, and
validation adds `errors` with every fault under the dotted path of its field. `Idempotency-Key` on a POST
makes it safe to repeat. Every answer carries `X-Request-Id`, `X-RateLimit-Limit` and
`X-RateLimit-Remaining`. HEAD answers wherever GET does, and OPTIONS names the methods of a path.

Outside of `/api/v2`, and without a token: `POST /hooks/lists/{api_key}` puts people on the list that has this
`api_key`. It takes one or many, as JSON or a form, by the names that CRMs, shops and other tools use, and
answers `[{"id": 41, "mailing_list_id": 12, "email": "jane@example.com", "result": "added", "ignored": []}]`.
`result` is `added`, `changed`, `unchanged` or, with an `error`, `refused`. An unknown key is 404."""

REFERENCE_PATTERN = re.compile(r'"#/components/schemas/([^"]+)"')


def serve_description(app: FastAPI) -> None:
    description: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not description:
            description.update(build_description(app.routes))
        return description

    app.openapi = openapi  # type: ignore[method-assign]

    def serve() -> Response:
        return json_response(app.openapi())

    for path in ("/openapi.json", "/api/v2/openapi.json"):
        app.add_api_route(path, serve, include_in_schema=False)


def build_description(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of these routes. It needs nothing that runs."""
    description: dict[str, Any] = get_openapi(
        title="Quillpost API", version="1.0.0", description=API_DESCRIPTION, routes=routes
    )
    components = description.setdefault("components", {})
    components.setdefault("schemas", {}).update(copy.deepcopy(ERROR_SCHEMAS))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    description["security"] = [{"token": []}]
    _remove_framework_errors(description)
    add_events(description)
    _remove_unused_schemas(description)
    add_examples(description)
    _allow_blanks(description)
    description = _with_integer_bounds(description)
    restore_nulls(description)
    add_links(description)
    return description


def _remove_framework_errors(description: dict[str, Any]) -> None:
    """The framework adds a 422 of its own shape wherever we declare none; those calls have none."""
    for item in description["paths"].values():
        for operation in item.values():
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]


def _allow_blanks(description: dict[str, Any]) -> None:
    """What may be left out of a query may be left blank as well, unless it is an object."""
    for item in description["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                is_object = parameter["schema"].get("type") == "object"
                if parameter["in"] == "query" and not parameter["required"] and not is_object:
                    parameter["allowEmptyValue"] = True


def _with_integer_bounds(node: Any) -> Any:
    """The framework writes the bounds of integers in floating point, where large ones are read inexactly."""
    if isinstance(node, dict):
        return {name: _with_integer_bounds(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_with_integer_bounds(value) for value in node]
    return int(node) if isinstance(node, float) and node.is_integer() else node


def _remove_unused_schemas(description: dict[str, Any]) -> None:
    """Schemas of the framework's making that nothing shows, and then those that only they showed."""
    schemas = description["components"]["schemas"]
    while unused := schemas.keys() - set(REFERENCE_PATTERN.findall(json.dumps(description))):
        for name in unused:
            del schemas[name]
