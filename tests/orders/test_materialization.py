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
from quillpost.core.database.tables.base import facts, items, mailing_lists, orders
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.review import service as review_service
from quillpost.orders import changes
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK
from quillpost.orders.tasks import enqueue_missing_materializations, materialize_order
from quillpost.recipients.addresses.rules import NO_ADDRESS
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED
from support.factories import Clock, people, person, run_jobs_for
from support.list_rows import CENTS, CREATIVE, REVIEW, ledger_entries, make_list, make_order
from support.orders import open_account

ONLY_MAIL = {"name": "Nobody", "email": "nobody@example.com"}


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def item_rows(container: Container, order_id: int) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(items).where(items.c.order_id == order_id).order_by(items.c.id)))


def order_row(container: Container, order_id: int) -> sa.Row[Any]:
    with container.db.system_transaction() as tx:
        return tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()


def jobs_of(container: Container, task: str) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        query = sa.text("select args, scheduled_at from procrastinate_jobs where task_name = :task order by id")
        return list(tx.execute(query, {"task": task}))


def make(container: Container, order_id: int) -> None:
    materialize_order(container.db, order_id, now=container.clock())


def test_everyone_of_the_lists_becomes_an_item_with_all_that_is_known(container: Container, owner: Caller) -> None:
    known = person(
        company="Acme", address2="Apt 4", email="jane@example.com", phone="512", dob="1990-02-03",
        anniversary="2010-06-07", **{f"custom{n}": f"c{n}" for n in range(1, 11)},
    )  # fmt: skip
    list_id = make_list(container, owner, [known])
    order_id = make_order(container, owner, list_id)
    make(container, order_id)
    [item] = item_rows(container, order_id)
    kept = {name: str(value) for name, value in item._mapping.items() if name in known}
    assert kept == known
    assert (item.status, item.failure, item.price_cents) == ("Processing", None, CENTS)
    assert len(item.code) == SHORT_CODE_LENGTH
    assert (item.mailing_list_id, item.creative_key, item.country) == (list_id, CREATIVE, "US")
    assert (item.account_id, item.mode, item.created_at) == (owner.account_id, "test", container.clock())


def test_everyone_refused_is_visible_with_the_reason_and_free(container: Container, owner: Caller) -> None:
    make_list(container, owner, [person(address="3 Main St")], suppresses=True)
    make_order(container, owner, inline=[person(address="4 Main St")], audience_pending=False)
    first = make_list(container, owner, [ONLY_MAIL, *people(4)])
    second = make_list(container, owner, people(1))
    order_id = make_order(
        container, owner, second, first, inline=[person(address="2 Main St")], qrcode_url="https://example.com"
    )
    make(container, order_id)
    inline, *listed = item_rows(container, order_id)
    assert inline.mailing_list_id is None
    assert [(item.mailing_list_id, item.failure) for item in listed] == [
        (first, NO_ADDRESS),
        (first, None),
        (first, SAME_ADDRESS),
        (first, SUPPRESSED),
        (first, RECENTLY_MAILED),
        (second, SAME_ADDRESS),
    ]
    for item in listed:
        mailed = item.failure is None
        assert item.status == ("Processing" if mailed else "Failed")
        assert item.price_cents == (CENTS if mailed else 0)
        assert (item.code is not None) == mailed


def test_a_suppressed_email_leaves_the_address_to_the_next_person(container: Container, owner: Caller) -> None:
    make_list(container, owner, [{"email": "barred@example.com"}], suppresses=True)
    suppressed = person(email="barred@example.com")
    first, second = make_list(container, owner, [suppressed]), make_list(container, owner, [person()])
    order_id = make_order(container, owner, first, second)
    make(container, order_id)
    assert [item.failure for item in item_rows(container, order_id)] == [SUPPRESSED, None]


def test_an_order_counts_its_items_and_costs_what_they_cost(container: Container, owner: Caller) -> None:
    order_id = make_order(
        container, owner, make_list(container, owner, [*people(3), ONLY_MAIL]), inline=[person()], authorised=CENTS * 4
    )
    make(container, order_id)
    order = order_row(container, order_id)
    assert (order.recipient_count, order.n_processing, order.n_failed) == (5, 4, 1)
    assert (order.order_total, order.authorization_total) == (4 * CENTS, 4 * CENTS)
    assert not order.audience_pending
    assert ledger_entries(container, order_id) == [("authorise", 4 * CENTS, f"authorise:order:{order_id}:creation")]


