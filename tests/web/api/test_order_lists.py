"""Orders in lists: filters, pages, and the links + meta envelope."""

from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import orders
from quillpost.core.paging import PageRequest, Sorting, select_page_ids, tenant_conditions
from support.bulk_orders import insert_orders
from support.factories import Account, Clock, make_sub_account, make_teammate
from support.traces import postcard_with, send_raw

BASE = "http://quillpost.test/api/v2/orders/list"

ORDER_KEYS = {
    "id", "message", "size", "sub_account_id", "type", "display_type", "style", "front_image",
    "high_quality_preview", "authorization_total", "grand_total", "order_total",
    "total_estimated_recipients", "total_recipients", "recipient_count", "status", "method",
    "cancellable", "total_scans", "metadata", "created_at", "updated_at",
}  # fmt: skip


def ids(answer: Any) -> list[int]:
    return [row["id"] for row in answer.json()["data"]]


def test_an_order_has_exactly_the_keys_of_the_interface(owner: Account) -> None:
    order_id = owner.send().json()["id"]
    (listed,) = owner.get("/orders/list").json()["data"]
    assert set(listed) == ORDER_KEYS
    assert owner.get(f"/orders/{order_id}").json() == listed | {"warnings": []}
    assert (listed["status"], listed["method"], listed["cancellable"]) == ("Reviewing", "api", True)
    assert (listed["total_recipients"], listed["recipient_count"]) == (0, 1)
    assert listed["authorization_total"] == listed["order_total"] == listed["grand_total"] == 109
    assert listed["created_at"] == "2026-05-04T12:00:00Z"


def test_an_empty_list_has_null_from_and_to(owner: Account) -> None:
    assert owner.get("/orders/list").json() == {
        "data": [],
        "links": {"first": f"{BASE}?page=1", "last": f"{BASE}?page=1", "prev": None, "next": None},
        "meta": {"current_page": 1, "from": None, "last_page": 1, "path": BASE, "per_page": 25, "to": None, "total": 0},
    }


def test_pages_are_newest_first_and_link_to_each_other(owner: Account) -> None:
    made = [owner.send().json()["id"] for _ in range(5)][::-1]
    middle = owner.get("/orders/list?items_per_page=2&page=2&type=postcard&x=a%26b&x=c&empty=")
    assert ids(middle) == made[2:4]
    kept = "items_per_page=2&type=postcard&x=a%26b&x=c&empty=&page={}"
    assert middle.json()["links"] == {
        "first": f"{BASE}?{kept.format(1)}",
        "last": f"{BASE}?{kept.format(3)}",
        "prev": f"{BASE}?{kept.format(1)}",
        "next": f"{BASE}?{kept.format(3)}",
    }
    assert middle.json()["meta"] == {
        "current_page": 2,
        "from": 3,
        "last_page": 3,
        "path": BASE,
        "per_page": 2,
        "to": 4,
        "total": 5,
    }
    following = owner.http.get(middle.json()["links"]["next"], headers={"Authorization": f"Bearer {owner.token}"})
    assert ids(following) == made[4:]
    assert following.json()["links"]["next"] is None
    assert following.json()["meta"]["to"] == 5


def test_a_page_beyond_the_end_is_empty_and_leads_back(owner: Account) -> None:
    owner.send()
    for page in ("7", str(10**12), "9" * 5_000):
        beyond = owner.get(f"/orders/list?page={page}").json()
        assert beyond["data"] == []
        assert (beyond["meta"]["from"], beyond["meta"]["to"], beyond["meta"]["total"]) == (None, None, 1)
        assert beyond["links"]["prev"] == beyond["links"]["last"] == f"{BASE}?page=1"
        assert beyond["links"]["next"] is None


@pytest.mark.parametrize("name", ["items_per_page", "limit"])
def test_the_page_size_is_clamped_above_and_refused_below(owner: Account, name: str) -> None:
    for given, taken in (
        ("1", 1),
        ("100", 100),
        ("101", 100),
        ("1000000000", 100),
        ("1e9", 100),
        ("7.0", 7),
        ("9" * 5_000, 100),
        ("", 25),
    ):
        assert owner.get(f"/orders/list?{name}={given}").json()["meta"]["per_page"] == taken
    for given in ("0", "-1", "abc", "1e-1", "1.5", "%2B5", "٣", "00", "%00"):
        refused = owner.get(f"/orders/list?{name}={given}")
        assert refused.status_code == 422, given
        assert list(refused.json()["errors"]) == [name]


@pytest.mark.parametrize("given", ["0", "-1", "abc", "1.5"])
def test_a_page_that_is_no_number_is_refused(owner: Account, given: str) -> None:
    refused = owner.get(f"/orders/list?page={given}")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["page"])


