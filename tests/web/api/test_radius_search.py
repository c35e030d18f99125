"""Radius searches: counted for nothing, bought for five cents a record, on a list or within a send."""

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, ledger_moves, mailing_lists, recipients
from quillpost.core.database.tables.recipients import lead_purchases
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT
from quillpost.orders import service as order_service
from quillpost.recipients.leads.rules import RECORD_TYPES
from quillpost.web.api.responses import IGNORED_HEADER
from quillpost.web.application import create_app
from support import factories
from support.factories import Account, Build, Clock, make_account, make_live, person, postcard, run_due_jobs
from support.leads import CENTRE, card, make_address, once_card, radius_card, radius_search, store_addresses
from support.mailing_lists import NO_LIST, ListOwner, message
from support.orders import balances
from support.qr_scans import codes_of, count_scans, scan
from support.rows import execute, run, scalar, scalars
from support.test_client import TestClient
from support.traces import assert_refused, unchanged
from support.webhooks import claim_deliveries, fan_out, payload_data, subscribe_by_call

pytestmark = pytest.mark.usefixtures("clean_database")

COUNT, BUY = "/mailing-lists-utils/count-radius-search", "/mailing-lists-utils/buy-radius-search"
SEND, ESTIMATE = "/send/postcard", "/estimate/postcard"
HOUSES = [make_address(number) for number in range(100, 112)]
PRICE, FEE = 109, 5
FROM = {"return_address": "1 Main St, Austin, TX 78701"}
ELSEWHERE = {"owner_name": "Olive Owner", "owner_address": "9 Pine St", "owner_postcode": "98101"}


@pytest.fixture
def dana(container: Container, http: TestClient) -> Account:
    store_addresses(container, HOUSES)
    return make_account(container, http, "dana@example.com")


def house_numbers(dana: Account, list_id: int) -> list[str]:
    """House numbers of those on a list, in their order."""
    rows = dana.get(f"/mailing-lists/{list_id}/recipients?items_per_page=100").json()["data"]
    return [row["address"].split()[0] for row in rows]


def buy_house_numbers(dana: Account, count: int, **more: Any) -> list[str]:
    answer = dana.post(BUY, radius_search(count, **more))
    assert answer.status_code == 200, answer.json()
    return house_numbers(dana, answer.json()["mailing_list_id"])


def count(dana: Account, body: dict[str, Any]) -> int:
    return int(dana.post(COUNT, body).json()["count"])


def sent(sender: Account, body: dict[str, Any]) -> dict[str, Any]:
    answer = sender.post(SEND, body)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def fees(container: Container) -> list[int]:
    """What was earned, sale by sale."""
    return scalars(container, sa.select(ledger_moves.c.cents).filter_by(target="earned").order_by(ledger_moves.c.id))


def test_counts_estimates_and_previews_are_free_and_leave_nothing(container: Container, dana: Account) -> None:
    total = 4 * PRICE + 20
    with unchanged(container):
        assert dana.post(COUNT, radius_search(5)).json() == {"message": "success", "count": 5, "leads_fee": 25}
        assert dana.post(COUNT, radius_search(10_000)).json() == {"message": "success", "count": 11, "leads_fee": 55}
        data = {"count": 4, "leads_fee": 20, "unit_price": PRICE, "estimated_total": total, "warnings": []}
        shown = dana.post(SEND, radius_card(4, preview=True)).json()
        assert shown == {"success": True, "code": 200, "message": "OK", "data": data}
        data = dana.post(ESTIMATE, radius_card(4)).json()["data"]
        assert (data["total_recipients"], data["leads_fee"], data["authorization_total"]) == (4, 20, total)
    drawn = dana.post(SEND, radius_card(4) | {"preview": True})  # for the nearest
    assert len(drawn.json()["data"]["previews"]) == 2


