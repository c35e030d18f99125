"""A sender takes a gift card back while nobody has claimed it, sends another in its place, and reads of its life."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from httpx2 import Response

from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves, orders
from quillpost.core.text import format_iso
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.rules import ItemStatus
from support import giftcard_orders
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate, people, person
from support.giftcard_orders import VALUE, card_row, mail_giftcard, move_items, read_claim, send_giftcards
from support.mailing_lists import ListOwner
from support.orders import end_review, item_ids
from support.rows import run, scalars
from support.test_client import TestClient
from support.traces import unchanged

S = ItemStatus
PIECE = 349
"""What a gift card's paper costs."""
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}
GOOD = {"brand": giftcard_orders.BRAND, "amount": VALUE}


def take_back(caller: Account, item_id: int, **body: Any) -> Response:
    return caller.put(f"/order-items/{item_id}/invalidate-giftcard", body or None)


def returned(container: Container, owner: Account) -> list[int]:
    """What came back of cards, each time that something did."""
    back = sa.select(ledger_moves.c.cents).where(ledger_moves.c.kind == "return", ledger_moves.c.account_id == owner.id)
    return scalars(container, back.order_by(ledger_moves.c.id))


def happened(caller: Account, item_id: int) -> list[tuple[str, str | None]]:
    """What became of the piece's card, and why."""
    events = caller.get(f"/order-items/{item_id}").json()["events"]
    return [(one["status"], one["reason"]) for one in events if one["status"].startswith("Gift card")]


def count_orders(owner: Account) -> int:
    return int(owner.get("/orders").json()["meta"]["total"])


def test_an_item_tells_its_cards_life_among_its_own(owner: Account, container: Container, clock: Clock) -> None:
    begun = clock.now()
    order_id = send_giftcards(owner, landing_page_url="https://shop.example.com/hello")
    end_review(container, order_id)
    pieces = item_ids(container, order_id)

    def later(act: Callable[..., object], *args: Any, **how: Any) -> None:
        """A minute later, as whoever has the piece."""
        clock.advance(minutes=1)
        run(container, act, *args, now=clock.now(), **how)

    clock.advance(minutes=1)
    giftcard_orders.issue_cards(container, pieces)
    clock.advance(minutes=1)
    move_items(container, pieces, S.PRINTED)
    code = read_claim(container, pieces[0])
    later(giftcard_service.open_claim_page, code, records_opening=True)
    clock.advance(minutes=1)
    move_items(container, pieces, S.IN_TRANSIT)
    later(giftcard_service.visit_landing_page, code)
    later(giftcard_service.claim_card, container.encryptor, code)
    later(giftcard_service.report_card, code, "broken")
    events = owner.get(f"/order-items/{pieces[0]}").json()["events"]
    assert [(one["status"], one["previous_status"], one["reason"]) for one in events] == [
        ("Processing", None, None), ("Gift card issued", None, None), ("Printed", "Processing", "so it went"),
        ("Gift card opened", None, None), ("In Transit", "Printed", "so it went"),
        ("Gift card landing page visited", None, None), ("Gift card claimed", None, None),
        ("Gift card reported", None, "The code does not work"),
    ]  # fmt: skip
    assert [one["at"] for one in events] == [format_iso(begun + timedelta(minutes=n)) for n in range(8)]
    assert all(set(one) == set(events[0]) for one in events)


def test_an_unclaimed_card_is_void_and_credited_again(owner: Account, container: Container, clock: Clock) -> None:
    item_id = mail_giftcard(container, owner)
    before = owner.get(f"/order-items/{item_id}").json()
    assert before["giftcard"] == GOOD
    order = owner.get(f"/orders/{before['order_id']}").json()
    assert (order["grand_total"], order["order_total"]) == (PIECE + VALUE, PIECE)
    # An odd body leaves it good.
    assert list(take_back(owner, item_id, reason="x" * 501).json()["errors"]) == ["reason"]
    assert list(take_back(owner, item_id, reissue="soon").json()["errors"]) == ["reissue"]
    assert card_row(container, item_id).status == "issued"
    response = take_back(owner, item_id, reason="Lost in the mail")
    assert response.status_code == 200, response.text
    shown = response.json()
    assert (shown["giftcard"], shown["reissued_as"], shown["status"]) == (None, None, "In Transit")
    assert owner.get(f"/order-items/{item_id}").json() | {"reissued_as": None} == shown
    assert happened(owner, item_id) == [("Gift card issued", None), ("Gift card voided", "Lost in the mail")]
    assert owner.get(f"/orders/{before['order_id']}").json()["grand_total"] == PIECE
    assert returned(container, owner) == [VALUE]
    assert owner.get("/account").json()["credit"] == -PIECE
    # Void it stays, whatever is said of it again.
    clock.advance(hours=1)
    with unchanged(container):
        for method in ("PUT", "PATCH"):
            again = owner.call(method, f"/order-items/{item_id}/invalidate-giftcard", json={"reason": "Another"})
            assert (again.status_code, again.json()) == (200, shown)
    assert count_orders(owner) == 1


