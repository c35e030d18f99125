"""Credit: kept with the ledger and, where it is controlled, never less than what is taken of it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from listing import add_people, make_branch, make_list, make_order
from placing import CENTS, balances, open_account, order_row, place

from makers import count_rows, people, person
from quillpost.accounts.billing import credit
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import accounts, facts, ledger_moves, orders
from quillpost.core.database.tables.counters import account_credit, account_spending
from quillpost.core.errors import Conflict, Refused, Unpaid
from quillpost.orders import create
from quillpost.orders.items import read_order
from quillpost.orders.materialization import materialise

SENDERS = 8


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts, mode="live")


def pay_in(parts: Parts, who: Caller, cents: int, key: str = "first") -> int:
    with parts.db.work() as tx:
        return credit.deposit(tx, who.account_id, cents=cents, key=key, note=None, now=parts.clock())


def has(parts: Parts, who: Caller) -> int:
    with parts.db.work() as tx:
        return credit.credit_of(tx, who.account_id, who.mode)


def in_the_ledger(parts: Parts, who: Caller) -> int:
    """The credit as the ledger alone tells it."""
    with parts.db.work() as tx:
        moves = tx.execute(
            sa.select(ledger_moves).where(
                ledger_moves.c.account_id == who.account_id, ledger_moves.c.mode == who.mode
            )
        ).all()
    return sum(m.cents * ((m.target == "credit") - (m.source == "credit")) for m in moves)


def order_of(parts: Parts, order_id: int) -> sa.Row[Any]:
    with parts.db.work() as tx:
        return tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()


def test_what_is_paid_in_is_credit_and_comes_from_outside(parts: Parts, owner: Caller) -> None:
    assert pay_in(parts, owner, 10_000) == 10_000
    with parts.db.work() as tx:
        [move] = tx.execute(sa.select(ledger_moves)).all()
    assert (move.kind, move.source, move.target, move.mode) == ("deposit", "paid", "credit", "live")
    assert (move.order_id, move.sub_account_id, move.cents) == (None, None, 10_000)


def test_a_payment_that_is_repeated_under_its_key_happens_once(parts: Parts, owner: Caller) -> None:
    assert [pay_in(parts, owner, 500, "invoice 7") for _ in range(2)] == [500, 500]
    with pytest.raises(Conflict, match=r"invoice 7 was used for a deposit of \$5\.00"):
        pay_in(parts, owner, 501, "invoice 7")
    stranger = open_account(parts, "stranger@example.com", mode="live")
    assert pay_in(parts, stranger, 700, "invoice 7") == 700
    assert has(parts, owner) == in_the_ledger(parts, owner) == 500


def test_no_more_is_taken_out_than_there_is(parts: Parts, owner: Caller) -> None:
    pay_in(parts, owner, 1_000)

    def take_out(cents: int, key: str) -> int:
        with parts.db.work() as tx:
            return credit.withdraw(
                tx, owner.account_id, cents=cents, key=key, note="closed", now=parts.clock()
            )

    with pytest.raises(Refused, match=r"credit of \$10\.00 does not cover a withdrawal of \$10\.01"):
        take_out(1_001, "a")
    assert [take_out(900, "b"), take_out(900, "b")] == [100, 100]
    assert has(parts, owner) == in_the_ledger(parts, owner) == 100
    with parts.db.work() as tx:
        kinds = tx.execute(sa.select(ledger_moves.c.kind, ledger_moves.c.note).order_by(ledger_moves.c.id))
        assert [tuple(row) for row in kinds] == [("deposit", None), ("withdrawal", "closed")]


def test_an_order_beyond_the_credit_leaves_nothing_behind(parts: Parts, owner: Caller) -> None:
    pay_in(parts, owner, 2 * CENTS)
    before = count_rows(parts)
    with pytest.raises(Unpaid) as refused:
        place(parts, owner, people(3), needs_credit=True)
    assert refused.value.message == (
        "The account's credit of $2.18 does not cover this order of $3.27:"
        " add credit, or send to fewer people."
    )
    assert count_rows(parts) == before
    place(parts, owner, people(2), needs_credit=True)
    assert has(parts, owner) == in_the_ledger(parts, owner) == 0


def test_a_free_order_needs_no_credit(parts: Parts, owner: Caller) -> None:
    place(parts, owner, [{"email": "jane@example.com"}], needs_credit=True)


def test_what_is_given_back_can_be_spent_again(parts: Parts, owner: Caller) -> None:
    pay_in(parts, owner, CENTS)
    order = place(parts, owner, needs_credit=True)
    with parts.db.transaction(tenant(owner)) as tx:
        create.cancel(tx, order.id, now=parts.clock())
    place(parts, owner, needs_credit=True)


def test_senders_at_the_same_moment_never_spend_more_than_there_is(parts: Parts, owner: Caller) -> None:
    affordable = 3
    pay_in(parts, owner, affordable * CENTS + CENTS // 2)
    start = Barrier(SENDERS)

    def send(n: int) -> bool:
        start.wait()
        try:
            place(parts, owner, [person(address=f"{n} Elm St")], needs_credit=True)
        except Unpaid:
            return False
        return True

    with ThreadPoolExecutor(SENDERS) as crowd:
        assert sum(crowd.map(send, range(SENDERS))) == affordable
    assert has(parts, owner) == in_the_ledger(parts, owner) == CENTS // 2


def test_whoever_is_limited_to_a_sub_account_spends_the_whole_account_s_credit(
    parts: Parts, owner: Caller
) -> None:
    branch = make_branch(parts, owner)
    limited = Caller(owner.account_id, "live", sub_account_id=branch)
    pay_in(parts, owner, CENTS)
    place(parts, limited, sub_account_id=branch, needs_credit=True)
    with pytest.raises(Unpaid, match=r"credit of \$0\.00"):
        place(parts, limited, sub_account_id=branch, needs_credit=True)
    with parts.db.transaction(tenant(limited)) as tx:
        assert tx.execute(sa.select(account_credit.c.cents)).scalars().all() == [-CENTS]


def test_a_stranger_s_credit_is_not_ours(parts: Parts, owner: Caller) -> None:
    pay_in(parts, open_account(parts, "rich@example.com", mode="live"), 100_000)
    with pytest.raises(Unpaid):
        place(parts, owner, needs_credit=True)


# Lists that have grown


def listed_order(parts: Parts, who: Caller, *, held: int, now_on_it: int) -> int:
    list_id = make_list(parts, who, people(held))
    order_id = make_order(parts, who, list_id, authorised=held * CENTS)
    add_people(parts, list_id, [person(address=f"{n} Oak St") for n in range(now_on_it - held)])
    return order_id


def test_an_order_that_has_outgrown_the_credit_waits_and_says_why(parts: Parts, owner: Caller) -> None:
    pay_in(parts, owner, 3 * CENTS)
    order_id = listed_order(parts, owner, held=2, now_on_it=4)
    materialise(parts.db, order_id, needs_credit={"live"}, now=parts.clock())
    order = order_of(parts, order_id)
    assert (order.status, order.recipient_count, order.audience_pending) == ("paused", 4, False)
    assert order.hold_reasons == [
        "Its lists have grown since it was sent, and the account's credit of $1.09 does not cover the $2.18"
        " that this adds: add credit, or cancel the order."
    ]
    with parts.db.work() as tx:
        told = tx.execute(sa.select(facts).where(facts.c.kind == "order.status").order_by(facts.c.id)).all()
        assert [(fact.previous, fact.current) for fact in told][-1] == ("reviewing", "paused")
        books = balances(tx, read_order(tx, order_id))
        assert books == {"credit": -4 * CENTS, "held": 4 * CENTS, "earned": 0}
    assert has(parts, owner) == in_the_ledger(parts, owner) == -CENTS
    with parts.db.transaction(tenant(owner)) as tx:
        create.cancel(tx, order_id, now=parts.clock())
    assert has(parts, owner) == 3 * CENTS


@pytest.mark.parametrize(("paid", "modes"), [(4, {"live"}), (2, set()), (2, {"test"})])
def test_an_order_that_is_covered_or_need_not_be_goes_on(
    parts: Parts, owner: Caller, paid: int, modes: set[str]
) -> None:
    pay_in(parts, owner, paid * CENTS)
    order_id = listed_order(parts, owner, held=2, now_on_it=4)
    materialise(parts.db, order_id, needs_credit=modes, now=parts.clock())
    order = order_of(parts, order_id)
    assert (order.status, order.hold_reasons) == ("reviewing", [])
    assert has(parts, owner) == (paid - 4) * CENTS


def test_an_order_that_has_shrunk_needs_no_credit(parts: Parts, owner: Caller) -> None:
    order_id = make_order(parts, owner, make_list(parts, owner, people(1)), authorised=2 * CENTS)
    materialise(parts.db, order_id, needs_credit={"live"}, now=parts.clock())
    assert order_of(parts, order_id).status == "reviewing"
    assert has(parts, owner) == in_the_ledger(parts, owner) == -CENTS


# Kept with the ledger


def test_credit_follows_moves_that_are_changed_or_removed(parts: Parts, owner: Caller) -> None:
    pay_in(parts, owner, 1_000)
    order = place(parts, owner, people(2))
    with parts.db.work() as tx:
        tx.execute(sa.update(ledger_moves).where(ledger_moves.c.kind == "deposit").values(cents=400))
    assert has(parts, owner) == in_the_ledger(parts, owner) == 400 - 2 * CENTS
    with parts.db.work() as tx:
        tx.execute(sa.delete(orders).where(orders.c.id == order.id))
    assert has(parts, owner) == in_the_ledger(parts, owner) == 400


def test_an_account_that_goes_takes_its_credit_along(parts: Parts, owner: Caller) -> None:
    place(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.delete(accounts))
        assert tx.execute(sa.select(account_credit)).all() == []
        assert tx.execute(sa.select(account_spending)).all() == []


def test_a_deposit_belongs_to_no_order(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner)
    with parts.db.work() as tx:
        assert order_row(tx, order).order_total == CENTS
        with pytest.raises(sa.exc.IntegrityError, match="ledger_moves_payment_check"):
            tx.execute(
                sa.insert(ledger_moves).values(
                    account_id=owner.account_id,
                    mode="live",
                    order_id=order.id,
                    kind="deposit",
                    source="paid",
                    target="credit",
                    cents=1,
                    key="odd",
                    at=parts.clock(),
                )
            )
        tx.rollback()
