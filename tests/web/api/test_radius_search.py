"""Radius searches: counted for nothing, bought for five cents a record, on a list or within a send."""

from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from quillpost.accounts.billing import service as billing_service
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, ledger_moves, recipients
from quillpost.core.database.tables.recipients import lead_purchases
from quillpost.orders import service as order_service
from quillpost.recipients.leads.rules import RECORD_TYPES
from quillpost.web.application import create_app
from support.factories import (
    Account,
    Build,
    Clock,
    count_rows,
    make_account,
    make_live,
    person,
    postcard,
    run_due_jobs,
    run_jobs_for,
)
from support.radius_addresses import CENTRE, make_address, radius_search, store_addresses
from support.test_client import TestClient

COUNT, BUY = "/mailing-lists-utils/count-radius-search", "/mailing-lists-utils/buy-radius-search"
HOUSES = [make_address(number) for number in range(100, 112)]
PRICE = 109


@pytest.fixture
def dana(container: Container, http: TestClient) -> Account:
    store_addresses(container, HOUSES)
    return make_account(container, http, "dana@example.com")


def radius_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """A good postcard to those around, but for the changes to the search."""
    sent = postcard(radius_search=radius_search(count, **changes))
    del sent["recipients"]
    return sent


def once_card(count: int, /, **changes: Any) -> dict[str, Any]:
    """The same, but to nobody again so soon."""
    return radius_card(count, **changes) | {"allow_duplicates": False}


def house_numbers(dana: Account, list_id: int) -> list[str]:
    """House numbers of those on a list, in their order."""
    rows = dana.get(f"/mailing-lists/{list_id}/recipients").json()["data"]
    return [row["address"].split()[0] for row in rows]


def buy_house_numbers(dana: Account, count: int, **more: Any) -> list[str]:
    answer = dana.post(BUY, radius_search(count, **more))
    assert answer.status_code == 200, answer.json()
    return house_numbers(dana, answer.json()["mailing_list_id"])


def books(container: Container, **of: Any) -> dict[str, int]:
    found: dict[str, int] = {"credit": 0, "held": 0, "earned": 0}
    with container.db.system_transaction() as tx:
        for move in tx.execute(sa.select(ledger_moves).filter_by(**of)):
            found[move.source] -= move.cents
            found[move.target] += move.cents
    return found


def test_counting_is_free_and_leaves_nothing_behind(container: Container, dana: Account) -> None:
    before = count_rows(container)
    answer = dana.post(COUNT, radius_search(5))
    assert answer.json() == {"message": "success", "count": 5, "leads_fee": 25}
    assert dana.post(COUNT, radius_search(10_000)).json() == {"message": "success", "count": 11, "leads_fee": 55}
    assert count_rows(container) == before


def test_the_nearest_go_onto_a_new_list_and_are_paid_for(container: Container, dana: Account) -> None:
    answer = dana.post(BUY, radius_search(3))
    list_id = answer.json()["mailing_list_id"]
    assert answer.json() == {
        "message": "success",
        "mailing_list_id": list_id,
        "count": 3,
        "leads_fee": 15,
        "failure": False,
    }
    made = dana.get(f"/mailing-lists/{list_id}").json()
    assert (made["type"], made["total_recipients"], made["processed"]) == ("radius", 3, True)
    assert CENTRE in made["description"]
    assert house_numbers(dana, list_id) == ["101", "102", "103"]
    assert books(container) == {"credit": -15, "held": 0, "earned": 15}
    with container.db.system_transaction() as tx:
        purchase = tx.execute(sa.select(lead_purchases)).one()
        assert (purchase.records, purchase.cents, purchase.mailing_list_id) == (3, 15, list_id)
        assert all(tx.execute(sa.select(recipients.c.is_sample)).scalars())
    assert dana.post("/mailing-lists/buy-radius-search", radius_search(1)).status_code == 200


def test_a_purchase_says_what_it_was_and_may_name_its_list(dana: Account) -> None:
    bought = dana.post(BUY, radius_search(3, description="Neighbours")).json()
    assert (bought["count"], bought["leads_fee"]) == (3, 15)
    assert dana.get(f"/mailing-lists/{bought['mailing_list_id']}").json()["description"] == "Neighbours"
    more = dana.post(BUY, radius_search(5, mailing_list_id=bought["mailing_list_id"])).json()
    assert (more["count"], more["leads_fee"]) == (5, 25)


