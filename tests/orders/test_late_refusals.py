"""Pieces that were accepted and yet are not mailed: suppressed by the day they are due, or too long."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, items, orders
from quillpost.core.database.tables.fulfillment import batches
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME
from quillpost.fulfillment.print_room.service import pool_orders_now
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import release_order
from quillpost.orders.tasks import materialize_order
from quillpost.recipients.rules import SUPPRESSED
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.rules import UnprintableImage
from support.factories import Clock, people, person
from support.list_rows import (
    CENTS,
    CREATIVE,
    REVIEW,
    add_people,
    ledger_entries,
    make_list,
    make_order,
    make_sub_account,
)
from support.orders import balances, create_order, item_rows, open_account, order_row
from support.production import print_rows

pytestmark = pytest.mark.usefixtures("clean_database")

FAR_TOO_LONG = "word " * 50


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def sweep(container: Container, clock: Clock) -> None:
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=container.clock())


def sweep_and_release(container: Container, clock: Clock, operator: Caller) -> None:
    """What the review holds because of its longest words an operator lets go: then those alone fail.

    All are pooled together, at the cut-off.
    """
    environment = replace(container.environments["test"], cutoff=(clock.now() - timedelta(hours=1)).time())
    production = replace(container.production, environments={"test": environment})
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(production, now=clock.now())
    with container.db.system_transaction() as tx:
        for order_id in tx.execute(sa.select(orders.c.id).where(orders.c.status == "paused")).scalars().all():
            release_order(tx, environment, order_id, operator_id=operator.account_id, now=clock.now())
    pool_orders_now(container.db, "test", now=clock.now())
    batch_service.pool_due_orders(production, now=clock.now())


def listed_order(container: Container, caller: Caller, whom: list[dict[str, Any]], **values: Any) -> int:
    order_id = make_order(container, caller, make_list(container, caller, whom), **values)
    materialize_order(container.db, order_id, now=container.clock())
    return order_id


def pieces(container: Container, order_id: int) -> list[tuple[str, str | None]]:
    query = sa.select(items.c.status, items.c.failure).where(items.c.order_id == order_id)
    with container.db.system_transaction() as tx:
        return [(row.status, row.failure) for row in tx.execute(query.order_by(items.c.id))]


def compose(container: Container) -> tuple[fulfillment_queries.ProductionBatch, list[int]]:
    """The one batch, composed, and the items in its manifest."""
    with container.db.system_transaction() as tx:
        batch_id = tx.execute(sa.select(batches.c.id)).scalar_one()
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    manifest = json.loads(container.storage.store.get(f"batches/{batch_id}/manifest.json"))
    return batch, [piece["item_id"] for piece in manifest["pieces"]]


def test_people_suppressed_while_an_order_waits_are_not_mailed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    inline = create_order(container, owner, [person(email="jane@example.com"), *people(2)])
    listed = listed_order(container, owner, people(3), creative_key=None, authorised=3 * CENTS)
    stranger = create_order(container, open_account(container, "stranger@example.com"), people(1))
    make_list(container, owner, [people(1)[0], {"email": "JANE@example.com"}], suppresses=True)
    sweep(container, clock)
    good, bad = ("Processing", None), ("Failed", SUPPRESSED)
    assert pieces(container, inline.id) == [bad, bad, good]
    assert pieces(container, listed) == [bad, good, good]
    assert pieces(container, stranger.id) == [good]
    assert [(kind, cents) for kind, cents, _ in ledger_entries(container, listed)][1:] == [("release", CENTS)]
    with container.db.system_transaction() as tx:
        assert balances(tx, inline)["held"] == order_row(tx, inline).order_total == CENTS
        assert [printed.item_id for printed in print_rows(tx, inline)] == [item_rows(tx, inline)[2].id]
        transitions = tx.execute(
            sa.select(facts.c.current, facts.c.order_status).where(facts.c.previous == "Processing")
        )
        assert [tuple(row) for row in transitions] == [("Failed", "processing")] * 3


def test_a_branchs_suppression_list_holds_for_the_branch_and_for_the_whole_account(
    container: Container, clock: Clock, owner: Caller
) -> None:
    branch, other = make_sub_account(container, owner), make_sub_account(container, owner)
    suppressed = make_list(container, owner, sub_account_id=branch, suppresses=True)
    by_whom = {
        sub_account_id: create_order(container, owner, people(1), sub_account_id=sub_account_id)
        for sub_account_id in (None, branch, other)
    }
    add_people(container, suppressed, people(1))
    sweep(container, clock)
    found = {sub_account_id: pieces(container, order.id)[0][0] for sub_account_id, order in by_whom.items()}
    assert found == {None: "Failed", branch: "Failed", other: "Processing"}


def test_an_order_whose_everyone_is_suppressed_has_ended(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, [person(), person(name=UNDELIVERABLE_NAME, address="9 Elm St")])
    make_list(container, owner, [person(), person(address="9 Elm St")], suppresses=True)
    sweep(container, clock)
    with container.db.system_transaction() as tx:
        assert order_row(tx, order).status == "fulfilled"
        assert balances(tx, order) == {"credit": 0, "held": 0, "earned": 0}


def test_a_piece_that_does_not_fit_fails_alone_with_its_reason(
    container: Container, clock: Clock, owner: Caller
) -> None:
    whom = people(3)
    whom[1]["custom1"] = FAR_TOO_LONG
    order_id = listed_order(
        container, owner, whom, message="Hi! " + "%CUSTOM1% " * 10, creative_key=CREATIVE, authorised=3 * CENTS
    )
    sweep_and_release(container, clock, owner)
    batch, printed = compose(container)
    first, (status, failure), last = pieces(container, order_id)
    assert first == last == ("Processing", None)
    assert status == "Failed"
    assert failure is not None
    assert "too long" in failure
    assert batch.status == "composed"
    assert len(printed) == 2
    assert [(kind, cents) for kind, cents, _ in ledger_entries(container, order_id)][1:] == [("release", CENTS)]


def test_every_misfit_of_a_batch_is_found_in_one_look(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages and addresses, of several orders, and more different ones than are looked at together."""
    whom = [person(address=f"{n} Elm St", custom1=f"{n}") for n in range(600)]
    for misfit in (0, 599):
        whom[misfit]["custom1"] = f"{misfit} {FAR_TOO_LONG}"
    first = listed_order(container, owner, whom, message="Hi! " + "%CUSTOM1% " * 10)
    whom[1] |= {"company": "Endless " * 37, "address": "Somewhere " * 29}
    second = listed_order(container, owner, whom[:3], creative_key=None)
    tries = []
    draw = container.production.renderer.compose

    def counted(*what: Any, **how: Any) -> PrintFiles:
        tries.append(what)
        return draw(*what, **how)

    monkeypatch.setattr(container.production.renderer, "compose", counted)
    sweep_and_release(container, clock, owner)
    _, printed = compose(container)
    assert len(tries) == 2
    assert len(printed) == 600
    failed = [[index for index, (status, _) in enumerate(pieces(container, o)) if status == "Failed"]
              for o in (first, second)]  # fmt: skip
    assert failed == [[0, 599], [1]]


def test_broken_art_of_another_order_does_not_spread_a_misfit(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    whom = people(2)
    whom[0]["custom1"] = FAR_TOO_LONG
    misfit = listed_order(container, owner, whom, message="Hi! " + "%CUSTOM1% " * 10)
    broken = create_order(container, owner, message="Broken")
    draw = container.production.renderer.compose

    def stumbles_over_broken_art(designs: Any, copies: Any, **how: Any) -> PrintFiles:
        if any(designs[copy.design].message == "Broken" for copy in copies):
            raise UnprintableImage("The picture is damaged.")
        return draw(designs, copies, **how)

    monkeypatch.setattr(container.production.renderer, "compose", stumbles_over_broken_art)
    sweep_and_release(container, clock, owner)
    _, printed = compose(container)
    assert [status for status, _ in pieces(container, misfit)] == ["Failed", "Processing"]
    assert pieces(container, broken.id) == [("Failed", NOT_COMPOSABLE)]
    assert len(printed) == 1
