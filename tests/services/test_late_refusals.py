"""Pieces that were accepted and yet are not mailed: suppressed by the day they are due, or too long."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from listing import CENTS, CREATIVE, REVIEW, add_people, entries, make_branch, make_list, make_order
from placing import balances, item_rows, open_account, order_row, place
from pressing import print_rows

from makers import Clock, people, person
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import facts, items, orders
from quillpost.core.database.tables.print_room import batches
from quillpost.fulfillment import batching, production, review
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.drawing import NOT_DRAWABLE
from quillpost.fulfillment.print_room.service import pool_now
from quillpost.fulfillment.review import release
from quillpost.fulfillment.rules import UNDELIVERABLE_NAME
from quillpost.orders.materialization import materialise
from quillpost.recipients.rules import SUPPRESSED
from quillpost.rendering.images.limits import BadImage
from quillpost.rendering.renderer import Printed

FAR_TOO_LONG = "word " * 50


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def sweep(parts: Parts, clock: Clock) -> None:
    clock.advance(seconds=REVIEW.seconds)
    review.sweep(parts.press, now=parts.clock())


def sweep_and_release(parts: Parts, clock: Clock, operator: Caller) -> None:
    """What the review holds because of its longest words an operator lets go: then those alone fail.

    All are pooled together, at the cut-off.
    """
    world = replace(parts.worlds["test"], cutoff=(clock.now() - timedelta(hours=1)).time())
    press = replace(parts.press, worlds={"test": world})
    clock.advance(seconds=REVIEW.seconds)
    review.sweep(press, now=clock.now())
    with parts.db.work() as tx:
        for order_id in tx.execute(sa.select(orders.c.id).where(orders.c.status == "paused")).scalars().all():
            release(tx, world, order_id, operator_id=operator.account_id, now=clock.now())
    pool_now(parts.db, "test", now=clock.now())
    batching.pool(press, now=clock.now())


def listed_order(parts: Parts, who: Caller, whom: list[dict[str, Any]], **values: Any) -> int:
    order_id = make_order(parts, who, make_list(parts, who, whom), **values)
    materialise(parts.db, order_id, now=parts.clock())
    return order_id


def pieces(parts: Parts, order_id: int) -> list[tuple[str, str | None]]:
    query = sa.select(items.c.status, items.c.failure).where(items.c.order_id == order_id)
    with parts.db.work() as tx:
        return [(row.status, row.failure) for row in tx.execute(query.order_by(items.c.id))]


def compose(parts: Parts) -> tuple[fulfillment_queries.Batch, list[int]]:
    """The one batch, composed, and the items in its manifest."""
    with parts.db.work() as tx:
        batch_id = tx.execute(sa.select(batches.c.id)).scalar_one()
    production.compose(parts.press, batch_id, now=parts.clock())
    with parts.db.work() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    manifest = json.loads(parts.shelf.store.get(f"batches/{batch_id}/manifest.json"))
    return batch, [piece["item_id"] for piece in manifest["pieces"]]


def test_who_is_suppressed_while_an_order_waits_is_not_mailed(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    inline = place(parts, owner, [person(email="jane@example.com"), *people(2)])
    listed = listed_order(parts, owner, people(3), creative_key=None, authorised=3 * CENTS)
    stranger = place(parts, open_account(parts, "stranger@example.com"), people(1))
    make_list(parts, owner, [people(1)[0], {"email": "JANE@example.com"}], suppresses=True)
    sweep(parts, clock)
    good, bad = ("Processing", None), ("Failed", SUPPRESSED)
    assert pieces(parts, inline.id) == [bad, bad, good]
    assert pieces(parts, listed) == [bad, good, good]
    assert pieces(parts, stranger.id) == [good]
    assert [(kind, cents) for kind, cents, _ in entries(parts, listed)][1:] == [("release", CENTS)]
    with parts.db.work() as tx:
        assert balances(tx, inline)["held"] == order_row(tx, inline).order_total == CENTS
        assert [printed.item_id for printed in print_rows(tx, inline)] == [item_rows(tx, inline)[2].id]
        told = tx.execute(
            sa.select(facts.c.current, facts.c.order_status).where(facts.c.previous == "Processing")
        )
        assert [tuple(row) for row in told] == [("Failed", "processing")] * 3


def test_a_branchs_suppression_list_holds_for_the_branch_and_for_the_whole_account(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    branch, other = make_branch(parts, owner), make_branch(parts, owner)
    suppressed = make_list(parts, owner, sub_account_id=branch, suppresses=True)
    by_whom = {who: place(parts, owner, people(1), sub_account_id=who) for who in (None, branch, other)}
    add_people(parts, suppressed, people(1))
    sweep(parts, clock)
    found = {who: pieces(parts, order.id)[0][0] for who, order in by_whom.items()}
    assert found == {None: "Failed", branch: "Failed", other: "Processing"}


def test_an_order_whose_everyone_is_suppressed_has_ended(parts: Parts, clock: Clock, owner: Caller) -> None:
    order = place(parts, owner, [person(), person(name=UNDELIVERABLE_NAME, address="9 Elm St")])
    make_list(parts, owner, [person(), person(address="9 Elm St")], suppresses=True)
    sweep(parts, clock)
    with parts.db.work() as tx:
        assert order_row(tx, order).status == "fulfilled"
        assert balances(tx, order) == {"credit": 0, "held": 0, "earned": 0}


def test_a_piece_that_does_not_fit_fails_alone_with_its_reason(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    whom = people(3)
    whom[1]["custom1"] = FAR_TOO_LONG
    order_id = listed_order(
        parts, owner, whom, message="Hi! " + "%CUSTOM1% " * 10, creative_key=CREATIVE, authorised=3 * CENTS
    )
    sweep_and_release(parts, clock, owner)
    batch, printed = compose(parts)
    first, (status, failure), last = pieces(parts, order_id)
    assert first == last == ("Processing", None)
    assert status == "Failed"
    assert failure is not None
    assert "too long" in failure
    assert batch.status == "composed"
    assert len(printed) == 2
    assert [(kind, cents) for kind, cents, _ in entries(parts, order_id)][1:] == [("release", CENTS)]


def test_every_misfit_of_a_batch_is_found_in_one_look(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages and addresses, of several orders, and more different ones than are looked at together."""
    whom = [person(address=f"{n} Elm St", custom1=f"{n}") for n in range(600)]
    for misfit in (0, 599):
        whom[misfit]["custom1"] = f"{misfit} {FAR_TOO_LONG}"
    first = listed_order(parts, owner, whom, message="Hi! " + "%CUSTOM1% " * 10)
    whom[1] |= {"company": "Endless " * 37, "address": "Somewhere " * 29}
    second = listed_order(parts, owner, whom[:3], creative_key=None)
    tries = []
    draw = parts.press.studio.compose

    def counted(*what: Any, **how: Any) -> Printed:
        tries.append(what)
        return draw(*what, **how)

    monkeypatch.setattr(parts.press.studio, "compose", counted)
    sweep_and_release(parts, clock, owner)
    _, printed = compose(parts)
    assert len(tries) == 2
    assert len(printed) == 600
    failed = [[place for place, (status, _) in enumerate(pieces(parts, o)) if status == "Failed"]
              for o in (first, second)]  # fmt: skip
    assert failed == [[0, 599], [1]]


def test_anothers_broken_art_does_not_make_a_misfit_everyones_trouble(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    whom = people(2)
    whom[0]["custom1"] = FAR_TOO_LONG
    misfit = listed_order(parts, owner, whom, message="Hi! " + "%CUSTOM1% " * 10)
    broken = place(parts, owner, message="Broken")
    draw = parts.press.studio.compose

    def stumbles_over_broken_art(designs: Any, copies: Any, **how: Any) -> Printed:
        if any(designs[copy.design].message == "Broken" for copy in copies):
            raise BadImage("The picture is damaged.")
        return draw(designs, copies, **how)

    monkeypatch.setattr(parts.press.studio, "compose", stumbles_over_broken_art)
    sweep_and_release(parts, clock, owner)
    _, printed = compose(parts)
    assert [status for status, _ in pieces(parts, misfit)] == ["Failed", "Processing"]
    assert pieces(parts, broken.id) == [("Failed", NOT_DRAWABLE)]
    assert len(printed) == 1
