"""Gift cards that nobody issues, that come too late or twice, or whose pieces end: who waits, and what goes back."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.fulfillment.batches import giftcards as gift_stock
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import COMPOSE
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, IssuerDown
from quillpost.orders.giftcards.service import NEVER_ISSUED
from quillpost.orders.giftcards.tasks import MAX_FAILURES, CardReturns
from quillpost.orders.rules import ItemStatus
from support import giftcard_orders as cards
from support.factories import Account, Clock, people
from support.giftcard_orders import VALUE, Answers, assert_all_is_printed, card_row, move_items, send_giftcards
from support.orders import item_ids, item_rows, order_row
from support.production import delete_jobs, enqueued_steps, stumble_over
from support.rows import execute, run, scalars

pytestmark = pytest.mark.usefixtures("clean_database")

WAITS = "wait for gift cards"


def dies(_requests: Sequence[CardRequest], _answers: cards.Answers) -> cards.Answers:
    raise ConnectionResetError


def is_warned(sender: Account, order_id: int, words: str = WAITS) -> bool:
    return any(words in warning for warning in cards.warnings(sender, order_id))


def fail(container: Container, *order_or_pieces: int) -> None:
    move_items(container, order_or_pieces, ItemStatus.FAILED)


# At the press


def test_pieces_without_a_card_wait_and_the_others_go_on(container: Container, clock: Clock, owner: Account) -> None:
    production = cards.stocked(container, 3)
    order = send_giftcards(owner, recipients=people(3))
    [batch] = cards.end_reviews(production, container, clock)
    tracking = sa.select(prints.c.tracking).order_by(prints.c.tracking)
    codes = scalars(container, tracking)
    execute(container, "delete from giftcard_stock where id = (select max(id) from giftcard_stock)")
    cards.compose_all(production, container)
    [(status, pieces, _), (waits, waiting, error)] = cards.batches_of(container)
    assert (status, pieces, waits, waiting) == ("composed", 2, "new", 1)
    assert str(error).startswith("1 piece waits for its gift card. There are no cards of ")
    assert is_warned(owner, order, f"{WAITS} of Brindlewick")
    assert (COMPOSE, {"batch_id": batch + 1}) in enqueued_steps(container)
    cards.compose_all(production, container)
    assert len(cards.batches_of(container)) == 2
    cards.load_stock(container, 1)
    cards.compose_all(production, container)
    assert cards.batches_of(container) == [("composed", 2, None), ("composed", 1, None)]
    assert not is_warned(owner, order)
    assert scalars(container, tracking) == codes
    cards.assert_all_is_printed(container)


def test_an_order_whose_last_pieces_end_waits_no_more(container: Container, clock: Clock, owner: Account) -> None:
    production = cards.stocked(container, 1)
    half, none = send_giftcards(owner, recipients=people(2)), send_giftcards(owner)
    cards.end_reviews(container.production, container, clock)
    cards.compose_all(production, container)
    assert is_warned(owner, half)
    assert is_warned(owner, none)
    fail(container, item_ids(container, half)[1], *item_ids(container, none))
    assert not is_warned(owner, none)
    cards.compose_all(production, container)
    assert not is_warned(owner, half)
    assert [each[:2] for each in cards.batches_of(container)] == [("composed", 1), ("mailed", 0)]
    cards.assert_all_is_well(container)


def test_an_issuer_that_is_down_is_waited_for(container: Container, clock: Clock, owner: Account) -> None:
    def is_down(_requests: Sequence[CardRequest], _answers: cards.Answers) -> cards.Answers:
        raise IssuerDown("The issuer does not answer.")

    send_giftcards(owner)
    production = cards.stocked(container, 1)
    [batch] = cards.end_reviews(production, container, clock)
    delete_jobs(container)
    cards.compose_all(cards.stocked(container, 0, is_down), container)
    assert cards.batches_of(container) == [("new", 1, "The issuer does not answer.")]
    assert enqueued_steps(container) == [(COMPOSE, {"batch_id": batch})]
    cards.compose_all(production, container)
    cards.assert_all_is_printed(container)


def test_a_piece_whose_card_is_refused_fails_and_is_free(container: Container, clock: Clock, owner: Account) -> None:
    def refuses_one(requests: Sequence[CardRequest], answers: cards.Answers) -> cards.Answers:
        return {**answers, requests[0].reference: CardNotIssued("The order was cancelled there.", "never")}

    order, production = send_giftcards(owner, recipients=people(2)), cards.stocked(container, 2, refuses_one)
    cards.end_reviews(production, container, clock)
    cards.compose_all(production, container)
    assert cards.statuses(container) == ["refused", "issued"]
    refused, issued = item_rows(container, order)
    assert (refused.status, refused.failure) == ("Failed", gift_stock.CARD_REFUSED)
    assert (issued.status, issued.failure) == ("Processing", None)
    run(container, cards.assert_books_agree)
    assert owner.get(f"/orders/{order}").json()["grand_total"] == issued.price_cents + VALUE
    cards.assert_printed_as_issued(container)


def test_a_card_is_requested_of_one_issuer_alone(container: Container, clock: Clock, owner: Account) -> None:
    """Whoever was asked may have issued it, whatever became of the answer."""
    send_giftcards(owner)
    production = cards.stocked(container, 2)
    cards.end_reviews(production, container, clock)
    with pytest.raises(ConnectionResetError):
        cards.compose_all(cards.stocked(container, 0, dies), container)
    cards.compose_all(cards.stocked(container, 0, name="another"), container)
    [(status, _, error)] = cards.batches_of(container)
    assert status == "new"
    assert "asked of stock" in str(error)
    cards.compose_all(production, container)
    cards.assert_all_is_printed(container)


def test_a_card_that_is_ordered_stays_with_its_issuer(container: Container, clock: Clock, owner: Account) -> None:
    """It is paid for there: another would issue a second one, and its own would never be given back."""

    def not_yet(requests: Sequence[CardRequest], _answers: cards.Answers) -> cards.Answers:
        return {card.reference: CardNotIssued("It waits to be approved.", "ordered") for card in requests}

    order, production = send_giftcards(owner), cards.stocked(container, 2)
    [piece] = item_ids(container, order)
    cards.end_reviews(production, container, clock)
    cards.compose_all(cards.stocked(container, 0, not_yet), container)
    assert cards.batches_of(container) == [("new", 1, "1 piece waits for its gift card. It waits to be approved.")]
    assert is_warned(owner, order, "that are not issued yet")
    cards.compose_all(cards.stocked(container, 0, name="another"), container)
    assert (card_row(container, piece).issuer, cards.statuses(container)) == ("stock", ["asked"])
    fail(container, piece)
    cards.compose_all(production, container)
    cards.give_back(container, production)
    assert (cards.statuses(container), cards.free_in_stock(container)) == (["void"], 2)
    refused = owner.put(f"/order-items/{piece}/invalidate-giftcard")
    assert (refused.status_code, NEVER_ISSUED in refused.text) == (400, True)
    cards.assert_all_is_well(container)


def test_an_issuer_without_stock_is_replaced_by_another(container: Container, clock: Clock, owner: Account) -> None:
    [piece], production = item_ids(container, send_giftcards(owner)), cards.stocked(container, 1)
    cards.end_reviews(production, container, clock)
    execute(container, sa.delete(giftcard_stock))
    cards.compose_all(production, container)
    cards.compose_all(cards.stocked(container, 1, name="another"), container)
    assert card_row(container, piece).issuer == "another"
    cards.assert_printed_as_issued(container)


# At the end of the review


def test_an_order_for_which_there_are_too_few_cards_is_held(container: Container, clock: Clock, owner: Account) -> None:
    production = cards.stocked(container, 5)
    send_giftcards(owner, recipients=people(2))
    cards.end_reviews(production, container, clock)
    fits, too_many, fits_too = (send_giftcards(owner, recipients=people(n)) for n in (1, 3, 2))
    plain = owner.send(recipients=people(9)).json()["id"]
    clock.advance(days=1)
    free = gift_stock.read_card_stock(production, now=container.clock())
    assert list(free.values()) == [3], "what is promised is counted before any order is held"
    cards.end_reviews(production, container, clock)
    found = {number: order_row(container, number).status for number in (fits, too_many, fits_too, plain)}
    assert found == dict.fromkeys(found, "processing") | {too_many: "paused"}
    [warning] = [warning for warning in cards.warnings(owner, too_many) if "gift card" in warning]
    assert "needs 3 gift cards of Brindlewick" in warning
    assert "over $25.00, and 2 are free: have it released when there are more, or send" in warning


# What goes back


def test_a_card_that_comes_too_late_is_void_and_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    first, _ = item_ids(container, send_giftcards(owner, recipients=people(2)))

    def first_fails(_requests: Sequence[CardRequest], answers: cards.Answers) -> cards.Answers:
        fail(container, first)
        return answers

    production = cards.stocked(container, 2, first_fails)
    cards.end_reviews(production, container, clock)
    cards.compose_all(production, container)
    assert (cards.statuses(container), card_row(container, first).card_sealed) == (["void", "issued"], None)
    run(container, cards.assert_books_agree)
    cards.give_back(container, production)
    assert cards.free_in_stock(container) == 1
    cards.assert_all_is_printed(container)


def test_a_card_that_comes_after_a_refusal_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    def never(requests: Sequence[CardRequest], _answers: cards.Answers) -> cards.Answers:
        return {card.reference: CardNotIssued("Never.", "never") for card in requests}

    def another_is_refused(_requests: Sequence[CardRequest], answers: cards.Answers) -> cards.Answers:
        cards.compose_all(cards.stocked(container, 0, never), container)
        assert cards.statuses(container) == ["refused"]
        return answers

    [piece], production = item_ids(container, send_giftcards(owner)), cards.stocked(container, 1, another_is_refused)
    cards.end_reviews(production, container, clock)
    cards.compose_all(production, container)
    assert (cards.statuses(container), card_row(container, piece).card_sealed) == (["void"], None)
    cards.give_back(container, production)
    assert cards.free_in_stock(container) == 1
    cards.assert_all_is_well(container)


def test_a_card_whose_answer_and_piece_are_lost_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    [piece], production = item_ids(container, send_giftcards(owner)), cards.stocked(container, 1, dies)
    [batch] = cards.end_reviews(production, container, clock)
    with pytest.raises(ConnectionResetError):
        cards.compose_all(production, container)
    fail(container, piece)
    cards.give_back(container, production)
    assert (cards.statuses(container), cards.free_in_stock(container)) == (
        ["asked"],
        0,
    )  # who composes may be about to ask
    batch_tasks.compose_batch(production, batch, now=container.clock())
    cards.give_back(container, production)
    assert (cards.statuses(container), cards.free_in_stock(container)) == (["void"], 1)
    cards.assert_all_is_well(container)


@dataclass(frozen=True)
class OddIssuer(cards.Issuer):
    """It takes cards back, but for those of some references."""

    refused: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def return_card(self, reference: str, *, now: datetime) -> bool:
        self.calls.append(reference)
        if reference in self.refused:
            raise IssuerDown("It cannot be read.")
        return super().return_card(reference, now=now)


def void_cards(container: Container, clock: Clock, sender: Account, how_many: int) -> list[str]:
    """Cards of pieces that have ended since, by their references."""
    pieces = item_ids(container, send_giftcards(sender, recipients=people(how_many)))
    production = cards.stocked(container, how_many)
    cards.end_reviews(production, container, clock)
    cards.compose_all(production, container)
    fail(container, *pieces)
    return [str(card_row(container, piece).reference) for piece in pieces]


def test_cards_that_always_fail_are_skipped_and_an_issuer_rests(
    container: Container, clock: Clock, owner: Account
) -> None:
    references = void_cards(container, clock, owner, MAX_FAILURES + 2)
    issuer = OddIssuer(cards.stock_of(container), refused=set(references[:MAX_FAILURES]))
    returns = CardReturns(container.db, {"test": issuer})
    for calls, free in ((MAX_FAILURES, 0), (len(references), 2)):
        returns.return_cards(now=container.clock())
        assert (len(issuer.calls), cards.free_in_stock(container)) == (calls, free)
    issuer.refused.clear()
    returns.return_cards(now=container.clock())
    assert cards.free_in_stock(container) == len(references)


def test_void_cards_go_back_once_their_issuer_is_there(container: Container, clock: Clock, owner: Account) -> None:
    references = void_cards(container, clock, owner, 3)
    issuer = OddIssuer(cards.stock_of(container), refused={references[1]})
    returns = CardReturns(container.db, {"test": issuer})
    returns.return_cards(now=container.clock())
    assert cards.free_in_stock(container) == 2, "one that fails is in nobody's way"
    issuer.refused.clear()
    for _ in range(2):
        returns.return_cards(now=container.clock())
    assert (cards.free_in_stock(container), len(issuer.calls)) == (3, 4)
    assert set(scalars(container, "select card_sealed from giftcards")) == {None}


def test_cards_of_another_issuer_are_left_and_logged_once(container: Container, clock: Clock, owner: Account) -> None:
    void_cards(container, clock, owner, 1)
    returns = CardReturns(container.db, {"test": cards.Issuer(cards.stock_of(container), name="another")})
    with capture_logs() as logs:
        for _ in range(2):
            returns.return_cards(now=container.clock())
    assert [line["event"] for line in logs] == ["giftcards.issuer_not_configured"]
    assert (cards.free_in_stock(container), scalars(container, "select given_back_at from giftcards")) == (0, [None])


def test_a_piece_that_cannot_be_drawn_gives_its_card_back(
    container: Container, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [send_giftcards(owner, recipients=people(1), message=message) for message in ("Fine", "Unlucky")]
    stumble_over(container, monkeypatch, ValueError("no such thing can be drawn"), "Unlucky")
    cards.end_reviews(container.production, container, clock)
    cards.compose_all(container.production, container)
    assert [cards.card_row(container, item_ids(container, order)[0]).status for order in sent] == ["issued", "void"]
    cards.give_back(container, container.production)
    assert_all_is_printed(container)


def test_composing_twice_at_once_issues_each_card_once(container: Container, clock: Clock, owner: Account) -> None:
    send_giftcards(owner, recipients=people(4))
    both = threading.Barrier(2, timeout=20)

    def together(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        both.wait()
        return answers

    production = cards.stocked(container, 8, together)
    [batch] = cards.end_reviews(production, container, clock)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: batch_tasks.compose_batch(production, batch, now=container.clock()), range(2)))
    assert cards.free_in_stock(container) == 4
    assert_all_is_printed(container)


class RandomFailures:
    """While cards are asked for: answers are lost, wholly or in part, and pieces fail."""

    def __init__(self, container: Container, chance: Random, pieces: Sequence[int]) -> None:
        self._parts, self._chance, self._pieces = container, chance, list(pieces)
        self.is_over = False

    def __call__(self, requests: Sequence[CardRequest], answers: Answers) -> Answers:
        what = "nothing" if self.is_over else self._chance.choice(
            ("nothing", "down", "death", "part", "failing", "failing")
        )  # fmt: skip
        if what == "down":
            raise IssuerDown("Not now.")
        if what == "death":
            raise ConnectionResetError
        if what == "failing":
            cards.move_items(self._parts, self._chance.sample(self._pieces, 1), ItemStatus.FAILED)
        if what == "part":
            kept = self._chance.sample(list(answers), len(answers) // 2)
            return {reference: answers[reference] for reference in kept}
        return answers


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
def test_each_piece_has_one_card_or_none(seed: int, container: Container, clock: Clock, owner: Account) -> None:
    chance = Random(seed)
    sent = [send_giftcards(owner, recipients=people(4)) for _ in range(2)]
    failures = RandomFailures(container, chance, [piece for order in sent for piece in item_ids(container, order)])
    production = cards.production_with(container, cards.Issuer(cards.stock_of(container), failures))
    cards.end_reviews(container.production, container, clock)
    returns = CardReturns(container.db, production.giftcard_issuers)

    def compose() -> None:
        with suppress(ConnectionResetError):  # the job is tried again
            cards.compose_all(production, container)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            cards.load_stock(container, chance.randrange(3))
            for done in [pool.submit(compose) for _ in range(2)]:
                done.result()
            returns.return_cards(now=container.clock())
            run(container, cards.assert_books_agree)
    failures.is_over = True
    cards.load_stock(container, 8)
    for _ in range(3):
        cards.compose_all(production, container)
        returns.return_cards(now=container.clock())
    assert execute(container, sa.select(giftcards).where(giftcards.c.status == "asked")) == []
    assert {status for status, *_ in cards.batches_of(container)} <= {"composed", "mailed"}
    assert_all_is_printed(container)