def test_the_search_address_is_included_only_on_request(dana: Account) -> None:
    assert buy_house_numbers(dana, 2) == ["101", "102"]
    assert buy_house_numbers(dana, 2, include_search_address=True) == ["100", "101"]
    apart = {"address": "100 sample oak street, Austin, TX", "postal_code": "78701-1234"}
    assert buy_house_numbers(dana, 2, **apart) == ["101", "102"]


def test_buying_for_a_list_adds_only_new_addresses(container: Container, dana: Account) -> None:
    first = dana.post(BUY, radius_search(3)).json()["mailing_list_id"]
    assert dana.post(COUNT, radius_search(100, mailing_list_id=first)).json()["count"] == 8
    again = dana.post(BUY, radius_search(3, mailing_list_id=first))
    assert again.json()["mailing_list_id"] == first
    assert house_numbers(dana, first) == ["101", "102", "103", "104", "105", "106"]
    assert books(container)["earned"] == 30
    dana.post(BUY, radius_search(100, mailing_list_id=first))
    none_left = dana.post(BUY, radius_search(100, mailing_list_id=first))
    assert none_left.status_code == 400
    assert none_left.json()["failure"] is True
    assert books(container)["earned"] == 55


def test_whoever_is_suppressed_is_neither_counted_nor_sold(dana: Account) -> None:
    suppression_list = dana.post("/mailing-lists", {"description": "No mail", "is_suppression_list": True}).json()["id"]
    one = {"address": "102 Sample Oak St", "city": "Austin", "province": "TX", "postal_code": "78701"}
    assert dana.post("/recipients", one | {"mailing_list_id": suppression_list}).status_code == 201
    assert dana.post(COUNT, radius_search(100)).json()["count"] == 10
    assert buy_house_numbers(dana, 3) == ["101", "103", "104"]
    refused = dana.post(BUY, radius_search(1, mailing_list_id=suppression_list))
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == ["mailing_list_id"]


def test_already_mailed_addresses_are_excluded_on_request(container: Container, clock: Clock, dana: Account) -> None:
    mailed = person(address="101 Sample Oak St")
    assert dana.send(recipients=[mailed]).status_code == 200
    assert buy_house_numbers(dana, 2) == ["101", "102"]
    assert buy_house_numbers(dana, 2, exclude_already_mailed=True) == ["102", "103"]
    clock.advance(days=31)
    again = {"exclude_already_mailed": True, "mailed_within_days": 30}
    assert buy_house_numbers(dana, 2, **again) == ["101", "102"]


def test_records_are_of_the_kinds_that_are_named(container: Container, dana: Account) -> None:
    kinds = [
        make_address(101, record_types="pool,retired"),
        make_address(102, pool="yes"),
        make_address(103, renters="1"),
        make_address(104, business="true", company="Acme"),
        make_address(105, newbusiness="yes"),
        make_address(106, condo="yes"),
    ]
    store_addresses(container, [make_address(100), *kinds])
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"record_types": "pool"}, ["101", "102"]),
        ({"record_types": "renters, RETIRED"}, ["101", "103"]),
        ({"record_types": "onlybusinesses"}, ["104", "105"]),
        ({"record_types": "newbusiness"}, ["105"]),
        ({"record_types": "pool,all"}, ["101", "102", "103", "104", "105", "106"]),
        ({"include_businesses": False}, ["101", "102", "103", "106"]),
        ({"include_condos": False}, ["101", "102", "103", "104", "105"]),
    ]
    for search, found in cases:
        assert buy_house_numbers(dana, 100, **search) == found, search