def test_the_nearest_go_onto_a_new_list_and_are_paid_for_once(container: Container, dana: Account) -> None:
    first, second = (dana.post(BUY, radius_search(3), headers={"Idempotency-Key": "once"}) for _ in range(2))
    list_id = first.json()["mailing_list_id"]
    bought = {"message": "success", "mailing_list_id": list_id, "count": 3, "leads_fee": 15, "failure": False}
    assert first.json() == second.json() == bought
    made = ListOwner(dana).read(list_id)
    assert (made["type"], made["total_recipients"], made["processed"]) == ("radius", 3, True)
    assert CENTRE in made["description"]
    assert house_numbers(dana, list_id) == ["101", "102", "103"]
    assert fees(container) == [15]
    [purchase] = execute(container, sa.select(lead_purchases))
    assert all(scalars(container, sa.select(recipients.c.is_sample)))
    assert (purchase.records, purchase.cents, purchase.mailing_list_id) == (3, 15, list_id)
    assert dana.post("/mailing-lists/buy-radius-search", radius_search(1)).status_code == 200
    named = dana.post(BUY, radius_search(3, description="Neighbours")).json()
    assert ListOwner(dana).read(named["mailing_list_id"])["description"] == "Neighbours"
    # The address that was searched for is included only on request.
    assert buy_house_numbers(dana, 2, include_search_address=True) == ["100", "101"]
    apart = {"address": "100 sample oak street, Austin, TX", "postal_code": "78701-1234"}
    assert buy_house_numbers(dana, 2, **apart) == ["101", "102"]


def test_buying_for_a_list_adds_only_new_addresses(container: Container, stranger: Account, dana: Account) -> None:
    first = dana.post(BUY, radius_search(3)).json()["mailing_list_id"]
    assert count(dana, radius_search(100, mailing_list_id=first)) == 8
    again = dana.post(BUY, radius_search(3, mailing_list_id=first)).json()
    assert (again["mailing_list_id"], again["count"], again["leads_fee"]) == (first, 3, 15)
    assert house_numbers(dana, first) == ["101", "102", "103", "104", "105", "106"]
    assert fees(container) == [15, 15]
    dana.post(BUY, radius_search(100, mailing_list_id=first))
    none_left = dana.post(BUY, radius_search(100, mailing_list_id=first))
    assert (none_left.status_code, none_left.json()["failure"]) == (400, True)
    assert message(stranger.post(BUY, radius_search(1, mailing_list_id=first))) == (400, NO_LIST)
    assert fees(container) == [15, 15, 25]


def test_whoever_is_suppressed_is_never_sold_and_whoever_was_mailed_not_on_request(clock: Clock, dana: Account) -> None:
    assert dana.send(recipients=[person(address="101 Sample Oak St")]).status_code == 200
    assert buy_house_numbers(dana, 2) == ["101", "102"]
    assert buy_house_numbers(dana, 2, exclude_already_mailed=True) == ["102", "103"]
    clock.advance(days=31)
    assert buy_house_numbers(dana, 2, exclude_already_mailed=True, mailed_within_days=30) == ["101", "102"]
    lists = ListOwner(dana)
    suppression_list = lists.make(is_suppression_list=True)
    assert lists.add(suppression_list, address="102 Sample Oak St").status_code == 201
    assert count(dana, radius_search(100)) == 10
    assert buy_house_numbers(dana, 3) == ["101", "103", "104"]
    refused = dana.post(BUY, radius_search(1, mailing_list_id=suppression_list))
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["mailing_list_id"])


def test_records_are_of_the_kinds_that_are_named(container: Container, dana: Account) -> None:
    kinds: list[dict[str, str]] = [
        {"record_types": "pool,retired"}, {"pool": "yes"}, {"renters": "1"}, {"business": "true", "company": "Acme"},
        {"newbusiness": "yes"}, {"condo": "yes"},
    ]  # fmt: skip
    store_addresses(container, [make_address(100), *(make_address(n, **kind) for n, kind in enumerate(kinds, 101))])
    cases: list[tuple[dict[str, Any], set[int]]] = [
        ({"record_types": "pool"}, {101, 102}), ({"record_types": "renters, RETIRED"}, {101, 103}),
        ({"record_types": "onlybusinesses"}, {104, 105}), ({"record_types": "newbusiness"}, {105}),
        ({"record_types": "pool,all"}, {101, 102, 103, 104, 105, 106}),
        ({"include_businesses": False}, {101, 102, 103, 106}), ({"include_condos": False}, {101, 102, 103, 104, 105}),
    ]  # fmt: skip
    for search, found in cases:
        assert set(map(int, buy_house_numbers(dana, 100, **search))) == found, search


