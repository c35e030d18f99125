"""402: what an account's credit does not cover is not sent, and nothing of it stays."""

import secrets
from datetime import date

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders, prices
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.rules import ItemStatus
from support.factories import (
    GIFT,
    Account,
    Build,
    make_live,
    make_sub_account,
    make_teammate,
    people,
    person,
    without_readiness_warning,
)
from support.traces import traces

CENTS = 109
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}


@pytest.fixture
def container(build: Build) -> Container:
    return build(credit_control=True)


@pytest.fixture
def live(container: Container, owner: Account) -> Account:
    return make_live(container, owner)


def pay_in(container: Container, account: Account, cents: int) -> None:
    with container.db.system_transaction() as tx:
        billing_service.deposit(tx, account.id, cents=cents, key=secrets.token_hex(8), note=None, now=container.clock())


def test_a_send_that_is_not_covered_is_402_and_leaves_nothing(live: Account, container: Container) -> None:
    pay_in(container, live, 2 * CENTS)
    before = traces(container)
    refused = live.send(recipients=people(3), **HOME)
    assert (refused.status_code, refused.json()) == (
        402,
        {
            "message": "The account's credit of $2.18 does not cover this order of $3.27:"
            " add credit, or send to fewer people."
        },
    )
    assert traces(container) == before
    assert live.send(recipients=people(2), **HOME).status_code == 200
    assert live.get("/account").json()["credit"] == 0


def test_a_402_is_not_kept_under_its_idempotency_key(live: Account, container: Container) -> None:
    key = {"Idempotency-Key": "one"}
    body = {"recipients": [person()], "message": "Hi!", **HOME}
    assert live.post("/send/postcard", body, headers=key).status_code == 402
    pay_in(container, live, CENTS)
    first, again = (live.post("/send/postcard", body, headers=key) for _ in range(2))
    assert (first.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert live.get("/account").json()["credit"] == 0


def test_an_estimate_warns_that_the_credit_would_not_cover_it(live: Account, container: Container) -> None:
    body = {"recipients": people(2), "message": "Hi!", **HOME}
    warned = live.post("/estimate/postcard", body).json()["data"]
    assert warned["authorization_total"] == 2 * CENTS
    assert warned["warnings"][-1].startswith("The account's credit of $0.00 does not cover this order of $2.18")
    pay_in(container, live, 2 * CENTS)
    assert without_readiness_warning(live.post("/estimate/postcard", body).json()["data"]["warnings"]) == []


def test_the_value_of_gift_cards_must_be_covered_too(live: Account, container: Container) -> None:
    pieces, value = 2 * 349, 2 * 2_500
    body = {"recipients": people(2), "message": "Hi!", **GIFT, **HOME}
    pay_in(container, live, pieces + value - 1)
    before = traces(container)
    refused = live.post("/send/giftcard", body)
    assert (refused.status_code, refused.json()["message"][:71]) == (
        402,
        "The account's credit of $56.97 does not cover this order of $56.98: add",
    )
    assert traces(container) == before
    warnings = live.post("/estimate/giftcard", body).json()["data"]["warnings"]
    others = [warning for warning in without_readiness_warning(warnings) if "gift cards of" not in warning]
    assert [warning[:20] for warning in others] == ["The account's credit"]
    pay_in(container, live, 1)
    order = live.post("/send/giftcard", body).json()["id"]
    assert live.get("/account").json()["credit"] == 0
    assert live.put(f"/orders/{order}/cancel").status_code == 200
    assert live.get("/account").json()["credit"] == pieces + value


def test_testing_mode_needs_no_credit(owner: Account) -> None:
    assert owner.send().status_code == 200


def test_without_credit_control_nobody_needs_it(build: Build, owner: Account, live: Account) -> None:
    from_elsewhere = build()
    assert not from_elsewhere.environments["live"].needs_credit
    assert build(credit_control=True).environments["live"].needs_credit


def test_a_teammate_of_a_sub_account_spends_the_account_s_credit(live: Account, container: Container) -> None:
    branch = make_sub_account(container, live)
    teammate = make_teammate(container, live, branch, "live")
    assert teammate.send(**HOME).status_code == 402
    pay_in(container, live, CENTS)
    assert teammate.send(**HOME).status_code == 200
    assert live.get("/account").json()["credit"] == 0


def raise_prices(container: Container, cents: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.insert(prices).values(
                type="postcard",
                size="4x6",
                mail_class="first",
                country="US",
                unit_cents=cents,
                valid_from=date(2026, 5, 3),
            )
        )


def test_a_change_that_costs_more_than_there_is_changes_nothing(live: Account, container: Container) -> None:
    pay_in(container, live, 2 * CENTS + 5)
    order = live.send(recipients=people(2), **HOME).json()["id"]
    raise_prices(container, CENTS + 3)
    before = traces(container)
    refused = live.put(f"/orders/{order}", {"message": "Other words"})
    assert (refused.status_code, refused.json()["message"]) == (
        402,
        "The account's credit of $0.05 does not cover the $0.06 that this change adds:"
        " add credit, or leave the order as it is.",
    )
    assert traces(container) == before
    pay_in(container, live, 1)
    assert live.put(f"/orders/{order}", {"message": "Other words"}).status_code == 200
    assert live.get("/account").json()["credit"] == 0


def test_a_replay_must_be_covered_too(live: Account, container: Container) -> None:
    pay_in(container, live, CENTS)
    order = live.send(**HOME).json()["id"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="processing"))
        change_item_statuses(
            tx,
            [StatusChange(n, ItemStatus.PRINTED) for n in tx.execute(sa.select(items.c.id)).scalars()],
            now=container.clock(),
        )
    before = traces(container)
    assert live.post(f"/orders/{order}/replay").status_code == 402
    assert traces(container) == before
    pay_in(container, live, CENTS)
    assert live.post(f"/orders/{order}/replay").status_code == 200


def test_a_stored_send_that_was_not_covered_can_be_sent_later(live: Account, container: Container) -> None:
    kept = live.post("/stored_send/postcard", {"recipients": [person()], "message": "Hi!", **HOME}).json()
    path = kept["stored_send_url"].partition("/api/v2")[2]
    assert live.get(path).status_code == 402
    pay_in(container, live, CENTS)
    assert live.get(path).status_code == 200
