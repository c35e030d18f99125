"""Whatever becomes of an account's orders, their totals are what the ledger says, and so is its credit."""

import os
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, ledger_moves, orders, prices
from quillpost.core.database.tables.orders import account_credit, account_spending, giftcards
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.queries import change_status
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.tasks import materialize_order
from support.factories import Account, Clock, make_account, people, person
from support.giftcard_orders import VALUE, claim_card, issue_cards
from support.mailing_lists import add_people, make_list
from support.rows import execute
from support.test_client import TestClient

pytestmark = pytest.mark.costly

S = ItemStatus
_names = count()
ONLY_MAIL = {"name": "Nobody", "email": "nobody@example.com"}


class Office:
    """A sender whose orders live through whatever is asked; after each deed the books are looked at."""

    def __init__(self, container: Container, http: TestClient, clock: Clock) -> None:
        self.parts, self.clock = container, clock
        self.sender: Account = make_account(container, http, f"sender{next(_names)}@example.com")
        self.known: list[int] = []

    def rows(self, table: sa.Table) -> list[sa.Row[Any]]:
        mine = table.c.account_id == self.sender.id
        return execute(self.parts, sa.select(table).where(mine).order_by(*table.primary_key))

    def order(self, which: int) -> int | None:
        return self.known[which % len(self.known)] if self.known else None

    def ask(self, method: str, path: str, **how: Any) -> Any:
        """What is answered; nothing where the order is past that state."""
        response = self.sender.call(method, path, **how)
        assert response.status_code in (200, 400), response.text
        return response.json() if response.status_code == 200 else None

    # Deeds of the sender

    def send(self, n: int) -> None:
        sent = self.sender.send(recipients=[*people(n % 4 + 1), *[ONLY_MAIL] * (n % 2)])
        self.known.append(sent.json()["id"])

    def send_gifts(self, n: int) -> None:
        sent = self.sender.send("giftcard", recipients=[*people(n % 4 + 1), *[ONLY_MAIL] * (n % 2)])
        self.known.append(sent.json()["id"])

    def send_to_a_list(self, n: int) -> None:
        """Its people become items later: the list may have grown or shrunk by then."""
        list_id = make_list(self.parts, Caller(self.sender.id, "test"), people(n % 3 + 1))
        sent = self.sender.send(recipients=[person(address="1 Elm St")], mailing_list_ids=[list_id])
        self.known.append(sent.json()["id"])
        if n % 2:
            add_people(self.parts, list_id, [person(address=f"{place} Oak St") for place in range(n % 5)])

    def cancel(self, which: int) -> None:
        self.ask("POST", f"/orders/{self.order(which)}/cancel")

    def edit(self, which: int) -> None:
        words = {"message": f"Words {which} for %FIRST_NAME%"}
        self.ask("PUT", f"/orders/{self.order(which)}", json=words)

    def replay(self, which: int) -> None:
        again = self.ask("POST", f"/orders/{self.order(which)}/replay")
        if again is not None:
            self.known.append(again["id"])

    def take_back(self, which: int) -> None:
        """The card of one piece, twice, as whoever had no answer does."""
        for _ in range(2):
            if pieces := self.pieces(which):
                path = f"/order-items/{pieces[which % len(pieces)]}/invalidate-giftcard"
                again = self.ask("PUT", path, json={"reissue": which % 3 == 0})
                if again is not None and again["reissued_as"] not in (None, *self.known):
                    self.known.append(again["reissued_as"])

    # Deeds of others

    def issue(self, which: int) -> None:
        """Cards for every second piece of an order that is being made; twice, as after a crash."""
        if self.order(which) in self.made():
            for _ in range(2):
                issue_cards(self.parts, self.pieces(which)[which % 2 :: 2])

    def claim(self, which: int) -> None:
        """The first card of an order that somebody can claim."""
        good = [row.item_id for row in self.rows(giftcards) if row.status == "issued"]
        for item_id in [each for each in self.pieces(which) if each in good][:1]:
            claim_card(self.parts, item_id)

    def change_prices(self, n: int) -> None:
        self.clock.advance(days=1)
        new = {"unit_cents": 90 + n, "valid_from": self.clock.now().date()}
        what = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US"}
        execute(self.parts, sa.insert(prices).values(**what | new))

    def materialise(self, which: int) -> None:
        if (order := self.order(which)) is not None:
            materialize_order(self.parts.db, order, now=self.parts.clock())

    def end_review(self, which: int) -> None:
        with self.parts.db.system_transaction() as tx:
            ready = [row.id for row in self.rows(orders) if not row.audience_pending]
            ready = [number for number in ready if number == self.order(which)]
            how = {"expected": [OrderStatus.REVIEWING], "new_status": OrderStatus.PROCESSING}
            change_status(tx, ready, **how, now=self.parts.clock())  # type: ignore[arg-type]

    def move(self, which: int, to: ItemStatus) -> None:
        """Every second piece of an order that is being made; twice, as after a crash."""
        pieces = self.pieces(which)
        if to is S.PRINTED:  # no piece is printed before its card is issued
            waiting = {row.id for row in self.rows(items) if row.gift_cents and not row.giftcard_brand}
            pieces = [piece for piece in pieces if piece not in waiting]
        if self.order(which) in self.made():
            for _ in range(2):
                with self.parts.db.system_transaction() as tx:
                    moves = [StatusChange(piece, to, reason="so it went") for piece in pieces[which % 2 :: 2]]
                    change_item_statuses(tx, moves, now=self.parts.clock())

    def made(self) -> set[int]:
        """Orders that are being made."""
        return {row.id for row in self.rows(orders) if row.status in ("processing", "printing", "mailed")}

    def pieces(self, which: int) -> list[int]:
        return [row.id for row in self.rows(items) if row.order_id == self.order(which)]

    # What holds

    def check(self) -> None:
        moves, pieces, cards = self.rows(ledger_moves), self.rows(items), self.rows(giftcards)
        good = {card.item_id: card for card in cards if card.status == "issued"}
        for order in self.rows(orders):
            held, earned, gifts = (self._book(book, moves, order.id) for book in ("held", "earned", "gifts"))
            of_it = [piece for piece in pieces if piece.order_id == order.id]
            waiting = sum(p.price_cents for p in of_it if p.status == S.PROCESSING)
            made = sum(p.price_cents for p in of_it if p.status not in (S.PROCESSING, S.FAILED))
            not_issued = sum(p.gift_cents for p in of_it if p.status != S.FAILED and p.id not in good)
            assert gifts == sum(good[p.id].cents for p in of_it if p.id in good), order.status
            assert (held + earned + gifts, earned) == (order.order_total + order.gift_total, made)
            if not order.audience_pending:
                assert (held, order.gift_total) == (waiting + not_issued, not_issued + gifts), order.status
            if order.status in ("cancelled", "fulfilled"):
                assert held == 0
        for piece in pieces:
            card = good.get(piece.id)
            assert piece.giftcard_brand == (card.brand if card else None)
            assert card is None or piece.gift_cents == card.cents
            assert card is None or piece.status != S.FAILED or card.claimed_at is not None
        assert sum(self._book(book, moves) for book in ("credit", "held", "earned", "gifts")) == 0
        kept = sum(row.cents for row in self.rows(account_credit))
        spent = sum(row.cents for row in self.rows(account_spending))
        spent_on = self._book("earned", moves) + self._book("gifts", moves)
        assert (kept, spent) == (self._book("credit", moves), spent_on)

    @staticmethod
    def _book(book: str, moves: Sequence[sa.Row[Any]], order_id: int | None = None) -> int:
        return sum(
            move.cents * ((move.target == book) - (move.source == book))
            for move in moves
            if order_id is None or move.order_id == order_id
        )