def test_a_failed_or_returned_pieces_card_is_void_and_a_reported_one_can_be(
    owner: Account, container: Container
) -> None:
    order_id = send_giftcards(owner, recipients=people(4))
    first, second, third, fourth = giftcard_orders.issue_order_cards(container, order_id)
    patched = owner.call("PATCH", f"/order-items/{second}/invalidate-giftcard")
    assert (patched.status_code, patched.json()["giftcard"], returned(container, owner)) == (200, None, [VALUE])
    move_items(container, [fourth], S.FAILED)
    assert happened(owner, fourth) == [("Gift card issued", None), ("Gift card voided", "The piece failed")]
    shown = {one["id"]: one["giftcard"] for one in owner.get(f"/orders/{order_id}/items").json()["data"]}
    assert shown == {first: GOOD, second: None, third: GOOD, fourth: None}
    assert owner.get(f"/orders/{order_id}").json()["grand_total"] == 3 * PIECE + 2 * VALUE
    item_id = mail_giftcard(container, owner)
    run(container, giftcard_service.report_card, read_claim(container, item_id), "lost", now=container.clock())
    giftcard_orders.claim_card(container, item_id)
    assert take_back(owner, item_id, reissue=True).status_code == 200
    voided = ["Gift card issued", "Gift card reported", "Gift card voided"]
    assert [what for what, _ in happened(owner, item_id)] == voided
    giftcard_orders.claim_card(container, item_id)
    assert card_row(container, item_id).claimed_at is None


def test_what_cannot_be_taken_back_says_why(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    [plain] = item_ids(container, int(owner.send().json()["id"]))
    waiting = send_giftcards(owner, recipients=[person(), person(name="Jan")], allow_duplicates=False)
    not_issued, twice = item_ids(container, waiting)
    order_id, claimed = send_giftcards(owner), mail_giftcard(container, owner)
    [never] = item_ids(container, order_id)
    end_review(container, order_id)
    move_items(container, [never], S.FAILED)
    giftcard_orders.claim_card(container, claimed)
    unpaid = "This piece has no gift card: it was not mailed, and nothing is charged for it."
    gone = "This gift card was claimed on 2026-05-04 at 12:00 UTC: it can no longer be taken back."
    refusals: dict[str, tuple[int, str]] = {
        "a postcard": (plain, giftcard_service.NO_CARD), "not issued yet": (not_issued, giftcard_service.NOT_ISSUED),
        "never paid for": (twice, unpaid), "failed before": (never, giftcard_service.NEVER_ISSUED),
        "claimed": (claimed, gone),
    }  # fmt: skip
    with unchanged(container):
        for name, (item_id, sentence) in refusals.items():
            for body in ({}, {"reissue": True}):
                with subtests.test(f"{name} {body}"):
                    response = take_back(owner, item_id, **body)
                    assert (response.status_code, response.json()) == (400, {"message": sentence})
    assert owner.put(f"/orders/{waiting}/cancel").status_code == 200
    assert take_back(owner, not_issued).json() == {"message": giftcard_service.NEVER_ISSUED}


def test_others_take_no_card_back(owner: Account, stranger: Account, container: Container, http: TestClient) -> None:
    here, elsewhere = make_sub_account(container, owner), make_sub_account(container, owner)
    item_id = mail_giftcard(container, owner, sub_account_id=here)
    for other in (stranger, make_teammate(container, owner, elsewhere), make_live(container, owner)):
        for body in ({}, {"reissue": True}):
            assert take_back(other, item_id, **body).status_code == 404
    with container.db.system_transaction() as tx:
        known: dict[str, Any] = {"mode": "test", "name": "t", "now": container.clock()}
        writer = Account(owner.id, insert_token(tx, owner.id, scopes=["orders:write"], **known)[1], http)
    assert take_back(writer, item_id, reissue=True).status_code == 403, "that is a send"
    assert card_row(container, item_id).status == "issued"
    response = take_back(make_teammate(container, owner, here), item_id, reissue=True)
    assert response.status_code == 200
    assert owner.get(f"/orders/{response.json()['reissued_as']}").json()["sub_account_id"] == here
    assert take_back(writer, mail_giftcard(container, owner)).status_code == 200


def test_another_is_sent_to_the_same_recipient_as_the_first_was(owner: Account, container: Container) -> None:
    order_id = send_giftcards(
        owner, recipients=[person(custom1="roses"), person(name="Joe", address="9 Oak St")],
        message="For %FIRST_NAME%: %CUSTOM1%", metadata={"campaign": "spring"},
        landing_page_url="https://shop.example.com/hello",
    )  # fmt: skip
    piece, other = giftcard_orders.issue_order_cards(container, order_id)
    early = take_back(owner, piece, reissue=True)
    assert (early.status_code, early.json()) == (400, {"message": giftcard_service.NOT_PRINTED_YET})
    assert card_row(container, piece).status == "issued"
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
    assert item["recipient"] == owner.get(f"/order-items/{piece}").json()["recipient"]
    assert (item["status"], item["giftcard"]) == ("Processing", None)
    # The other card of the order is as good as it was, and the new piece brings one of its own.
    assert owner.get(f"/order-items/{other}").json()["giftcard"] == GOOD
    [fresh] = giftcard_orders.issue_order_cards(container, again)
    assert read_claim(container, fresh) != read_claim(container, piece)
    # And that can be taken back too.
    move_items(container, [fresh], S.PRINTED)
    assert take_back(owner, fresh, reissue=True).json()["reissued_as"] not in (None, again)


def test_of_repeated_requests_one_sends_another(owner: Account, container: Container) -> None:
    item_id, start = mail_giftcard(container, owner), Barrier(3)

    def hurry(_: int) -> tuple[int, Any]:
        start.wait()
        response = take_back(owner, item_id, reissue=True, reason="Jane Doe moved")
        return response.status_code, response.json()

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(hurry, range(3)))
    assert answers == [answers[0]] * 3
    status, first = answers[0]
    assert (status, count_orders(owner), returned(container, owner)) == (200, 2, [VALUE])
    with unchanged(container):
        for body in ({"reissue": True}, {}):
            assert take_back(owner, item_id, **body).json() == first
    # The log names the token, but not the reason.
    [line] = [describe_entry(line) for line in run(container, list_audit_entries, owner.id)]
    known = f"item {item_id}, $25.00 (test, reissued as: {first['reissued_as']})"
    assert line == f"token “test” took a gift card back: {known}"
    # What was only taken back can be sent again later, once.
    other = mail_giftcard(container, owner)
    assert take_back(owner, other).json()["reissued_as"] is None
    again = take_back(owner, other, reissue=True).json()["reissued_as"]
    assert again is not None
    assert take_back(owner, other, reissue=True).json()["reissued_as"] == again
    assert (returned(container, owner), count_orders(owner)) == ([VALUE] * 2, 4)