def test_what_was_held_too_much_is_given_back(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(2)), authorised=5 * CENTS)
    make(container, order_id)
    assert ledger_entries(container, order_id)[1:] == [("release", 3 * CENTS, f"release:order:{order_id}:audience")]
    assert order_row(container, order_id).authorization_total == 5 * CENTS


def test_what_was_held_too_little_is_held_too(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(2)), authorised=CENTS)
    make(container, order_id)
    assert ledger_entries(container, order_id)[1:] == [("authorise", CENTS, f"authorise:order:{order_id}:audience")]
    assert order_row(container, order_id).authorization_total == CENTS


def test_the_price_is_that_of_the_day_of_the_order(container: Container, owner: Caller, clock: Clock) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(1)))
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text(
                """insert into prices (type, size, mail_class, country, unit_cents, valid_from)
                   values ('postcard', '4x6', 'first', 'US', 999, :tomorrow)"""
            ),
            {"tomorrow": clock.now().date().replace(day=5)},
        )
    clock.advance(days=2)
    make(container, order_id)
    assert order_row(container, order_id).order_total == CENTS


def test_each_item_has_one_event_and_inline_ones_no_second(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, [*people(1), ONLY_MAIL]), inline=[person()])
    make(container, order_id)
    with container.db.system_transaction() as tx:
        events = tx.execute(sa.select(facts).where(facts.c.item_id.is_not(None)).order_by(facts.c.id)).all()
        queued = set(tx.execute(sa.text("select fact_id from fact_queue")).scalars())
    assert queued >= {fact.id for fact in events}
    made = item_rows(container, order_id)[1:]
    assert [(fact.item_id, fact.previous, fact.current, fact.order_status) for fact in events] == [
        (item.id, None, item.status, "reviewing") for item in made
    ]


def test_lists_count_the_pieces_that_go_to_them(container: Container, owner: Caller, clock: Clock) -> None:
    busy, idle = make_list(container, owner, [*people(3), ONLY_MAIL]), make_list(container, owner, people(1))
    for _ in range(2):
        make(container, make_order(container, owner, busy, idle, allow_duplicates=True))
    assert sends(container) == {busy: (0, None), idle: (0, None)}  # nothing has gone yet
    clock.advance(seconds=REVIEW.seconds)
    mailed_at = clock.now()
    for _ in range(2):
        hand_over_what_is_due(container)
        clock.advance(seconds=1)
    assert sends(container) == {busy: (6, mailed_at), idle: (0, None)}


def test_lists_count_nothing_of_what_is_not_mailed(container: Container, owner: Caller, clock: Clock) -> None:
    whom = make_list(container, owner, people(3))
    cancelled, later, now = (
        make_order(container, owner, whom, allow_duplicates=True, due_at=clock.now() + wait)
        for wait in (REVIEW, timedelta(days=365), REVIEW)
    )
    for order_id in (cancelled, later, now):
        make(container, order_id)
    with container.db.transaction(build_tenant(owner)) as tx:
        changes.cancel_order(tx, cancelled, now=clock.now())
    suppressed = make_list(container, owner, people(1), suppresses=True)
    clock.advance(seconds=REVIEW.seconds)
    hand_over_what_is_due(container)
    assert sends(container) == {whom: (2, clock.now()), suppressed: (0, None)}


def hand_over_what_is_due(container: Container) -> None:
    """To the printer; each step is done twice, as after a crash."""
    for _ in range(2):
        review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        made = tx.execute(sa.select(batches.c.id)).scalars().all()
    for step in (
        batch_tasks.compose_batch,
        batch_tasks.compose_batch,
        batch_tasks.hand_over_batch,
        batch_tasks.hand_over_batch,
    ):
        for batch_id in made:
            step(container.production, batch_id, now=container.clock())


def test_a_list_that_someone_is_busy_with_holds_up_no_review(container: Container, owner: Caller, clock: Clock) -> None:
    list_id = make_list(container, owner, people(2))
    order_id = make_order(container, owner, list_id)
    make(container, order_id)
    clock.advance(seconds=REVIEW.seconds)
    with ThreadPoolExecutor(1) as worker, container.db.transaction(build_tenant(owner)) as busy:
        lock_lists(busy, [list_id])
        worker.submit(review_service.sweep_due_orders, container.production, now=clock.now()).result(timeout=30)
        assert order_row(container, order_id).status == "processing"


def sends(container: Container) -> dict[int, tuple[int, Any]]:
    """How many pieces went to each list, and when the last did."""
    with container.db.system_transaction() as tx:
        return {row.id: (row.total_sends, row.last_send) for row in tx.execute(sa.select(mailing_lists))}


