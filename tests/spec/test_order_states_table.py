"""The specification's "States and transitions", value by value and rule by rule, as reads show them."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.base import orders
from support.factories import person, run_jobs_for
from support.read_only_service import Reader, reading_service

ITEM_STATUSES = (
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
)  # fmt: skip

# fmt: off
ORDER_STATUSES = [
    # status         display        cancellable
    ("reviewing",    "Reviewing",   True),
    ("processing",   "Processing",  False),
    ("printing",     "Printing",    False),
    ("mailed",       "Mailed",      False),
    ("fulfilled",    "Fulfilled",   False),
    ("cancelled",    "Cancelled",   False),
    ("paused",       "Paused",      True),
    ("error",        "Error",       False),
]
HISTORIES = [
    # recipient's name         what becomes of the piece
    ("Jane Doe",               ["Processing", "Printed", "In Transit", "In Local Area",
                                "Processed for Delivery", "Delivered"]),
    ("Test Returned",          ["Processing", "Printed", "In Transit", "In Local Area",
                                "Returned to Sender"]),
    ("Test Rerouted",          ["Processing", "Printed", "In Transit", "Re-routed", "In Local Area",
                                "Processed for Delivery", "Delivered"]),
    ("Test Lost",              ["Processing", "Printed", "In Transit", "Failed"]),
    ("Test Undeliverable",     ["Processing", "Failed"]),
    ("Test Printer Failure",   ["Processing", "Failed"]),
]
# fmt: on


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with reading_service(postgres, template, tmp_path_factory.mktemp("states_table")) as reader:
        yield reader


@pytest.mark.parametrize("status", ITEM_STATUSES)
def test_an_item_status_is_a_filter_by_exactly_this_value(service: Reader, status: str) -> None:
    page = service.owner.get("/order-items", params={"status": status}).json()
    expected = {"Delivered": 1, "Returned to Sender": 1, "Failed": 1}.get(status, 0)
    assert [item["status"] for item in page["data"]] == [status] * expected
    assert page["meta"]["total"] == expected


def test_no_other_item_status_exists(service: Reader) -> None:
    refused = service.owner.get("/order-items?status=Lost")
    assert refused.status_code == 422
    known = f"Unknown status. Known: {', '.join(ITEM_STATUSES)}."
    assert refused.json()["errors"] == {"status": [known]}


@pytest.mark.parametrize(("status", "display", "cancellable"), ORDER_STATUSES)
def test_an_order_status_is_shown_in_its_display_form(
    service: Reader, status: str, display: str, cancellable: bool
) -> None:
    with service.container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == service.order_id).values(status=status))
    order = service.owner.get(f"/orders/{service.order_id}").json()
    assert (order["status"], order["cancellable"]) == (display, cancellable)
    for written in (status, display):
        listed = service.owner.get("/orders/list", params={"status": written}).json()
        assert [each["id"] for each in listed["data"]] == [service.order_id]


def test_a_new_order_is_reviewing(service: Reader) -> None:
    sent: dict[str, Any] = service.owner.send().json()
    assert (sent["status"], sent["display_status"]) == ("reviewing", "Reviewing")
    assert service.owner.get(f"/orders/{sent['id']}").json()["status"] == "Reviewing"
    service.owner.call("PUT", f"/orders/{sent['id']}/cancel")


@pytest.fixture(scope="module")
def histories(service: Reader) -> dict[str, list[dict[str, Any]]]:
    """Every item's events, by the name of whom it went to."""
    audience = [person(name=name, address=f"{number} Elm St") for number, (name, _) in enumerate(HISTORIES, start=1)]
    order_id = service.owner.send(recipients=audience).json()["id"]
    run_jobs_for(service.container, service.clock, seconds=60)
    items = service.owner.get(f"/orders/{order_id}/items").json()["data"]
    return {
        item["recipient"]["name"]: service.owner.get(f"/order-items/{item['id']}").json()["events"] for item in items
    }


@pytest.mark.parametrize(("name", "statuses"), HISTORIES, ids=[name for name, _ in HISTORIES])
def test_a_piece_passes_through_these_statuses(
    histories: dict[str, list[dict[str, Any]]], name: str, statuses: list[str]
) -> None:
    events = histories[name]
    assert [event["status"] for event in events] == statuses
    assert [event["previous_status"] for event in events] == [None, *statuses[:-1]]
    moments = [event["at"] for event in events]
    assert moments == sorted(moments)
