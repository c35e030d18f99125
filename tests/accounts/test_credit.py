"""Credit and prices: what an account may spend."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import Tariff, UnitPrice, build_tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, facts, ledger_moves, orders
from quillpost.core.database.tables.orders import account_credit, account_spending
from quillpost.core.errors import Conflict, Refused, Unpaid
from quillpost.orders import changes
from quillpost.orders.queries import read_order
from quillpost.orders.tasks import materialize_order
from support.factories import make_sub_account, people, person
from support.mailing_lists import add_people, make_list, make_order
from support.orders import CENTS, balances, create_order, open_account, order_row
from support.rows import execute, run, run_as


def price(country: str, cents: int, since: date) -> UnitPrice:
    return UnitPrice("postcard", "4x6", "first", country, cents, since)


OLD, NEW, LATER = date(2026, 1, 1), date(2026, 7, 1), date(2027, 1, 1)
LIST = [price("US", 109, OLD), price("US", 115, NEW), price("US", 120, LATER), price("*", 219, OLD)]


def test_a_price_holds_from_its_day_in_its_country_until_the_next(subtests: pytest.Subtests) -> None:
    cases = [
        (date(2026, 1, 1), 109), (date(2026, 6, 30), 109), (date(2026, 7, 1), 115), (date(2026, 12, 31), 115),
        (date(2027, 1, 1), 120), (date(2099, 1, 1), 120), (date(2025, 12, 31), None),
    ]  # fmt: skip
    for day, cents in cases:
        with subtests.test(str(day)):
            assert build_tariff(LIST, day).unit_cents("US") == cents
    assert build_tariff(LIST, date(2025, 12, 31)) == Tariff({}), "before the first price nothing is offered"
    assert build_tariff(LIST, OLD).unit_cents("CA") == 219
    prices = [price("CA", 150, OLD), price("*", 219, NEW)]
    assert build_tariff(prices, NEW).unit_cents("CA") == 150, "even when the rest is newer"
    assert build_tariff([price("US", 94, OLD)], OLD).unit_cents("CA") is None, "not offered"
    assert build_tariff([price("US", 0, OLD)], OLD).unit_cents("US") == 0, "a piece may be free"


@given(order=st.permutations(LIST))
def test_the_order_of_the_list_does_not_matter(order: list[UnitPrice]) -> None:
    assert build_tariff(order, date(2026, 8, 1)) == Tariff({"US": 115, "*": 219})


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container, mode="live")


def pay_in(container: Container, caller: Caller, cents: int, key: str = "first") -> int:
    with container.db.system_transaction() as tx:
        return billing_service.deposit(tx, caller.account_id, cents=cents, key=key, note=None, now=container.clock())


def moves_of(container: Container, caller: Caller) -> list[Any]:
    its = (ledger_moves.c.account_id == caller.account_id, ledger_moves.c.mode == caller.mode)
    return execute(container, sa.select(ledger_moves).where(*its).order_by(ledger_moves.c.id))


def credit(container: Container, caller: Caller) -> int:
    """As it is kept, which is what the ledger alone tells."""
    kept = run(container, billing_service.read_account_credit, caller.account_id, caller.mode)
    moves = moves_of(container, caller)
    assert kept == sum(move.cents * ((move.target == "credit") - (move.source == "credit")) for move in moves)
    return kept


def cancel(container: Container, caller: Caller, order_id: int) -> None:
    run_as(container, caller, changes.cancel_order, order_id, now=container.clock())


def test_what_is_paid_in_once_is_credit_and_no_more_is_taken_out(container: Container, owner: Caller) -> None:
    assert [pay_in(container, owner, 1_000, "invoice 7") for _ in range(2)] == [1_000, 1_000]
    [move] = moves_of(container, owner)
    assert (move.kind, move.source, move.target, move.mode) == ("deposit", "paid", "credit", "live")
    assert (move.order_id, move.sub_account_id, move.cents) == (None, None, 1_000)
    with pytest.raises(Conflict, match=r"invoice 7 was used for a deposit of \$10\.00"):
        pay_in(container, owner, 1_001, "invoice 7")
    stranger = open_account(container, "stranger@example.com", mode="live")
    assert (pay_in(container, stranger, 700, "invoice 7"), credit(container, owner)) == (700, 1_000)

    def take_out(cents: int, key: str) -> int:
        how = {"cents": cents, "key": key, "note": "closed", "now": container.clock()}
        return run(container, billing_service.withdraw, owner.account_id, **how)  # type: ignore[arg-type]

    with pytest.raises(Refused, match=r"credit of \$10\.00 does not cover a withdrawal of \$10\.01"):
        take_out(1_001, "a")
    assert ([take_out(900, "b"), take_out(900, "b")], credit(container, owner)) == ([100, 100], 100)
    kinds = [(move.kind, move.note) for move in moves_of(container, owner)]
    assert kinds == [("deposit", None), ("withdrawal", "closed")]


def test_a_free_order_needs_no_credit_and_a_stranger_s_is_not_ours(container: Container, owner: Caller) -> None:
    pay_in(container, open_account(container, "rich@example.com", mode="live"), 100_000)
    create_order(container, owner, [{"email": "jane@example.com"}], needs_credit=True)
    with pytest.raises(Unpaid):
        create_order(container, owner, needs_credit=True)


def test_senders_at_the_same_moment_never_spend_more_than_there_is(container: Container, owner: Caller) -> None:
    senders, affordable = 8, 3
    pay_in(container, owner, affordable * CENTS + CENTS // 2)
    start = Barrier(senders)

    def send(n: int) -> bool:
        start.wait()
        try:
            create_order(container, owner, [person(address=f"{n} Elm St")], needs_credit=True)
        except Unpaid:
            return False
        return True

    with ThreadPoolExecutor(senders) as crowd:
        assert sum(crowd.map(send, range(senders))) == affordable
    assert credit(container, owner) == CENTS // 2


def test_whoever_is_limited_to_a_sub_account_spends_the_account_s_credit(container: Container, owner: Caller) -> None:
    branch = make_sub_account(container, owner)
    limited = Caller(owner.account_id, "live", sub_account_id=branch)
    pay_in(container, owner, CENTS)
    create_order(container, limited, sub_account_id=branch, needs_credit=True)
    with pytest.raises(Unpaid, match=r"credit of \$0\.00"):
        create_order(container, limited, sub_account_id=branch, needs_credit=True)
    with container.db.transaction(build_tenant(limited)) as tx:
        assert tx.execute(sa.select(account_credit.c.cents)).scalars().all() == [-CENTS]


def listed_order(container: Container, caller: Caller, *, held: int, now_on_it: int) -> int:
    list_id = make_list(container, caller, people(held))
    order_id = make_order(container, caller, list_id, authorised=held * CENTS)
    add_people(container, list_id, [person(address=f"{n} Oak St") for n in range(now_on_it - held)])
    return order_id


def materialize(container: Container, order_id: int, modes: set[str]) -> Any:
    materialize_order(container.db, order_id, needs_credit=modes, now=container.clock())
    [order] = execute(container, sa.select(orders).where(orders.c.id == order_id))
    return order


def test_an_order_that_has_outgrown_the_credit_waits_and_says_why(container: Container, owner: Caller) -> None:
    pay_in(container, owner, 3 * CENTS)
    order_id = listed_order(container, owner, held=2, now_on_it=4)
    order = materialize(container, order_id, {"live"})
    assert (order.status, order.recipient_count, order.audience_pending) == ("paused", 4, False)
    assert order.hold_reasons == [
        "Its lists have grown since it was sent, and the account's credit of $1.09 does not cover the $2.18"
        " that this adds: add credit, or cancel the order."
    ]
    its = (facts.c.kind == "order.status", facts.c.order_id == order_id)
    *_, fact = execute(container, sa.select(facts).where(*its).order_by(facts.c.id))
    assert (fact.previous, fact.current) == ("reviewing", "paused")
    with container.db.system_transaction() as tx:
        books = balances(tx, read_order(tx, order_id))
    assert books == {"credit": -4 * CENTS, "held": 4 * CENTS, "earned": 0}
    assert credit(container, owner) == -CENTS
    cancel(container, owner, order_id)
    assert credit(container, owner) == 3 * CENTS


def test_an_order_that_is_covered_or_need_not_be_goes_on(container: Container, subtests: pytest.Subtests) -> None:
    for paid, modes in ((4, {"live"}), (2, set[str]()), (2, {"test"})):
        with subtests.test(f"{paid} paid, credit needed in {modes}"):
            owner = open_account(container, f"{paid}{modes}@example.com", mode="live")
            pay_in(container, owner, paid * CENTS)
            order = materialize(container, listed_order(container, owner, held=2, now_on_it=4), modes)
            assert (order.status, order.hold_reasons) == ("reviewing", [])
            assert credit(container, owner) == (paid - 4) * CENTS


def test_an_order_that_has_shrunk_needs_no_credit(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(1)), authorised=2 * CENTS)
    assert materialize(container, order_id, {"live"}).status == "reviewing"
    assert credit(container, owner) == -CENTS


def test_credit_follows_moves_that_are_changed_or_removed(container: Container, owner: Caller) -> None:
    pay_in(container, owner, 1_000)
    order = create_order(container, owner, people(2))
    deposits = (ledger_moves.c.account_id == owner.account_id, ledger_moves.c.kind == "deposit")
    execute(container, sa.update(ledger_moves).where(*deposits).values(cents=400))
    assert credit(container, owner) == 400 - 2 * CENTS
    execute(container, sa.delete(orders).where(orders.c.id == order.id))
    assert credit(container, owner) == 400


@pytest.mark.usefixtures("clean_database")
def test_an_account_that_goes_takes_its_credit_along(container: Container, owner: Caller) -> None:
    create_order(container, owner)
    execute(container, sa.delete(accounts))
    assert [execute(container, sa.select(table)) for table in (account_credit, account_spending)] == [[], []]


def test_a_deposit_belongs_to_no_order(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    move = {
        "account_id": owner.account_id, "mode": "live", "order_id": order.id, "kind": "deposit", "source": "paid",
        "target": "credit", "cents": 1, "key": "odd", "at": container.clock(),
    }  # fmt: skip
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).order_total == CENTS
        with pytest.raises(sa.exc.IntegrityError, match="ledger_moves_payment_check"):
            tx.execute(sa.insert(ledger_moves).values(move))
        tx.rollback()