@pytest.mark.parametrize("name", ["sub_account_id", "sub_account"])
def test_the_list_is_filtered_by_sub_account(
    owner: Account, stranger: Account, container: Container, name: str
) -> None:
    branch, theirs = make_sub_account(container, owner), make_sub_account(container, stranger)
    inside, outside = owner.send(sub_account_id=branch).json()["id"], owner.send().json()["id"]
    assert ids(owner.get(f"/orders/list?{name}={branch}")) == [inside]
    assert ids(owner.get("/orders/list")) == [outside, inside]
    for foreign in (theirs, 10**18):
        refused = owner.get(f"/orders/list?{name}={foreign}")
        assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
    for odd in ("x", "-1", "0", str(2**63), "9" * 5_000):
        assert owner.get(f"/orders/list?{name}={odd}").status_code == 422


def test_the_list_is_filtered_by_type_status_and_time(owner: Account, clock: Clock) -> None:
    small = owner.send().json()["id"]
    clock.advance(days=1)
    large = owner.send(size="6x11").json()["id"]
    owner.call("PUT", f"/orders/{large}/cancel")
    assert ids(owner.get("/orders/list?type=postcard6x11")) == [large]
    assert ids(owner.get("/orders/list?status=Reviewing")) == [small]
    assert ids(owner.get("/orders/list?status=cancelled")) == [large]
    assert ids(owner.get("/orders/list?created_after=2026-05-05T12:00:00Z")) == [large]
    assert ids(owner.get("/orders/list?created_before=2026-05-05T14:00:00%2B02:00")) == [small]
    assert ids(owner.get("/orders/list?created_before=2026-05-05")) == [small]
    odd = "type=scroll&status=lost&created_after=yesterday&created_before=2026-13-01&metadata=x"
    refused = owner.get(f"/orders/list?{odd}")
    names = [part.partition("=")[0] for part in odd.split("&")]
    assert (refused.status_code, list(refused.json()["errors"])) == (422, names)


def test_both_paths_list_the_same(owner: Account) -> None:
    owner.send()
    assert owner.get("/orders").json()["data"] == owner.get("/orders/list").json()["data"]


TYPES = ("postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard")
SIZES = {"postcard": "4x6", "postcard6x11": "6x11"}


@pytest.mark.parametrize(
    "query", ["", "type=letter", "status=fulfilled", "created_after=2026-01-01", "sub_account_id={branch}"]
)
def test_the_pages_hold_every_order_once_from_whichever_end_they_are_read(
    owner: Account, stranger: Account, container: Container, query: str
) -> None:
    branch = make_sub_account(container, owner)
    insert_orders(container, owner.id, 61, type="letter", size=None, sub_account_id=branch)
    insert_orders(container, stranger.id, 3, type="letter", size=None)
    query = query.format(branch=branch)
    whole = [order for page in range(1, 8) for order in ids(owner.get(f"/orders/list?page={page}&limit=10&{query}"))]
    assert len(whole) == 61
    assert whole == sorted(set(whole), reverse=True)
    assert owner.get(f"/orders/list?page=8&limit=10&{query}").json()["data"] == []
    assert owner.get(f"/orders/list?{query}").json()["meta"]["total"] == 61


@pytest.mark.parametrize("kind", TYPES)
def test_orders_are_filtered_by_each_of_the_seven_types(owner: Account, container: Container, kind: str) -> None:
    for each in TYPES:
        insert_orders(container, owner.id, 2, type=each, size=SIZES.get(each))
    page = owner.get(f"/orders/list?type={kind}").json()
    family = [each for each in TYPES if each == kind or (kind == "postcard" and each.startswith(kind))]
    assert sorted(order["type"] for order in page["data"]) == sorted(2 * family)
    assert page["meta"]["total"] == 2 * len(family)


def test_the_totals_are_those_of_the_rows_that_are_left(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    insert_orders(container, owner.id, 5)
    insert_orders(container, owner.id, 4, sub_account_id=branch)
    insert_orders(container, owner.id, 7, mode="live")
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(orders).where(orders.c.id == ids(owner.get("/orders/list"))[0]))
    totals = [
        owner.get(f"/orders/list?{query}").json()["meta"]["total"]
        for query in ("", f"sub_account_id={branch}", "type=postcard", "type=letter")
    ]
    assert totals == [8, 3, 8, 0]