DEEDS: dict[str, Callable[[Office, int], None]] = {
    "send": Office.send, "send to a list": Office.send_to_a_list, "cancel": Office.cancel, "edit": Office.edit,
    "replay": Office.replay, "change prices": Office.change_prices, "materialise": Office.materialise,
    "end the review": Office.end_review,
    "fail": lambda office, n: office.move(n, S.FAILED),
    "print": lambda office, n: office.move(n, S.PRINTED),
    "travel": lambda office, n: office.move(n, S.IN_TRANSIT),
    "deliver": lambda office, n: office.move(n, S.DELIVERED),
    "return": lambda office, n: office.move(n, S.RETURNED_TO_SENDER),
}  # fmt: skip
GIFT_DEEDS: dict[str, Callable[[Office, int], None]] = {
    "send": Office.send_gifts, "take back": Office.take_back, "issue": Office.issue, "claim": Office.claim,
    **{name: DEEDS[name] for name in ("cancel", "edit", "end the review", "fail", "print", "travel", "return")},
}  # fmt: skip
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "10"))
LIVES = st.lists(st.tuples(st.sampled_from(list(DEEDS)), st.integers(0, 9)), min_size=12, max_size=30)
GIFT_LIVES = st.lists(st.tuples(st.sampled_from(list(GIFT_DEEDS)), st.integers(0, 9)), min_size=6, max_size=16)


