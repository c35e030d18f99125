"""The account: its credit and its usage, by mode and by sub account."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, ledger_moves, orders
from support.factories import Account, make_account, make_sub_account, make_teammate
from support.tenant_rows import insert_least

IN_APRIL, IN_MAY = datetime(2026, 4, 30, 23, 59, 59, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
NOTHING = {"month": "2026-05", "orders": 0, "pieces": 0, "spent": 0}


def add_order(container: Container, account: Account, *, status: str = "fulfilled", **columns: Any) -> None:
    known = {"account_id": account.id, "mode": "test", "created_at": IN_MAY} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, orders, known)
        tx.execute(sa.update(orders).where(orders.c.id == made).values(status=status))


def add_move(container: Container, account: Account, kind: str, cents: int, **columns: Any) -> None:
    books = {
        "authorise": ("credit", "held"),
        "capture": ("held", "earned"),
        "release": ("held", "credit"),
        "refund": ("earned", "credit"),
    }
    source, target = books[kind]
    known = {"account_id": account.id, "mode": "test", "at": IN_MAY, "source": source, "target": target} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, ledger_moves, known)
        row = sa.update(ledger_moves).where(ledger_moves.c.id == made)
        tx.execute(row.values(kind=kind, cents=cents))


def test_an_account_that_has_done_nothing(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(company="Whitfield Homes"))
    read = owner.get("/account")
    assert (read.status_code, read.json()) == (
        200,
        {
            "id": owner.id,
            "name": "Dana Whitfield",
            "email": "owner@example.com",
            "company": "Whitfield Homes",
            "mode": "test",
            "test_mode": True,
            "credit": 0,
            "usage": NOTHING,
            "live_ready": False,
            "live_readiness": [
                "There is no public web address for QR codes.",
                "There is no postage permit for first-class mail.",
                "There is no postage permit for standard mail.",
                "There is no mailer ID for tracking barcodes.",
                "No print partner is connected.",
                "Your account has no return address. Add one, or give one with each order.",
            ],
        },
    )


def test_credit_is_what_came_in_less_what_is_held_or_spent(
    owner: Account, stranger: Account, container: Container
) -> None:
    for kind, cents, at in (
        ("authorise", 1_000, IN_APRIL),
        ("capture", 300, IN_APRIL),
        ("capture", 500, IN_MAY),
        ("release", 200, IN_MAY),
        ("refund", 50, IN_MAY),
    ):
        add_move(container, owner, kind, cents, at=at)
    add_move(container, stranger, "authorise", 7)
    read = owner.get("/account").json()
    assert (read["credit"], read["usage"]["spent"]) == (-1_000 + 200 + 50, 500 - 50)
    assert stranger.get("/account").json()["credit"] == -7


def test_usage_counts_this_month_without_what_was_cancelled_or_failed(
    owner: Account, stranger: Account, container: Container
) -> None:
    add_order(container, owner, recipient_count=5, n_failed=2)
    add_order(container, owner, recipient_count=10, status="reviewing")
    add_order(container, owner, recipient_count=4, n_failed=4, status="cancelled")
    add_order(container, owner, recipient_count=100, created_at=IN_APRIL)
    add_order(container, stranger, recipient_count=1_000)
    assert owner.get("/account").json()["usage"] == NOTHING | {"orders": 2, "pieces": 13}


def test_test_and_live_have_books_of_their_own(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        token = insert_token(tx, owner.id, mode="live", name="live", now=container.clock())[1]
    add_order(container, owner, recipient_count=3, mode="live")
    add_move(container, owner, "authorise", 327, mode="live")
    live = replace(owner, token=token).get("/account").json()
    assert (live["mode"], live["test_mode"], live["credit"]) == ("live", False, -327)
    assert live["usage"] == NOTHING | {"orders": 1, "pieces": 3}
    test = owner.get("/account").json()
    assert (test["credit"], test["usage"]) == (0, NOTHING)


def test_a_token_of_one_sub_account_sees_that_one_s_usage(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    for home, pieces in ((branch, 3), (None, 7)):
        add_order(container, owner, recipient_count=pieces, sub_account_id=home)
        add_move(container, owner, "capture", pieces * 100, sub_account_id=home)
    mine = make_teammate(container, owner, branch).get("/account").json()
    assert mine["usage"] == NOTHING | {"orders": 1, "pieces": 3, "spent": 300}
    assert owner.get("/account").json()["usage"] == NOTHING | {"orders": 2, "pieces": 10, "spent": 1_000}


def test_a_placed_order_shows_in_credit_and_usage(owner: Account) -> None:
    held = owner.send().json()["authorization_total"]
    read = owner.get("/account").json()
    assert held > 0
    assert (read["credit"], read["usage"]) == (-held, NOTHING | {"orders": 1, "pieces": 1})


@pytest.mark.parametrize(("scope", "status"), [("account:read", 200), ("account:write", 403)])
def test_the_account_takes_its_scope(owner: Account, container: Container, scope: str, status: int) -> None:
    limited = make_account(container, owner.http, "limited@example.com", scopes=[scope])
    assert limited.get("/account").status_code == status