def test_absentee_owners_are_mailed_at_home_and_events_name_the_house(container: Container, dana: Account) -> None:
    store_addresses(container, [make_address(100), make_address(101), make_address(102, **ELSEWHERE)])
    assert buy_house_numbers(dana, 5) == ["101", "102"]
    subscribe_by_call(dana, type=ITEM_STATUS_EVENT)
    sent(dana, radius_card(5, use_property_owner=True))
    run_due_jobs(container)
    resident, owner = execute(container, sa.select(items).order_by(items.c.id))
    assert (resident.name, resident.absentee_address) == ("Sample Resident 101", None)
    assert (owner.name, owner.city.upper(), owner.postal_code[:5]) == ("Olive Owner", "SEATTLE", "98101")
    assert owner.absentee_address.upper() == "102 SAMPLE OAK ST, AUSTIN, TX 78701"
    fan_out(container)
    heard = [payload_data(due) for due in claim_deliveries(container)]
    houses = {"Sample Resident 101": None, "Olive Owner": "102 Sample Oak St, Austin, TX 78701"}
    assert {data["recipient.name"]: data["recipient.absentee_address"] for data in heard} == houses


BAD: list[tuple[dict[str, Any], str]] = [
    ({"record_count": 0}, "record_count"), ({"record_count": 10_001}, "record_count"),
    ({"record_count": "10"}, "record_count"), ({"record_count": True}, "record_count"),
    ({"distance_miles": 0}, "distance_miles"), ({"distance_miles": 101}, "distance_miles"),
    ({"distance_miles": "2"}, "distance_miles"), ({"record_types": "castles"}, "record_types"),
    ({"address": " "}, "address"), ({"address": None}, "address"), ({"address": "The lighthouse"}, "address"),
    ({"address": "1 Nowhere Rd, Nowhere, TX 00001"}, "address"), ({"postal_code": "00001"}, "postal_code"),
    ({"include_condos": "maybe"}, "include_condos"), ({"mailed_within_days": 0}, "mailed_within_days"),
]  # fmt: skip


def test_bad_searches_name_the_field_only(subtests: pytest.Subtests, container: Container, dana: Account) -> None:
    castles = radius_search(5, record_types="all,castles"), "record_types", "castles", *RECORD_TYPES
    searches = [*((radius_search(5, **wrong), field) for wrong, field in BAD), ({}, "address"), castles]
    for path in (COUNT, BUY):
        assert_refused(subtests, container, partial(dana.post, path), searches)
    cards = [(radius_card(5, **wrong), f"radius_search.{field}") for wrong, field in BAD]
    cards += [(postcard(radius_search=radius_search(3)), "radius_search")]  # it stands alone
    assert_refused(subtests, container, partial(dana.post, SEND), cards)
    assert dana.post(SEND, radius_card(3, recordcount=5)).headers[IGNORED_HEADER] == "radius_search.recordcount"


def test_a_search_that_finds_nobody_says_so_and_what_to_do(container: Container, dana: Account) -> None:
    pools, far = radius_search(5, record_types="pool"), radius_card(5, address="1 Main St, Anchorage, AK 99501")
    live = make_live(container, dana)
    with unchanged(container):
        for caller, path, body, words in (
            (dana, COUNT, pools, "Austin"), (dana, BUY, pools, "Austin"), (dana, SEND, far, ""),
            (live, COUNT, radius_search(3), "quillpost leads import"),
        ):  # fmt: skip
            answer = caller.post(path, body)
            assert (answer.status_code, answer.json()["failure"]) == (400, True)
            assert words in answer.json()["message"]


def test_a_send_buys_list_and_order_and_is_replayed_for_free(container: Container, clock: Clock, dana: Account) -> None:
    order = sent(dana, radius_card(4))
    assert (order["total_estimated_recipients"], order["leads_fee"]) == (4, 20)
    assert (order["authorization_total"], order["recipients"]) == (4 * PRICE + 20, [])
    assert house_numbers(dana, int(order["mailing_list_ids_used"])) == ["101", "102", "103", "104"]
    assert balances(container, order["id"]) == {"credit": -4 * PRICE - 20, "held": 4 * PRICE, "earned": 20}
    cancelled = sent(dana, radius_card(4))
    run_due_jobs(container)
    assert dana.put(f"/orders/{cancelled['id']}/cancel").status_code == 200
    assert balances(container, cancelled["id"]) == {"credit": -20, "held": 0, "earned": 20}
    assert len(house_numbers(dana, int(cancelled["mailing_list_ids_used"]))) == 4, "the records stay, and so the fee"
    read = dana.get(f"/orders/{order['id']}").json()
    assert (read["order_total"], read["grand_total"]) == (4 * PRICE, 4 * PRICE + 20)
    factories.run_jobs_for(container, clock, seconds=25)
    paid = balances(container, order["id"])
    assert (paid["held"], paid["earned"]) == (0, 4 * PRICE + 20)
    again = dana.post(f"/orders/{order['id']}/replay", {}).json()
    assert again["mailing_list_ids_used"] == order["mailing_list_ids_used"]
    assert (again["leads_fee"], again["total_estimated_recipients"]) == (0, 4)
    assert len(execute(container, sa.select(lead_purchases))) == 2


