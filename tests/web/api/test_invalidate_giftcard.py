"""A sender takes a gift card back while nobody has claimed it, and sends another in its place."""

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves, orders
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.rules import ItemStatus
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_sub_account,
    make_teammate,
    people,
    person,
    snapshot_rows,
)
from support.giftcard_orders import (
    BRAND,
    VALUE,
    card_row,
    claim_card,
    end_review_of,
    issue_order_cards,
    item_ids_of,
    mail_giftcard,
    move_items,
    read_claim,
    send_giftcards,
)
from support.test_client import TestClient

S = ItemStatus
PIECE = 349
"""What a gift card's paper costs."""
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}


def take_back(caller: Account, item_id: int, **body: Any) -> Response:
    return caller.put(f"/order-items/{item_id}/invalidate-giftcard", body or None)


def returned(container: Container) -> list[int]:
    """What came back of cards, each time that something did."""
    with container.db.system_transaction() as tx:
        back = sa.select(ledger_moves.c.cents).where(ledger_moves.c.kind == "return")
        return list(tx.execute(back.order_by(ledger_moves.c.id)).scalars())


def happened(caller: Account, item_id: int) -> list[tuple[str, str | None]]:
    """What became of the piece's card, and why."""
    events = caller.get(f"/order-items/{item_id}").json()["events"]
    return [(one["status"], one["reason"]) for one in events if one["status"].startswith("Gift card")]


def count_orders(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(orders)).scalar_one())


# Taking back


