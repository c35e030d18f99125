"""Suppression lists, and the scans that lists count."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import barred_digests, items
from quillpost.core.database.tables.notifications import visits
from quillpost.recipients.rules import EMAIL_REQUIRED, INEFFECTIVE_ENTRY, SAME_ADDRESS, SUPPRESSED
from support import factories
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate, people, person, postcard
from support.list_webhooks import create_list_webhook
from support.mailing_lists import TAKEN, ListOwner, field_errors, ids
from support.qr_scans import PAGE, codes_of, count_scans, scan
from support.rows import execute, run_as
from support.test_client import TestClient
from support.traces import unchanged

pytestmark = pytest.mark.usefixtures("clean_database")

JANE = person(name="Jane Doe", email="jane@example.com")
BOB = person(name="Bob Smith", email="bob@example.com")
PEOPLE = {
    "jane": JANE, "her brother": person(name="Jim doe"), "her lodger": person(name="Bob Smith"),
    "resident": person(name=None),
    "jane elsewhere": person(name="Jane Doe", address="77 Pine St", email="JANE@example.com"),
    "the neighbour": person(name="Ann Lee", address="9 Oak Ave"),
    "joe": person(name="Joe Roe", address="5 Elm St", email="joe@example.com"),
}  # fmt: skip
AT_ADDRESS = {"jane", "her brother", "her lodger", "resident"}
OAK, JOE = person(name=None, address="9 Oak Ave", email="oak@example.com"), {"email": "joe@example.com"}
ENTRIES: tuple[dict[str, Any], ...] = (JANE, OAK, JOE)
SUPPRESSED_BY = {
    "address": AT_ADDRESS | {"the neighbour", "joe"},
    "household": {"jane", "her brother", "the neighbour", "joe"},
    "email": {"jane", "jane elsewhere", "joe"},
}
HALF = {"address": "12 Main St", "city": "Austin", "province": "TX"}


def estimate(account: Account, **audience: Any) -> dict[str, Any]:
    found: dict[str, Any] = account.post("/estimate/postcard", postcard(**audience)).json()["data"]
    return found


def suppressed_inline(account: Account) -> set[str]:
    """Whom a call that names people finds barred, each asked for alone."""
    return {name for name, one in PEOPLE.items() if estimate(account, recipients=[one])["suppressed"]}


def suppressed_on_lists(account: Account, lists: dict[str, int]) -> set[str]:
    found = {name: estimate(account, recipients=None, mailing_list_ids=[each]) for name, each in lists.items()}
    return {name for name, data in found.items() if data["suppressed"]}


def suppressed_when_due(container: Container, pieces: dict[int, str]) -> set[str]:
    with container.db.system_transaction() as tx:
        orders = sa.select(items.c.order_id).where(items.c.id.in_(pieces)).distinct()
        found = sa.text("select id from suppressed_items(:orders) as found (id)")
        return {pieces[item] for item in tx.execute(found, {"orders": list(tx.execute(orders).scalars())}).scalars()}


def bar(container: Container, account: Account, kind: str, key: str, *, sub_account_id: int | None = None) -> None:
    """As somebody who was erased."""
    digest = sa.func.bar_digest(account.id, kind, key)
    columns = {"account_id": account.id, "sub_account_id": sub_account_id, "kind": kind, "digest": digest}
    execute(container, sa.insert(barred_digests).values(**columns, at=container.clock()))


def test_calls_lists_and_waiting_pieces_are_suppressed_alike_also_after_erasure(
    owner: Account, stranger: Account, lists: ListOwner, container: Container
) -> None:
    """A piece for each was accepted before anyone was barred."""
    listed = {name: lists.make(name) for name in PEOPLE}
    for name, list_id in listed.items():
        assert owner.post("/recipients", PEOPLE[name] | {"mailing_list_id": list_id}).status_code == 201
    sent = {owner.send(recipients=[one]).json()["id"]: name for name, one in PEOPLE.items()}
    found = execute(container, sa.select(items.c.id, items.c.order_id).where(items.c.order_id.in_(sent)))
    pieces = {item: sent[order] for item, order in found}

    def assert_suppressed(expected: set[str]) -> None:
        assert suppressed_inline(owner) == expected
        assert suppressed_on_lists(owner, listed) == expected
        assert suppressed_when_due(container, pieces) == expected

    for by, expected in SUPPRESSED_BY.items():
        suppression_list = lists.make("Never", is_suppression_list=True, suppress_by=by)
        for entry in ENTRIES:
            assert owner.post("/recipients", entry | {"mailing_list_id": suppression_list}).status_code == 201
        assert_suppressed(expected)
        assert lists.delete(f"/mailing-lists/{suppression_list}").status_code == 200
    for kind, key, expected in (
        ("address", "12MAIN ST||78701|US", AT_ADDRESS),
        ("household", "12MAIN ST||78701|US||DOE", {"jane", "her brother"}),
        ("email", "jane@example.com", {"jane", "jane elsewhere"}),
    ):
        bar(container, owner, kind, key)
        assert_suppressed(expected)
        assert suppressed_inline(stranger) == set()
        execute(container, sa.delete(barred_digests).where(barred_digests.c.account_id == owner.id))


def test_people_are_added_and_removed_and_a_list_becomes_one_and_ceases_to_be(owner: Account, lists: ListOwner) -> None:
    list_id = lists.make("Do not mail", is_suppression_list=True)
    assert lists.add(list_id).json()["mailing-list"]["is_suppression_list"] is True
    assert field_errors(lists.add(list_id)) == {"address": [TAKEN]}
    lists.add_email(list_id, "Joe@example.com")
    lists.fill(lists.make("Mailed"), "9 Oak Ave")
    for is_one, known in ((True, AT_ADDRESS | {"joe"}), (False, set()), (True, AT_ADDRESS | {"joe"})):
        changed = lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": is_one})
        assert changed.json()["is_suppression_list"] is is_one
        assert suppressed_inline(owner) == known
    body = {"mailing_list_id": list_id, "address": "12 Main St"}
    assert owner.post("/recipients-utils/delete-by-address", body).status_code == 200
    assert suppressed_inline(owner) == {"joe"}


def test_an_order_of_no_sub_account_heeds_all_suppression_lists(
    owner: Account, lists: ListOwner, stranger: Account, container: Container
) -> None:
    """An order of no sub account heeds them all."""
    ours, theirs = make_sub_account(container, owner), make_sub_account(container, owner, "Other")
    mates = [make_teammate(container, owner, each) for each in (ours, theirs)]
    lists.add(lists.make(is_suppression_list=True, suppress_by="household", sub_account_id=ours))
    bar(container, owner, "email", "joe@example.com", sub_account_id=theirs)
    assert [suppressed_inline(account) for account in mates] == [{"jane", "her brother"}, {"joe"}]
    assert suppressed_inline(owner) == {"jane", "her brother", "joe"}
    whole = lists.make(is_suppression_list=True, suppress_by="email")
    lists.add_email(whole, "jane@example.com")
    assert mates[0].get(f"/mailing-lists/{whole}").status_code == 404
    both = {"jane", "jane elsewhere"}
    assert [suppressed_inline(each) for each in (*mates, stranger)] == [both | {"her brother"}, both | {"joe"}, set()]


def test_the_first_unsuppressed_person_of_an_address_is_mailed(owner: Account, lists: ListOwner) -> None:
    suppression_list = lists.make(is_suppression_list=True, suppress_by="household")
    owner.post("/recipients", JANE | {"mailing_list_id": suppression_list})
    four = [PEOPLE[name] for name in ("jane", "her lodger", "her brother", "resident")]
    order = owner.send(recipients=four).json()["id"]
    found = [item["failure"] for item in owner.get(f"/orders/{order}/items").json()["data"]]
    assert sorted(found, key=str) == sorted([SUPPRESSED, None, SUPPRESSED, SAME_ADDRESS], key=str)
    listed = [lists.make(name) for name in ("one", "two", "three")]
    for list_id, someone in zip(listed, four, strict=False):
        owner.post("/recipients", someone | {"mailing_list_id": list_id})
    data = estimate(owner, recipients=None, mailing_list_ids=listed, allow_duplicates=True)
    assert (data["total_recipients"], data["suppressed"], data["duplicates"]) == (1, 2, 0)


def test_half_an_address_bars_by_its_email(owner: Account, lists: ListOwner) -> None:
    """A street may be in many places: it bars none of them."""
    suppression_list, listed = lists.make(is_suppression_list=True), [lists.make(), lists.make()]
    added = owner.post("/recipients", HALF | {"email": "Jane@example.com", "mailing_list_id": suppression_list})
    assert added.status_code == 201, added.text
    joe = person(email="joe@example.com")
    for someone, list_id, suppressed in zip((JANE, joe), listed, (1, 0), strict=True):
        owner.post("/recipients", someone | {"mailing_list_id": list_id})
        for audience in ({"recipients": [someone]}, {"recipients": None, "mailing_list_ids": [list_id]}):
            found = estimate(owner, **audience)
            assert (found["suppressed"], found["total_recipients"]) == (suppressed, 1 - suppressed)


def test_a_later_half_address_stops_mail(owner: Account, lists: ListOwner, container: Container, clock: Clock) -> None:
    order = owner.send(recipients=[JANE]).json()["id"]
    suppression_list = lists.make(is_suppression_list=True)
    owner.post("/recipients", HALF | {"email": "jane@example.com", "mailing_list_id": suppression_list})
    factories.run_jobs_for(container, clock, seconds=15)
    [item] = owner.get(f"/orders/{order}/items").json()["data"]
    assert (item["status"], item["failure"]) == ("Failed", SUPPRESSED)


def test_suppress_by_is_read_and_changed_like_any_field(owner: Account, lists: ListOwner, container: Container) -> None:
    plain, suppression_list = lists.make(), lists.make(is_suppression_list=True)
    assert (lists.read(plain)["suppress_by"], lists.read(suppression_list)["suppress_by"]) == (None, "address")
    for by in ("email", "household", "address"):
        assert lists.put(f"/mailing-lists/{suppression_list}", {"suppress_by": by}).json()["suppress_by"] == by
    error = "Only a suppression list bars anyone: set is_suppression_list, or leave this out."
    with unchanged(container):
        for body in ({"suppress_by": "email"}, {"suppress_by": "email", "is_suppression_list": False}):
            assert field_errors(lists.put(f"/mailing-lists/{plain}", body)) == {"suppress_by": [error]}
            assert field_errors(owner.post("/mailing-lists", body | {"description": "No"})) == {"suppress_by": [error]}
        for wrong in ("phone", "", 1, ["email"], True):
            odd = {"suppress_by": wrong, "is_suppression_list": True}
            assert list(field_errors(lists.put(f"/mailing-lists/{suppression_list}", odd))) == ["suppress_by"]
            assert list(field_errors(owner.post("/mailing-lists", odd | {"description": "No"}))) == ["suppress_by"]
    assert lists.put(f"/mailing-lists/{plain}", {"suppress_by": None}).status_code == 200
    both = lists.put(f"/mailing-lists/{plain}", {"suppress_by": "household", "is_suppression_list": True})
    assert both.json()["suppress_by"] == "household"
    ended = lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": False}).json()
    assert (ended["is_suppression_list"], ended["suppress_by"]) == (False, None)


def test_each_family_and_each_email_of_an_address_has_an_entry_also_by_a_hook(owner: Account, lists: ListOwner) -> None:
    for by, doubled in (("household", person(name="Jim Doe")), ("email", JANE | {"name": "J."})):
        hook = create_list_webhook(owner, is_suppression_list=True, suppress_by=by)
        here = {"mailing_list_id": hook.list_id}
        assert [owner.post("/recipients", each | here).status_code for each in (JANE, BOB)] == [201, 201]
        assert field_errors(owner.post("/recipients", doubled | here)) == {"address": [TAKEN]}
        rows = owner.post("/recipients_multi", [one | here for one in (JANE, BOB)]).json()
        assert [row["error"] for row in rows] == [f"address: {TAKEN}"] * 2
        second = lists.on(hook.list_id)[1]["id"]
        assert field_errors(owner.put(f"/recipients/{second}", doubled)) == {"address": [TAKEN]}
        assert owner.put(f"/recipients/{second}", {"city": "Dallas"}).status_code == 200
        other = create_list_webhook(owner, is_suppression_list=True, suppress_by=by)
        assert (other.results([JANE, BOB]), other.results([BOB, JANE])) == (["added"] * 2, ["unchanged"] * 2)
        assert [(one["name"], one["email"]) for one in other.people()] == [
            ("Jane Doe", "jane@example.com"), ("Bob Smith", "bob@example.com"),
        ]  # fmt: skip


def test_an_entry_that_would_suppress_nobody_is_refused(owner: Account, lists: ListOwner, container: Container) -> None:
    """Half an address without an e-mail, and anybody without one where it is the e-mail that bars."""
    hook = create_list_webhook(owner, is_suppression_list=True, suppress_by="email")
    by_address, plain, whole = lists.make(is_suppression_list=True), lists.make(), lists.make()
    half = owner.post("/recipients", HALF | {"mailing_list_id": plain}).json()["id"]
    known = lists.add(whole).json()["id"]
    sentence = "1 on this list have no e-mail, and would bar nobody: complete them."
    with unchanged(container):
        for list_id, entry, there, field, error in (
            (by_address, HALF, half, "address", INEFFECTIVE_ENTRY),
            (hook.list_id, person(), known, "email", EMAIL_REQUIRED),
        ):
            onto = {"mailing_list_id": list_id}
            assert field_errors(owner.post("/recipients", entry | onto)) == {field: [error]}
            [row] = owner.post("/recipients_multi", [entry | onto]).json()
            assert row["error"] == f"{field}: {error}"
            assert field_errors(owner.put(f"/recipients/{there}", onto)) == {field: [error]}
        [hook_row] = hook.rows([person()])
        assert (hook_row["result"], hook_row["error"]) == ("refused", f"email: {EMAIL_REQUIRED}")
        changed = lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": True})
        assert list(field_errors(changed)) == ["is_suppression_list"]
        changed = lists.put(f"/mailing-lists/{whole}", {"is_suppression_list": True, "suppress_by": "email"})
        assert field_errors(changed) == {"is_suppression_list": [sentence]}
    owner.put(f"/recipients/{half}", {"postal_code": "78701"})
    assert lists.put(f"/mailing-lists/{plain}", {"is_suppression_list": True}).status_code == 200
    changed = lists.put(f"/mailing-lists/{plain}", {"suppress_by": "email"})
    assert field_errors(changed) == {"suppress_by": [sentence]}


def test_a_list_suppresses_by_what_its_entries_allow_and_merges_with_its_like(owner: Account, lists: ListOwner) -> None:
    suppression_list = lists.make(is_suppression_list=True, suppress_by="household")
    lists.add(suppression_list)
    smith = lists.add(suppression_list, name="Bob Smith").json()["id"]
    error = "1 addresses have several entries on this list, and could have one: remove some first."
    for field, value in (("suppress_by", "address"), ("is_suppression_list", False)):
        assert field_errors(lists.put(f"/mailing-lists/{suppression_list}", {field: value})) == {field: [error]}
    owner.delete(f"/recipients/{smith}")
    assert lists.put(f"/mailing-lists/{suppression_list}", {"suppress_by": "address"}).status_code == 200
    assert field_errors(lists.add(suppression_list, name="Bob Smith")) == {"address": [TAKEN]}
    by = {name: lists.make(is_suppression_list=True, suppress_by=name) for name in SUPPRESSED_BY}
    for name, other in (("address", "email"), ("household", "address")):
        merged = owner.post(f"/mailing-lists/{by[name]}/merge", {"into": by[other]})
        error = f"It bars by {other}, the other by {name}: set one suppress_by first."
        assert field_errors(merged) == {"into": [error]}
    more = lists.make(is_suppression_list=True, suppress_by="household")
    for list_id, name in ((by["household"], "Jane Doe"), (more, "Jim Doe"), (more, "Bob Smith")):
        lists.add(list_id, name=name)
    assert owner.post(f"/mailing-lists/{more}/merge", {"into": by["household"]}).status_code == 200
    assert [one["name"] for one in lists.on(by["household"])] == ["Jane Doe", "Bob Smith"]
    first = lists.add(by["email"], email="jane@example.com").json()["id"]
    lists.add(by["email"], email="Jane@example.com", address="9 Oak Ave")
    lists.add_email(by["email"], "jane@example.com")
    assert owner.post(f"/mailing-lists/{by['email']}/dedupe").json()["removed"] == 2
    assert ids(lists.on(by["email"])) == [first]


def listed(owner: Account, how_many: int, **more: object) -> int:
    list_id = ListOwner(owner).make("Neighbours", **more)
    rows = [{**each, "mailing_list_id": list_id} for each in people(how_many)]
    assert owner.post("/recipients-utils/create-multiple", rows).status_code == 201
    return list_id


def sent(container: Container, owner: Account, **order_request: object) -> tuple[int, list[str]]:
    """An order, and the codes of its pieces."""
    answer = owner.send(qrcode_url=PAGE, **order_request)
    assert answer.status_code == 200, answer.text
    factories.run_due_jobs(container)
    order = int(answer.json()["id"])
    return order, codes_of(container, order)


def counted(container: Container, http: TestClient, *codes: str) -> None:
    for code in codes:
        assert scan(http, code).status_code == 302
    count_scans(container)


def kept(owner: Account) -> list[dict[str, object]]:
    return [one for one in owner.get("/mailing-lists").json()["data"] if one["type"] == "qrscans"]


@pytest.fixture
def scanned(container: Container, owner: Account, http: TestClient) -> tuple[int, int]:
    """Of three pieces to a list one was scanned twice, one once and one by machines; the order, the list."""
    list_id = listed(owner, 3)
    order, [a, b, c] = sent(container, owner, recipients=[], mailing_list_ids=[list_id])
    scan(http, c, "HEAD")
    scan(http, c, agent="WhatsApp/2.23.20.0 A")
    counted(container, http, a, b, a)
    return order, list_id


def test_scans_are_shown_where_counted_but_in_no_history_of_a_piece(owner: Account, scanned: tuple[int, int]) -> None:
    order, list_id = scanned
    assert owner.get(f"/orders/{order}").json()["total_scans"] == 3
    pieces = owner.get(f"/orders/{order}/items").json()["data"]
    assert [item["scans"] for item in pieces] == [2, 1, 0]
    shown = owner.get(f"/order-items/{pieces[0]['id']}").json()
    assert (shown["scans"], [step["status"] for step in shown["events"]]) == (2, ["Processing"])
    stats = owner.get(f"/orders/{order}/track").json()["data"]["stats"]
    for found in (stats, owner.get("/orders/stats").json()):
        assert (found["scans"], found["multi_scans"]) == (3, 1)
    of_list = owner.get(f"/mailing-lists/{list_id}").json()
    assert (of_list["total_scans"], of_list["unique_scans"]) == (3, 2)
    assert of_list["last_scan"].startswith("2026-05-04T12:00:00")


def test_whoever_scanned_is_on_a_list_that_can_be_mailed_to_and_stays_what_it_is(
    container: Container, owner: Account, http: TestClient, scanned: tuple[int, int]
) -> None:
    [ours] = kept(owner)
    assert (ours["description"], ours["total_recipients"]) == ("Scanned QR codes (testing)", 2)
    path = f"/mailing-lists/{ours['id']}"
    names = [each["name"] for each in owner.get(f"{path}/recipients").json()["data"]]
    assert sorted(names) == ["Person 1", "Person 2"]
    again = owner.send(recipients=[], mailing_list_ids=[ours["id"]], qrcode_url=PAGE)
    assert (again.status_code, again.json()["total_estimated_recipients"]) == (200, 2)
    for change in (
        {"type": "manual"}, {"is_suppression_list": True}, {"sub_account_id": make_sub_account(container, owner)}
    ):  # fmt: skip
        refused = owner.put(path, change)
        assert refused.status_code == 422, refused.text
        [[error]] = refused.json()["errors"].values()
        assert error.startswith("The service keeps this list")
    assert owner.put(path, {"description": "Readers", "type": "qrscans"}).json()["description"] == "Readers"
    assert owner.post(f"{path}/rotate-key").status_code == 200
    counted(container, http, codes_of(container, scanned[0])[0])
    assert [one["id"] for one in kept(owner)] == [ours["id"]]


def test_a_list_that_is_gone_is_made_again_by_the_next_scan(
    container: Container, owner: Account, http: TestClient, scanned: tuple[int, int]
) -> None:
    into, codes, [ours] = listed(owner, 1), codes_of(container, scanned[0]), kept(owner)
    assert owner.post(f"/mailing-lists/{ours['id']}/merge", {"into": into}).status_code == 200
    assert owner.get(f"/mailing-lists/{into}").json()["total_recipients"] == 2
    for code in codes[1:]:
        assert kept(owner) == []
        counted(container, http, code)
        [again] = kept(owner)
        assert (again["total_recipients"], owner.delete(f"/mailing-lists/{again['id']}").status_code) == (1, 200)


def test_someones_own_list_of_that_type_is_not_ours(container: Container, owner: Account, http: TestClient) -> None:
    own = listed(owner, 1, type="qrscans")
    branch = make_sub_account(container, owner, "North: 100% O'Neil")
    for order_request in ({}, {"sub_account_id": branch, "recipients": people(2)}):
        counted(container, http, sent(container, owner, **order_request)[1][0])
    found = kept(owner)
    assert (len(found), {one["id"]: one["total_recipients"] for one in found}[own]) == (3, 1)
    assert {one["sub_account_id"]: one["description"] for one in found if one["id"] != own} == {
        None: "Scanned QR codes (testing)",
        branch: "Scanned QR codes (testing): North: 100% O'Neil",
    }
    assert owner.put(f"/mailing-lists/{own}", {"type": "manual"}).status_code == 200


def test_a_sub_account_that_goes_takes_its_scan_list(container: Container, owner: Account, http: TestClient) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    order, [code] = sent(container, teammate)
    counted(container, http, code)
    assert len(kept(teammate)) == 1
    assert teammate.post(f"/orders/{order}/cancel").status_code == 200
    assert owner.delete(f"/sub-accounts/{branch}").status_code == 200
    # Its mail is still about: it leads on, is counted, and fills no list any more.
    counted(container, http, code)
    assert (kept(owner), owner.get(f"/orders/{order}").json()["total_scans"]) == ([], 2)


def test_nobody_else_sees_scans(container: Container, owner: Account, stranger: Account, http: TestClient) -> None:
    branch = make_sub_account(container, owner)
    order, codes = sent(container, owner)
    counted(container, http, *codes)
    teammate, live = make_teammate(container, owner, branch), make_live(container, owner)
    for other in (stranger, teammate, live):
        assert other.get(f"/orders/{order}/track").status_code == 404
        assert other.get("/orders/stats").json()["scans"] == 0
    for other in (stranger, teammate):
        assert kept(other) == []
    seen, own = [], owner.id
    for tenant in ((own, None, "test"), (own, None, "live"), (own, branch, "test"), (stranger.id, None, "test")):
        seen.append(len(run_as(container, Tenant(*tenant), lambda tx: tx.execute(visits.select()).all())))
    assert (seen, len(execute(container, visits.select()))) == ([1, 0, 0, 0], 1)
