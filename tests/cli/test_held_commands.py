"""`quillpost print held`, `release` and `refuse`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.orders.models import Order
from support.cli_results import CommandResult, Quillpost
from support.factories import Build, Clock, people, run_jobs_for
from support.orders import create_order, open_account, order_row
from support.production import LIVE_SETTINGS

Command = Callable[..., CommandResult]

UNFILLED = "Hello %COMPANY%!"


@pytest.fixture
def container(build: Build) -> Container:
    return build(**LIVE_SETTINGS, review_seconds=1)


@pytest.fixture
def command(container: Container, conninfo: str, tmp_path: Path, quillpost: Quillpost) -> Command:
    settings = {"home": tmp_path / "home", "database_url": conninfo} | LIVE_SETTINGS
    return lambda *words: quillpost("print", *words, **settings)


def held(container: Container, clock: Clock, mode: str = "live", email: str = "owner@example.com") -> Order:
    """An order that waits for an operator."""
    order = create_order(container, open_account(container, email, mode), people(2), message=UNFILLED)
    run_jobs_for(container, clock, seconds=11)
    assert status_of(container, order) == "paused"
    return order


def status_of(container: Container, order: Order) -> str:
    with container.db.system_transaction() as tx:
        return str(order_row(tx, order).status)


def stored_decisions(container: Container) -> list[tuple[Any, ...]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(order_verdicts).order_by(order_verdicts.c.id))
        return [(row.order_id, row.verdict, row.reason, row.operator_id) for row in rows]


def test_held_orders_are_listed_as_a_table_and_for_machines(
    command: Command, container: Container, clock: Clock
) -> None:
    first, second = held(container, clock), held(container, clock, email="[bold]second@example.com")
    table = command("held")
    assert (table.code, table.err) == (0, "")
    for word in ("owner@example.com", "[bold]second@example.com", "postcard, 2 pieces, $2.18,", "2026-05-04T12:00:"):
        assert word in table.out
    for reason in json.loads(command("held", "--json").out)[0]["reasons"]:
        assert f"  {reason}\n" in table.out
    listing = json.loads(command("held", "--json").out)
    assert [order["id"] for order in listing] == [first.id, second.id]
    assert listing[0] == {
        "id": first.id,
        "account_id": first.account_id,
        "account_email": "owner@example.com",
        "sub_account_id": None,
        "type": "postcard",
        "recipient_count": 2,
        "pieces": 2,
        "grand_total": 218,
        "created_at": "2026-05-04T12:00:00Z",
        "paused_at": "2026-05-04T12:00:11Z",
        "reasons": listing[0]["reasons"],
    }
    [why] = listing[0]["reasons"]
    assert "%COMPANY%" in why
    assert why in table.out


def test_test_orders_are_listed_by_mode(command: Command, container: Container, clock: Clock) -> None:
    order = held(container, clock, mode="test")
    assert json.loads(command("held", "--json").out) == []
    assert [each["id"] for each in json.loads(command("held", "--json", "--mode", "test").out)] == [order.id]
    assert command("held", "--mode", "tset").code == 2


@pytest.mark.parametrize("mode", ["live", "test"])
def test_an_order_is_released(command: Command, container: Container, clock: Clock, mode: str) -> None:
    order = held(container, clock, mode)
    result = command("release", order.id, "--reason", " They like it so. ")
    assert (result.code, result.out) == (0, f"Order {order.id} is released.\n"), result.err
    assert status_of(container, order) == "processing"
    assert stored_decisions(container) == [(order.id, "released", "They like it so.", None)]
    assert json.loads(command("held", "--json", "--mode", mode).out) == []


def test_a_release_needs_no_reason(command: Command, container: Container, clock: Clock) -> None:
    order = held(container, clock)
    assert command("release", order.id).code == 0
    assert stored_decisions(container) == [(order.id, "released", "", None)]


def test_both_decisions_are_in_the_audit_log_of_the_operator(
    command: Command, container: Container, clock: Clock
) -> None:
    with container.db.system_transaction() as tx:
        operator = account_service.create_account(
            tx, email="press@example.com", name="Press", is_operator=True, now=container.clock()
        )
    first, second = held(container, clock), held(container, clock, email="second@example.com")
    assert command("release", first.id).code == 0
    assert command("release", first.id).code == 1
    assert command("refuse", second.id, "--reason", "Not theirs").code == 0
    with container.db.transaction(Tenant(operator)) as tx:
        assert [describe_entry(entry) for entry in list_audit_entries(tx, operator)] == [
            f"the command line refused an order: order {second.id} (live, reason: Not theirs)",
            f"the command line released an order: order {first.id} (live)",
        ]


def test_refusing_an_order_shows_its_sender_the_reason(command: Command, container: Container, clock: Clock) -> None:
    order = held(container, clock)
    result = command("refuse", order.id, "--reason", "The picture is not yours.")
    assert (result.code, result.out) == (0, f"Order {order.id} is refused.\n"), result.err
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        failures = set(tx.execute(sa.select(items.c.failure)).scalars())
    assert (row.status, row.order_total) == ("error", 0)
    assert row.warnings == ["An operator refused this order: The picture is not yours."]
    assert failures == {"Order refused: The picture is not yours."}
    assert stored_decisions(container) == [(order.id, "refused", "The picture is not yours.", None)]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("release", 999), "There is no order 999."),
        (("refuse", 999, "--reason", "No"), "There is no order 999."),
        (("refuse", 1, "--reason", "  "), "Give a --reason: the sender reads it."),
        (("refuse", 1, "--reason", "x" * 501), "at most 500 characters"),
        (("release", 1, "--reason", "x" * 501), "at most 500 characters"),
        (("refuse", 1, "--reason", "caf\udce9"), "The --reason is no UTF-8"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    command: Command, container: Container, clock: Clock, words: tuple[object, ...], error: str
) -> None:
    order = held(container, clock)
    outcome = command(*words)
    assert outcome.is_one_sentence()
    assert error in outcome.err
    assert (status_of(container, order), stored_decisions(container)) == ("paused", [])


@pytest.mark.parametrize(
    "words", [("refuse", 1), ("release", "x"), ("release", 0), ("release", 2**63), ("release", "1", "2")]
)
def test_what_is_no_order_or_gives_no_reason_is_refused(
    command: Command, container: Container, clock: Clock, words: tuple[object, ...]
) -> None:
    order = held(container, clock)
    assert command(*words).code == 2
    assert status_of(container, order) == "paused"


def test_an_order_is_decided_once(command: Command, container: Container, clock: Clock) -> None:
    order = held(container, clock)
    assert command("release", order.id).code == 0
    for words in (("release", order.id), ("refuse", order.id, "--reason", "No")):
        outcome = command(*words)
        assert outcome.is_one_sentence()
        assert "Processing" in outcome.err
    assert len(stored_decisions(container)) == 1


def test_nothing_is_released_while_live_mail_is_not_ready(
    container: Container, clock: Clock, conninfo: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    order = held(container, clock)
    unready = {name: value for name, value in LIVE_SETTINGS.items() if name != "mailer_id"}
    unready |= {"home": str(tmp_path / "home"), "database_url": conninfo}
    outcome = quillpost("print", "release", order.id, **unready)
    assert outcome.is_one_sentence()
    assert "This order cannot be released yet." in outcome.err
    assert "QUILLPOST_MAILER_ID" in outcome.err
    assert status_of(container, order) == "paused"


def test_more_orders_than_a_list_takes_are_counted(
    command: Command, container: Container, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = held(container, clock), held(container, clock, email="second@example.com")
    monkeypatch.setattr("quillpost.cli.orders.MAX_LISTED", 1)
    assert command("held").out.endswith("\nThese are the oldest 1 of 2.\n")
    assert [order["id"] for order in json.loads(command("held", "--json").out)] == [first.id]
