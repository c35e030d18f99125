"""Several people at one address: one of them is mailed, and it is the first who may be."""

from quillpost.app.container import Container
from support.factories import Account, person, postcard, run_due_jobs

SAME = "Another recipient of this order has the same address."
SUPPRESSED = "This address is on a suppression list."

BARRED = person(name="Barred", email="barred@example.com")
ADA, BOB = person(name="Ada", email="ada@example.com"), person(name="Bob")


def make_list(owner: Account, row: dict[str, str], **fields: object) -> int:
    number = int(owner.post("/mailing-lists", {"description": "Friends"} | fields).json()["id"])
    added = owner.post("/recipients", row | {"mailing_list_id": number})
    assert added.status_code == 201, added.text
    return number


def test_an_e_mail_that_is_barred_does_not_take_the_address(owner: Account, container: Container) -> None:
    make_list(owner, {"email": "barred@example.com"}, is_suppression_list=True)
    barred, ada, bob = (make_list(owner, someone) for someone in (BARRED, ADA, BOB))
    for audience in (
        {"recipients": [BARRED, ADA, BOB]},
        {"recipients": None, "mailing_list_ids": [barred, ada, bob]},
        {"recipients": [BARRED], "mailing_list_ids": [ada, bob]},
        {"recipients": [BARRED, ADA], "mailing_list_ids": [bob]},
    ):
        body = postcard(**audience)
        found = owner.post("/estimate/postcard", body).json()["data"]
        assert (found["total_recipients"], found["suppressed"], found["duplicates"]) == (1, 1, 1)
        sent = owner.post("/send/postcard", body).json()
        assert (sent["total_estimated_recipients"], sent["authorization_total"]) == (1, 109)
        run_due_jobs(container)
        rows = owner.get(f"/orders/{sent['id']}/items").json()["data"]
        told = {row["recipient"]["name"]: row["failure"] for row in rows}
        assert told == {"Barred": SUPPRESSED, "Ada": None, "Bob": SAME}
