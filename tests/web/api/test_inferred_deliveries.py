"""A delivery that nobody saw, as its sender reads it."""

from dataclasses import replace
from datetime import timedelta

from quillpost.app.container import Container
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.queries import read_order
from support.carrier_scans import ingest, mail_order, scan, tracking_codes
from support.factories import Account, Build, Clock


def test_an_inferred_delivery_is_marked_until_it_is_seen(owner: Account, container: Container, clock: Clock) -> None:
    with_inference = replace(container.environments["test"], infer_delivery_after=timedelta(days=3))
    order_id = owner.send().json()["id"]
    with container.db.system_transaction() as tx:
        order = read_order(tx, order_id)
    mail_order(container, order)
    [tracking] = tracking_codes(container, order)
    clock.advance(days=1)
    seen_at = container.clock() - timedelta(hours=2)
    ingest(container, scan(tracking, "3a", seen_at, place="Austin, TX 78701"))
    clock.advance(days=4)
    tracking_tasks.close_items(container.db, {"test": with_inference}, now=container.clock())

    item_id = owner.get(f"/orders/{order_id}/items").json()["data"][0]["id"]
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["status"], item["delivery_date"]) == ("Delivered", "2026-05-05")
    assert item["delivery_inferred"] is True
    assert item["events"][-2:] == [
        {
            "status": "Processed for Delivery",
            "previous_status": "Printed",
            "at": "2026-05-05T10:00:00Z",
            "place": "Austin, TX 78701",
            "reason": None,
            "inferred": False,
        },
        {
            "status": "Delivered",
            "previous_status": "Processed for Delivery",
            "at": "2026-05-09T12:00:00Z",
            "place": None,
            "reason": None,
            "inferred": True,
        },
    ]
    ingest(container, scan(tracking, "4c", container.clock() - timedelta(days=2)))
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["delivery_date"], item["delivery_inferred"]) == ("2026-05-07", False)


def test_the_reason_for_forwarding_is_shown(owner: Account, container: Container) -> None:
    order_id = owner.send().json()["id"]
    with container.db.system_transaction() as tx:
        order = read_order(tx, order_id)
    mail_order(container, order)
    [tracking] = tracking_codes(container, order)
    ingest(container, scan(tracking, "pars", container.clock(), reason="Moved, left no address"))
    item_id = owner.get(f"/orders/{order_id}/items").json()["data"][0]["id"]
    item = owner.get(f"/order-items/{item_id}").json()
    assert (item["status"], item["failure"]) == ("Re-routed", None)
    assert item["events"][-1]["reason"] == "Moved, left no address"


def test_live_deliveries_are_inferred_only_where_the_settings_say_so(build: Build) -> None:
    usual = build().environments["live"]
    assert (usual.infer_delivery_after, usual.infer_unseen_delivery_after) == (None, None)
    assert usual.reroute_timeout == timedelta(days=30)
    environment = build(infer_delivery_days=3, infer_unseen_days=20, reroute_ends_days=40).environments["live"]
    assert (environment.infer_delivery_after, environment.infer_unseen_delivery_after, environment.reroute_timeout) == (
        timedelta(days=3),
        timedelta(days=20),
        timedelta(days=40),
    )
