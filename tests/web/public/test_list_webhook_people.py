"""Hooks in: who is the same person, what is added to what is known of them, and what a list makes of it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.recipients.rules import INEFFECTIVE_ENTRY
from support.automations import AutomationDriver, plan
from support.factories import Account, Clock, person
from support.list_webhook import ListWebhook, create_list_webhook
from support.list_webhook_payloads import FORM, JANE, PAYLOADS
from support.waiting import wait_until

EMAIL = {"email": "jane@example.com"}
ADDRESS = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}


@pytest.fixture
def hook(owner: Account) -> ListWebhook:
    return create_list_webhook(owner)


def shown(people: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in people]


def test_an_existing_address_is_updated_and_keeps_its_other_fields(hook: ListWebhook) -> None:
    hook.rows(JANE | {"phone": "1", "custom1": "blue", "dob": "1980-02-29", "postal_code": "78701-1234"})
    row = {"Street": "12 MAIN ST.", "zip": "78701", "city": "Austin", "phone": "2", "custom1": ""}
    assert hook.results(row) == ["changed"]
    [jane] = hook.people()
    assert (jane["phone"], jane["custom1"], jane["dob"], jane["email"]) == (
        "2", "blue", "1980-02-29", "jane@example.com",
    )  # fmt: skip
    assert (jane["name"], jane["postal_code"], jane["address"]) == ("Jane Doe", "78701-1234", "12 MAIN ST.")
    assert hook.results(row) == ["unchanged"]


def test_a_call_that_changes_nothing_leaves_the_date_of_the_last_change(hook: ListWebhook, clock: Clock) -> None:
    couple = [JANE, JANE | {"name": "John Doe"}, person(address="13 Main St"), {"email": "x@example.com"}]
    assert hook.results(couple) == ["added", "changed", "added", "added"]
    before = shown(hook.people(), *ADDRESS, "name", "email", "updated_at")
    clock.advance(hours=1)
    assert hook.results(couple) == ["unchanged"] * 4
    assert shown(hook.people(), *ADDRESS, "name", "email", "updated_at") == before
    assert hook.results([JANE]) == ["changed"]
    moved = [one["updated_at"] != one["created_at"] for one in hook.people()]
    assert moved == [True, False, False]


def test_an_address_completes_whoever_had_only_an_email(hook: ListWebhook) -> None:
    [first] = hook.rows(EMAIL | {"name": "Jane", "phone": "1"})
    [second] = hook.rows({"email": "JANE@example.com", "name": "Jane Doe", **ADDRESS})
    assert (first["id"], second["result"]) == (second["id"], "changed")
    assert shown(hook.people(), "name", "address", "phone", "can_deliver") == [("Jane Doe", "12 Main St", "1", True)]
    assert hook.lister.read(hook.list_id)["total_recipients"] == 1


def test_an_email_alone_adds_to_whoever_has_it_and_an_address(hook: ListWebhook) -> None:
    hook.rows(JANE)
    assert hook.results(EMAIL | {"phone": "7", "city": "Dallas", "country": "Canada"}) == ["changed"]
    assert shown(hook.people(), "city", "country", "phone") == [("Austin", "US", "7")]
    assert hook.results(EMAIL | {"phone": "7"}) == ["unchanged"]


def test_an_email_that_several_have_tells_nobody_apart(hook: ListWebhook) -> None:
    hook.rows([JANE, JANE | {"address": "13 Main St"}])
    [row] = hook.rows(EMAIL | {"phone": "7"})
    assert row["error"] == "email: Several on this list have this e-mail: give the address as well."
    assert shown(hook.people(), "phone") == [(None,), (None,)]


def test_an_email_that_several_will_have_when_the_call_is_done_tells_nobody_apart_either(hook: ListWebhook) -> None:
    rows = [JANE, EMAIL | {"phone": "7"}, JANE | {"address": "13 Main St"}]
    assert hook.results(rows) == ["added", "refused", "added"]
    assert hook.results(rows) == ["unchanged", "refused", "unchanged"]
    assert shown(hook.people(), "phone") == [(None,), (None,)]


@pytest.mark.parametrize("half", [{"first_name": "Sho"}, {"last_name": "Pify"}])
def test_half_a_name_replaces_none_and_is_taken_where_there_is_none(hook: ListWebhook, half: dict[str, str]) -> None:
    hook.rows([EMAIL | {"name": "Sho Pify"}, {"email": "x@example.com"}])
    assert hook.results([EMAIL | half, {"email": "x@example.com"} | half]) == ["unchanged", "changed"]
    assert shown(hook.people(), "name") == [("Sho Pify",), (*half.values(),)]
    assert hook.results(EMAIL | {"first_name": "Ann", "last_name": "Other"}) == ["changed"]


def test_the_same_email_at_another_address_is_another_entry(hook: ListWebhook) -> None:
    assert hook.results([JANE, JANE | {"address": "13 Main St"}]) == ["added", "added"]


@pytest.mark.parametrize(
    ("known", "row", "result", "city"),
    [
        (EMAIL | {"address": "12 Main St"}, EMAIL | ADDRESS, "changed", "Austin"),
        (EMAIL | {"address": "12 Main St", "city": "austin"}, EMAIL | ADDRESS, "changed", "Austin"),
        (EMAIL | {"address": "12 Main St", "city": "Reno"}, EMAIL | ADDRESS, "added", "Reno"),
        (EMAIL | {"address": "13 Main St"}, EMAIL | ADDRESS, "added", None),
        ({"address": "12 Main St"}, EMAIL | ADDRESS, "added", None),
        (EMAIL | ADDRESS, EMAIL | {"address": "12 main st"}, "unchanged", "Austin"),
        (EMAIL | ADDRESS, EMAIL | {"address": "12 main st", "city": "Reno"}, "added", "Austin"),
        (EMAIL | {"address": "12 Main St"}, EMAIL | {"address": "12 Main St", "phone": "1"}, "changed", None),
        (EMAIL | {"address": "12 Main St", "unit": "4"}, EMAIL | ADDRESS, "added", None),
    ],
)
def test_half_an_address_and_the_whole_of_it_are_one_where_nothing_differs(
    hook: ListWebhook, known: dict[str, str], row: dict[str, str], result: str, city: str | None
) -> None:
    assert hook.results(known) == ["added"]
    assert hook.results(row) == [result]
    assert hook.people()[0]["city"] == city
    assert len(hook.people()) == (2 if result == "added" else 1)
    assert hook.results(row) == ["unchanged"]


def test_two_rows_of_one_call_about_one_person_are_one(hook: ListWebhook) -> None:
    rows = [EMAIL, EMAIL | ADDRESS, ADDRESS | {"phone": "1"}, {"email": "second@example.com", **ADDRESS}]
    answer = hook.rows(rows)
    assert [row["result"] for row in answer] == ["added", "changed", "changed", "changed"]
    assert len({row["id"] for row in answer}) == 1
    assert shown(hook.people(), "email", "address", "phone") == [("second@example.com", "12 Main St", "1")]


def test_twenty_concurrent_calls_with_one_person_make_one_entry(hook: ListWebhook) -> None:
    def send(n: int) -> list[dict[str, Any]]:
        return hook.rows(JANE if n % 2 else EMAIL | {"name": "Jane Doe"})

    with ThreadPoolExecutor(20) as pool:
        rows = [row for [row] in pool.map(send, range(20))]
    assert len({row["id"] for row in rows}) == 1
    assert Counter(row["result"] for row in rows)["added"] == 1
    assert shown(hook.people(), "name", "address", "email") == [("Jane Doe", "12 Main St", "jane@example.com")]


def test_five_thousand_come_in_one_call(hook: ListWebhook) -> None:
    rows = [person(address=f"{n} Main St", email=f"{n}@example.com") for n in range(5_000)]
    hook.rows(rows[:51])
    changed = [row | {"phone": "1"} for row in rows]
    assert Counter(hook.results(changed)) == {"added": 4_949, "changed": 51}
    assert Counter(hook.results(changed)) == {"unchanged": 5_000}
    assert hook.lister.read(hook.list_id)["total_recipients"] == 5_000


def test_a_suppression_list_takes_whoever_it_can_bar(owner: Account) -> None:
    hook = create_list_webhook(owner, "Never", is_suppression_list=True)
    answer = hook.rows([JANE, {"address": "9 Elm St"}, {"email": "x@example.com", "address": "9 Elm St"}])
    assert [row["result"] for row in answer] == ["added", "refused", "added"]
    assert answer[1]["error"] == f"address: {INEFFECTIVE_ENTRY}"


def test_on_a_suppression_list_an_email_alone_stays_an_entry_of_its_own(owner: Account) -> None:
    """It bars the e-mail; with an address it would bar the address instead."""
    hook = create_list_webhook(owner, "Never", is_suppression_list=True)
    for _ in range(2):
        hook.rows(EMAIL)
        hook.rows(JANE)
        hook.rows(EMAIL | {"address": "12 Main St"})
    assert shown(hook.people(), "email", "postal_code", "address") == [
        ("jane@example.com", None, None),
        ("jane@example.com", "78701", "12 Main St"),
        ("jane@example.com", None, "12 Main St"),
    ]
    friends = owner.send(recipients=[person(email="jane@example.com", address="99 Far Rd")])
    item = owner.get(f"/orders/{friends.json()['id']}/items").json()["data"][0]
    assert item["failure"] == "This address is on a suppression list."


def test_people_unsubscribed_elsewhere_are_added_only_to_suppression_lists(owner: Account) -> None:
    hook, never = create_list_webhook(owner), create_list_webhook(owner, "Never", is_suppression_list=True)
    left = PAYLOADS["Mailchimp audience"].body | {"type": "unsubscribe"}
    rows = [one.http.post(one.path, data=left).json()[0] for one in (hook, never)]
    assert [row["result"] for row in rows] == ["refused", "added"]
    assert rows[0]["error"].startswith("This tells of someone who left, so nobody was added.")
    assert [name for row in rows for name in row["ignored"] if name == "type"] == []
    assert hook.results([{"type": "ContactDelete", **JANE}, JANE]) == ["refused", "added"]


@pytest.mark.parametrize("how", ["query", "body", "wrapper", "form"])
@pytest.mark.parametrize("source", ["automation", "crm"])
def test_the_source_is_the_type_of_a_list_that_has_none(hook: ListWebhook, how: str, source: str) -> None:
    match how:
        case "query":
            hook.send([JANE], f"?source={source}")
        case "body":
            assert hook.rows(JANE | {"source": source})[0]["ignored"] == []
        case "wrapper":
            hook.send({"source": source, "recipients": [JANE]})
        case "form":
            hook.send_raw(f"source={source}&email=jane%40example.com".encode(), FORM)
    assert hook.lister.read(hook.list_id)["type"] == source
    hook.send(JANE, "?source=automation")
    hook.send(JANE, "?source=crm")
    assert hook.lister.read(hook.list_id)["type"] == source


def test_a_list_of_another_type_keeps_it_and_an_unknown_source_in_the_query_is_refused(owner: Account) -> None:
    hook = create_list_webhook(owner, "Friends", type="friends")
    assert hook.send(JANE, "?source=crm").status_code == 200
    assert hook.lister.read(hook.list_id)["type"] == "friends"
    refused = hook.send(JANE, "?source=hubspot")
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"source": ["Use automation or crm, or leave it out."]}
    assert hook.send(JANE | {"source": "hubspot"}).json()[0]["ignored"] == ["source"]


def test_someone_new_by_the_key_is_mailed_once_by_the_automation_of_the_list(
    hook: ListWebhook, container: Container, owner: Account, clock: Clock
) -> None:
    automator = AutomationDriver(owner, container, clock)
    automator.make(plan(hook.list_id))
    clock.advance(seconds=1)
    for row in (JANE, JANE | {"phone": "1"}):
        hook.rows(row)
        automator.work()
    [order] = owner.get("/orders").json()["data"]
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert (item["recipient"]["name"], item["recipient"]["address"]) == ("Jane Doe", "12 Main St")


def test_a_key_that_is_rotated_while_a_call_waits_for_the_list_opens_nothing(
    hook: ListWebhook, container: Container
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            tx.execute(sa.select(mailing_lists).where(mailing_lists.c.id == hook.list_id).with_for_update())
            waiting = pool.submit(hook.send, JANE)
            wait_until(lambda: _someone_waits(container))
            tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == hook.list_id).values(key_digest=b"other"))
        assert waiting.result(timeout=60).status_code == 404
    assert hook.people() == []


def _someone_waits(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return bool(tx.execute(sa.text("select count(*) from pg_locks where not granted")).scalar_one())
