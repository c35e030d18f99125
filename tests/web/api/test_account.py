"""The account: its credit, its usage by mode and by sub account, whether it can send live mail, and 402: what its
credit does not cover is not sent, and nothing of it stays."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, items, ledger_moves, orders, prices
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.rules import ItemStatus
from quillpost.web.application import create_app
from support import factories
from support.factories import Account, Build, make_account, make_live, people, person, postcard, read_warnings
from support.mailing_lists import ListOwner, message
from support.orders import HOME
from support.production import LIVE_SETTINGS
from support.rows import execute, run, scalars
from support.tenant_rows import insert_least
from support.test_client import TestClient
from support.traces import unchanged

IN_APRIL, IN_MAY = datetime(2026, 4, 30, 23, 59, 59, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
NOTHING = {"month": "2026-05", "orders": 0, "pieces": 0, "spent": 0}
BOOKS = {
    "authorise": ("credit", "held"), "capture": ("held", "earned"), "release": ("held", "credit"),
    "refund": ("earned", "credit"),
}  # fmt: skip
PAUSES = "Live mail isn't ready yet, so this order will be paused when its review ends."
NO_ADDRESS = "Your account has no return address. Add one, or give one with each order."
NO_PARTNER = "No print partner is connected."


def add_order(container: Container, account: Account, *, status: str = "fulfilled", **columns: Any) -> None:
    known = {"account_id": account.id, "mode": "test", "created_at": IN_MAY} | columns
    made = run(container, insert_least, orders, known)
    execute(container, sa.update(orders).where(orders.c.id == made).values(status=status))


def add_move(container: Container, account: Account, kind: str, cents: int, **columns: Any) -> None:
    source, target = BOOKS[kind]
    known = {"account_id": account.id, "mode": "test", "at": IN_MAY, "source": source, "target": target} | columns
    made = run(container, insert_least, ledger_moves, known)
    execute(container, sa.update(ledger_moves).where(ledger_moves.c.id == made).values(kind=kind, cents=cents))


def change_account(container: Container, account: Account, **columns: Any) -> None:
    execute(container, sa.update(accounts).where(accounts.c.id == account.id).values(**columns))


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
            "There is no public web address for QR codes.", "There is no postage permit for first-class mail.",
            "There is no postage permit for standard mail.", "There is no mailer ID for tracking barcodes.", NO_PARTNER,
            NO_ADDRESS,
        ],
    }  # fmt: skip


def test_credit_is_what_came_in_less_held_or_spent(owner: Account, stranger: Account, container: Container) -> None:
    for kind, cents, at in (
        ("authorise", 1_000, IN_APRIL), ("capture", 300, IN_APRIL), ("capture", 500, IN_MAY), ("release", 200, IN_MAY),
        ("refund", 50, IN_MAY),
    ):  # fmt: skip
        add_move(container, owner, kind, cents, at=at)
    add_move(container, stranger, "authorise", 7)
    read = owner.get("/account").json()
    assert (read["credit"], read["usage"]["spent"]) == (-1_000 + 200 + 50, 500 - 50)
    assert stranger.get("/account").json()["credit"] == -7


def test_this_months_usage_by_mode_and_sub_account(owner: Account, stranger: Account, container: Container) -> None:
    branch = factories.make_sub_account(container, owner)
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
        each.get("/account").json()
        for each in (factories.make_teammate(container, owner, branch), make_live(container, owner))
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
def test_live_mail_that_cannot_go_yet_is_warned(owner: Account, container: Container, clock: factories.Clock) -> None:
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
    factories.run_due_jobs(container)
    read = live.get(order).json()
    assert read["status"] == "Paused"
    assert NO_PARTNER in read["warnings"]
    assert "QUILLPOST_" not in str(read["warnings"])
    assert "X-Warnings" not in owner.send(**HOME).headers, "test mail is printed by nobody"
    assert owner.post("/estimate/postcard", postcard(**HOME)).json()["data"]["warnings"] == []


def test_operators_see_the_settings_that_live_mail_lacks(http: TestClient, owner: Account, operator: Account) -> None:
    response = http.get("/ready/live")
    assert (response.status_code, response.json()) == (503, {"status": "not ready", "live_ready": False})
    for token in (owner.token, "nonsense"):
        assert http.get("/ready/live", headers={"Authorization": f"Bearer {token}"}).json() == response.json()
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
    execute(container, sa.delete(prices))
    assert readiness() == (False, ["No prices are in force."])
    assert account.http.get("/ready/live").status_code == 503
    for audience in ({"mailing_list_ids": [list_id]}, {"recipients": [person()]}):
        refused = account.send(**audience)
        assert refused.status_code == 422, refused.text
        assert "There is no price for this piece" in refused.text
    assert account.get("/orders").json()["meta"]["total"] == 0


CENTS = 109


@pytest.fixture
def strict(build: Build) -> Iterator[tuple[Container, Account]]:
    """A service that sends nothing on credit, and somebody who sends live mail there."""
    container = build(credit_control=True)
    with TestClient(create_app(container)) as http:
        yield container, make_live(container, make_account(container, http, "strict@example.com"))


def pay_in(container: Container, account: Account, cents: int) -> None:
    with container.db.system_transaction() as tx:
        billing_service.deposit(tx, account.id, cents=cents, key=secrets.token_hex(8), note=None, now=container.clock())


def credit(account: Account) -> int:
    return int(account.get("/account").json()["credit"])


def body_to(how_many: int, **more: Any) -> dict[str, Any]:
    return {"recipients": people(how_many), "message": "Hi!", **HOME, **more}


def test_a_send_that_is_not_covered_is_402_until_it_is(strict: tuple[Container, Account], build: Build) -> None:
    """Its idempotency key is free, and a stored send that was not covered can be sent later."""
    container, live = strict
    assert not build().environments["live"].needs_credit, "where no operator asks for it"
    key = {"Idempotency-Key": "one"}
    kept = live.post("/stored_send/postcard", {"recipients": [person()], "message": "Hi!", **HOME}).json()
    stored = kept["stored_send_url"].partition("/api/v2")[2]
    teammate = factories.make_teammate(container, live, factories.make_sub_account(container, live), "live")
    pay_in(container, live, 2 * CENTS)
    sentence = "The account's credit of $2.18 does not cover this order of $3.27: add credit, or send to fewer people."
    with unchanged(container):
        assert message(live.post("/send/postcard", body_to(3), headers=key)) == (402, sentence)
    estimate = live.post("/estimate/postcard", body_to(3)).json()["data"]
    assert (estimate["authorization_total"], estimate["warnings"][-1]) == (3 * CENTS, sentence)
    assert (
        factories.without_readiness_warning(live.post("/estimate/postcard", body_to(2)).json()["data"]["warnings"])
        == []
    )
    pay_in(container, live, CENTS)
    first, again = (live.post("/send/postcard", body_to(3), headers=key) for _ in range(2))
    assert (first.status_code, again.json()["id"], credit(live)) == (200, first.json()["id"], 0)
    spends: list[Callable[[], Response]] = [lambda: live.get(stored), lambda: teammate.send(**HOME)]
    for spend in spends:
        assert spend().status_code == 402
        pay_in(container, live, CENTS)
        assert (spend().status_code, credit(live)) == (200, 0)
    token = run(container, insert_token, live.id, mode="test", name="test", now=container.clock())[1]
    assert replace(live, token=token).send().status_code == 200, "testing mode needs no credit"


def test_the_value_of_gift_cards_must_be_covered_too(strict: tuple[Container, Account]) -> None:
    container, live = strict
    pieces, value = 2 * 349, 2 * 2_500
    body = body_to(2, **factories.GIFT)
    pay_in(container, live, pieces + value - 1)
    with unchanged(container):
        status, sentence = message(live.post("/send/giftcard", body))
    assert (status, sentence[:67]) == (402, "The account's credit of $56.97 does not cover this order of $56.98:")
    warnings = live.post("/estimate/giftcard", body).json()["data"]["warnings"]
    others = [warning for warning in factories.without_readiness_warning(warnings) if "gift cards of" not in warning]
    assert [warning[:20] for warning in others] == ["The account's credit"]
    pay_in(container, live, 1)
    order = live.post("/send/giftcard", body).json()["id"]
    assert credit(live) == 0
    assert live.put(f"/orders/{order}/cancel").status_code == 200
    assert credit(live) == pieces + value


def test_changes_and_replays_must_be_covered_too(strict: tuple[Container, Account]) -> None:
    container, live = strict
    pay_in(container, live, 2 * CENTS + 5)
    order = live.post("/send/postcard", body_to(2)).json()["id"]
    dearer = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US", "unit_cents": CENTS + 3}
    execute(container, sa.insert(prices).values(**dearer, valid_from=date(2026, 5, 3)))
    with unchanged(container):
        sentence = (
            "The account's credit of $0.05 does not cover the $0.06 that this change adds:"
            " add credit, or leave the order as it is."
        )
        assert message(live.put(f"/orders/{order}", {"message": "Other words"})) == (402, sentence)
    pay_in(container, live, 1)
    assert live.put(f"/orders/{order}", {"message": "Other words"}).status_code == 200
    assert credit(live) == 0
    execute(container, sa.update(orders).values(status="processing"))
    printed = [StatusChange(n, ItemStatus.PRINTED) for n in scalars(container, sa.select(items.c.id))]
    run(container, change_item_statuses, printed, now=container.clock())
    with unchanged(container):
        assert live.post(f"/orders/{order}/replay").status_code == 402
    pay_in(container, live, 2 * (CENTS + 3))
    assert live.post(f"/orders/{order}/replay").status_code == 200
    assert credit(live) == 0
