"""Testing mode with losses: scans are missed, late and repeated, pieces go wrong, and yet every one ends."""

from collections import Counter

import pytest
from sqlalchemy import text

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.factories import Build, Clock, make_account, people, run_jobs_for
from support.test_client import TestClient

JOURNEY = 16
BOOKS = text(
    """select coalesce(sum(case book when 'earned' then cents end), 0) as earned,
              coalesce(sum(case book when 'held' then cents end), 0) as held
         from (select target as book, cents from ledger_moves
               union all select source, -cents from ledger_moves) moves"""
)
PIECES = text("select status, delivery_inferred, is_over, price_cents from items")


@pytest.mark.parametrize(("losses", "seed"), [(0.3, 1), (1.0, 2)])
def test_every_piece_ends_and_the_books_say_the_same(build: Build, clock: Clock, losses: float, seed: int) -> None:
    container = build(test_losses=losses, test_seed=seed, test_journey_seconds=JOURNEY)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        sent = owner.send(recipients=people(60))
        assert sent.status_code == 200, sent.text
        run_jobs_for(container, clock, seconds=10 + 4 * JOURNEY)
        order = owner.get(f"/orders/{sent.json()['id']}").json()
    with container.db.system_transaction() as tx:
        pieces, books = tx.execute(PIECES).all(), tx.execute(BOOKS).one()
    ends = Counter(piece.status for piece in pieces)
    assert ends.keys() <= {"Delivered", "Returned to Sender", "Failed", "Re-routed"}
    assert all(piece.is_over for piece in pieces if piece.status == "Re-routed")
    assert any(piece.delivery_inferred for piece in pieces)
    assert order["status"] == "Fulfilled"
    paid = sum(piece.price_cents for piece in pieces if piece.status != "Failed")
    assert (books.earned, books.held, order["order_total"]) == (paid, 0, paid)
    assert _unsettled(container) == 0


def test_a_delivery_is_inferred_in_testing_mode_only_where_something_may_get_lost(build: Build) -> None:
    container = build(test_losses=0.0)
    assert container.environments["test"].infer_delivery_after is None
    assert container.environments["test"].infer_unseen_delivery_after is None
    lossy = build(test_losses=0.1, test_journey_seconds=JOURNEY).environments["test"]
    assert lossy.infer_delivery_after is not None
    assert lossy.infer_delivery_after.total_seconds() == JOURNEY


def _unsettled(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(text("select count(*) from batches where settled_at is null")).scalar_one())
