"""Scans as callers see them: on pieces, orders, statistics and lists, their own alone."""

import pytest

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.notifications import visits
from support.factories import Account, make_live, make_sub_account, make_teammate, people, run_due_jobs
from support.qr_scans import codes_of, count_scans, rows, scan
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

PAGE = "https://shop.example.com/hi"
FIXED = "The service keeps this list"


def listed(owner: Account, how_many: int, **more: object) -> int:
    made = owner.post("/mailing-lists", {"description": "Neighbours", **more})
    assert made.status_code == 201, made.text
    list_id = int(made.json()["id"])
    rows = [{**each, "mailing_list_id": list_id} for each in people(how_many)]
    assert owner.post("/recipients-utils/create-multiple", rows).status_code == 201
    return list_id


def sent(container: Container, owner: Account, **order_request: object) -> tuple[int, list[str]]:
    """An order, and the codes of its pieces."""
    answer = owner.send(qrcode_url=PAGE, **order_request)
    assert answer.status_code == 200, answer.text
    run_due_jobs(container)
    order = int(answer.json()["id"])
    return order, codes_of(container, order)


def kept(owner: Account) -> list[dict[str, object]]:
    return [one for one in owner.get("/mailing-lists").json()["data"] if one["type"] == "qrscans"]


@pytest.fixture
def scanned(container: Container, owner: Account, http: TestClient) -> tuple[int, int]:
    """Of three pieces to a list one was scanned twice, one once and one by machines; the order, the list."""
    list_id = listed(owner, 3)
    order, [a, b, c] = sent(container, owner, recipients=[], mailing_list_ids=[list_id])
    for code in (a, b, a):
        assert scan(http, code).status_code == 302
    scan(http, c, "HEAD")
    scan(http, c, agent="WhatsApp/2.23.20.0 A")
    assert count_scans(container) == 4
    return order, list_id


def test_scans_are_shown_wherever_they_are_counted(
    container: Container, owner: Account, scanned: tuple[int, int]
) -> None:
    order, list_id = scanned
    shown = owner.get(f"/orders/{order}").json()
    assert shown["total_scans"] == 3
    stats = owner.get(f"/orders/{order}/track").json()["data"]["stats"]
    assert (stats["scans"], stats["multi_scans"]) == (3, 1)
    assert [item["scans"] for item in owner.get(f"/orders/{order}/items").json()["data"]] == [2, 1, 0]
    everything = owner.get("/orders/stats").json()
    assert (everything["scans"], everything["multi_scans"]) == (3, 1)
    of_list = owner.get(f"/mailing-lists/{list_id}").json()
    assert (of_list["total_scans"], of_list["unique_scans"]) == (3, 2)
    assert of_list["last_scan"].startswith("2026-05-04T12:00:00")


def test_a_piece_s_history_is_its_way_through_the_mail(owner: Account, scanned: tuple[int, int]) -> None:
    [piece, *_] = owner.get(f"/orders/{scanned[0]}/items").json()["data"]
    shown = owner.get(f"/order-items/{piece['id']}").json()
    assert (shown["scans"], [step["status"] for step in shown["events"]]) == (2, ["Processing"])


def test_whoever_scanned_is_on_a_list_that_can_be_mailed_to(owner: Account, scanned: tuple[int, int]) -> None:
    [ours] = kept(owner)
    assert (ours["description"], ours["total_recipients"]) == ("Scanned QR codes (testing)", 2)
    names = [p["name"] for p in owner.get(f"/mailing-lists/{ours['id']}/recipients").json()["data"]]
    assert sorted(names) == ["Person 1", "Person 2"]
    again = owner.send(recipients=[], mailing_list_ids=[ours["id"]], qrcode_url=PAGE)
    assert (again.status_code, again.json()["total_estimated_recipients"]) == (200, 2)


