"""402: what an account's credit does not cover is not sent, and nothing of it stays."""

import secrets
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

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
from support.mailing_lists import message
from support.refusals import unchanged

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


def credit(account: Account) -> int:
    return int(account.get("/account").json()["credit"])


def body_to(how_many: int, **more: Any) -> dict[str, Any]:
    return {"recipients": people(how_many), "message": "Hi!", **HOME, **more}


def test_a_send_that_is_not_covered_is_402_until_it_is(live: Account, owner: Account, container: Container) -> None:
    """Its idempotency key is free, and a stored send that was not covered can be sent later."""
    key = {"Idempotency-Key": "one"}
    kept = live.post("/stored_send/postcard", {"recipients": [person()], "message": "Hi!", **HOME}).json()
    stored = kept["stored_send_url"].partition("/api/v2")[2]
    teammate = make_teammate(container, live, make_sub_account(container, live), "live")
    pay_in(container, live, 2 * CENTS)
    sentence = "The account's credit of $2.18 does not cover this order of $3.27: add credit, or send to fewer people."
    with unchanged(container):
        assert message(live.post("/send/postcard", body_to(3), headers=key)) == (402, sentence)
    estimate = live.post("/estimate/postcard", body_to(3)).json()["data"]
    assert (estimate["authorization_total"], estimate["warnings"][-1]) == (3 * CENTS, sentence)
    assert without_readiness_warning(live.post("/estimate/postcard", body_to(2)).json()["data"]["warnings"]) == []
    pay_in(container, live, CENTS)
    first, again = (live.post("/send/postcard", body_to(3), headers=key) for _ in range(2))
    assert (first.status_code, again.json()["id"], credit(live)) == (200, first.json()["id"], 0)
    spends: list[Callable[[], Response]] = [lambda: live.get(stored), lambda: teammate.send(**HOME)]
    for spend in spends:
        assert spend().status_code == 402
        pay_in(container, live, CENTS)
        assert (spend().status_code, credit(live)) == (200, 0)
    assert owner.send().status_code == 200, "testing mode needs no credit"


def test_without_credit_control_nobody_needs_it(build: Build) -> None:
    for setting in ({}, {"credit_control": True}):
        assert build(**setting).environments["live"].needs_credit == bool(setting)


def test_the_value_of_gift_cards_must_be_covered_too(live: Account, container: Container) -> None:
    pieces, value = 2 * 349, 2 * 2_500
    body = body_to(2, **GIFT)
    pay_in(container, live, pieces + value - 1)
    with unchanged(container):
        status, sentence = message(live.post("/send/giftcard", body))
    assert (status, sentence[:67]) == (402, "The account's credit of $56.97 does not cover this order of $56.98:")
    warnings = live.post("/estimate/giftcard", body).json()["data"]["warnings"]
    others = [warning for warning in without_readiness_warning(warnings) if "gift cards of" not in warning]
    assert [warning[:20] for warning in others] == ["The account's credit"]
    pay_in(container, live, 1)
    order = live.post("/send/giftcard", body).json()["id"]
    assert credit(live) == 0
    assert live.put(f"/orders/{order}/cancel").status_code == 200
    assert credit(live) == pieces + value


def test_changes_and_replays_must_be_covered_too(live: Account, container: Container) -> None:
    pay_in(container, live, 2 * CENTS + 5)
    order = live.post("/send/postcard", body_to(2)).json()["id"]
    dearer = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US", "unit_cents": CENTS + 3}
    with container.db.system_transaction() as tx:
        tx.execute(sa.insert(prices).values(**dearer, valid_from=date(2026, 5, 3)))
    with unchanged(container):
        sentence = (
            "The account's credit of $0.05 does not cover the $0.06 that this change adds:"
            " add credit, or leave the order as it is."
        )
        assert message(live.put(f"/orders/{order}", {"message": "Other words"})) == (402, sentence)
    pay_in(container, live, 1)
    assert live.put(f"/orders/{order}", {"message": "Other words"}).status_code == 200
    assert credit(live) == 0
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="processing"))
        printed = [StatusChange(n, ItemStatus.PRINTED) for n in tx.execute(sa.select(items.c.id)).scalars()]
        change_item_statuses(tx, printed, now=container.clock())
    with unchanged(container):
        assert live.post(f"/orders/{order}/replay").status_code == 402
    pay_in(container, live, 2 * (CENTS + 3))
    assert live.post(f"/orders/{order}/replay").status_code == 200
    assert credit(live) == 0