@given(life=LIVES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_life_of_orders_the_totals_fit_the_ledger(
    container: Container, http: TestClient, clock: Clock, life: list[tuple[str, int]]
) -> None:
    office = Office(container, http, clock)
    # One that is being made, one that waits for its list, one that waits for the end of its review.
    begun = [("send", 3), ("end the review", 0), ("print", 0), ("send to a list", 1), ("send", 2)]
    for deed, n in begun + life:
        DEEDS[deed](office, n)
        office.check()


@given(life=GIFT_LIVES)
@settings(max_examples=EXAMPLES // 3 or 1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_life_of_gift_cards_the_totals_fit_the_ledger(
    container: Container, http: TestClient, clock: Clock, life: list[tuple[str, int]]
) -> None:
    office = Office(container, http, clock)
    # Four pieces: all cards are issued, one is claimed, two pieces are printed. One order waits.
    begun = [("send", 3), ("end the review", 0), ("issue", 0), ("issue", 1), ("claim", 0), ("print", 0)]
    for deed, n in [*begun, ("send", 1), *life]:
        GIFT_DEEDS[deed](office, n)
        office.check()


def test_a_claimed_card_stays_paid_if_its_piece_fails(container: Container, http: TestClient, clock: Clock) -> None:
    office = Office(container, http, clock)
    for deed, n in (("send", 2), ("end the review", 0), ("issue", 0), ("claim", 0), ("fail", 0), ("fail", 1)):
        GIFT_DEEDS[deed](office, n)
        office.check()
    # Of three pieces the first was claimed, the third only issued, and the second had no card yet.
    [order] = office.rows(orders)
    cards = [(card.status, card.claimed_at is None) for card in office.rows(giftcards)]
    assert cards == [("issued", False), ("void", True)]
    assert (order.status, order.order_total, order.gift_total) == ("fulfilled", 0, VALUE)


@pytest.mark.parametrize("pending", [True, False])
def test_a_cancelled_list_order_is_free(container: Container, http: TestClient, clock: Clock, pending: bool) -> None:
    office = Office(container, http, clock)
    office.send_to_a_list(2)
    if not pending:
        office.materialise(0)
    office.cancel(0)
    office.check()
    office.materialise(0)
    office.check()
    [order] = office.rows(orders)
    assert (order.status, order.order_total) == ("cancelled", 0)
    assert sum(row.cents for row in office.rows(account_credit)) == 0  # a row for each connection that wrote
