"""How sure it is that mail arrives: on recipients, in estimates and in the warnings of sends."""

from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.recipients.addresses.rules import INCOMPLETE_ADDRESS, NO_ADDRESS
from support.factories import person
from support.mailing_lists import ListOwner

# A ZIP code of Texas, a city of Maine.
ELSEWHERE = {"city": "Portland", "province": "TX", "postal_code": "78701"}


def assessment(recipient: dict[str, Any]) -> tuple[str, bool, list[str]]:
    return recipient["deliverability"], recipient["can_deliver"], recipient["deliverability_reasons"]


def doubtful_reason(lists: ListOwner) -> str:
    """What is said of an address whose parts do not belong together."""
    made = lists.add(lists.make(), **ELSEWHERE).json()
    assert made["deliverability"] == "doubtful"
    return str(made["deliverability_reasons"][0])


def estimate(lists: ListOwner, list_id: int) -> Any:
    body = {"mailing_list_ids": [list_id], "message": "Hello!"}
    return lists.account.post("/estimate/postcard", body).json()["data"]


def test_a_recipient_says_whether_mail_arrives_and_why_not(lists: ListOwner) -> None:
    into, why = lists.make(), doubtful_reason(lists)
    assert assessment(lists.add(into).json()) == ("deliverable", True, [])
    half = {"address": "9 Elm St", "city": None, "province": None, "postal_code": None}
    assert assessment(lists.add(into, **half).json()) == ("undeliverable", False, [INCOMPLETE_ADDRESS])
    email = lists.account.post("/recipients", {"mailing_list_id": into, "email": "e@example.com"}).json()
    assert assessment(email) == ("undeliverable", False, [NO_ADDRESS])
    assert assessment(lists.add(into, address="7 Oak St", **ELSEWHERE).json()) == ("doubtful", True, [why])
    known = ["deliverable", "undeliverable", "undeliverable", "doubtful"]
    assert [assessment(row)[0] for row in lists.on(into)] == known
    # The address is shown as it was given.
    made = lists.add(into, address="12 Main Street", city="austin", postal_code="78702").json()
    assert (made["address"], made["city"]) == ("12 Main Street", "austin")
    whole = {"address": "12 Oak Street", "city": "Austin", "postal_code": "78702"}
    changed = lists.put(f"/recipients/{made['id']}", whole).json()
    assert (changed["address"], changed["deliverability"]) == ("12 Oak Street", "deliverable")


def test_a_send_warns_of_doubtful_addresses_in_few_words(lists: ListOwner) -> None:
    why = doubtful_reason(lists)
    whom = [person(address=f"{n} Oak St", **ELSEWHERE) for n in range(2)]
    warning = f"2 addresses are doubtful: {why}"
    body = {"recipients": [person(), *whom], "message": "Hi!", "allow_duplicates": True}
    assert warning in lists.account.post("/estimate/postcard", body).json()["data"]["warnings"]
    sent = lists.account.post("/send/postcard", body)
    assert warning in sent.headers["X-Warnings"]
    assert warning in lists.account.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    into = lists.make()
    for n in range(3):
        lists.add(into, address=f"{n} Oak St", **ELSEWHERE)
    lists.add(into, address="1 Elm St")
    lists.add_email(into, "e@example.com")
    data = estimate(lists, into)
    assert (data["total_recipients"], data["undeliverable"]) == (4, 1)
    assert f"3 addresses are doubtful: {why}" in data["warnings"]


OWN_WORDS = sa.text(
    """update recipients set deliverability = case when id % 2 = 0 then 'doubtful' else 'undeliverable' end,
              reasons = array['Nobody knows ' || address || '.'] where mailing_list_id = :list"""
)
UNCHECKED = sa.text("update recipients set deliverability = null, reasons = null where mailing_list_id = :list")


def test_many_reasons_make_few_warnings_and_an_unchecked_row_counts_as_deliverable_if_it_is_complete(
    lists: ListOwner, container: Container
) -> None:
    """What is wrong may name the very address: then every one has words of its own."""
    into, other = lists.make(), lists.make()
    lists.fill(into, *(f"{n} Ash St" for n in range(20)))
    lists.add(other)
    lists.add_email(other, "e@example.com")
    with container.db.system_transaction() as tx:
        tx.execute(OWN_WORDS, {"list": into})
        tx.execute(UNCHECKED, {"list": other})
    data = estimate(lists, into)
    assert (data["total_recipients"], data["undeliverable"]) == (10, 10)
    [summary] = [warning for warning in data["warnings"] if "doubtful" in warning]
    assert summary.startswith("10 addresses are doubtful: Nobody knows ")
    assert summary.count("Nobody knows") == 3
    assert [assessment(row) for row in lists.on(other)] == [("deliverable", True, []), ("undeliverable", False, [])]