def test_the_list_that_we_keep_stays_what_it_is(
    container: Container, owner: Account, http: TestClient, scanned: tuple[int, int]
) -> None:
    [ours] = kept(owner)
    branch, path = make_sub_account(container, owner), f"/mailing-lists/{ours['id']}"
    for change in ({"type": "manual"}, {"is_suppression_list": True}, {"sub_account_id": branch}):
        refused = owner.put(path, change)
        assert refused.status_code == 422, refused.text
        assert [messages[0].startswith(FIXED) for messages in refused.json()["errors"].values()] == [True]
    assert owner.put(path, {"description": "Readers", "type": "qrscans"}).json()["description"] == "Readers"
    assert owner.post(f"{path}/rotate-key").status_code == 200
    [code, *_] = codes_of(container, scanned[0])
    scan(http, code)
    count_scans(container)
    assert [one["id"] for one in kept(owner)] == [ours["id"]]


@pytest.mark.parametrize("way", ["delete", "merge"])
def test_a_list_that_is_gone_is_made_again_by_the_next_scan(
    container: Container, owner: Account, http: TestClient, scanned: tuple[int, int], way: str
) -> None:
    [ours] = kept(owner)
    if way == "delete":
        assert owner.delete(f"/mailing-lists/{ours['id']}").status_code == 200
    else:
        into = listed(owner, 1)
        assert owner.post(f"/mailing-lists/{ours['id']}/merge", {"into": into}).status_code == 200
        assert owner.get(f"/mailing-lists/{into}").json()["total_recipients"] == 2
    assert kept(owner) == []
    _, code, _ = codes_of(container, scanned[0])
    scan(http, code)
    count_scans(container)
    assert [one["total_recipients"] for one in kept(owner)] == [1]


def test_someone_s_own_list_of_that_type_is_not_ours(container: Container, owner: Account, http: TestClient) -> None:
    own = listed(owner, 1, type="qrscans")
    _, [code] = sent(container, owner)
    scan(http, code)
    count_scans(container)
    assert {one["id"]: one["total_recipients"] for one in kept(owner)}[own] == 1
    assert len(kept(owner)) == 2
    assert owner.put(f"/mailing-lists/{own}", {"type": "manual"}).status_code == 200


def test_a_sub_account_s_list_is_named_after_it(container: Container, owner: Account, http: TestClient) -> None:
    branch = make_sub_account(container, owner, "North: 100% O'Neil")
    for order_request in ({}, {"sub_account_id": branch, "recipients": people(2)}):
        _, [code, *_] = sent(container, owner, **order_request)
        scan(http, code)
    count_scans(container)
    assert {one["sub_account_id"]: one["description"] for one in kept(owner)} == {
        None: "Scanned QR codes (testing)",
        branch: "Scanned QR codes (testing): North: 100% O'Neil",
    }


def test_a_sub_account_that_goes_takes_the_list_that_we_keep_for_it(
    container: Container, owner: Account, http: TestClient
) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    order, [code] = sent(container, teammate)
    scan(http, code)
    count_scans(container)
    assert len(kept(teammate)) == 1
    assert teammate.post(f"/orders/{order}/cancel").status_code == 200
    removed = owner.delete(f"/sub-accounts/{branch}")
    assert removed.status_code == 200, removed.text
    # Its mail is still about: it leads on, is counted, and fills no list any more.
    assert scan(http, code).status_code == 302
    count_scans(container)
    assert kept(owner) == []
    assert owner.get(f"/orders/{order}").json()["total_scans"] == 2


def test_scans_are_nobody_else_s_to_see(
    container: Container, owner: Account, stranger: Account, http: TestClient
) -> None:
    branch = make_sub_account(container, owner)
    order, [code] = sent(container, owner)
    scan(http, code)
    count_scans(container)
    teammate, live = make_teammate(container, owner, branch), make_live(container, owner)
    for other in (stranger, teammate, live):
        assert other.get(f"/orders/{order}/track").status_code == 404
        assert other.get("/orders/stats").json()["scans"] == 0
    for other in (stranger, teammate):
        assert kept(other) == []
    seen = {}
    for name, tenant in {
        "owner": Tenant(owner.id, None, "test"),
        "live": Tenant(owner.id, None, "live"),
        "branch": Tenant(owner.id, branch, "test"),
        "stranger": Tenant(stranger.id, None, "test"),
    }.items():
        with container.db.transaction(tenant) as tx:
            seen[name] = len(tx.execute(visits.select()).all())
    assert seen == {"owner": 1, "live": 0, "branch": 0, "stranger": 0}
    assert len(rows(container, visits.select())) == 1
