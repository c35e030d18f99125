"""The events that receivers are told, for the API's description: OpenAPI calls them webhooks."""

from datetime import UTC, datetime
from typing import Any

import orjson

from quillpost.webhooks import rules
from quillpost.webhooks.samples import sample

Json = dict[str, Any]

REFERENCE = "#/components/schemas/"
SAMPLE_ID = "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a"
SAMPLE_AT = datetime(2026, 5, 4, 12, tzinfo=UTC)

SHAPES = {
    rules.ORDER_STATUS: ("OrderStatusUpdate", "An order was placed or changed its status"),
    rules.ITEM_STATUS: ("OrderItemStatusUpdate", "A piece was made or changed its status"),
    rules.DELIVERED: ("OrderItemDelivered", "A piece was delivered"),
    rules.SCAN: ("ScanUpdate", "A QR code was scanned"),
}

INTEGERS = {"order_item.id", "order.id", "order.sub_account_id", "order_item.scans"}
ORDER_NULLS = {"order.previous_status", "order.metadata"}
"""What may be null in the event of an order; in those of pieces everything may."""

ABOUT = (
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
    for event_type, (name, summary) in SHAPES.items():
        schemas[name] = message_schema(event_type, summary)
        drawn.setdefault("webhooks", {})[event_type] = {"post": _operation(name, summary)}


def message_schema(event_type: str, summary: str) -> Json:
    """The whole message of an event; the keys are those of a real one."""
    message = orjson.loads(rules.body(_sample(event_type)))
    types: Json = {
        "event_type": {"type": "string", "const": event_type},
        "event_id": {"type": "string", "format": "uuid"},
        "data": _data_schema(event_type),
        "timestamp": {"type": "integer", "description": "When it happened, in seconds since 1970."},
        "date_time": {"type": "string", "description": "The same as YYYY-MM-DD HH:MM:SS, in UTC."},
    }
    return _closed({key: types[key] for key in message}) | {
        "title": SHAPES[event_type][0],
        "description": f"{summary}.",
        "examples": [message],
    }


def _data_schema(event_type: str) -> Json:
    keys = rules.data(_sample(event_type))
    nulls = ORDER_NULLS if event_type == rules.ORDER_STATUS else keys.keys()
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


def _sample(event_type: str) -> rules.Told:
    return sample(event_type, SAMPLE_ID, sub_account_id=None, at=SAMPLE_AT)


def _operation(name: str, summary: str) -> Json:
    return {
        "tags": ["Webhooks"],
        "summary": summary,
        "description": ABOUT,
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
