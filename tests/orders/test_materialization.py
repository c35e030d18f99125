"""An order's lists become items: once, counted, paid for and told."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists, prices
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.review import service as review_service
from quillpost.orders import changes
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK
from quillpost.orders.tasks import enqueue_missing_materializations, materialize_order
from quillpost.recipients.addresses.rules import NO_ADDRESS
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED
from support.factories import Clock, people, person, run_jobs_for
from support.mailing_lists import CREATIVE, ledger_entries, make_list, make_order
from support.orders import CENTS, REVIEW, fact_rows, item_ids, item_rows, order_row
from support.production import batch_rows, compose, hand_over, print_rows
from support.rows import execute, scalar, scalars

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


def failures(container: Container, order_id: int) -> list[str | None]:
    return [item.failure for item in item_rows(container, order_id)]


def test_everyone_of_the_lists_becomes_an_item_with_all_that_is_known(container: Container, caller: Caller) -> None:
    known = person(
        company="Acme", address2="Apt 4", email="jane@example.com", phone="512", dob="1990-02-03",
        anniversary="2010-06-07", **{f"custom{n}": f"c{n}" for n in range(1, 11)},
    )  # fmt: skip
    list_id = make_list(container, caller, [known])
    order_id = make_order(container, caller, list_id)
    make(container, order_id)
    [item] = item_rows(container, order_id)
    kept = {name: str(value) for name, value in item._mapping.items() if name in known}
    assert kept == known
    assert (item.status, item.failure, item.price_cents) == ("Processing", None, CENTS)
    assert len(item.code) == SHORT_CODE_LENGTH
    assert (item.mailing_list_id, item.creative_key, item.country) == (list_id, CREATIVE, "US")
    assert (item.account_id, item.mode, item.created_at) == (caller.account_id, "test", container.clock())


def test_everyone_refused_is_visible_with_the_reason_and_free(container: Container, caller: Caller) -> None:
    make_list(container, caller, [person(address="3 Main St")], suppresses=True)
    make_order(container, caller, inline=[person(address="4 Main St")], audience_pending=False)
    first = make_list(container, caller, [ONLY_MAIL, *people(4)])
    second = make_list(container, caller, people(1))
    order_id = make_order(
        container, caller, second, first, inline=[person(address="2 Main St")], qrcode_url="https://example.com"
    )
    make(container, order_id)
    inline, *listed = item_rows(container, order_id)
    assert inline.mailing_list_id is None
    reasons = [NO_ADDRESS, None, SAME_ADDRESS, SUPPRESSED, RECENTLY_MAILED, SAME_ADDRESS]
    lists = [first] * 5 + [second]
    assert [(item.mailing_list_id, item.failure) for item in listed] == list(zip(lists, reasons, strict=True))
    for item in listed:
        mailed = item.failure is None
        assert (item.status, item.price_cents) == (("Processing", CENTS) if mailed else ("Failed", 0))
        assert (item.code is not None) == mailed


def test_an_order_counts_its_items_and_costs_what_they_cost(container: Container, caller: Caller) -> None:
    order_id = made(container, caller, *people(3), ONLY_MAIL, inline=[person()], authorised=CENTS * 4)
    order = order_row(container, order_id)
    assert (order.recipient_count, order.n_processing, order.n_failed) == (5, 4, 1)
    assert (order.order_total, order.authorization_total) == (4 * CENTS, 4 * CENTS)
    assert not order.audience_pending
    assert ledger_entries(container, order_id) == [("authorise", 4 * CENTS, f"authorise:order:{order_id}:creation")]


@pytest.mark.parametrize(("held", "kind", "moved"), [(5, "release", 3), (1, "authorise", 1)])
def test_what_was_held_too_much_is_given_back_and_what_too_little_is_held_too(
    container: Container, caller: Caller, held: int, kind: str, moved: int
) -> None:
    order_id = made(container, caller, *people(2), authorised=held * CENTS)
    assert ledger_entries(container, order_id)[1:] == [(kind, moved * CENTS, f"{kind}:order:{order_id}:audience")]
    assert order_row(container, order_id).authorization_total == held * CENTS


def test_the_price_is_that_of_the_day_of_the_order(container: Container, caller: Caller, clock: Clock) -> None:
    order_id = make_order(container, caller, make_list(container, caller, people(1)))
    price = {"type": "postcard", "size": "4x6", "mail_class": "first", "country": "US", "unit_cents": 999}
    execute(container, sa.insert(prices).values(**price, valid_from=clock.now().date().replace(day=5)))
    clock.advance(days=2)
    make(container, order_id)
    assert order_row(container, order_id).order_total == CENTS


def test_each_item_has_one_event_and_inline_ones_no_second(container: Container, caller: Caller) -> None:
    order_id = made(container, caller, *people(1), ONLY_MAIL, inline=[person()])
    events = [fact for fact in fact_rows(container, order_id) if fact.item_id is not None]
    assert set(scalars(container, "select fact_id from fact_queue")) >= {fact.id for fact in events}
    assert [(fact.item_id, fact.previous, fact.current, fact.order_status) for fact in events] == [
        (item.id, None, item.status, "reviewing") for item in item_rows(container, order_id)[1:]
    ]


def test_lists_count_the_pieces_that_go_to_them(container: Container, caller: Caller, clock: Clock) -> None:
    busy, idle = make_list(container, caller, [*people(3), ONLY_MAIL]), make_list(container, caller, people(1))
    for _ in range(2):
        make(container, make_order(container, caller, busy, idle, allow_duplicates=True))
    assert sends(container) == {busy: (0, None), idle: (0, None)}  # nothing has gone yet
    clock.advance(seconds=REVIEW.seconds)
    mailed_at = clock.now()
    for _ in range(2):
        hand_over_what_is_due(container)
        clock.advance(seconds=1)
    assert sends(container) == {busy: (6, mailed_at), idle: (0, None)}


def test_lists_count_nothing_of_what_is_not_mailed(container: Container, caller: Caller, clock: Clock) -> None:
    whom, waits = make_list(container, caller, people(3)), (REVIEW, timedelta(days=365), REVIEW)
    dues = [clock.now() + wait for wait in waits]
    cancelled, *others = (make_order(container, caller, whom, allow_duplicates=True, due_at=due) for due in dues)
    for order_id in (cancelled, *others):
        make(container, order_id)
    with container.db.transaction(build_tenant(caller)) as tx:
        changes.cancel_order(tx, cancelled, now=clock.now())
    suppressed = make_list(container, caller, people(1), suppresses=True)
    clock.advance(seconds=REVIEW.seconds)
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
    clock.advance(seconds=REVIEW.seconds)
    with ThreadPoolExecutor(1) as worker, container.db.transaction(build_tenant(caller)) as busy:
        lock_lists(busy, [list_id])
        worker.submit(review_service.sweep_due_orders, container.production, now=clock.now()).result(timeout=30)
        assert order_row(container, order_id).status == "processing"


def sends(container: Container) -> dict[int, tuple[int, Any]]:
    """How many pieces went to each list, and when the last did."""
    return {row.id: (row.total_sends, row.last_send) for row in execute(container, sa.select(mailing_lists))}


def test_a_second_run_changes_nothing(container: Container, caller: Caller) -> None:
    looks = (item_rows, order_row, ledger_entries)
    order_id = made(container, caller, *people(2))
    before = [look(container, order_id) for look in looks]
    make(container, order_id)
    assert [look(container, order_id) for look in looks] == before


def test_a_cancelled_order_makes_no_items(container: Container, caller: Caller) -> None:
    order_id = make_order(container, caller, make_list(container, caller, people(2)), authorised=CENTS)
    with container.db.transaction(build_tenant(caller)) as tx:
        changes.cancel_order(tx, order_id, now=container.clock())
    make(container, order_id)
    order = order_row(container, order_id)
    assert (item_rows(container, order_id), order.audience_pending, order.recipient_count) == ([], False, 0)
    assert [kind for kind, _, _ in ledger_entries(container, order_id)] == ["authorise", "release"]


def test_the_second_of_two_orders_of_one_creative_is_all_repeats(container: Container, caller: Caller) -> None:
    """But for gift cards: they reach an address again."""
    whom = make_list(container, caller, people(2))
    first, second = make_order(container, caller, whom), make_order(container, caller, whom)
    gift = make_order(container, caller, whom, type="giftcard", size=None)
    for order_id in (second, first, gift):
        make(container, order_id)
    assert [failures(container, order_id) for order_id in (second, first, gift)] == [
        [None] * 2, [RECENTLY_MAILED] * 2, [None] * 2,
    ]  # fmt: skip
    assert order_row(container, first).order_total == 0


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
        assert item_rows(container, order_id) == []
        assert order_row(container, order_id).audience_pending
        admin.execute(sound)
    make(container, order_id)
    codes = {item.code for item in item_rows(container, order_id)}
    assert [len(code) for code in codes] == [8, 8]


def test_a_due_order_waits_for_its_items_and_is_delivered(container: Container, caller: Caller, clock: Clock) -> None:
    whom = make_list(container, caller, [*people(2), ONLY_MAIL])
    order_id = make_order(container, caller, whom, authorised=2 * CENTS)
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert order_row(container, order_id).status == "reviewing"
    assert jobs_of(container, SWEEP_TASK) == []
    make(container, order_id)
    [sweep] = jobs_of(container, SWEEP_TASK)
    assert sweep.scheduled_at >= clock.now()
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert order_row(container, order_id).status == "processing"
    first, second, _ = item_ids(container, order_id)
    assert [row.item_id for row in print_rows(container, order_id)] == [first, second]
    run_jobs_for(container, clock, seconds=60)
    assert order_row(container, order_id).status == "fulfilled"
    assert [item.status for item in item_rows(container, order_id)] == ["Delivered", "Delivered", "Failed"]
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
