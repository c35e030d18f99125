"""The keys of events: the page, the description for programs and the events themselves say the same."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.payloads import build_sample_event
from quillpost.web import api
from quillpost.web.api.openapi import build_description

API = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
DRAWN = build_description(api.routes)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
RANGE = re.compile(r"`(\S+_)(\d+)` to `\S+_(\d+)`")


def documented(event_type: str) -> dict[str, str]:
    """Each key of the page's table for this event, with its type."""
    kind = "orders" if event_type == webhook_rules.ORDER_STATUS_EVENT else "pieces and scans"
    _, _, after = API.partition(f"**`data` of events of {kind}**")
    rows = re.findall(r"^\| (`.*`) \| ([^|]+) \|", after.partition("\n**")[0], re.MULTILINE)
    return {key: kind for names, kind in rows for key in re.findall(r"`(\S+)`", RANGE.sub(_whole, names))}


def _whole(written: re.Match[str]) -> str:
    return ", ".join(f"`{written[1]}{n}`" for n in range(int(written[2]), int(written[3]) + 1))


def described(event_type: str) -> dict[str, Any]:
    content = DRAWN["webhooks"][event_type]["post"]["requestBody"]["content"]["application/json"]
    found: dict[str, Any] = DRAWN["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    return found


def kinds(schema: dict[str, Any]) -> str:
    names = (f"{each['type']}{' (URI)' if 'format' in each else ''}" for each in schema.get("anyOf", [schema]))
    return " or ".join(names)


@pytest.mark.parametrize("event_type", webhook_rules.EVENT_TYPES)
def test_an_event_is_as_the_page_and_the_description_have_it_and_nothing_may_be_missing_or_added(
    event_type: str,
) -> None:
    event, of_the_account = (
        build_sample_event(event_type, "0e4b6f0a-6c3f-4d4e-9a5e-2f1d7c1c9b7a", sub_account_id=sub_account_id, at=NOON)
        for sub_account_id in (7, None)
    )
    data = described(event_type)["properties"]["data"]
    assert documented(event_type) == {key: kinds(schema) for key, schema in data["properties"].items()}
    assert documented(event_type).keys() == webhook_rules.build_data(event).keys()

    schema = jsonschema_rs.validator_for(described(event_type))
    message = json.loads(webhook_rules.build_body(event))
    assert schema.is_valid(message)
    assert schema.is_valid(json.loads(webhook_rules.build_body(of_the_account)))
    assert not schema.is_valid(message | {"more": 1})
    assert not schema.is_valid(message | {"data": message["data"] | {"more": 1}})
    for key in message["data"]:
        less = {name: value for name, value in message["data"].items() if name != key}
        assert not schema.is_valid(message | {"data": less})


def test_every_event_and_no_other_is_a_webhook_of_the_description() -> None:
    assert [*DRAWN["webhooks"]] == [*webhook_rules.EVENT_TYPES]
    assert DRAWN["openapi"].startswith("3.1.")
