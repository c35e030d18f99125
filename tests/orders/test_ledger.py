"""The ledger over the whole life of an order."""

from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.errors import Refused
from quillpost.orders import changes
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import FINAL_STATUSES, ItemStatus
from support.factories import people, person
from support.orders import CENTS, balances, create_order, end_review, item_ids, item_rows, order_row
from support.rows import execute

S = ItemStatus
FATES: dict[str, list[ItemStatus]] = {
    "undeliverable": [S.FAILED],
    "spoiled in printing": [S.FAILED],
    "lost": [S.PRINTED, S.IN_TRANSIT, S.FAILED],
    "delivered": [S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.DELIVERED],
    "returned": [S.PRINTED, S.IN_TRANSIT, S.RE_ROUTED, S.RETURNED_TO_SENDER],
}


@dataclass(frozen=True)
class Life:
    """What becomes of an order: each piece's fate, who is refused at once, and how steps fall together."""

    fates: list[str]
    refused: int
    is_cancelled: bool
    together: int


LIVES = st.builds(
    Life,
    fates=st.lists(st.sampled_from(sorted(FATES)), min_size=0, max_size=6),
    refused=st.integers(0, 2),
    is_cancelled=st.booleans(),
    together=st.integers(1, 8),
).filter(lambda life: life.fates or life.refused)


def place_for(container: Container, caller: Caller, life: Life) -> Order:
    nowhere = [{"name": "Nobody", "email": f"n{n}@example.com"} for n in range(life.refused)]
    return create_order(container, caller, [*people(len(life.fates)), *nowhere])


def move(container: Container, moves: list[StatusChange]) -> None:
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, moves, now=container.clock())


def live_out(container: Container, order: Order, life: Life) -> None:
    """Step by step, some pieces at a time; every step happens twice, as after a crash."""
    ids = item_ids(container, order)
    for step in range(max(map(len, FATES.values()))):
        due = [
            StatusChange(item_id, FATES[fate][step], reason="so it went")
            for item_id, fate in zip(ids, life.fates, strict=False)
            if step < len(FATES[fate])
        ]
        for start in range(0, len(due), life.together):
            for _ in range(2):
                move(container, due[start : start + life.together])
                check_books(container, order)


def check_books(container: Container, order: Order) -> None:
    """Held is what is still to be made, earned what was made and not lost; no cent is anywhere else."""
    found, pieces = balances(container, order), item_rows(container, order)
    total = order_row(container, order).order_total
    waiting = sum(piece.price_cents for piece in pieces if piece.status == S.PROCESSING)
    made = sum(piece.price_cents for piece in pieces if piece.status not in (S.PROCESSING, S.FAILED))
    assert found == {"credit": -(waiting + made), "held": waiting, "earned": made}
    assert total == waiting + made


@given(life=LIVES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_order_that_has_ended_holds_nothing_and_cost_what_was_earned(
    container: Container, caller: Caller, life: Life
) -> None:
    order = place_for(container, caller, life)
    check_books(container, order)
    if life.is_cancelled:
        with container.db.transaction(build_tenant(caller)) as tx:
            changes.cancel_order(tx, order.id, now=container.clock())
    else:
        end_review(container, order)
        live_out(container, order, life)
    check_books(container, order)
    earning = sum(FATES[fate][-1] is not S.FAILED for fate in life.fates) * (not life.is_cancelled)
    assert {piece.status for piece in item_rows(container, order)} <= set(FINAL_STATUSES)
    assert balances(container, order) == {"credit": -earning * CENTS, "held": 0, "earned": earning * CENTS}
    assert order_row(container, order).order_total == earning * CENTS
    assert order_row(container, order).authorization_total == len(life.fates) * CENTS


def kinds(container: Container, order: Order) -> list[tuple[str, int]]:
    moves = sa.select(ledger_moves.c.kind, ledger_moves.c.cents).where(ledger_moves.c.order_id == order.id)
    return execute(container, moves.order_by(ledger_moves.c.kind))


def test_a_cancelled_order_gives_everything_back_once(container: Container, caller: Caller) -> None:
    order = create_order(container, caller, people(3))
    with container.db.transaction(build_tenant(caller)) as tx:
        changes.cancel_order(tx, order.id, now=container.clock())
    with container.db.transaction(build_tenant(caller)) as tx, pytest.raises(Refused, match="it is Cancelled"):
        changes.cancel_order(tx, order.id, now=container.clock())
    assert kinds(container, order) == [("authorise", 3 * CENTS), ("release", 3 * CENTS)]


def test_pieces_that_move_together_are_one_entry(container: Container, caller: Caller) -> None:
    order = create_order(container, caller, people(3))
    end_review(container, order)
    lost, *printed = item_ids(container, order)
    move(container, [StatusChange(lost, S.FAILED), *(StatusChange(n, S.PRINTED) for n in printed)])
    assert kinds(container, order) == [("authorise", 3 * CENTS), ("capture", 2 * CENTS), ("release", CENTS)]


def test_refused_recipients_and_doubles_are_not_paid_for(container: Container, caller: Caller) -> None:
    refused = create_order(container, caller, [{"email": "jane@example.com"}])
    assert (kinds(container, refused), order_row(container, refused).authorization_total) == ([], 0)
    double = create_order(container, caller, [person(), person(company="Same Door")])
    assert kinds(container, double) == [("authorise", CENTS)]


def test_an_entry_cannot_be_written_twice(container: Container, caller: Caller) -> None:
    order = create_order(container, caller)
    [entry] = execute(container, sa.select(ledger_moves).where(ledger_moves.c.order_id == order.id))
    again = {name: value for name, value in entry._mapping.items() if name != "id"}
    with pytest.raises(sa.exc.IntegrityError, match="ledger_moves_key_key"):
        execute(container, sa.insert(ledger_moves).values(**again))
