"""Pieces that were accepted and yet are not mailed: suppressed by the day they are due, or too long."""

import json
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME
from quillpost.fulfillment.print_room.service import pool_orders_now
from quillpost.fulfillment.review.service import release_order
from quillpost.orders.models import Order
from quillpost.orders.tasks import materialize_order
from quillpost.recipients.rules import SUPPRESSED
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.rules import UnprintableImage
from support.factories import Clock, make_sub_account, people, person
from support.mailing_lists import CREATIVE, add_people, ledger_entries, make_list, make_order
from support.orders import CENTS, balances, create_order, item_ids, item_rows, open_account, order_row
from support.production import (
    compose,
    only_batch,
    print_rows,
    read_batch,
    stumble_over,
    sweep_due_orders,
    with_environment,
)
from support.rows import scalars

pytestmark = pytest.mark.usefixtures("clean_database")

FAR_TOO_LONG, LONG = "word " * 50, "Hi! " + "%CUSTOM1% " * 10


def sweep_and_release(container: Container, clock: Clock, operator: Caller) -> None:
    """What the review holds because of its longest words an operator lets go: then those alone fail.

    All are pooled together, at the cut-off.
    """
    here = with_environment(container, cutoff=(clock.now() - timedelta(hours=1)).time())
    sweep_due_orders(here, clock)
    for order_id in scalars(container, "select id from orders where status = 'paused'"):
        with container.db.system_transaction() as tx:
            environment = here.environments["test"]
            release_order(tx, environment, order_id, operator_id=operator.account_id, now=clock.now())
    pool_orders_now(container.db, "test", now=clock.now())
    batch_service.pool_due_orders(here.production, now=clock.now())


def listed_order(container: Container, caller: Caller, whom: list[dict[str, Any]], **values: Any) -> int:
    order_id = make_order(container, caller, make_list(container, caller, whom), **values)
    materialize_order(container.db, order_id, now=container.clock())
    return order_id


def pieces(container: Container, order: Order | int) -> list[tuple[str, str | None]]:
    return [(row.status, row.failure) for row in item_rows(container, order)]


def printed_items(container: Container) -> list[int]:
    """The items in the manifest of the one batch, which is composed now."""
    batch_id = compose(container, only_batch(container).id)
    assert read_batch(container, batch_id).status == "composed"
    manifest = json.loads(container.storage.store.get(f"batches/{batch_id}/manifest.json"))
    return [piece["item_id"] for piece in manifest["pieces"]]


def test_people_suppressed_while_it_waits_are_not_mailed(container: Container, clock: Clock, caller: Caller) -> None:
    inline = create_order(container, caller, [person(email="jane@example.com"), *people(2)])
    listed = listed_order(container, caller, people(3), creative_key=None, authorised=3 * CENTS)
    stranger = create_order(container, open_account(container, "stranger@example.com"), people(1))
    make_list(container, caller, [people(1)[0], {"email": "JANE@example.com"}], suppresses=True)
    sweep_due_orders(container, clock)
    good, bad = ("Processing", None), ("Failed", SUPPRESSED)
    assert pieces(container, inline) == [bad, bad, good]
    assert pieces(container, listed) == [bad, good, good]
    assert pieces(container, stranger) == [good]
    assert [(kind, cents) for kind, cents, _ in ledger_entries(container, listed)][1:] == [("release", CENTS)]
    with container.db.system_transaction() as tx:
        assert balances(tx, inline)["held"] == order_row(tx, inline).order_total == CENTS
        assert [printed.item_id for printed in print_rows(tx, inline)] == [item_rows(tx, inline)[2].id]
        transitions = tx.execute(
            sa.select(facts.c.current, facts.c.order_status).where(facts.c.previous == "Processing")
        )
        assert [tuple(row) for row in transitions] == [("Failed", "processing")] * 3


def test_a_branchs_suppression_list_holds_for_the_branch_and_for_the_whole_account(
    container: Container, clock: Clock, caller: Caller
) -> None:
    branch, other = make_sub_account(container, caller), make_sub_account(container, caller)
    suppressed = make_list(container, caller, sub_account_id=branch, suppresses=True)
    by_whom = {
        sub_account_id: create_order(container, caller, people(1), sub_account_id=sub_account_id)
        for sub_account_id in (None, branch, other)
    }
    add_people(container, suppressed, people(1))
    sweep_due_orders(container, clock)
    found = {sub_account_id: pieces(container, order)[0][0] for sub_account_id, order in by_whom.items()}
    assert found == {None: "Failed", branch: "Failed", other: "Processing"}


def test_an_order_whose_everyone_is_suppressed_has_ended(container: Container, clock: Clock, caller: Caller) -> None:
    order = create_order(container, caller, [person(), person(name=UNDELIVERABLE_NAME, address="9 Elm St")])
    make_list(container, caller, [person(), person(address="9 Elm St")], suppresses=True)
    sweep_due_orders(container, clock)
    assert order_row(container, order).status == "fulfilled"
    assert balances(container, order) == {"credit": 0, "held": 0, "earned": 0}


def test_a_piece_that_does_not_fit_fails_alone_whatever_else_is_in_its_batch(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    whom = people(3)
    whom[1]["custom1"] = FAR_TOO_LONG
    misfit = listed_order(container, caller, whom, message=LONG, creative_key=CREATIVE, authorised=3 * CENTS)
    broken = create_order(container, caller, message="Broken")
    stumble_over(container, monkeypatch, UnprintableImage("The picture is damaged."), "Broken")
    sweep_and_release(container, clock, caller)
    first, last = item_ids(container, misfit)[::2]
    assert printed_items(container) == [first, last]
    made, (status, failure), also_made = pieces(container, misfit)
    assert made == also_made == ("Processing", None)
    assert status == "Failed"
    assert "too long" in str(failure)
    assert pieces(container, broken) == [("Failed", NOT_COMPOSABLE)]
    assert [(kind, cents) for kind, cents, _ in ledger_entries(container, misfit)][1:] == [("release", CENTS)]


def test_every_misfit_of_a_batch_is_found_in_one_look(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages and addresses, of several orders, and more different ones than are looked at together."""
    whom = [person(address=f"{n} Elm St", custom1=f"{n}") for n in range(600)]
    for misfit in (0, 599):
        whom[misfit]["custom1"] = f"{misfit} {FAR_TOO_LONG}"
    first = listed_order(container, caller, whom, message=LONG)
    whom[1] |= {"company": "Endless " * 37, "address": "Somewhere " * 29}
    second = listed_order(container, caller, whom[:3], creative_key=None)
    tries = []
    draw = container.production.renderer.compose

    def counted(*what: Any, **how: Any) -> PrintFiles:
        tries.append(what)
        return draw(*what, **how)

    monkeypatch.setattr(container.production.renderer, "compose", counted)
    sweep_and_release(container, clock, caller)
    assert len(printed_items(container)) == 600
    assert len(tries) == 2
    failed = [[index for index, (status, _) in enumerate(pieces(container, o)) if status == "Failed"]
              for o in (first, second)]  # fmt: skip
    assert failed == [[0, 599], [1]]
