"""Orders in lists: filters, pages, searches and sums."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.rules import format_dollars
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import items, orders
from quillpost.core.paging import PageRequest, Sorting, select_page_ids, tenant_conditions
from quillpost.orders.items import queries as item_queries
from support.factories import Account, Clock, make_sub_account, make_teammate, person, run_jobs_for
from support.orders import insert_orders
from support.rows import execute
from support.traces import metadata_text, postcard_with, send_raw

BASE = "http://quillpost.test/api/v2/orders/list"
NO_SUB_ACCOUNT = 400, {"message": "Sub Account ID does not exist"}
ORDER_KEYS = {
    "id", "message", "size", "sub_account_id", "type", "display_type", "style", "front_image",
    "high_quality_preview", "authorization_total", "grand_total", "order_total",
    "total_estimated_recipients", "total_recipients", "recipient_count", "status", "method",
    "cancellable", "total_scans", "metadata", "created_at", "updated_at",
}  # fmt: skip


def ids(answer: Any) -> list[int]:
    return [row["id"] for row in answer.json()["data"]]


def total(answer: Any) -> int:
    return int(answer.json()["meta"]["total"])


def test_an_order_has_exactly_the_keys_of_the_interface(owner: Account) -> None:
    assert owner.get("/orders/list").json() == {
        "data": [],
        "links": {"first": f"{BASE}?page=1", "last": f"{BASE}?page=1", "prev": None, "next": None},
        "meta": {"current_page": 1, "from": None, "last_page": 1, "path": BASE, "per_page": 25, "to": None, "total": 0},
    }
    order_id = owner.send().json()["id"]
    (listed,) = owner.get("/orders/list").json()["data"]
    assert (set(listed), owner.get("/orders").json()["data"]) == (ORDER_KEYS, [listed])
    assert owner.get(f"/orders/{order_id}").json() == listed | {"warnings": []}
    assert (listed["status"], listed["method"], listed["cancellable"]) == ("Reviewing", "api", True)
    assert (listed["total_recipients"], listed["recipient_count"]) == (0, 1)
    assert listed["authorization_total"] == listed["order_total"] == listed["grand_total"] == 109
    assert listed["created_at"] == "2026-05-04T12:00:00Z"


def test_pages_link_to_each_other_and_their_size_has_its_limits(owner: Account, container: Container) -> None:
    made = insert_orders(container, owner.id, 5)[::-1]
    middle = owner.get("/orders/list?items_per_page=2&page=2&type=postcard&x=a%26b&x=c&empty=")
    assert ids(middle) == made[2:4]
    first, third = (f"{BASE}?items_per_page=2&type=postcard&x=a%26b&x=c&empty=&page={page}" for page in (1, 3))
    assert middle.json()["links"] == {"first": first, "last": third, "prev": first, "next": third}
    meta = {"current_page": 2, "from": 3, "last_page": 3, "path": BASE, "per_page": 2, "to": 4, "total": 5}
    assert middle.json()["meta"] == meta
    last = owner.http.get(third, headers={"Authorization": f"Bearer {owner.token}"})
    assert (ids(last), last.json()["links"]["next"], last.json()["meta"]["to"]) == (made[4:], None, 5)
    for page in ("7", str(10**12), "9" * 5_000):
        beyond = owner.get(f"/orders/list?page={page}").json()
        meta = beyond["meta"]
        assert (beyond["data"], meta["from"], meta["to"], meta["total"]) == ([], None, None, 5)
        assert beyond["links"]["prev"] == beyond["links"]["last"] == f"{BASE}?page=1"
        assert beyond["links"]["next"] is None
    clamped = {"1": 1, "100": 100, "101": 100, "1000000000": 100, "1e9": 100, "7.0": 7, "9" * 5_000: 100, "": 25}
    for given, taken in clamped.items():
        assert owner.get(f"/orders/list?items_per_page={given}").json()["meta"]["per_page"] == taken, given
    for name in ("items_per_page", "limit", "page"):
        for given in ("0", "-1", "abc", "1e-1", "1.5", "%2B5", "٣", "00", "%00"):
            refused = owner.get(f"/orders/list?{name}={given}")
            assert (refused.status_code, list(refused.json()["errors"])) == (422, [name]), given


def test_the_list_is_filtered_by_type_status_and_time(owner: Account, clock: Clock) -> None:
    small = owner.send().json()["id"]
    clock.advance(days=1)
    large = owner.send(size="6x11").json()["id"]
    owner.put(f"/orders/{large}/cancel")
    for query, found in {
        "type=postcard6x11": [large], "status=Reviewing": [small], "status=cancelled": [large],
        "created_after=2026-05-05T12:00:00Z": [large], "created_before=2026-05-05T14:00:00%2B02:00": [small],
        "created_before=2026-05-05": [small],
    }.items():  # fmt: skip
        assert ids(owner.get(f"/orders/list?{query}")) == found, query
    odd = "type=scroll&status=lost&created_after=yesterday&created_before=2026-13-01&metadata=x"
    refused = owner.get(f"/orders/list?{odd}")
    names = [part.partition("=")[0] for part in odd.split("&")]
    assert (refused.status_code, list(refused.json()["errors"])) == (422, names)


def test_pages_hold_every_order_once_from_both_ends(owner: Account, stranger: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    insert_orders(container, owner.id, 61, type="letter", size=None, sub_account_id=branch)
    insert_orders(container, owner.id, 7, mode="live")
    insert_orders(container, stranger.id, 3, type="letter", size=None)
    for query in ("", "type=letter", "status=fulfilled", "created_after=2026-01-01", f"sub_account_id={branch}"):
        pages = [owner.get(f"/orders/list?page={page}&limit=10&{query}") for page in range(1, 9)]
        whole = [order for page in pages for order in ids(page)]
        assert (len(whole), whole) == (61, sorted(set(whole), reverse=True)), query
        assert (ids(pages[7]), total(pages[0])) == ([], 61)
    execute(container, sa.delete(orders).where(orders.c.id == whole[0]))
    assert [total(owner.get(f"/orders/list?{query}")) for query in ("", "type=letter", "type=postcard")] == [60, 60, 0]


def test_a_page_is_read_by_an_index(owner: Account, stranger: Account, container: Container, conninfo: str) -> None:
    branch = make_sub_account(container, owner)
    for account, sub_account in ((owner, branch), (owner, None), (stranger, None)):
        insert_orders(container, account.id, 4_000, sub_account_id=sub_account)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("vacuum analyze orders")
    for limited, index in ((None, "orders_account"), (branch, "orders_sub_account")):
        for page, direction in ((20, ""), (140, "Backward ")):
            tenant, sorting = Tenant(owner.id, limited, "test"), Sorting(leading_column=orders.c.mode)
            conditions = tenant_conditions(orders, tenant)
            found = select_page_ids(orders, conditions, PageRequest(page, 25), total=4_000, sorting=sorting)
            with container.db.transaction(tenant) as tx:
                written = str(found.compile(tx.engine, compile_kwargs={"literal_binds": True}))
                plan = "\n".join(tx.execute(sa.text(f"explain {written}")).scalars())
            assert f"Index Only Scan {direction}using {index} on orders" in plan, plan
            assert "Sort" not in plan


ODD = (
    '{"text":"5","number":5,"float":1.0,"exponent":1e2,"big":123456789012345678901234567890,"yes":true,'
    '"no":false,"nothing":null,"empty":"","Grüße 漢":"🙂 & =","a":{"b":{"c":"deep"},"list":["x"]},"minus":-0}'
)
MATCHES: list[list[tuple[str, str]]] = [
    [("text", "5")], [("number", "5")], [("number", "5.0")], [("float", "1.0")], [("float", "1")],
    [("exponent", "1e2")], [("exponent", "100")], [("big", "123456789012345678901234567890")], [("yes", "true")],
    [("no", "false")], [("nothing", "null")], [("empty", "")], [("Grüße 漢", "🙂 & =")], [("a][b][c", "deep")],
    [("minus", "0")], [("text", "5"), ("yes", "true")],
]  # fmt: skip
MISSES: list[list[tuple[str, str]]] = [
    [("text", "5.0")], [("big", "123456789012345678901234567891")], [("yes", "True")], [("nothing", "")],
    [("missing", "null")], [("a][b", "deep")], [("a][list", "x")], [("number", "05")], [("number", "1e99999999")],
    [("number", "9" * 2_000)], [("number", "NaN")], [("text", "5"), ("yes", "false")], [("text", "5"), ("text", "6")],
    [("text", "5'); drop table orders; --")],
]  # fmt: skip
NO_BRACKETS = (
    "metadata", "metadata[", "metadata[]", "metadata[a", "metadata[a]b", "metadata[a][]", "metadata[[a]]",
    "metadata[a]" + "[b]" * 20, "metadata[%00]",
)  # fmt: skip


def test_orders_are_found_by_their_metadata_in_up_to_ten_filters_that_make_sense(owner: Account) -> None:
    order_id = send_raw(owner, postcard_with("metadata", ODD)).json()["id"]
    for others in ("null", "{}", '{"a":"\\u0000"}', '{"text":"50"}'):
        send_raw(owner, postcard_with("metadata", others))
    for filters in MATCHES + MISSES:
        page = owner.get("/orders/list?" + urlencode([(f"metadata[{key}]", value) for key, value in filters]))
        assert (ids(page), total(page)) == (([order_id], 1) if filters in MATCHES else ([], 0)), filters
    both = owner.get(f"/orders/list?metadata[text]=5&type=postcard&status=reviewing&{quote('metadata[no]')}=false")
    assert ids(both) == [order_id]
    assert ids(owner.get("/orders/list?metadata[text]=5&type=letter")) == []
    assert owner.get("/orders/list?metadata[text]=5&page=2").json()["data"] == []
    assert metadata_text(owner.get("/orders/list?metadata[text]=5"), "data", "0") == ODD
    for name in NO_BRACKETS:
        refused = owner.get(f"/orders/list?{name}=x&metadata[good]=x")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [name.replace("%00", "\x00")])
    ten = "&".join(f"metadata[k{n}]=v" for n in range(10))
    assert owner.get(f"/orders/list?{ten}").status_code == 200
    refused = owner.get(f"/orders/list?{ten}&metadata[k10]=v")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["metadata"])
    assert owner.get("/orders/list?metadata[a]=%00").status_code == 422
    assert owner.get("/orders/list?metadatas[a]=b&meta=1").status_code == 200


JANE, JANET, ANA, ONLY = "Jane Doe", "JANET DOE", "Ana_Ö%rtiz", "Only Mail"
PEOPLE = [
    person(name=JANE, address="12 Main St.", email="Jane@Example.com"),
    person(name=JANET, address="12 Main Street", address2="Apt 3", email="janet@example.com"),
    person(name=ANA, address="7 North-Gate Rd", email="ana@example.com"),
    {"name": ONLY, "email": "only@example.com"},
]
SEARCHES: list[tuple[dict[str, str], list[str]]] = [
    ({"street_address": "12 main st"}, [JANET, JANE]), ({"street_address": "12 Main Street"}, [JANET, JANE]),
    ({"street_address": "12 Main St #3"}, [JANET]), ({"street_address": "12 Main"}, [JANET, JANE]),
    ({"street_address": "12, MAIN ST."}, [JANET, JANE]),
    ({"street_address": "12 Main St, Austin, TX 78701"}, [JANET, JANE]), ({"street_address": "7 north gate"}, [ANA]),
    ({"street_address": "main st"}, []), ({"name": "jane"}, [JANET, JANE]), ({"name": "Jane D"}, [JANE]),
    ({"name": "jane doe "}, [JANE]), ({"name": "doe"}, []), ({"name": "ana_ö%"}, [ANA]), ({"name": "ana%"}, []),
    ({"name": "%"}, []), ({"name": "' or 1=1 --"}, []), ({"email": "JANE@example.com"}, [JANE]),
    ({"email": "jane@example"}, []), ({"email": "only@example.com"}, [ONLY]),
    ({"name": "jane", "email": "janet@example.com"}, [JANET]), ({"name": "ana", "email": "janet@example.com"}, []),
    ({"name": "jane", "street_address": "12 main street apt 3", "email": ""}, [JANET]),
]  # fmt: skip
NO_SEARCHES: dict[str, list[str]] = {
    "": ["email", "name", "street_address"], "name=%20&email=": ["email", "name", "street_address"],
    "street_address=--": ["street_address"], "name=" + "x" * 301: ["name"], "name=%00&email=%00": ["email", "name"],
    "sub_account_id=x&name=y": ["sub_account_id"],
}  # fmt: skip


def found(account: Account, **params: str | int) -> list[str]:
    answer = account.get("/orders/search", params=params).json()
    return [item["recipient"]["name"] for item in answer["matched_order_items"]]


def test_all_that_is_searched_for_must_be_true(subtests: pytest.Subtests, owner: Account, stranger: Account) -> None:
    for sender in (owner, stranger):
        sender.send(recipients=PEOPLE)
    for params, names in SEARCHES:
        with subtests.test(str(params)):
            assert found(owner, **params) == names
    for query, fields in NO_SEARCHES.items():
        refused = owner.get(f"/orders/search?{query}")
        assert (refused.status_code, sorted(refused.json()["errors"])) == (422, fields)


def test_the_newest_come_first_and_what_is_cut_says_so(owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    older = owner.send(recipients=[person(name="Zoe A", address=f"{n} Elm St") for n in (1, 2)]).json()["id"]
    newer = owner.send(recipients=[person(name="Zoe B", address="3 Elm St")]).json()["id"]
    for most, truncated in ((2, True), (3, False)):
        monkeypatch.setattr(item_queries, "MAX_SEARCH_RESULTS", most)
        answer = owner.get("/orders/search?name=zoe").json()
        assert list(answer) == ["matched_order_items", "orders", "truncated"]
        assert [item["order_id"] for item in answer["matched_order_items"]] == [newer, older, older][:most]
        assert answer["orders"] == owner.get("/orders/list").json()["data"]
        assert answer["truncated"] is truncated


NOTHING = {
    "processing": 0, "printed": 0, "in_transit": 0, "in_local_area": 0, "processed_for_delivery": 0,
    "delivered": 0, "re_routed": 0, "returned_to_sender": 0, "failed": 0, "scans": 0, "multi_scans": 0,
    "total_cost": "$0.00", "total_requests": 0, "total_sent": 0,
}  # fmt: skip
PERIODS = {
    "": 5, "start_date=&end_date=": 5, "start_date=2026-05-02": 4, "end_date=2026-05-02": 3,
    "start_date=2026-05-02&end_date=2026-05-02": 2, "start_date=2026-05-02T12:00:00Z&end_date=2026-05-02T12:00:00Z": 1,
    "start_date=2026-05-02T14:00:00%2B02:00&end_date=2026-05-02T14:00:00%2B02:00": 1,
    "start_date=2026-05-02T14:00:00+02:00": 3, "end_date=2026-05-02T11:59:59Z": 2,
    "start_date=9999-12-31&end_date=9999-12-31": 0, "start_date=0001-01-01&end_date=9999-12-31": 5,
    "start_date=0001-01-01T00:00:00%2B14:00": 5,
}  # fmt: skip
NO_PERIODS = {
    "start_date=yesterday": ["start_date"],
    "start_date=x&end_date=2026-02-30": ["start_date", "end_date"],
    "start_date=2026-05-02&end_date=2026-05-01": ["end_date"],
    "start_date=2026-05-02T12:00:01Z&end_date=2026-05-02T12:00:00Z": ["end_date"],
    "sub_account_id=x": ["sub_account_id"],
}


@pytest.mark.usefixtures("clean_database")
def test_the_pieces_of_all_orders_are_added_up(owner: Account, container: Container, clock: Clock) -> None:
    assert owner.get("/orders/stats").json() == NOTHING
    owner.send(recipients=[person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}])
    owner.send(allow_duplicates=True)
    run_jobs_for(container, clock, seconds=45)
    cancelled = owner.send(recipients=[person(address="77 Elm St")]).json()["id"]
    owner.put(f"/orders/{cancelled}/cancel")
    owner.send(recipients=[person(address="78 Elm St")])
    pieces = {"processing": 1, "delivered": 2, "returned_to_sender": 1, "failed": 2}
    sums = {"total_cost": "$4.36", "total_requests": 4, "total_sent": 3}
    assert owner.get("/orders/stats").json() == NOTHING | pieces | sums


def test_money_is_shown_as_a_person_reads_it(owner: Account, container: Container) -> None:
    insert_orders(container, owner.id, 10, pieces=1_234)
    assert owner.get("/orders/stats").json()["total_cost"] == "$13,450.60"
    written = {0: "$0.00", -5: "-$0.05", -195: "-$1.95", -123_456: "-$1,234.56", 5: "$0.05"}
    assert {cents: format_dollars(cents) for cents in written} == written


def test_the_first_and_the_last_day_count(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    half_past_noon = datetime(2026, 5, 2, 12, 0, 0, 500_000, tzinfo=UTC)
    midnights = [datetime(2026, 5, day, tzinfo=UTC) for day in (2, 3, 4)]
    for at in (datetime(2026, 5, 1, 23, 59, 59, tzinfo=UTC), half_past_noon, *midnights):
        insert_orders(container, owner.id, 1, at=at)
    for query, requests in PERIODS.items():
        with subtests.test(query):
            assert owner.get(f"/orders/stats?{query}").json()["total_requests"] == requests
    for query, fields in NO_PERIODS.items():
        refused = owner.get(f"/orders/stats?{query}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, fields)


def test_everyone_lists_finds_and_adds_up_their_own(owner: Account, stranger: Account, container: Container) -> None:
    mine, other, theirs = (make_sub_account(container, whose) for whose in (owner, owner, stranger))
    teammate = make_teammate(container, owner, mine)
    ordered = {}
    for name, home in (("Jo Inside", mine), ("Jo Other", other), ("Jo Whole", None)):
        whom = {"recipients": [person(name=name, address=f"{name} 1 St")], "sub_account_id": home}
        ordered[name] = owner.send(**whom, metadata={"k": "v"}).json()["id"]
    insert_orders(container, owner.id, 8, mode="live")
    live = sa.update(items).where(items.c.account_id == owner.id, items.c.name == "Jo Whole")
    execute(container, live.values(mode="live"))
    inside, nothing = [ordered["Jo Inside"]], {"matched_order_items": [], "orders": [], "truncated": False}
    assert len(ids(owner.get("/orders/list"))) == 3
    assert found(owner, name="jo") == ["Jo Other", "Jo Inside"]
    assert found(owner, name="jo", sub_account_id=mine) == found(teammate, name="jo") == ["Jo Inside"]
    assert stranger.get("/orders/search?name=jo").json() == nothing
    for query in ("", f"sub_account_id={mine}", "status=reviewing", "created_after=2026-01-01", "metadata[k]=v"):
        page = teammate.get(f"/orders/list?{query}")
        assert (ids(page), total(page)) == (inside, 1)
        assert "sub_account" in query or ids(stranger.get(f"/orders/list?{query}")) == []
    for caller, query, requests in (
        (owner, "", 3), (owner, f"sub_account_id={mine}", 1), (stranger, "", 0), (teammate, "", 1),
        (teammate, f"sub_account_id={mine}", 1),
    ):  # fmt: skip
        assert caller.get(f"/orders/stats?{query}").json()["total_requests"] == requests
    for name in ("sub_account_id", "sub_account"):
        assert ids(owner.get(f"/orders/list?{name}={mine}")) == inside
        for odd in ("x", "-1", "0", str(2**63), "9" * 5_000):
            assert owner.get(f"/orders/list?{name}={odd}").status_code == 422
        for path in ("/orders/list?", "/orders/search?name=jo&", "/orders/stats?"):
            for account, foreign in ((owner, theirs), (owner, 10**18), (teammate, other), (stranger, mine)):
                refused = account.get(f"{path}{name}={foreign}")
                assert (refused.status_code, refused.json()) == NO_SUB_ACCOUNT, path
