"""Several people at one address: one of them is mailed, and it is the first who may be."""

import pytest

from quillpost.app.container import Container
from support.factories import Account, person, postcard, run_due_jobs

pytestmark = pytest.mark.usefixtures("clean_database")

SAME = "Another recipient of this order has the same address."
SUPPRESSED = "This address is on a suppression list."

SUPPRESSED_PERSON = person(name="Barred", email="barred@example.com")
ADA, BOB = person(name="Ada", email="ada@example.com"), person(name="Bob")


def make_list(owner: Account, row: dict[str, str], **fields: object) -> int:
    number = int(owner.post("/mailing-lists", {"description": "Friends"} | fields).json()["id"])
    added = owner.post("/recipients", row | {"mailing_list_id": number})
    assert added.status_code == 201, added.text
    return number


def test_a_suppressed_email_does_not_suppress_the_address(owner: Account, container: Container) -> None:
    make_list(owner, {"email": "barred@example.com"}, is_suppression_list=True)
    suppressed, ada, bob = (make_list(owner, someone) for someone in (SUPPRESSED_PERSON, ADA, BOB))
    for audience in (
        {"recipients": [SUPPRESSED_PERSON, ADA, BOB]},
        {"recipients": None, "mailing_list_ids": [suppressed, ada, bob]},
        {"recipients": [SUPPRESSED_PERSON], "mailing_list_ids": [ada, bob]},
        {"recipients": [SUPPRESSED_PERSON, ADA], "mailing_list_ids": [bob]},
    ):
        body = postcard(**audience)
        found = owner.post("/estimate/postcard", body).json()["data"]
        assert (found["total_recipients"], found["suppressed"], found["duplicates"]) == (1, 1, 1)
        sent = owner.post("/send/postcard", body).json()
        assert (sent["total_estimated_recipients"], sent["authorization_total"]) == (1, 109)
        run_due_jobs(container)
        rows = owner.get(f"/orders/{sent['id']}/items").json()["data"]
        failures = {row["recipient"]["name"]: row["failure"] for row in rows}
        assert failures == {"Barred": SUPPRESSED, "Ada": None, "Bob": SAME}
