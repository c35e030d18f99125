"""`GET /print/held`: which orders wait for an operator, whose they are, and for what."""

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, orders
from quillpost.core.paging import OLDEST_FIRST, PageRequest, select_page_ids
from quillpost.fulfillment.review.service import PAUSED_STATUS
from quillpost.orders.changes import MESSAGE_CHANGED_WHILE_HELD
from support.bulk_orders import insert_orders
from support.factories import (
    Account,
    Clock,
    make_account,
    make_live,
    make_operator,
    make_sub_account,
    make_teammate,
    people,
)
from support.print_room import create_held_order
from support.test_client import TestClient
from support.traces import traces

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http)


def listed(operator: Account, query: str = "") -> list[int]:
    found = operator.get(f"/print/held{query}")
    assert found.status_code == 200, found.text
    return [order["id"] for order in found.json()["data"]]


def test_held_orders_of_every_account_are_listed_oldest_first(
    owner: Account, operator: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    stranger = make_account(container, http, "stranger@example.com")
    branch = make_sub_account(container, stranger)
    first = create_held_order(owner, container, clock, recipients=people(3))
    second = create_held_order(stranger, container, clock, sub_account_id=branch, size="6x11")
    one, other = operator.get("/print/held").json()["data"]
    [why] = owner.get(f"/orders/{first}").json()["warnings"]
    assert one == {
        "id": first,
        "account_id": owner.id,
        "account_email": "owner@example.com",
        "sub_account_id": None,
        "type": "postcard",
        "recipient_count": 3,
        "pieces": 3,
        "grand_total": 327,
        "created_at": "2026-05-04T12:00:00Z",
        "paused_at": "2026-05-04T12:00:11Z",
        "reasons": [why],
    }
    assert (other["id"], other["account_id"], other["account_email"], other["sub_account_id"]) == (
        second, stranger.id, "stranger@example.com", branch,
    )  # fmt: skip
    assert (other["type"], other["paused_at"]) == ("postcard6x11", "2026-05-04T12:00:22Z")


def test_a_change_by_the_sender_does_not_restart_the_wait(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    order_id = create_held_order(owner, container, clock)
    [before] = operator.get("/print/held").json()["data"]
    clock.advance(hours=2)
    assert owner.put(f"/orders/{order_id}", {"message": "Hi!"}).status_code == 200
    with container.db.system_transaction() as tx:
        # Facts of its pieces are no pause of the order.
        tx.execute(
            sa.text(
                """insert into facts (account_id, mode, kind, order_id, item_id, order_status, current, at)
                   select account_id, mode, 'item.status', order_id, id, 'paused', 'paused', :now
                     from items"""
            ),
            {"now": clock.now()},
        )
    [after] = operator.get("/print/held").json()["data"]
    assert after == {**before, "reasons": [*before["reasons"], MESSAGE_CHANGED_WHILE_HELD]}


def test_only_what_waits_is_listed(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    released, refused, cancelled, waits = (create_held_order(owner, container, clock) for _ in range(4))
    operator.post(f"/orders/{released}/release")
    operator.post(f"/orders/{refused}/refuse", {"reason": "No."})
    owner.put(f"/orders/{cancelled}/cancel")
    owner.send()
    assert listed(operator) == [waits]


def test_held_orders_come_in_pages(owner: Account, operator: Account, container: Container, clock: Clock) -> None:
    first, second, third = (create_held_order(owner, container, clock) for _ in range(3))
    assert listed(operator, "?items_per_page=2") == [first, second]
    assert listed(operator, "?items_per_page=2&page=2") == listed(operator, "?limit=1&page=3") == [third]
    page = operator.get("/print/held?items_per_page=2").json()
    assert (page["meta"]["total"], page["meta"]["last_page"], page["links"]["prev"]) == (3, 2, None)
    assert page["links"]["next"].endswith("/api/v2/print/held?items_per_page=2&page=2")
    beyond = operator.get("/print/held?page=9").json()
    assert (beyond["data"], beyond["meta"]["total"], beyond["meta"]["from"]) == ([], 3, None)


def test_nothing_held_is_an_empty_page(operator: Account) -> None:
    page = operator.get("/print/held").json()
    assert (page["data"], page["meta"]["total"], page["meta"]["last_page"]) == ([], 0, 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("page=0", "page"),
        ("page=x", "page"),
        ("items_per_page=0", "items_per_page"),
        ("items_per_page=-1", "items_per_page"),
        ("limit=many", "limit"),
    ],
)
def test_a_page_that_cannot_be_is_refused(operator: Account, query: str, field: str) -> None:
    answer = operator.get(f"/print/held?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])


# Who may


def test_only_operators_see_what_is_held(
    owner: Account, operator: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    order_id = create_held_order(owner, container, clock)
    strangers = {
        "the sender": owner,
        "a stranger": make_account(container, http, "stranger@example.com"),
        "an operator's branch": make_teammate(container, operator, make_sub_account(container, operator)),
        "an operator without the scope": make_operator(
            container, http, "narrow@example.com", scopes=["orders:write", "send:write"]
        ),
    }
    before = traces(container)
    for name, caller in strangers.items():
        answer = caller.get("/print/held")
        assert (answer.status_code, list(answer.json())) == (403, ["message"]), name
    nobody = http.get("/api/v2/print/held")
    assert (nobody.status_code, nobody.json()) == (401, {"message": "Unauthenticated."})
    assert traces(container) == before
    reader = make_operator(container, http, "reader@example.com", scopes=["orders:read"])
    assert listed(reader) == listed(operator) == [order_id]


def test_an_operator_sees_what_is_held_in_the_mode_of_the_token(
    owner: Account, operator: Account, container: Container, clock: Clock
) -> None:
    in_test = create_held_order(owner, container, clock)
    live = make_live(container, operator)
    assert listed(live) == []
    [in_live] = insert_orders(container, owner.id, 1, mode="live", status="paused")
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(facts).values(
                account_id=owner.id, mode="live", kind="order.status", order_id=in_live,
                order_status="paused", previous="reviewing", current="paused", at=clock.now(), inferred=False,
                event_id=sa.func.gen_random_uuid(),
            )
        )  # fmt: skip
    assert (listed(live), listed(operator)) == ([in_live], [in_test])


# Of many


@pytest.mark.parametrize(("page", "direction"), [(1, ""), (100, "Backward ")])
def test_few_held_orders_are_found_among_many(container: Container, owner: Account, page: int, direction: str) -> None:
    for status, how_many in (("fulfilled", 10_000), ("paused", 400)):
        insert_orders(container, owner.id, how_many, status=status)
    filters = orders.c.mode == "test", orders.c.status == PAUSED_STATUS
    query = select_page_ids(orders, filters, PageRequest(page, 4), total=400, sorting=OLDEST_FIRST)
    with container.db.system_transaction() as tx:
        written = query.compile(dialect=tx.dialect, compile_kwargs={"literal_binds": True})
        tx.execute(sa.text("analyze orders"))
        plan = "\n".join(tx.execute(sa.text(f"explain {written}")).scalars())
    assert f"Index Only Scan {direction}using orders_paused on orders" in plan, plan
    assert "Sort" not in plan
