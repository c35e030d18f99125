"""An order's lists become items, once, counted and paid for; and pieces that are suppressed or too long by then."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts, mailing_lists, prices
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME
from quillpost.fulfillment.print_room.service import pool_orders_now
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.review.service import release_order
from quillpost.orders import changes
from quillpost.orders.models import Order
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK
from quillpost.orders.tasks import enqueue_missing_materializations, materialize_order
from quillpost.recipients.addresses.rules import NO_ADDRESS
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.rules import UnprintableImage
from support import orders, production
from support.factories import Clock, make_sub_account, people, person, run_jobs_for
from support.mailing_lists import CREATIVE, add_people, ledger_entries, make_list, make_order
from support.orders import CENTS
from support.production import batch_rows, compose, hand_over, print_rows
from support.rows import execute, run_as, scalar, scalars

pytestmark = pytest.mark.usefixtures("clean_database")

ONLY_MAIL = {"name": "Nobody", "email": "nobody@example.com"}


def jobs_of(container: Container, task: str) -> list[sa.Row[Any]]:
    query = "select args, scheduled_at from procrastinate_jobs where task_name = :task order by id"
    return execute(container, query, task=task)


def make(container: Container, order_id: int) -> None:
    materialize_order(container.db, order_id, now=container.clock())


def made(container: Container, caller: Caller, *whom: dict[str, Any], **values: Any) -> int:
    """An order to a list of these people, who are items."""
    order_id = make_order(container, caller, make_list(container, caller, whom), **values)
    make(container, order_id)
    return order_id


def test_everyone_becomes_an_item_with_all_that_is_known_and_one_event(container: Container, caller: Caller) -> None:
    known = person(
        company="Acme", address2="Apt 4", email="jane@example.com", phone="512", dob="1990-02-03",
        anniversary="2010-06-07", **{f"custom{n}": f"c{n}" for n in range(1, 11)},
    )  # fmt: skip
    list_id = make_list(container, caller, [known])
    order_id = make_order(container, caller, list_id)
    make(container, order_id)
    [item] = orders.item_rows(container, order_id)
    kept = {name: str(value) for name, value in item._mapping.items() if name in known}
    assert (kept, item.status, item.failure, item.price_cents) == (known, "Processing", None, CENTS)
    assert len(item.code) == SHORT_CODE_LENGTH
    assert (item.mailing_list_id, item.creative_key, item.country) == (list_id, CREATIVE, "US")
    assert (item.account_id, item.mode, item.created_at) == (caller.account_id, "test", container.clock())
    order_id = made(container, caller, *people(1), ONLY_MAIL, inline=[person()])
    events = [fact for fact in orders.fact_rows(container, order_id) if fact.item_id is not None]
    assert set(scalars(container, "select fact_id from fact_queue")) >= {fact.id for fact in events}
    assert [(fact.item_id, fact.previous, fact.current, fact.order_status) for fact in events] == [
        (item.id, None, item.status, "reviewing") for item in orders.item_rows(container, order_id)[1:]
    ]


def test_everyone_refused_is_visible_with_the_reason_and_free(container: Container, caller: Caller) -> None:
    make_list(container, caller, [person(address="3 Main St")], suppresses=True)
    make_order(container, caller, inline=[person(address="4 Main St")], audience_pending=False)
    first = make_list(container, caller, [ONLY_MAIL, *people(4)])
    second = make_list(container, caller, people(1))
    order_id = make_order(
        container, caller, second, first, inline=[person(address="2 Main St")], qrcode_url="https://example.com"
    )
    make(container, order_id)
    inline, *listed = orders.item_rows(container, order_id)
    assert inline.mailing_list_id is None
    reasons = [NO_ADDRESS, None, SAME_ADDRESS, SUPPRESSED, RECENTLY_MAILED, SAME_ADDRESS]
    lists = [first] * 5 + [second]
    assert [(item.mailing_list_id, item.failure) for item in listed] == list(zip(lists, reasons, strict=True))
    for item in listed:
        mailed = item.failure is None
        assert (item.status, item.price_cents) == (("Processing", CENTS) if mailed else ("Failed", 0))
        assert (item.code is not None) == mailed


def test_an_order_counts_its_items_at_the_price_of_its_day(container: Container, caller: Caller, clock: Clock) -> None:
    order_id = made(container, caller, *people(3), ONLY_MAIL, inline=[person()], authorised=CENTS * 4)
    order = orders.order_row(container, order_id)
    assert (order.recipient_count, order.n_processing, order.n_failed) == (5, 4, 1)
    assert (order.order_total, order.authorization_total) == (4 * CENTS, 4 * CENTS)
    assert not order.audience_pending
    assert ledger_entries(container, order_id) == [("authorise", 4 * CENTS, f"authorise:order:{order_id}:creation")]
    order_id = make_order(container, caller, make_list(container, caller, [person(address="9 Elm St")]))
    price = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US", "unit_cents": 999}
    execute(container, sa.insert(prices).values(**price, valid_from=clock.now().date().replace(day=5)))
    clock.advance(days=2)
    make(container, order_id)
    assert orders.order_row(container, order_id).order_total == CENTS


@pytest.mark.parametrize(("held", "kind", "moved"), [(5, "release", 3), (1, "authorise", 1)])
def test_what_was_held_too_much_is_given_back_and_what_too_little_is_held_too(
    container: Container, caller: Caller, held: int, kind: str, moved: int
) -> None:
    order_id = made(container, caller, *people(2), authorised=held * CENTS)
    assert ledger_entries(container, order_id)[1:] == [(kind, moved * CENTS, f"{kind}:order:{order_id}:audience")]
    assert orders.order_row(container, order_id).authorization_total == held * CENTS


def test_lists_count_the_pieces_that_go_to_them(container: Container, caller: Caller, clock: Clock) -> None:
    busy, idle = make_list(container, caller, [*people(3), ONLY_MAIL]), make_list(container, caller, people(1))
    for _ in range(2):
        make(container, make_order(container, caller, busy, idle, allow_duplicates=True))
    assert sends(container) == {busy: (0, None), idle: (0, None)}  # nothing has gone yet
    clock.advance(seconds=orders.REVIEW.seconds)
    mailed_at = clock.now()
    for _ in range(2):
        hand_over_what_is_due(container)
        clock.advance(seconds=1)
    assert sends(container) == {busy: (6, mailed_at), idle: (0, None)}


def test_lists_count_nothing_of_what_is_not_mailed(container: Container, caller: Caller, clock: Clock) -> None:
    whom, waits = make_list(container, caller, people(3)), (orders.REVIEW, timedelta(days=365), orders.REVIEW)
    dues = [clock.now() + wait for wait in waits]
    cancelled, *others = (make_order(container, caller, whom, allow_duplicates=True, due_at=due) for due in dues)
    for order_id in (cancelled, *others):
        make(container, order_id)
    run_as(container, caller, changes.cancel_order, cancelled, now=clock.now())
    suppressed = make_list(container, caller, people(1), suppresses=True)
    clock.advance(seconds=orders.REVIEW.seconds)
    hand_over_what_is_due(container)
    assert sends(container) == {whom: (2, clock.now()), suppressed: (0, None)}


def hand_over_what_is_due(container: Container) -> None:
    """To the printer; each step is done twice, as after a crash."""
    for _ in range(2):
        review_service.sweep_due_orders(container.production, now=container.clock())
    for step in (compose, compose, hand_over, hand_over):
        for batch in batch_rows(container):
            step(container, batch.id)


def test_a_list_someone_is_busy_with_holds_up_no_review(container: Container, caller: Caller, clock: Clock) -> None:
    list_id = make_list(container, caller, people(2))
    order_id = make_order(container, caller, list_id)
    make(container, order_id)
    clock.advance(seconds=orders.REVIEW.seconds)
    with ThreadPoolExecutor(1) as worker, container.db.transaction(build_tenant(caller)) as busy:
        lock_lists(busy, [list_id])
        worker.submit(review_service.sweep_due_orders, container.production, now=clock.now()).result(timeout=30)
        assert orders.order_row(container, order_id).status == "processing"


def sends(container: Container) -> dict[int, tuple[int, Any]]:
    """How many pieces went to each list, and when the last did."""
    return {row.id: (row.total_sends, row.last_send) for row in execute(container, sa.select(mailing_lists))}


def test_a_second_run_or_one_of_a_cancelled_order_makes_no_items(container: Container, caller: Caller) -> None:
    looks = (orders.item_rows, orders.order_row, ledger_entries)
    order_id = made(container, caller, *people(2))
    before = [look(container, order_id) for look in looks]
    make(container, order_id)
    assert [look(container, order_id) for look in looks] == before
    order_id = make_order(container, caller, make_list(container, caller, people(2)), authorised=CENTS)
    run_as(container, caller, changes.cancel_order, order_id, now=container.clock())
    make(container, order_id)
    order = orders.order_row(container, order_id)
    assert (orders.item_rows(container, order_id), order.audience_pending, order.recipient_count) == ([], False, 0)
    assert [kind for kind, _, _ in ledger_entries(container, order_id)] == ["authorise", "release"]


def test_the_second_of_two_orders_of_one_creative_is_all_repeats(container: Container, caller: Caller) -> None:
    """But for gift cards: they reach an address again."""
    whom = make_list(container, caller, people(2))
    first, second = make_order(container, caller, whom), make_order(container, caller, whom)
    gift = make_order(container, caller, whom, type="giftcard", size=None)
    for order_id in (second, first, gift):
        make(container, order_id)
    for order_id, failure in ((second, None), (first, RECENTLY_MAILED), (gift, None)):
        assert [item.failure for item in orders.item_rows(container, order_id)] == [failure] * 2
    assert orders.order_row(container, first).order_total == 0


def test_two_equal_codes_undo_all_until_the_next_try(container: Container, caller: Caller, conninfo: str) -> None:
    order_id = make_order(
        container, caller, make_list(container, caller, people(2)), qrcode_url="https://example.com", authorised=CENTS
    )
    sound = scalar(container, "select pg_get_functiondef('new_short_code'::regproc)")
    unlucky = sound.replace("return left(code, 8);", "return 'AAAAAAAA';")
    assert unlucky != sound
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute(unlucky)
        with pytest.raises(sa.exc.IntegrityError, match="items_code_key"):
            make(container, order_id)
        assert orders.item_rows(container, order_id) == []
        assert orders.order_row(container, order_id).audience_pending
        admin.execute(sound)
    make(container, order_id)
    codes = {item.code for item in orders.item_rows(container, order_id)}
    assert [len(code) for code in codes] == [8, 8]


def test_a_due_order_waits_for_its_items_and_is_delivered(container: Container, caller: Caller, clock: Clock) -> None:
    whom = make_list(container, caller, [*people(2), ONLY_MAIL])
    order_id = make_order(container, caller, whom, authorised=2 * CENTS)
    clock.advance(seconds=orders.REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert (orders.order_row(container, order_id).status, jobs_of(container, SWEEP_TASK)) == ("reviewing", [])
    make(container, order_id)
    [sweep] = jobs_of(container, SWEEP_TASK)
    assert sweep.scheduled_at >= clock.now()
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert orders.order_row(container, order_id).status == "processing"
    first, second, _ = orders.item_ids(container, order_id)
    assert [row.item_id for row in print_rows(container, order_id)] == [first, second]
    run_jobs_for(container, clock, seconds=60)
    assert orders.order_row(container, order_id).status == "fulfilled"
    assert [item.status for item in orders.item_rows(container, order_id)] == ["Delivered", "Delivered", "Failed"]
    assert [kind for kind, _, _ in ledger_entries(container, order_id)] == ["authorise", "capture"]


def test_an_order_that_no_job_waits_for_gets_one(container: Container, caller: Caller) -> None:
    with_job = make_order(container, caller, make_list(container, caller, people(1)))
    without = make_order(container, caller, make_list(container, caller, people(1)))
    done = make_order(container, caller, audience_pending=False)
    execute(
        container,
        "delete from procrastinate_jobs where args->>'order_id' = any(:orders)",
        orders=[str(without), str(done)],
    )
    for _ in range(2):
        enqueue_missing_materializations(container.db)
    assert [job.args["order_id"] for job in jobs_of(container, MATERIALIZE_TASK)] == [with_job, without]


FAR_TOO_LONG, LONG = "word " * 50, "Hi! " + "%CUSTOM1% " * 10


def sweep_and_release(container: Container, clock: Clock, operator: Caller) -> None:
    """What the review holds because of its longest words an operator lets go: then those alone fail.

    All are pooled together, at the cut-off.
    """
    here = production.with_environment(container, cutoff=(clock.now() - timedelta(hours=1)).time())
    production.sweep_due_orders(here, clock)
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
    return [(row.status, row.failure) for row in orders.item_rows(container, order)]


def printed_items(container: Container) -> list[int]:
    """The items in the manifest of the one batch, which is composed now."""
    batch_id = production.compose(container, production.only_batch(container).id)
    assert production.read_batch(container, batch_id).status == "composed"
    manifest = json.loads(container.storage.store.get(f"batches/{batch_id}/manifest.json"))
    return [piece["item_id"] for piece in manifest["pieces"]]


def test_people_suppressed_while_it_waits_are_not_mailed(container: Container, clock: Clock, caller: Caller) -> None:
    inline = orders.create_order(container, caller, [person(email="jane@example.com"), *people(2)])
    listed = listed_order(container, caller, people(3), creative_key=None, authorised=3 * CENTS)
    stranger = orders.create_order(container, orders.open_account(container, "stranger@example.com"), people(1))
    make_list(container, caller, [people(1)[0], {"email": "JANE@example.com"}], suppresses=True)
    production.sweep_due_orders(container, clock)
    good, bad = ("Processing", None), ("Failed", SUPPRESSED)
    assert pieces(container, inline) == [bad, bad, good]
    assert (pieces(container, listed), pieces(container, stranger)) == ([bad, good, good], [good])
    assert [(kind, cents) for kind, cents, _ in ledger_entries(container, listed)][1:] == [("release", CENTS)]
    with container.db.system_transaction() as tx:
        assert orders.balances(tx, inline)["held"] == orders.order_row(tx, inline).order_total == CENTS
        assert [printed.item_id for printed in production.print_rows(tx, inline)] == [
            orders.item_rows(tx, inline)[2].id
        ]
        transitions = tx.execute(
            sa.select(facts.c.current, facts.c.order_status).where(facts.c.previous == "Processing")
        )
        assert [tuple(row) for row in transitions] == [("Failed", "processing")] * 3


def test_a_branchs_suppressions_hold_for_branch_and_account(container: Container, clock: Clock, caller: Caller) -> None:
    branch, other = make_sub_account(container, caller), make_sub_account(container, caller)
    suppressed = make_list(container, caller, sub_account_id=branch, suppresses=True)
    by_whom = {
        sub_account_id: orders.create_order(container, caller, people(1), sub_account_id=sub_account_id)
        for sub_account_id in (None, branch, other)
    }
    add_people(container, suppressed, people(1))
    production.sweep_due_orders(container, clock)
    found = {sub_account_id: pieces(container, order)[0][0] for sub_account_id, order in by_whom.items()}
    assert found == {None: "Failed", branch: "Failed", other: "Processing"}


def test_an_order_whose_everyone_is_suppressed_has_ended(container: Container, clock: Clock, caller: Caller) -> None:
    order = orders.create_order(container, caller, [person(), person(name=UNDELIVERABLE_NAME, address="9 Elm St")])
    make_list(container, caller, [person(), person(address="9 Elm St")], suppresses=True)
    production.sweep_due_orders(container, clock)
    assert orders.order_row(container, order).status == "fulfilled"
    assert orders.balances(container, order) == {"credit": 0, "held": 0, "earned": 0}


def test_a_piece_that_does_not_fit_fails_alone_whatever_else_is_in_its_batch(
    container: Container, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    whom = people(3)
    whom[1]["custom1"] = FAR_TOO_LONG
    misfit = listed_order(container, caller, whom, message=LONG, creative_key=CREATIVE, authorised=3 * CENTS)
    broken = orders.create_order(container, caller, message="Broken")
    production.stumble_over(container, monkeypatch, UnprintableImage("The picture is damaged."), "Broken")
    sweep_and_release(container, clock, caller)
    first, last = orders.item_ids(container, misfit)[::2]
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
    assert (len(printed_items(container)), len(tries)) == (600, 2)
    failed = [[index for index, (status, _) in enumerate(pieces(container, o)) if status == "Failed"]
              for o in (first, second)]  # fmt: skip
    assert failed == [[0, 599], [1]]