def test_repeating_a_send_buys_only_addresses_not_mailed_yet(container: Container, dana: Account) -> None:
    """Twelve houses, one of them the centre: five, five, then the one that is left, then nobody."""
    lists = []
    for reached in (5, 5, 1):
        answer = sent(dana, once_card(5))
        assert (answer["total_estimated_recipients"], answer["leads_fee"]) == (reached, 5 * reached)
        lists.append(house_numbers(dana, int(answer["mailing_list_ids_used"])))
        run_due_jobs(container)
    assert [len(each) for each in lists] == [5, 5, 1]
    assert len({house_number for each in lists for house_number in each}) == 11
    with unchanged(container):
        for path, body in ((SEND, once_card(5)), (SEND, once_card(5, preview=True)), (ESTIMATE, once_card(5))):
            refused = dana.post(path, body)
            assert (refused.status_code, refused.json()["failure"]) == (400, True)
            assert "36 hours" in refused.json()["message"]
    assert house_numbers(dana, int(sent(dana, radius_card(5))["mailing_list_ids_used"])) == lists[0]


def test_addresses_just_mailed_are_free(container: Container, dana: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the search and the order the same goes to two of the three."""
    keep_files = order_service.store_files

    def meanwhile(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        sent(dana, once_card(2))
        run_due_jobs(container)
        return keep_files(*args, **named)

    monkeypatch.setattr(order_service, "store_files", meanwhile)
    late = sent(dana, once_card(3))
    assert (late["total_estimated_recipients"], late["leads_fee"]) == (1, 5)
    assert house_numbers(dana, int(late["mailing_list_ids_used"])) == ["103"]


def test_a_stored_send_searches_when_it_is_sent(container: Container, dana: Account) -> None:
    kept = dana.post("/stored_send/postcard", radius_card(4)).json()["stored_send_url"].split("/api/v2")[1]
    assert fees(container) == []
    first, second = dana.get(kept).json(), dana.get(kept).json()
    assert (first, first["leads_fee"], fees(container)) == (second, 20, [20])


def test_no_live_mail_goes_to_samples_that_were_scanned(container: Container, http: TestClient, dana: Account) -> None:
    samples, live = dana.post(BUY, radius_search(3)).json()["mailing_list_id"], make_live(container, dana)
    response = live.post(SEND, card(mailing_list_ids=[samples], **FROM))
    assert response.json()["total_estimated_recipients"] == 0
    assert "sample" in response.headers["X-Warnings"]
    run_due_jobs(container)
    assert set(scalars(container, sa.select(items.c.status))) == {"Failed"}
    shop = {"qrcode_url": "https://shop.example.com/hi"}
    order_ids = sent(dana, radius_card(2) | shop)["id"], dana.send(**shop).json()["id"]
    run_due_jobs(container)
    for code in (code for order_id in order_ids for code in codes_of(container, order_id)):
        assert scan(http, code).status_code == 302
    count_scans(container)
    kept = scalar(container, sa.select(mailing_lists.c.id).filter_by(type="qrscans"))
    found = execute(container, sa.select(recipients).filter_by(mailing_list_id=kept))
    assert {one.name for one in found if one.is_sample} == {"Sample Resident 101", "Sample Resident 102"}
    assert len(found) == 3
    assert sent(live, card(mailing_list_ids=[kept], **FROM))["total_estimated_recipients"] == 1


def test_a_middle_is_looked_up_where_its_mode_looks(container: Container, dana: Account) -> None:
    """Both are said to be in Austin, and are far from there for the other mode alone."""
    store_addresses(container, [*HOUSES, make_address(500, lat="40.000000")])
    store_addresses(container, [make_address(600, lat="40.000000"), make_address(101), make_address(102)], live=True)
    by_sample, by_real = (radius_search(50, address=f"{n} Sample Oak St, Austin, TX 78701") for n in (500, 600))
    assert count(make_live(container, dana), by_sample) == 2
    assert count(dana, by_real) == len(HOUSES)


def test_where_credit_is_controlled_records_come_with_their_fee_or_not_at_all(build: Build, clock: Clock) -> None:
    container = build(credit_control=True)
    with TestClient(create_app(container), base_url="http://quillpost.test", raise_server_exceptions=False) as http:
        store_addresses(container, HOUSES, live=True)
        live = make_account(container, http, "live@example.com", mode="live")
        body = radius_card(2) | FROM
        with unchanged(container):
            refused = live.post(BUY, radius_search(3))
            assert (refused.status_code, "$0.15" in refused.json()["message"]) == (402, True)
            assert live.post(SEND, body).status_code == 402
        run(container, billing_service.deposit, live.id, cents=2 * PRICE + 10, key="one", note=None, now=clock.now())
        assert live.post(SEND, body).status_code == 200
        assert live.post(BUY, radius_search(1)).status_code == 402
        assert run(container, billing_service.read_account_credit, live.id, "live") == 0
        assert not any(scalars(container, sa.select(recipients.c.is_sample)))


CENTER = {"address": "100 Sample Oak St", "city": "Austin", "state": "TX", "zip": "78701"}
WITHIN_A_MILE = 36


def test_a_search_without_a_count_finds_all_nearby_or_a_hundred(container: Container, dana: Account) -> None:
    store_addresses(container, [make_address(number) for number in range(100, 251)])
    for center in (CENTER, {"address": CENTRE}, CENTRE):
        body = card(radius_center=center, radius_distance_miles=1)
        estimate = dana.post(ESTIMATE, body)
        data = estimate.json()["data"]
        assert (estimate.headers.get(IGNORED_HEADER), data["total_recipients"]) == (None, WITHIN_A_MILE)
        assert data["leads_fee"] == FEE * WITHIN_A_MILE
        order = sent(dana, body)
        assert order["total_estimated_recipients"] == WITHIN_A_MILE
        assert order["authorization_total"] == data["authorization_total"] == (FEE + PRICE) * WITHIN_A_MILE
        assert {int(house) for house in house_numbers(dana, order["mailing_list_ids_used"])} == set(range(101, 137))
    everywhere = card(radius_center=CENTER, record_types="all")
    far = everywhere | {"radius_distance_miles": 50}
    for body, reached in ((everywhere, 100), (far, 100), (far | {"record_count": 7}, 7)):
        assert dana.post(ESTIMATE, body).json()["data"]["total_recipients"] == reached
    for body in ({"address": CENTRE}, {"address": CENTRE, "record_count": None}):
        assert count(dana, body) == 100
    bought = dana.post(BUY, {"address": CENTRE}).json()
    assert (bought["count"], bought["leads_fee"]) == (100, 100 * FEE)
    assert sent(dana, card(radius_search={"address": CENTRE}))["total_estimated_recipients"] == 100
    theirs = dana.post(COUNT, {"radius_center": CENTER, "radius_distance_miles": 1})
    assert (theirs.json()["count"], theirs.headers.get(IGNORED_HEADER)) == (WITHIN_A_MILE, None)
    assert count(dana, radius_search(10, distance_miles=0.1)) == 3
    assert dana.post(BUY, {"radius_center": CENTRE, "radius_distance_miles": 0.5}).json()["count"] == 18


def test_a_search_in_other_words_is_checked_and_the_specified_one_wins(container: Container, dana: Account) -> None:
    both = card(radius_search=radius_search(3), radius_center={"address": "nowhere"}, radius_distance_miles=2)
    estimate = dana.post(ESTIMATE, both)
    assert estimate.json()["data"]["total_recipients"] == 3
    assert estimate.headers[IGNORED_HEADER] == "radius_center, radius_distance_miles"
    assert dana.post(ESTIMATE, postcard(record_count=5)).headers[IGNORED_HEADER] == "record_count"
    automation = {"name": "a", "trigger": "scan", "send": {"piece": "postcard", "radius_center": CENTER}}
    for path, body, field in (
        (COUNT, {"radius_center": {"city": "Austin"}}, "radius_center.address"),
        (SEND, card(radius_center={"address": "Nowhere"}), "radius_center.address"),
        ("/automations", automation, "send.radius_center"),
    ):
        assert field in dana.post(path, body).json()["errors"]
    nobody = dana.post(SEND, card(radius_center=CENTER, radius_distance_miles=0.01))
    assert (nobody.status_code, nobody.json()["failure"]) == (400, True)
    assert "within 0.01 miles" in nobody.json()["message"]