@pytest.mark.usefixtures("changing_brands")
def test_a_card_stays_good_if_none_replaces_it(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    def retire() -> None:
        run(container, giftcard_queries.retire_brand, giftcard_orders.BRAND, now=container.clock())

    def suppress() -> None:
        lists = ListOwner(owner)
        lists.add(lists.make(is_suppression_list=True), address="1 Main St")

    def erase() -> None:
        assert owner.post("/recipients/erase", {"address": "2 Main St, Austin, TX 78701"}).status_code == 200

    hindrances: dict[str, tuple[Callable[[], None], str]] = {
        "the recipient wants no mail": (suppress, "cannot be sent to this recipient: "),
        "the recipient was erased": (erase, "not known any more"),
        "the brand is gone": (retire, "offered no more"),
    }
    streets = [person(address=f"{n} Main St") for n in (1, 2, 3)]
    items = {
        name: mail_giftcard(container, owner, recipients=[one]) for name, one in zip(hindrances, streets, strict=True)
    }
    for name, (hinder, sentence) in hindrances.items():
        hinder()
        with subtests.test(name), unchanged(container):
            response = take_back(owner, items[name], reissue=True)
            assert (response.status_code, sentence in response.json()["message"]) == (400, True)
        assert take_back(owner, items[name]).json()["giftcard"] is None


def test_what_comes_back_pays_for_another(app: FastAPI, container: Container, owner: Account) -> None:
    strict = replace(container.environments["live"], needs_credit=True)
    app.state.container = replace(container, environments={**container.environments, "live": strict})
    live = make_live(container, owner)

    def pay_in(cents: int) -> None:
        with container.db.system_transaction() as tx:
            billing_service.deposit(tx, owner.id, cents=cents, key=f"{cents}", note=None, now=container.clock())

    pay_in(VALUE + 2 * PIECE - 1)
    item_id = mail_giftcard(container, live, **HOME)
    with unchanged(container):
        assert take_back(live, item_id, reissue=True).status_code == 402
    pay_in(1)
    assert take_back(live, item_id, reissue=True).status_code == 200
    assert live.get("/account").json()["credit"] == 0
