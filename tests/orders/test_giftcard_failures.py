"""Gift cards that nobody issues, that come too late, or whose pieces end: who waits, and what goes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.fulfillment.batches import giftcards as gift_stock
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import COMPOSE
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, IssuerDown
from quillpost.orders.giftcards.service import NEVER_ISSUED
from quillpost.orders.giftcards.tasks import MAX_FAILURES, CardReturns
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock, people
from support.giftcard_orders import (
    VALUE,
    Answers,
    Issuer,
    assert_all_is_printed,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    batches_of,
    card_row,
    compose_all,
    end_reviews,
    free_in_stock,
    give_back,
    load_stock,
    move_items,
    send_giftcards,
    statuses,
    stock_of,
    stocked,
    warnings,
)
from support.orders import item_ids, item_rows, order_row
from support.production import delete_jobs, enqueued_steps
from support.rows import execute, scalars

pytestmark = pytest.mark.usefixtures("clean_database")

WAITS = "wait for gift cards"


def dies(_requests: Sequence[CardRequest], _answers: Answers) -> Answers:
    raise ConnectionResetError


def is_warned(sender: Account, order_id: int, words: str = WAITS) -> bool:
    return any(words in warning for warning in warnings(sender, order_id))


def fail(container: Container, *order_or_pieces: int) -> None:
    move_items(container, order_or_pieces, ItemStatus.FAILED)


# At the press


def test_pieces_without_a_card_wait_and_the_others_go_on(container: Container, clock: Clock, owner: Account) -> None:
    production = stocked(container, 3)
    order = send_giftcards(owner, recipients=people(3))
    [batch] = end_reviews(production, container, clock)
    tracking = sa.select(prints.c.tracking).order_by(prints.c.tracking)
    codes = scalars(container, tracking)
    execute(container, "delete from giftcard_stock where id = (select max(id) from giftcard_stock)")
    compose_all(production, container)
    [(status, pieces, _), (waits, waiting, error)] = batches_of(container)
    assert (status, pieces, waits, waiting) == ("composed", 2, "new", 1)
    assert str(error).startswith("1 piece waits for its gift card. There are no cards of ")
    assert is_warned(owner, order, f"{WAITS} of Brindlewick")
    assert (COMPOSE, {"batch_id": batch + 1}) in enqueued_steps(container)
    compose_all(production, container)
    assert len(batches_of(container)) == 2
    load_stock(container, 1)
    compose_all(production, container)
    assert batches_of(container) == [("composed", 2, None), ("composed", 1, None)]
    assert not is_warned(owner, order)
    assert scalars(container, tracking) == codes
    assert_all_is_printed(container)


def test_an_order_whose_last_pieces_end_waits_no_more(container: Container, clock: Clock, owner: Account) -> None:
    production = stocked(container, 1)
    half, none = send_giftcards(owner, recipients=people(2)), send_giftcards(owner)
    end_reviews(container.production, container, clock)
    compose_all(production, container)
    assert is_warned(owner, half)
    assert is_warned(owner, none)
    fail(container, item_ids(container, half)[1], *item_ids(container, none))
    assert not is_warned(owner, none)
    compose_all(production, container)
    assert not is_warned(owner, half)
    assert [each[:2] for each in batches_of(container)] == [("composed", 1), ("mailed", 0)]
    assert_all_is_well(container)


def test_an_issuer_that_is_down_is_waited_for(container: Container, clock: Clock, owner: Account) -> None:
    def is_down(_requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        raise IssuerDown("The issuer does not answer.")

    send_giftcards(owner)
    production = stocked(container, 1)
    [batch] = end_reviews(production, container, clock)
    delete_jobs(container)
    compose_all(stocked(container, 0, is_down), container)
    assert batches_of(container) == [("new", 1, "The issuer does not answer.")]
    assert enqueued_steps(container) == [(COMPOSE, {"batch_id": batch})]
    compose_all(production, container)
    assert_all_is_printed(container)


def test_a_piece_whose_card_is_refused_fails_and_is_free(container: Container, clock: Clock, owner: Account) -> None:
    def refuses_one(requests: Sequence[CardRequest], answers: Answers) -> Answers:
        return {**answers, requests[0].reference: CardNotIssued("The order was cancelled there.", "never")}

    order, production = send_giftcards(owner, recipients=people(2)), stocked(container, 2, refuses_one)
    end_reviews(production, container, clock)
    compose_all(production, container)
    assert statuses(container) == ["refused", "issued"]
    refused, issued = item_rows(container, order)
    assert (refused.status, refused.failure) == ("Failed", gift_stock.CARD_REFUSED)
    assert (issued.status, issued.failure) == ("Processing", None)
    with container.db.system_transaction() as tx:
        assert_books_agree(tx)
    assert owner.get(f"/orders/{order}").json()["grand_total"] == issued.price_cents + VALUE
    assert_printed_as_issued(container)


def test_a_card_is_requested_of_one_issuer_alone(container: Container, clock: Clock, owner: Account) -> None:
    """Whoever was asked may have issued it, whatever became of the answer."""
    send_giftcards(owner)
    production = stocked(container, 2)
    end_reviews(production, container, clock)
    with pytest.raises(ConnectionResetError):
        compose_all(stocked(container, 0, dies), container)
    compose_all(stocked(container, 0, name="another"), container)
    [(status, _, error)] = batches_of(container)
    assert status == "new"
    assert "asked of stock" in str(error)
    compose_all(production, container)
    assert_all_is_printed(container)


def test_a_card_that_is_ordered_stays_with_its_issuer(container: Container, clock: Clock, owner: Account) -> None:
    """It is paid for there: another would issue a second one, and its own would never be given back."""

    def not_yet(requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        return {card.reference: CardNotIssued("It waits to be approved.", "ordered") for card in requests}

    order, production = send_giftcards(owner), stocked(container, 2)
    [piece] = item_ids(container, order)
    end_reviews(production, container, clock)
    compose_all(stocked(container, 0, not_yet), container)
    assert batches_of(container) == [("new", 1, "1 piece waits for its gift card. It waits to be approved.")]
    assert is_warned(owner, order, "that are not issued yet")
    compose_all(stocked(container, 0, name="another"), container)
    assert (card_row(container, piece).issuer, statuses(container)) == ("stock", ["asked"])
    fail(container, piece)
    compose_all(production, container)
    give_back(container, production)
    assert (statuses(container), free_in_stock(container)) == (["void"], 2)
    refused = owner.put(f"/order-items/{piece}/invalidate-giftcard")
    assert (refused.status_code, NEVER_ISSUED in refused.text) == (400, True)
    assert_all_is_well(container)


def test_an_issuer_without_stock_is_replaced_by_another(container: Container, clock: Clock, owner: Account) -> None:
    [piece], production = item_ids(container, send_giftcards(owner)), stocked(container, 1)
    end_reviews(production, container, clock)
    execute(container, sa.delete(giftcard_stock))
    compose_all(production, container)
    compose_all(stocked(container, 1, name="another"), container)
    assert card_row(container, piece).issuer == "another"
    assert_printed_as_issued(container)


# At the end of the review


def test_an_order_for_which_there_are_too_few_cards_is_held(container: Container, clock: Clock, owner: Account) -> None:
    production = stocked(container, 5)
    send_giftcards(owner, recipients=people(2))
    end_reviews(production, container, clock)
    fits, too_many, fits_too = (send_giftcards(owner, recipients=people(n)) for n in (1, 3, 2))
    plain = owner.send(recipients=people(9)).json()["id"]
    clock.advance(days=1)
    free = gift_stock.read_card_stock(production, now=container.clock())
    assert list(free.values()) == [3], "what is promised is counted before any order is held"
    end_reviews(production, container, clock)
    found = {number: order_row(container, number).status for number in (fits, too_many, fits_too, plain)}
    assert found == dict.fromkeys(found, "processing") | {too_many: "paused"}
    [warning] = [warning for warning in warnings(owner, too_many) if "gift card" in warning]
    assert "needs 3 gift cards of Brindlewick" in warning
    assert "over $25.00, and 2 are free: have it released when there are more, or send" in warning


# What goes back


def test_a_card_that_comes_too_late_is_void_and_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    first, _ = item_ids(container, send_giftcards(owner, recipients=people(2)))

    def first_fails(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        fail(container, first)
        return answers

    production = stocked(container, 2, first_fails)
    end_reviews(production, container, clock)
    compose_all(production, container)
    assert (statuses(container), card_row(container, first).card_sealed) == (["void", "issued"], None)
    with container.db.system_transaction() as tx:
        assert_books_agree(tx)
    give_back(container, production)
    assert free_in_stock(container) == 1
    assert_all_is_printed(container)


def test_a_card_that_comes_after_a_refusal_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    def never(requests: Sequence[CardRequest], _answers: Answers) -> Answers:
        return {card.reference: CardNotIssued("Never.", "never") for card in requests}

    def another_is_refused(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        compose_all(stocked(container, 0, never), container)
        assert statuses(container) == ["refused"]
        return answers

    [piece], production = item_ids(container, send_giftcards(owner)), stocked(container, 1, another_is_refused)
    end_reviews(production, container, clock)
    compose_all(production, container)
    assert (statuses(container), card_row(container, piece).card_sealed) == (["void"], None)
    give_back(container, production)
    assert free_in_stock(container) == 1
    assert_all_is_well(container)


def test_a_card_whose_answer_and_piece_are_lost_goes_back(container: Container, clock: Clock, owner: Account) -> None:
    [piece], production = item_ids(container, send_giftcards(owner)), stocked(container, 1, dies)
    [batch] = end_reviews(production, container, clock)
    with pytest.raises(ConnectionResetError):
        compose_all(production, container)
    fail(container, piece)
    give_back(container, production)
    assert (statuses(container), free_in_stock(container)) == (["asked"], 0)  # who composes may be about to ask
    batch_tasks.compose_batch(production, batch, now=container.clock())
    give_back(container, production)
    assert (statuses(container), free_in_stock(container)) == (["void"], 1)
    assert_all_is_well(container)


@dataclass(frozen=True)
class OddIssuer(Issuer):
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
    production = stocked(container, how_many)
    end_reviews(production, container, clock)
    compose_all(production, container)
    fail(container, *pieces)
    return [str(card_row(container, piece).reference) for piece in pieces]


def test_cards_that_always_fail_are_skipped_and_an_issuer_that_is_down_is_left_alone(
    container: Container, clock: Clock, owner: Account
) -> None:
    references = void_cards(container, clock, owner, MAX_FAILURES + 2)
    issuer = OddIssuer(stock_of(container), refused=set(references[:MAX_FAILURES]))
    returns = CardReturns(container.db, {"test": issuer})
    for calls, free in ((MAX_FAILURES, 0), (len(references), 2)):
        returns.return_cards(now=container.clock())
        assert (len(issuer.calls), free_in_stock(container)) == (calls, free)
    issuer.refused.clear()
    returns.return_cards(now=container.clock())
    assert free_in_stock(container) == len(references)


def test_void_cards_go_back_once_their_issuer_is_there(container: Container, clock: Clock, owner: Account) -> None:
    references = void_cards(container, clock, owner, 3)
    issuer = OddIssuer(stock_of(container), refused={references[1]})
    returns = CardReturns(container.db, {"test": issuer})
    returns.return_cards(now=container.clock())
    assert free_in_stock(container) == 2, "one that fails is in nobody's way"
    issuer.refused.clear()
    for _ in range(2):
        returns.return_cards(now=container.clock())
    assert (free_in_stock(container), len(issuer.calls)) == (3, 4)
    assert set(scalars(container, "select card_sealed from giftcards")) == {None}


def test_cards_of_another_issuer_are_left_and_logged_once(container: Container, clock: Clock, owner: Account) -> None:
    void_cards(container, clock, owner, 1)
    returns = CardReturns(container.db, {"test": Issuer(stock_of(container), name="another")})
    with capture_logs() as logs:
        for _ in range(2):
            returns.return_cards(now=container.clock())
    assert [line["event"] for line in logs] == ["giftcards.issuer_not_configured"]
    assert (free_in_stock(container), scalars(container, "select given_back_at from giftcards")) == (0, [None])