def test_whoever_is_limited_to_a_sub_account_lists_its_orders_alone(
    owner: Account, stranger: Account, container: Container
) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    inside = owner.send(sub_account_id=mine, metadata={"k": "v"}).json()["id"]
    owner.send(sub_account_id=other, metadata={"k": "v"})
    owner.send(metadata={"k": "v"})
    for query in ("", f"sub_account_id={mine}", "status=reviewing", "created_after=2026-01-01", "metadata[k]=v"):
        page = teammate.get(f"/orders/list?{query}")
        assert (ids(page), page.json()["meta"]["total"]) == ([inside], 1)
        assert stranger.get(f"/orders/list?{query}").status_code == (400 if "sub_account" in query else 200)
    assert ids(stranger.get("/orders/list")) == ids(stranger.get("/orders/list?metadata[k]=v")) == []
    assert teammate.get(f"/orders/list?sub_account_id={other}").status_code == 400


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("page", [20, 140])
def test_a_page_is_found_in_an_index_alone(
    owner: Account, stranger: Account, container: Container, conninfo: str, page: int, limited: bool
) -> None:
    branch = make_sub_account(container, owner)
    for account, sub_account in ((owner, branch), (owner, None), (stranger, None)):
        insert_orders(container, account.id, 4_000, sub_account_id=sub_account)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("vacuum analyze orders")
    tenant = Tenant(owner.id, branch if limited else None, "test")
    sorting = Sorting(leading_column=orders.c.mode)
    found = select_page_ids(
        orders, tenant_conditions(orders, tenant), PageRequest(page, 25), total=4_000, sorting=sorting
    )
    with container.db.transaction(tenant) as tx:
        written = str(found.compile(tx.engine, compile_kwargs={"literal_binds": True}))
        plan = "\n".join(tx.execute(sa.text(f"explain {written}")).scalars())
    index = "orders_sub_account" if limited else "orders_account"
    direction = "Backward " if page > 80 else ""
    assert f"Index Only Scan {direction}using {index} on orders" in plan, plan
    assert "Sort" not in plan


ODD = (
    '{"text":"5","number":5,"float":1.0,"exponent":1e2,"big":123456789012345678901234567890,"yes":true,'
    '"no":false,"nothing":null,"empty":"","Grüße 漢":"🙂 & =","a":{"b":{"c":"deep"},"list":["x"]},"minus":-0}'
)
MATCHES = [
    ([("text", "5")], True),
    ([("number", "5")], True),
    ([("number", "5.0")], True),
    ([("text", "5.0")], False),
    ([("float", "1.0")], True),
    ([("float", "1")], True),
    ([("exponent", "1e2")], True),
    ([("exponent", "100")], True),
    ([("big", "123456789012345678901234567890")], True),
    ([("big", "123456789012345678901234567891")], False),
    ([("yes", "true")], True),
    ([("yes", "True")], False),
    ([("no", "false")], True),
    ([("nothing", "null")], True),
    ([("nothing", "")], False),
    ([("empty", "")], True),
    ([("missing", "null")], False),
    ([("Grüße 漢", "🙂 & =")], True),
    ([("a][b][c", "deep")], True),
    ([("a][b", "deep")], False),
    ([("a][list", "x")], False),
    ([("minus", "0")], True),
    ([("number", "05")], False),
    ([("number", "1e99999999")], False),
    ([("number", "9" * 2_000)], False),
    ([("number", "NaN")], False),
    ([("text", "5"), ("yes", "true")], True),
    ([("text", "5"), ("yes", "false")], False),
    ([("text", "5"), ("text", "6")], False),
    ([("text", "5'); drop table orders; --")], False),
]


def test_orders_are_found_by_what_is_in_their_metadata(owner: Account) -> None:
    order_id = send_raw(owner, postcard_with("metadata", ODD)).json()["id"]
    for others in ("null", "{}", '{"a":"\\u0000"}', '{"text":"50"}'):
        send_raw(owner, postcard_with("metadata", others))
    for filters, is_match in MATCHES:
        query = urlencode([(f"metadata[{key}]", value) for key, value in filters])
        page = owner.get(f"/orders/list?{query}")
        assert (ids(page), page.json()["meta"]["total"]) == (([order_id], 1) if is_match else ([], 0)), filters
    both = owner.get(f"/orders/list?metadata[text]=5&type=postcard&status=reviewing&{quote('metadata[no]')}=false")
    assert ids(both) == [order_id]
    assert ids(owner.get("/orders/list?metadata[text]=5&type=letter")) == []
    assert owner.get("/orders/list?metadata[text]=5&page=2").json()["data"] == []


@pytest.mark.parametrize(
    "name",
    ["metadata", "metadata[", "metadata[]", "metadata[a", "metadata[a]b", "metadata[a][]",
     "metadata[[a]]", "metadata[a]" + "[b]" * 20, "metadata[%00]"],
)  # fmt: skip
def test_brackets_that_make_no_sense_are_refused(owner: Account, name: str) -> None:
    refused = owner.get(f"/orders/list?{name}=x&metadata[good]=x")
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == [name.replace("%00", "\x00")]


def test_at_most_ten_filters_by_metadata(owner: Account) -> None:
    def query(how_many: int) -> str:
        return "&".join(f"metadata[k{n}]=v" for n in range(how_many))

    assert owner.get(f"/orders/list?{query(10)}").status_code == 200
    refused = owner.get(f"/orders/list?{query(11)}")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["metadata"])
    assert owner.get("/orders/list?metadata[a]=%00").status_code == 422
    assert owner.get("/orders/list?metadatas[a]=b&meta=1").status_code == 200


def test_the_filters_by_metadata_are_described(owner: Account) -> None:
    operation = owner.get("/openapi.json").json()["paths"]["/api/v2/orders/list"]["get"]
    (described,) = (each for each in operation["parameters"] if each["name"] == "metadata")
    assert (described["style"], described["explode"]) == ("deepObject", True)
