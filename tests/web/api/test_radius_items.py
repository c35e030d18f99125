"""What becomes of people who were bought: receivers hear whose house it is, samples stay samples."""

import json

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists, recipients
from quillpost.notifications.webhooks.payloads import DueDelivery
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT
from support.factories import Account, make_live, postcard, run_due_jobs
from support.qr_scans import codes_of, count_scans, scan
from support.radius_addresses import make_address, radius_search, store_addresses
from support.test_client import TestClient
from support.webhook_log import subscribe
from support.webhook_outbox import LeaseHolder, fan_out

pytestmark = pytest.mark.usefixtures("clean_database")

ELSEWHERE = {"owner_name": "Olive Owner", "owner_address": "9 Pine St", "owner_postcode": "98101"}


def send_around(container: Container, owner: Account, **search: object) -> int:
    """An order to those around number 100, as far as its pieces; its id."""
    card = postcard(radius_search=radius_search(2, **search), qrcode_url="https://shop.example.com/hi")
    del card["recipients"]
    sent = owner.post("/send/postcard", card)
    assert sent.status_code == 200, sent.json()
    run_due_jobs(container)
    return int(sent.json()["id"])


def test_a_receiver_hears_whose_house_a_piece_to_an_owner_is_about(container: Container, owner: Account) -> None:
    store_addresses(container, [make_address(100), make_address(101), make_address(102, **ELSEWHERE)])
    hook = subscribe(owner, type=ITEM_STATUS_EVENT)
    send_around(container, owner, use_property_owner=True)
    fan_out(container)
    hand = LeaseHolder(container)
    assert hand.lease() == [hook]
    addresses = {}
    for due in hand.read():
        assert isinstance(due, DueDelivery)
        data = json.loads(due.payload)["data"]
        addresses[data["recipient.name"]] = data["recipient.absentee_address"]
    assert addresses == {"Sample Resident 101": None, "Olive Owner": "102 Sample Oak St, Austin, TX 78701"}


def test_a_sample_that_is_scanned_is_a_sample_on_the_list_of_scans(
    container: Container, owner: Account, http: TestClient
) -> None:
    store_addresses(container, [make_address(100), make_address(101), make_address(102)])
    order = send_around(container, owner)
    own = owner.send(qrcode_url="https://shop.example.com/hi").json()["id"]
    run_due_jobs(container)
    for code in (*codes_of(container, order), *codes_of(container, own)):
        assert scan(http, code).status_code == 302
    count_scans(container)
    with container.db.system_transaction() as tx:
        kept = tx.execute(sa.select(mailing_lists.c.id).where(mailing_lists.c.type == "qrscans")).scalar_one()
        found = tx.execute(sa.select(recipients).where(recipients.c.mailing_list_id == kept)).all()
    assert {one.name: one.is_sample for one in found if one.is_sample} == {
        "Sample Resident 101": True,
        "Sample Resident 102": True,
    }
    assert len(found) == 3
    live = make_live(container, owner)
    card = postcard(mailing_list_ids=[kept], return_address="1 Main St, Austin, TX 78701")
    del card["recipients"]
    assert live.post("/send/postcard", card).json()["total_estimated_recipients"] == 1