def test_absentee_owners_are_mailed_at_their_own_address(container: Container, clock: Clock, dana: Account) -> None:
    elsewhere = {"owner_name": "Olive Owner", "owner_address": "9 Pine St", "owner_postcode": "98101"}
    store_addresses(container, [make_address(100), make_address(101), make_address(102, **elsewhere)])
    assert buy_house_numbers(dana, 5) == ["101", "102"]
    sent = dana.post("/send/postcard", radius_card(5, use_property_owner=True))
    assert sent.status_code == 200, sent.json()
    run_due_jobs(container)
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(items).order_by(items.c.id)).all()
    resident, owner = rows
    assert (resident.name, resident.absentee_address) == ("Sample Resident 101", None)
    assert (owner.name, owner.city.upper(), owner.postal_code[:5]) == ("Olive Owner", "SEATTLE", "98101")
    assert owner.absentee_address.upper() == "102 SAMPLE OAK ST, AUSTIN, TX 78701"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"record_count": 0}, "record_count"),
    ({"record_count": 10_001}, "record_count"),
    ({"record_count": "10"}, "record_count"),
    ({"record_count": True}, "record_count"),
    ({"distance_miles": 0}, "distance_miles"),
    ({"distance_miles": 101}, "distance_miles"),
    ({"distance_miles": "2"}, "distance_miles"),
    ({"record_types": "castles"}, "record_types"),
    ({"address": " "}, "address"),
    ({"address": None}, "address"),
    ({"address": "The lighthouse"}, "address"),
    ({"address": "1 Nowhere Rd, Nowhere, TX 00001"}, "address"),
    ({"postal_code": "00001"}, "postal_code"),
    ({"include_condos": "maybe"}, "include_condos"),
    ({"mailed_within_days": 0}, "mailed_within_days"),
]


def test_bad_searches_name_the_field_and_leave_nothing(container: Container, dana: Account) -> None:
    before = count_rows(container)
    for wrong, field in BAD:
        for path in (COUNT, BUY):
            answer = dana.post(path, radius_search(5, **wrong))
            assert answer.status_code == 422, answer.json()
            assert list(answer.json()["errors"]) == [field]
        answer = dana.post("/send/postcard", radius_card(5, **wrong))
        assert list(answer.json()["errors"]) == [f"radius_search.{field}"]
    assert count_rows(container) == before


def test_the_error_for_an_unknown_record_type_lists_the_known_ones(dana: Account) -> None:
    error = dana.post(COUNT, radius_search(5, record_types="all,castles")).json()["errors"]["record_types"][0]
    assert "castles" in error
    assert all(kind in error for kind in RECORD_TYPES)


def test_what_is_missing_is_named(dana: Account) -> None:
    assert set(dana.post(BUY, {}).json()["errors"]) == {"address"}


def test_a_search_that_finds_nobody_says_so_and_what_to_do(container: Container, dana: Account) -> None:
    before = count_rows(container)
    for path, body in ((COUNT, radius_search(5, record_types="pool")), (BUY, radius_search(5, record_types="pool"))):
        answer = dana.post(path, body)
        assert answer.status_code == 400
        assert answer.json()["failure"] is True
        assert "Austin" in answer.json()["message"]
    far = dana.post("/send/postcard", radius_card(5, address="1 Main St, Anchorage, AK 99501"))
    assert (far.status_code, far.json()["failure"]) == (400, True)
    assert count_rows(container) == before


def test_a_strangers_list_is_unknown(container: Container, http: TestClient, dana: Account) -> None:
    own = dana.post(BUY, radius_search(1)).json()["mailing_list_id"]
    stranger = make_account(container, http, "stranger@example.com")
    refused = stranger.post(BUY, radius_search(1, mailing_list_id=own))
    assert (refused.status_code, refused.json()) == (400, {"message": "Mailing List Does Not Exist"})
    assert books(container, account_id=stranger.id)["earned"] == 0


def test_a_repeated_purchase_is_the_first(container: Container, dana: Account) -> None:
    key = {"Idempotency-Key": "once"}
    first, second = (dana.post(BUY, radius_search(3), headers=key) for _ in range(2))
    assert first.json() == second.json()
    assert books(container)["earned"] == 15