def test_a_card_that_nobody_claimed_is_void_and_its_value_is_credit_again(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    before = owner.get(f"/order-items/{item_id}").json()
    assert before["giftcard"] == {"brand": BRAND, "amount": VALUE}
    order = owner.get(f"/orders/{before['order_id']}").json()
    assert (order["grand_total"], order["order_total"]) == (PIECE + VALUE, PIECE)
    response = take_back(owner, item_id, reason="Lost in the mail")
    assert response.status_code == 200, response.text
    shown = response.json()
    assert (shown["giftcard"], shown["reissued_as"], shown["status"]) == (None, None, "In Transit")
    assert owner.get(f"/order-items/{item_id}").json() | {"reissued_as": None} == shown
    assert happened(owner, item_id) == [("Gift card issued", None), ("Gift card voided", "Lost in the mail")]
    assert owner.get(f"/orders/{before['order_id']}").json()["grand_total"] == PIECE
    assert returned(container) == [VALUE]
    assert owner.get("/account").json()["credit"] == -PIECE


def test_a_void_card_stays_void_on_repeated_requests(owner: Account, container: Container, clock: Clock) -> None:
    item_id = mail_giftcard(container, owner)
    first = take_back(owner, item_id, reason="Lost").json()
    kept, orders_before = snapshot_rows(container), count_orders(container)
    clock.advance(hours=1)
    for method in ("PUT", "PATCH"):
        again = owner.call(method, f"/order-items/{item_id}/invalidate-giftcard", json={"reason": "Another"})
        assert (again.status_code, again.json()) == (200, first)
    assert (snapshot_rows(container), count_orders(container)) == (kept, orders_before)


def test_patch_does_what_put_does(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    response = owner.call("PATCH", f"/order-items/{item_id}/invalidate-giftcard")
    assert (response.status_code, response.json()["giftcard"], returned(container)) == (200, None, [VALUE])


def test_only_this_piece_s_card_is_void(owner: Account, container: Container) -> None:
    order_id = send_giftcards(owner, recipients=people(3))
    first, second, third = issue_order_cards(container, order_id)
    assert take_back(owner, second).status_code == 200
    shown = {one["id"]: one["giftcard"] for one in owner.get(f"/orders/{order_id}/items").json()["data"]}
    good = {"brand": BRAND, "amount": VALUE}
    assert shown == {first: good, second: None, third: good}
    assert owner.get(f"/orders/{order_id}").json()["grand_total"] == 3 * PIECE + 2 * VALUE


def plain(container: Container, owner: Account) -> int:
    [piece] = item_ids_of(container, int(owner.send().json()["id"]))
    return piece


def waiting(container: Container, owner: Account) -> int:
    [piece] = item_ids_of(container, send_giftcards(owner))
    return piece


def failed(container: Container, owner: Account) -> int:
    order_id = send_giftcards(owner)
    end_review_of(container, order_id)
    [piece] = item_ids_of(container, order_id)
    move_items(container, [piece], S.FAILED)
    return piece


def claimed(container: Container, owner: Account) -> int:
    piece = mail_giftcard(container, owner)
    claim_card(container, piece)
    return piece


REFUSALS: dict[str, tuple[Callable[[Container, Account], int], str]] = {
    "a postcard": (plain, giftcard_service.NO_CARD),
    "not issued yet": (waiting, giftcard_service.NOT_ISSUED),
    "failed before": (failed, giftcard_service.NEVER_ISSUED),
    "claimed": (claimed, "This gift card was claimed on 2026-05-04 at 12:00 UTC: it can no longer be taken back."),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_cannot_be_taken_back_says_why(owner: Account, container: Container, what: str) -> None:
    make, sentence = REFUSALS[what]
    item_id = make(container, owner)
    before = snapshot_rows(container)
    for body in ({}, {"reissue": True}):
        response = take_back(owner, item_id, **body)
        assert (response.status_code, response.json()) == (400, {"message": sentence})
    assert snapshot_rows(container) == before


def test_a_card_that_was_reported_before_it_was_claimed_can_be_taken_back(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    with container.db.system_transaction() as tx:
        giftcard_service.report_card(tx, read_claim(container, item_id), "lost", now=container.clock())
    claim_card(container, item_id)
    assert take_back(owner, item_id, reissue=True).status_code == 200
    assert [what for what, _ in happened(owner, item_id)] == [
        "Gift card issued", "Gift card reported", "Gift card voided"
    ]  # fmt: skip
    claim_card(container, item_id)
    assert card_row(container, item_id).claimed_at is None


def test_an_odd_body_is_refused_and_the_card_stays_good(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    assert list(take_back(owner, item_id, reason="x" * 501).json()["errors"]) == ["reason"]
    assert list(take_back(owner, item_id, reissue="soon").json()["errors"]) == ["reissue"]
    assert card_row(container, item_id).status == "issued"


# Whose card it is


def test_nobody_else_takes_a_card_back(owner: Account, container: Container, http: TestClient) -> None:
    here, elsewhere = make_sub_account(container, owner), make_sub_account(container, owner)
    item_id = mail_giftcard(container, owner, sub_account_id=here)
    others = [
        make_account(container, http, "stranger@example.com"),
        make_teammate(container, owner, elsewhere),
        make_live(container, owner),
    ]
    for other in others:
        for body in ({}, {"reissue": True}):
            assert take_back(other, item_id, **body).status_code == 404
    assert card_row(container, item_id).status == "issued"
    response = take_back(make_teammate(container, owner, here), item_id, reissue=True)
    assert response.status_code == 200
    assert owner.get(f"/orders/{response.json()['reissued_as']}").json()["sub_account_id"] == here


def test_it_needs_the_scope_to_change_orders_and_to_send_another_that_to_send(
    container: Container, http: TestClient
) -> None:
    sender = make_account(container, http, "s@example.com", scopes=["orders:write", "orders:read", "send:write"])
    item_id = mail_giftcard(container, sender)

    def holder(*scopes: str) -> Account:
        with container.db.system_transaction() as tx:
            token = insert_token(tx, sender.id, mode="test", name="t", scopes=list(scopes), now=container.clock())[1]
        return Account(sender.id, token, http)

    assert take_back(holder("orders:read", "send:write"), item_id).status_code == 403
    assert take_back(holder("orders:write"), item_id, reissue=True).status_code == 403
    assert card_row(container, item_id).status == "issued"
    assert take_back(holder("orders:write"), item_id).status_code == 200


# Sending another


def test_another_is_sent_to_the_same_recipient_as_the_first_was(owner: Account, container: Container) -> None:
    jane, joe = person(custom1="roses"), person(name="Joe", address="9 Oak St")
    order_id = send_giftcards(
        owner,
        recipients=[jane, joe],
        message="For %FIRST_NAME%: %CUSTOM1%",
        metadata={"campaign": "spring"},
        landing_page_url="https://shop.example.com/hello",
    )
    piece, other = issue_order_cards(container, order_id)
    move_items(container, [piece, other], S.PRINTED)
    response = take_back(owner, piece, reissue=True)
    assert response.status_code == 200, response.text
    assert response.json()["giftcard"] is None
    again = response.json()["reissued_as"]
    with container.db.system_transaction() as tx:
        old, new = (tx.execute(sa.select(orders).where(orders.c.id == number)).one() for number in (order_id, again))
    alike = ("type", "message", "style", "giftcard_brand", "giftcard_amount", "giftcard_title",
             "landing_page_url", "metadata", "creative_key")  # fmt: skip
    assert {name: old._mapping[name] for name in alike} == {name: new._mapping[name] for name in alike}
    [item] = owner.get(f"/orders/{again}/items").json()["data"]
    before = owner.get(f"/order-items/{piece}").json()
    assert item["recipient"] == before["recipient"]
    assert (item["status"], item["giftcard"]) == ("Processing", None)
    # The other card of the order is as good as it was, and the new piece brings one of its own.
    assert owner.get(f"/order-items/{other}").json()["giftcard"] == {"brand": BRAND, "amount": VALUE}
    [fresh] = issue_order_cards(container, again)
    assert read_claim(container, fresh) != read_claim(container, piece)


def test_repeated_reissue_requests_send_one_card(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    first = take_back(owner, item_id, reissue=True).json()
    before = snapshot_rows(container)
    for body in ({"reissue": True}, {}):
        assert take_back(owner, item_id, **body).json() == first
    assert snapshot_rows(container) == before


def test_of_calls_at_once_one_sends_another(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    start = Barrier(3)

    def hurry(_: int) -> tuple[int, Any]:
        start.wait()
        response = take_back(owner, item_id, reissue=True)
        return response.status_code, response.json()

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(hurry, range(3)))
    assert answers == [answers[0]] * 3
    assert (answers[0][0], count_orders(container), returned(container)) == (200, 2, [VALUE])


def test_a_card_taken_back_can_be_reissued_once_later(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    assert take_back(owner, item_id).json()["reissued_as"] is None
    again = take_back(owner, item_id, reissue=True).json()["reissued_as"]
    assert again is not None
    assert take_back(owner, item_id, reissue=True).json()["reissued_as"] == again
    assert (returned(container), count_orders(container)) == ([VALUE], 2)


def test_a_reissued_card_can_be_taken_back_too(owner: Account, container: Container) -> None:
    again = take_back(owner, mail_giftcard(container, owner), reissue=True).json()["reissued_as"]
    [piece] = issue_order_cards(container, again)
    move_items(container, [piece], S.PRINTED)
    third = take_back(owner, piece, reissue=True).json()["reissued_as"]
    assert third not in (None, again)


def retire(container: Container, owner: Account) -> None:
    with container.db.system_transaction() as tx:
        giftcard_queries.retire_brand(tx, BRAND, now=container.clock())


def erase(container: Container, owner: Account) -> None:
    assert owner.post("/recipients/erase", {"address": "12 Main St, Austin, TX 78701"}).status_code == 200


def suppress(container: Container, owner: Account) -> None:
    suppression_list = owner.post("/mailing-lists", {"description": "No", "is_suppression_list": True}).json()["id"]
    assert owner.post("/recipients", {"mailing_list_id": suppression_list, **person()}).status_code == 201


HINDRANCES: dict[str, tuple[Callable[[Container, Account], None], str]] = {
    "the brand is gone": (retire, "offered no more"),
    "the recipient was erased": (erase, "not known any more"),
    "the recipient wants no mail": (suppress, "cannot be sent to this recipient: "),
}


@pytest.mark.parametrize("what", HINDRANCES)
def test_where_another_cannot_be_sent_the_card_stays_good(owner: Account, container: Container, what: str) -> None:
    hinder, sentence = HINDRANCES[what]
    item_id = mail_giftcard(container, owner)
    hinder(container, owner)
    before = snapshot_rows(container)
    response = take_back(owner, item_id, reissue=True)
    assert response.status_code == 400
    assert sentence in response.json()["message"]
    assert snapshot_rows(container) == before
    assert take_back(owner, item_id).json()["giftcard"] is None


def test_another_is_sent_only_when_the_first_is_on_its_way(owner: Account, container: Container) -> None:
    [item_id] = issue_order_cards(container, send_giftcards(owner))
    response = take_back(owner, item_id, reissue=True)
    assert (response.status_code, response.json()) == (400, {"message": giftcard_service.NOT_PRINTED_YET})
    assert card_row(container, item_id).status == "issued"


class TestCredit:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(credit_control=True)

    @pytest.fixture
    def live(self, container: Container, owner: Account) -> Account:
        return make_live(container, owner)

    def pay_in(self, container: Container, account: Account, cents: int) -> None:
        with container.db.system_transaction() as tx:
            key = secrets.token_hex(8)
            billing_service.deposit(tx, account.id, cents=cents, key=key, note=None, now=container.clock())

    def test_what_comes_back_pays_for_another(self, live: Account, container: Container) -> None:
        self.pay_in(container, live, VALUE + 2 * PIECE - 1)
        item_id = mail_giftcard(container, live, **HOME)
        before = snapshot_rows(container)
        short = take_back(live, item_id, reissue=True)
        assert short.status_code == 402
        assert snapshot_rows(container) == before
        self.pay_in(container, live, 1)
        assert take_back(live, item_id, reissue=True).status_code == 200
        assert live.get("/account").json()["credit"] == 0


# What the sender sees


def test_a_card_whose_piece_failed_says_so(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    move_items(container, [item_id], S.FAILED)
    assert happened(owner, item_id) == [("Gift card issued", None), ("Gift card voided", "The piece failed")]


def test_the_log_names_the_token_but_not_the_reason(owner: Account, container: Container) -> None:
    item_id = mail_giftcard(container, owner)
    for _ in range(2):
        response = take_back(owner, item_id, reissue=True, reason="Jane Doe moved")
    [line] = log_of(container, owner)
    another = response.json()["reissued_as"]
    assert line == (f"token “test” took a gift card back: item {item_id}, $25.00 (test, reissued as: {another})")


def log_of(container: Container, owner: Account) -> list[str]:
    with container.db.system_transaction() as tx:
        return [describe_entry(line) for line in list_audit_entries(tx, owner.id)]
