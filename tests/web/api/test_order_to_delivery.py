"""A postcard from the call to the door, with the clock turned by hand."""

import pytest

from quillpost.app.container import Container
from support.factories import Account, Clock, run_jobs_for

pytestmark = pytest.mark.usefixtures("clean_database")


def test_a_postcard_is_delivered(owner: Account, container: Container, clock: Clock) -> None:
    sent = owner.send()
    assert sent.status_code == 200, sent.text
    order_id = sent.json()["id"]
    run_jobs_for(container, clock, seconds=40)
    order = owner.get(f"/orders/{order_id}").json()
    assert order["status"] == "Fulfilled"
    item = owner.get(f"/orders/{order_id}/items").json()["data"][0]
    assert item["status"] == "Delivered"
    assert item["delivery_date"] == "2026-05-04"