def test_a_send_buys_makes_the_list_and_the_order_at_once(container: Container, clock: Clock, dana: Account) -> None:
    answer = dana.post("/send/postcard", radius_card(4))
    sent = answer.json()
    assert (sent["total_estimated_recipients"], sent["leads_fee"]) == (4, 20)
    assert sent["authorization_total"] == 4 * PRICE + 20
    assert sent["recipients"] == []
    list_id = int(sent["mailing_list_ids_used"])
    assert house_numbers(dana, list_id) == ["101", "102", "103", "104"]
    assert books(container, order_id=sent["id"]) == {"credit": -4 * PRICE - 20, "held": 4 * PRICE, "earned": 20}
    run_due_jobs(container)
    order = dana.get(f"/orders/{sent['id']}").json()
    assert (order["order_total"], order["grand_total"]) == (4 * PRICE, 4 * PRICE + 20)
    run_jobs_for(container, clock, seconds=25)
    assert books(container, order_id=sent["id"])["held"] == 0
    assert books(container, order_id=sent["id"])["earned"] == 4 * PRICE + 20


def test_repeating_a_send_buys_only_addresses_not_mailed_yet(container: Container, dana: Account) -> None:
    """Twelve houses, one of them the centre: five, five, then the one that is left, then nobody."""
    lists = []
    for count in (5, 5, 1):
        answer = dana.post("/send/postcard", once_card(5)).json()
        assert (answer["total_estimated_recipients"], answer["leads_fee"]) == (count, 5 * count)
        lists.append(house_numbers(dana, int(answer["mailing_list_ids_used"])))
        run_due_jobs(container)
    assert [len(each) for each in lists] == [5, 5, 1]
    assert len({house_number for each in lists for house_number in each}) == 11
    before = count_rows(container)
    for path, card in (
        ("/send/postcard", once_card(5)),
        ("/send/postcard", once_card(5, preview=True)),
        ("/estimate/postcard", once_card(5)),
    ):
        refused = dana.post(path, card)
        assert (refused.status_code, refused.json()["failure"]) == (400, True)
        assert "36 hours" in refused.json()["message"]
    assert count_rows(container) == before
    again = dana.post("/send/postcard", radius_card(5)).json()
    assert house_numbers(dana, int(again["mailing_list_ids_used"])) == lists[0]


