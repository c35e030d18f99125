"""Scans as callers see them: on pieces, orders, statistics and lists, their own alone."""

import pytest

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.notifications import visits
from support.factories import Account, make_live, make_sub_account, make_teammate, people, run_due_jobs
from support.mailing_lists import ListOwner
from support.qr_scans import PAGE, codes_of, count_scans, rows, scan
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")


def listed(owner: Account, how_many: int, **more: object) -> int:
    list_id = ListOwner(owner).make("Neighbours", **more)
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
    into = listed(owner, 1)
    codes = codes_of(container, scanned[0])
    [ours] = kept(owner)
    assert owner.post(f"/mailing-lists/{ours['id']}/merge", {"into": into}).status_code == 200
    assert owner.get(f"/mailing-lists/{into}").json()["total_recipients"] == 2
    for code in codes[1:]:
        assert kept(owner) == []
        counted(container, http, code)
        [again] = kept(owner)
        assert again["total_recipients"] == 1
        assert owner.delete(f"/mailing-lists/{again['id']}").status_code == 200


def test_someone_s_own_list_of_that_type_is_not_ours_and_a_sub_account_s_is_named_after_it(
    container: Container, owner: Account, http: TestClient
) -> None:
    own = listed(owner, 1, type="qrscans")
    branch = make_sub_account(container, owner, "North: 100% O'Neil")
    for order_request in ({}, {"sub_account_id": branch, "recipients": people(2)}):
        counted(container, http, sent(container, owner, **order_request)[1][0])
    found = kept(owner)
    assert {one["id"]: one["total_recipients"] for one in found}[own] == 1
    assert {one["sub_account_id"]: one["description"] for one in found if one["id"] != own} == {
        None: "Scanned QR codes (testing)",
        branch: "Scanned QR codes (testing): North: 100% O'Neil",
    }
    assert len(found) == 3
    assert owner.put(f"/mailing-lists/{own}", {"type": "manual"}).status_code == 200


def test_a_sub_account_that_goes_takes_its_scan_list(container: Container, owner: Account, http: TestClient) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    order, [code] = sent(container, teammate)
    counted(container, http, code)
    assert len(kept(teammate)) == 1
    assert teammate.post(f"/orders/{order}/cancel").status_code == 200
    removed = owner.delete(f"/sub-accounts/{branch}")
    assert removed.status_code == 200, removed.text
    # Its mail is still about: it leads on, is counted, and fills no list any more.
    counted(container, http, code)
    assert kept(owner) == []
    assert owner.get(f"/orders/{order}").json()["total_scans"] == 2


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
    seen = []
    for tenant in ((owner.id, None, "test"), (owner.id, None, "live"), (owner.id, branch, "test")):
        with container.db.transaction(Tenant(*tenant)) as tx:
            seen.append(len(tx.execute(visits.select()).all()))
    with container.db.transaction(Tenant(stranger.id, None, "test")) as tx:
        seen.append(len(tx.execute(visits.select()).all()))
    assert (seen, len(rows(container, visits.select()))) == ([1, 0, 0, 0], 1)
