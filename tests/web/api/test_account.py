"""The account: its credit, its usage by mode and by sub account, and whether it can send live mail."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, ledger_moves, orders, prices
from quillpost.web.application import create_app
from support.factories import (
    Account,
    Build,
    Clock,
    make_account,
    make_live,
    make_sub_account,
    make_teammate,
    person,
    postcard,
    read_warnings,
    run_due_jobs,
)
from support.mailing_lists import ListOwner
from support.print_room import HOME
from support.production import LIVE_SETTINGS
from support.tenant_rows import insert_least
from support.test_client import TestClient

IN_APRIL, IN_MAY = datetime(2026, 4, 30, 23, 59, 59, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
NOTHING = {"month": "2026-05", "orders": 0, "pieces": 0, "spent": 0}
BOOKS = {
    "authorise": ("credit", "held"),
    "capture": ("held", "earned"),
    "release": ("held", "credit"),
    "refund": ("earned", "credit"),
}
PAUSES = "Live mail isn't ready yet, so this order will be paused when its review ends."
NO_ADDRESS = "Your account has no return address. Add one, or give one with each order."
NO_PARTNER = "No print partner is connected."


def add_order(container: Container, account: Account, *, status: str = "fulfilled", **columns: Any) -> None:
    known = {"account_id": account.id, "mode": "test", "created_at": IN_MAY} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, orders, known)
        tx.execute(sa.update(orders).where(orders.c.id == made).values(status=status))


def add_move(container: Container, account: Account, kind: str, cents: int, **columns: Any) -> None:
    source, target = BOOKS[kind]
    known = {"account_id": account.id, "mode": "test", "at": IN_MAY, "source": source, "target": target} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, ledger_moves, known)
        tx.execute(sa.update(ledger_moves).where(ledger_moves.c.id == made).values(kind=kind, cents=cents))


def change_account(container: Container, account: Account, **columns: Any) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == account.id).values(**columns))


def test_an_account_that_has_done_nothing(owner: Account, container: Container) -> None:
    change_account(container, owner, company="Whitfield Homes")
    read = owner.get("/account")
    assert read.status_code == 200
    assert read.json() == {
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
            NO_PARTNER,
            NO_ADDRESS,
        ],
    }


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


def test_usage_counts_what_was_mailed_this_month_in_its_mode_and_sub_account(
    owner: Account, stranger: Account, container: Container
) -> None:
    branch = make_sub_account(container, owner)
    add_order(container, owner, recipient_count=5, n_failed=2)
    add_order(container, owner, recipient_count=10, status="reviewing", sub_account_id=branch)
    add_order(container, owner, recipient_count=4, n_failed=4, status="cancelled")
    add_order(container, owner, recipient_count=100, created_at=IN_APRIL)
    add_order(container, owner, recipient_count=7, mode="live")
    add_order(container, stranger, recipient_count=1_000)
    add_move(container, owner, "authorise", 327, mode="live")
    for home, cents in ((branch, 300), (None, 700)):
        add_move(container, owner, "capture", cents, sub_account_id=home)
    mine, live = (
        each.get("/account").json() for each in (make_teammate(container, owner, branch), make_live(container, owner))
    )
    assert mine["usage"] == NOTHING | {"orders": 1, "pieces": 10, "spent": 300}
    assert (live["mode"], live["test_mode"], live["credit"]) == ("live", False, -327)
    assert live["usage"] == NOTHING | {"orders": 1, "pieces": 7}
    test = owner.get("/account").json()
    assert (test["credit"], test["usage"]) == (0, NOTHING | {"orders": 2, "pieces": 13, "spent": 1_000})
    held = owner.send().json()["authorization_total"]
    test = owner.get("/account").json()
    assert held > 0
    assert (test["credit"], test["usage"]["orders"], test["usage"]["pieces"]) == (-held, 3, 14)


@pytest.mark.usefixtures("clean_database")
def test_live_mail_that_cannot_be_printed_yet_is_accepted_with_a_warning(
    owner: Account, container: Container, clock: Clock
) -> None:
    """It is said with the send, with estimates and previews, and by the order once it is paused."""
    live = make_live(container, owner)
    refused = live.send()
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["return_address"])
    sent, preview = live.send(**HOME), live.send(**HOME, preview=True)
    estimate = live.post("/estimate/postcard", postcard(**HOME))
    assert [answer.status_code for answer in (sent, preview, estimate)] == [200] * 3
    for [warning] in (read_warnings(sent), read_warnings(preview), estimate.json()["data"]["warnings"]):
        assert PAUSES in warning
        assert NO_PARTNER in warning
        assert "QUILLPOST_" not in warning
    # What may be there before the review ends is not kept: the review looks again.
    order = f"/orders/{sent.json()['id']}"
    assert live.get(order).json()["warnings"] == []
    clock.advance(days=2)
    run_due_jobs(container)
    read = live.get(order).json()
    assert read["status"] == "Paused"
    assert NO_PARTNER in read["warnings"]
    assert "QUILLPOST_" not in str(read["warnings"])
    assert "X-Warnings" not in owner.send(**HOME).headers, "test mail is printed by nobody"
    assert owner.post("/estimate/postcard", postcard(**HOME)).json()["data"]["warnings"] == []


def test_what_is_missing_for_live_mail_is_told_to_operators_with_its_setting(
    http: TestClient, owner: Account, operator: Account
) -> None:
    response = http.get("/ready/live")
    assert (response.status_code, response.json()) == (503, {"status": "not ready", "live_ready": False})
    for token in (owner.token, "nonsense"):
        again = http.get("/ready/live", headers={"Authorization": f"Bearer {token}"})
        assert again.json() == response.json()
    missing = http.get("/ready/live", headers={"Authorization": f"Bearer {operator.token}"}).json()["missing"]
    assert [gap["name"] for gap in missing] == [
        "public_url", "permit_first", "permit_standard", "mailer_id", "print_partner",
    ]  # fmt: skip
    no_partner = "QUILLPOST_PRINT_PARTNER is not set: nobody prints."
    assert missing[-1]["message"] == no_partner
    assert no_partner in operator.get("/account").json()["live_readiness"]


@pytest.fixture
def ready(build: Build) -> Iterator[tuple[Container, Account]]:
    """A service that can mail, and somebody with a return address at hand."""
    container = build(**LIVE_SETTINGS)
    with TestClient(create_app(container)) as http:
        yield container, make_account(container, http, "ready@example.com")


def test_a_service_that_can_mail_is_ready_until_it_has_no_prices(ready: tuple[Container, Account]) -> None:
    container, account = ready
    assert "X-Warnings" not in make_live(container, account).send(**HOME).headers
    lists = ListOwner(account)
    lists.fill(list_id := lists.make(), "1 Main St")

    def readiness() -> tuple[bool, list[str]]:
        read = account.get("/account").json()
        return read["live_ready"], read["live_readiness"]

    assert readiness() == (False, [NO_ADDRESS])
    change_account(container, account, **HOME)
    assert readiness() == (True, [])
    response = account.http.get("/ready/live")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "live_ready": True})
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(prices))
    assert readiness() == (False, ["No prices are in force."])
    assert account.http.get("/ready/live").status_code == 503
    for audience in ({"mailing_list_ids": [list_id]}, {"recipients": [person()]}):
        refused = account.send(**audience)
        assert refused.status_code == 422, refused.text
        assert "There is no price for this piece" in refused.text
    assert account.get("/orders").json()["meta"]["total"] == 0