def test_addresses_mailed_while_a_send_is_prepared_are_not_bought(
    container: Container, dana: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search and the order the same goes to two of the three."""
    keep_files = order_service.store_files

    def meanwhile(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        dana.post("/send/postcard", once_card(2))
        run_due_jobs(container)
        return keep_files(*args, **named)

    monkeypatch.setattr(order_service, "store_files", meanwhile)
    sent = dana.post("/send/postcard", once_card(3)).json()
    assert (sent["total_estimated_recipients"], sent["leads_fee"]) == (1, 5)
    assert house_numbers(dana, int(sent["mailing_list_ids_used"])) == ["103"]


def test_of_a_cancelled_order_the_fee_stays_for_the_records_do(container: Container, dana: Account) -> None:
    sent = dana.post("/send/postcard", radius_card(4)).json()
    run_due_jobs(container)
    assert dana.put(f"/orders/{sent['id']}/cancel").status_code == 200
    assert books(container) == {"credit": -20, "held": 0, "earned": 20}
    assert len(house_numbers(dana, int(sent["mailing_list_ids_used"]))) == 4


def test_an_order_sent_again_goes_to_the_same_list_and_buys_nothing(
    container: Container, clock: Clock, dana: Account
) -> None:
    sent = dana.post("/send/postcard", radius_card(3)).json()
    run_jobs_for(container, clock, seconds=25)
    again = dana.post(f"/orders/{sent['id']}/replay", {}).json()
    assert again["mailing_list_ids_used"] == sent["mailing_list_ids_used"]
    assert (again["leads_fee"], again["total_estimated_recipients"]) == (0, 3)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(lead_purchases)).scalar_one() == 1


def test_a_preview_of_the_search_tells_count_and_cost_and_makes_nothing(container: Container, dana: Account) -> None:
    before = count_rows(container)
    answer = dana.post("/send/postcard", radius_card(4, preview=True))
    total = 4 * PRICE + 20
    data = {"count": 4, "leads_fee": 20, "unit_price": PRICE, "estimated_total": total, "warnings": []}
    assert answer.json() == {"success": True, "code": 200, "message": "OK", "data": data}
    assert count_rows(container) == before


def test_an_estimate_counts_the_fee(container: Container, dana: Account) -> None:
    before = count_rows(container)
    data = dana.post("/estimate/postcard", radius_card(4)).json()["data"]
    assert (data["total_recipients"], data["leads_fee"]) == (4, 20)
    assert data["authorization_total"] == 4 * PRICE + 20
    assert count_rows(container) == before


def test_a_picture_of_the_piece_is_drawn_for_the_nearest(dana: Account) -> None:
    shown = dana.post("/send/postcard", radius_card(4) | {"preview": True})
    assert len(shown.json()["data"]["previews"]) == 2


def test_a_stored_send_searches_when_it_is_sent(container: Container, dana: Account) -> None:
    kept = dana.post("/stored_send/postcard", radius_card(4)).json()["stored_send_url"].split("/api/v2")[1]
    assert books(container) == {"credit": 0, "held": 0, "earned": 0}
    first, second = dana.get(kept), dana.get(kept)
    assert first.json() == second.json()
    assert first.json()["leads_fee"] == 20
    assert books(container)["earned"] == 20


def test_a_search_stands_alone_and_a_typo_within_it_is_named(dana: Account) -> None:
    both = dana.send(radius_search=radius_search(3))
    assert list(both.json()["errors"]) == ["radius_search"]
    odd = dana.post("/send/postcard", radius_card(3, recordcount=5))
    assert odd.headers["X-Ignored-Fields"] == "radius_search.recordcount"


def test_live_mode_without_addresses_says_what_its_operator_does(container: Container, dana: Account) -> None:
    live = make_live(container, dana)
    answer = live.post(COUNT, radius_search(3))
    assert (answer.status_code, answer.json()["failure"]) == (400, True)
    assert "quillpost leads import" in answer.json()["message"]


def test_no_live_mail_goes_to_samples(container: Container, clock: Clock, dana: Account) -> None:
    samples = dana.post(BUY, radius_search(3)).json()["mailing_list_id"]
    live = make_live(container, dana)
    card = postcard(mailing_list_ids=[samples], return_address="1 Main St, Austin, TX 78701")
    del card["recipients"]
    sent = live.post("/send/postcard", card)
    assert sent.json()["total_estimated_recipients"] == 0
    assert "sample" in sent.headers["X-Warnings"]
    run_due_jobs(container)
    with container.db.system_transaction() as tx:
        assert set(tx.execute(sa.select(items.c.status)).scalars()) == {"Failed"}


def test_where_credit_is_controlled_records_come_with_their_fee_or_not_at_all(build: Build, clock: Clock) -> None:
    container = build(credit_control=True)
    app: FastAPI = create_app(container)
    with TestClient(app, base_url="http://quillpost.test", raise_server_exceptions=False) as http:
        store_addresses(container, HOUSES, live=True)
        live = make_account(container, http, "live@example.com", mode="live")
        before = count_rows(container)
        refused = live.post(BUY, radius_search(3))
        assert refused.status_code == 402
        assert "$0.15" in refused.json()["message"]
        card = radius_card(2) | {"return_address": "1 Main St, Austin, TX 78701"}
        assert live.post("/send/postcard", card).status_code == 402
        assert count_rows(container) == before
        with container.db.system_transaction() as tx:
            billing_service.deposit(tx, live.id, cents=2 * PRICE + 10, key="one", note=None, now=clock.now())
        assert live.post("/send/postcard", card).status_code == 200
        assert live.post(BUY, radius_search(1)).status_code == 402
        with container.db.system_transaction() as tx:
            assert billing_service.read_account_credit(tx, live.id, "live") == 0
            assert not any(tx.execute(sa.select(recipients.c.is_sample)).scalars())


def test_a_middle_is_looked_up_where_its_mode_looks(container: Container, dana: Account) -> None:
    """Both are said to be in Austin, and are far from there for the other mode alone."""
    store_addresses(container, [*HOUSES, make_address(500, lat="40.000000")])
    store_addresses(container, [make_address(600, lat="40.000000"), make_address(101), make_address(102)], live=True)
    by_sample, by_real = (radius_search(50, address=f"{n} Sample Oak St, Austin, TX 78701") for n in (500, 600))
    live = make_live(container, dana)
    assert live.post(COUNT, by_sample).json()["count"] == 2
    assert dana.post(COUNT, by_real).json()["count"] == len(HOUSES)