def test_a_second_run_changes_nothing(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(2)))
    make(container, order_id)
    before = item_rows(container, order_id), order_row(container, order_id), ledger_entries(container, order_id)
    make(container, order_id)
    assert (
        item_rows(container, order_id),
        order_row(container, order_id),
        ledger_entries(container, order_id),
    ) == before


def test_a_cancelled_order_makes_no_items(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(2)), authorised=CENTS)
    with container.db.transaction(build_tenant(owner)) as tx:
        changes.cancel_order(tx, order_id, now=container.clock())
    make(container, order_id)
    assert item_rows(container, order_id) == []
    assert not order_row(container, order_id).audience_pending
    assert order_row(container, order_id).recipient_count == 0
    assert [kind for kind, _, _ in ledger_entries(container, order_id)] == ["authorise", "release"]


def test_the_second_of_two_orders_of_one_creative_is_all_repeats(container: Container, owner: Caller) -> None:
    whom = make_list(container, owner, people(2))
    first, second = make_order(container, owner, whom), make_order(container, owner, whom)
    make(container, second)
    make(container, first)
    assert [item.failure for item in item_rows(container, second)] == [None, None]
    assert [item.failure for item in item_rows(container, first)] == [RECENTLY_MAILED, RECENTLY_MAILED]
    assert order_row(container, first).order_total == 0


def test_a_gift_card_reaches_an_address_again(container: Container, owner: Caller) -> None:
    whom = make_list(container, owner, people(1))
    make(container, make_order(container, owner, whom))
    gift = make_order(container, owner, whom, type="giftcard", size=None)
    make(container, gift)
    assert [item.failure for item in item_rows(container, gift)] == [None]


def test_two_codes_that_are_the_same_undo_all_until_the_next_try(
    container: Container, owner: Caller, conninfo: str
) -> None:
    order_id = make_order(
        container, owner, make_list(container, owner, people(2)), qrcode_url="https://example.com", authorised=CENTS
    )
    define = sa.text("select pg_get_functiondef('new_short_code'::regproc)")
    with container.db.system_transaction() as tx:
        sound = tx.execute(define).scalar_one()
    unlucky = sound.replace("return left(code, 8);", "return 'AAAAAAAA';")
    assert unlucky != sound
    administer(conninfo, unlucky)
    with pytest.raises(sa.exc.IntegrityError, match="items_code_key"):
        make(container, order_id)
    assert item_rows(container, order_id) == []
    assert order_row(container, order_id).audience_pending
    administer(conninfo, sound)
    make(container, order_id)
    codes = {item.code for item in item_rows(container, order_id)}
    assert len(codes) == 2
    assert all(len(code) == 8 for code in codes)


def administer(conninfo: str, statement: str) -> None:
    with psycopg.connect(conninfo) as admin:
        admin.execute(statement)


def test_a_due_order_waits_for_its_items(container: Container, owner: Caller, clock: Clock) -> None:
    order_id = make_order(container, owner, make_list(container, owner, people(2)))
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert order_row(container, order_id).status == "reviewing"
    assert jobs_of(container, SWEEP_TASK) == []
    make(container, order_id)
    [sweep] = jobs_of(container, SWEEP_TASK)
    assert sweep.scheduled_at >= clock.now()
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert order_row(container, order_id).status == "processing"
    with container.db.system_transaction() as tx:
        printed = set(tx.execute(sa.select(prints.c.item_id)).scalars())
    assert printed == {item.id for item in item_rows(container, order_id)}


def test_an_order_to_a_list_is_delivered(container: Container, owner: Caller, clock: Clock) -> None:
    order_id = make_order(container, owner, make_list(container, owner, [*people(2), ONLY_MAIL]), authorised=2 * CENTS)
    run_jobs_for(container, clock, seconds=60)
    assert order_row(container, order_id).status == "fulfilled"
    assert [item.status for item in item_rows(container, order_id)] == ["Delivered", "Delivered", "Failed"]
    assert [kind for kind, _, _ in ledger_entries(container, order_id)] == ["authorise", "capture"]


def test_an_order_that_no_job_waits_for_gets_one(container: Container, owner: Caller) -> None:
    with_job = make_order(container, owner, make_list(container, owner, people(1)))
    without = make_order(container, owner, make_list(container, owner, people(1)))
    done = make_order(container, owner, audience_pending=False)
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text("delete from procrastinate_jobs where args->>'order_id' = any(:orders)"),
            {"orders": [str(without), str(done)]},
        )
    for _ in range(2):
        enqueue_missing_materializations(container.db)
    assert [job.args["order_id"] for job in jobs_of(container, MATERIALIZE_TASK)] == [with_job, without]
