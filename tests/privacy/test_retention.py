"""How long what is kept: every table has its rule or its reason, and nothing goes that somebody needs yet."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.base import files, items, orders
from quillpost.core.database.tables.fulfillment import batch_files, batches
from quillpost.core.errors import Refused
from quillpost.orders.items.queries import list_item_steps, read_item
from quillpost.orders.models import Order, ReplayRequest
from quillpost.orders.requests.queries import resolve_replay
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.tasks import RETENTION_RULES, RetentionStep
from support.factories import Build, Clock
from support.orders import balances, fact_rows, item_rows, open_account, order_row
from support.production import ingest, mailed_order, scan_journey
from support.rows import execute, run, scalar, scalars
from support.tenant_rows import insert_least, metadata

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.usefixtures("clean_database")

OTHERS = {"procrastinate_events", "procrastinate_workers", "procrastinate_periodic_defers", "alembic_version"}
"""The job engine keeps its events with its jobs."""


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def order(container: Container, clock: Clock, owner: Caller) -> Order:
    """One piece, which was delivered."""
    made = mailed_order(container, owner)
    [code] = scalars(container, "select tracking from prints")
    clock.advance(days=5)
    ingest(container, *[seen for seen in scan_journey(container, code) if seen.at < clock.now() + timedelta(days=9)])
    return made


def delete_expired(container: Container, **days: int) -> None:
    privacy_tasks.delete_overdue(container.db, days, now=container.clock())


def replay(container: Container, order: Order) -> None:
    caller = Caller(order.account_id, order.mode)
    with container.db.transaction(build_tenant(caller)) as tx:
        again = ReplayRequest(order_id=order.id, copy_metadata=True, allows_repeats=True)
        resolve_replay(tx, caller, again, price_date=container.clock().date())


def count(container: Container, table: str) -> int:
    return int(scalar(container, f"select count(*) from {table}"))


def piece(container: Container, order: Order) -> sa.Row[Any]:
    [row] = run(container, item_rows, order)
    return row


def test_every_table_has_a_rule_that_is_documented_or_a_reason(container: Container) -> None:
    """A new table needs a rule, or a line in the documentation that says why its rows stay."""
    ours = """select relname from pg_class where relnamespace = 'public'::regnamespace
               and relkind in ('r', 'p') and not relispartition"""
    found = set(scalars(container, ours))
    page = (DOCS / "privacy.md").read_text()
    ruled = {rule.table for rule in RETENTION_RULES}
    documented = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page, re.MULTILINE))
    assert found - OTHERS - ruled - documented == set()
    assert (ruled | documented) - found == set()
    for rule in RETENTION_RULES:
        assert f"`{rule.table}` | {rule.description} | `QUILLPOST_{rule.setting.upper()}` |" in page
    known = {task.name for task in app_tasks.build_tasks(container)} | {"jobs.delete_finished"}
    assert {rule.job for rule in RETENTION_RULES if rule.job} <= known
    assert all(rule.job or rule.delete_rows for rule in RETENTION_RULES)
    everything = {rule.setting: 1 for rule in RETENTION_RULES}
    shown = privacy_tasks.list_retention(container.db, everything, now=container.clock())
    assert [(kept.rule.table, kept.overdue_count) for kept in shown] == [(rule.table, 0) for rule in RETENTION_RULES]


def test_an_ended_piece_forgets_its_recipient(container: Container, clock: Clock, order: Order, owner: Caller) -> None:
    under_way = mailed_order(container, owner)
    with container.db.system_transaction() as tx:
        books = order_row(tx, order).order_total, balances(tx, order)
    clock.advance(days=29)
    delete_expired(container, keep_people_days=30)
    assert piece(container, order).name is not None
    clock.advance(days=2)
    delete_expired(container, keep_people_days=30)
    assert (piece(container, order).name, piece(container, order).address_key) == (None, None)
    assert piece(container, order).status == "Delivered"
    with container.db.system_transaction() as tx:
        assert (order_row(tx, order).order_total, balances(tx, order)) == books
    with pytest.raises(Refused, match="Nobody whom this order went to is known any more"):
        replay(container, order)
    clock.advance(days=400)
    delete_expired(container, keep_people_days=30)
    assert piece(container, under_way).name is not None, "it is on its way"


def test_facts_go_once_everybody_has_heard(container: Container, clock: Clock, order: Order, owner: Caller) -> None:
    with container.db.system_transaction() as tx:
        first, second, *_ = fact_rows(tx, order)
        values = {"account_id": owner.account_id, "mode": "test", "fact_id": second.id, "status": "pending"}
        tx.execute(sa.text("delete from fact_queue where fact_id <> :id"), {"id": first.id})
        insert_least(tx, metadata.tables["deliveries"], {**values, "created_at": clock.now()})
    under_way = mailed_order(container, owner)
    execute(container, "delete from fact_queue where fact_id > :id", id=first.id)
    clock.advance(days=91)
    delete_expired(container, keep_facts_days=90)
    with container.db.system_transaction() as tx:
        assert [fact.id for fact in fact_rows(tx, order)] == [first.id, second.id]
        assert fact_rows(tx, under_way) != []
        # What is left of a piece's history is read as before.
        steps = list_item_steps(tx, read_item(tx, piece(container, order).id))
        tx.execute(sa.text("delete from fact_queue"))
        tx.execute(sa.text("delete from deliveries"))
    assert len(steps) <= 2
    delete_expired(container, keep_facts_days=90)
    with container.db.system_transaction() as tx:
        assert fact_rows(tx, order) == []
        assert list_item_steps(tx, read_item(tx, piece(container, order).id)) == []


def test_scans_and_carriers_words_go_in_several_steps(
    container: Container, clock: Clock, order: Order, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(privacy_tasks, "BATCH_SIZE", 2)
    with container.db.system_transaction() as tx:
        known = {"account_id": owner.account_id, "mode": "test", "order_id": order.id, "sub_account_id": None}
        for _ in range(5):
            insert_least(tx, metadata.tables["visits"], known | {"item_id": piece(container, order).id})
    assert count(container, "carrier_scans") > 0
    clock.advance(days=31)
    days = {"keep_visits_days": 30, "keep_carrier_scans_days": 30, "keep_facts_days": None}
    found = privacy_tasks.list_retention(container.db, days, now=clock.now())
    shown = {kept.rule.table: kept.overdue_count for kept in found}
    assert (shown["visits"], shown["facts"]) == (5, 0)
    assert shown["carrier_scans"] == count(container, "carrier_scans")
    delete_expired(container, keep_visits_days=30, keep_carrier_scans_days=30)
    assert (count(container, "visits"), count(container, "carrier_scans")) == (0, 0)
    assert piece(container, order).status == "Delivered"


def test_pictures_and_print_files_go_as_well(container: Container, clock: Clock, order: Order, owner: Caller) -> None:
    kept, shared = container.storage.store, "creative/2026-05-04/shared"
    with container.db.system_transaction() as tx:
        [batch] = tx.execute(sa.select(batches.c.id)).scalars()
        whose = {"account_id": owner.account_id, "sub_account_id": None, "expires_at": None}
        for key in ("creative/2026-05-04/own", shared):
            kept.put(key, b"picture")
            insert_least(tx, files, {**whose, "purpose": "creative", "key": key})
        own, other = tx.execute(sa.select(files.c.id).order_by(files.c.key)).scalars()
        tx.execute(sa.update(orders).values(front_file_id=own, logo_file_id=other))
        insert_least(tx, metadata.tables["image_templates"], {**whose, "image_file_id": other})
        for name in ("print.pdf", "statement.json"):
            kept.put(f"batches/{batch}/{name}", b"file")
            tx.execute(sa.insert(batch_files).values(batch_id=batch, name=name, size=4, sha256=b"x"))
    clock.advance(days=31)
    delete_expired(container, keep_pictures_days=30, keep_print_files_days=30)
    erasure_service.finish_erasures(container.db, container.encryptor, kept, now=clock.now())
    assert [*kept.keys("creative/"), *kept.keys("batches/")] == [shared, f"batches/{batch}/statement.json"]
    assert run(container, order_row, order).front_file_id is None
    with pytest.raises(Refused, match="pictures of this order are no longer kept"):
        replay(container, order)
    assert scalar(container, sa.select(sa.func.count()).select_from(items)) == 1


def test_a_step_goes_on_after_what_the_last_one_left(container: Container, clock: Clock, order: Order) -> None:
    [rule] = [rule for rule in RETENTION_RULES if rule.table == "facts"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from fact_queue"))
        ids = [fact.id for fact in fact_rows(tx, order)]
        tx.execute(sa.text("insert into fact_queue values (:id)"), {"id": ids[1]})
    assert rule.delete_rows is not None
    step = RetentionStep(before=clock.now() + timedelta(days=99), limit=2, now=clock.now())
    seen = []
    with container.db.system_transaction() as tx:
        while rule.delete_rows(tx, step):
            seen.append(step.after)
        assert [fact.id for fact in fact_rows(tx, order)] == [ids[1]]
    left = [*ids[:1], *ids[2:]]
    assert (seen, step.until) == ([left[min(end, len(left)) - 1] for end in range(2, len(left) + 2, 2)], ids[-1])


def test_the_time_of_a_stored_send_is_what_is_set(build: Build, clock: Clock) -> None:
    container = build(keep_stored_sends_days=10)
    [job] = [task for task in app_tasks.build_tasks(container) if task.name == "stored_sends.delete_expired"]
    kept: dict[str, object] = {"account_id": open_account(container).account_id, "sub_account_id": None}
    with container.db.system_transaction() as tx:
        expires = clock.now() + timedelta(days=90)
        insert_least(tx, metadata.tables["stored_sends"], {**kept, "mode": "test", "expires_at": expires})
    for days, left in ((9, 1), (2, 0)):
        clock.advance(days=days)
        job.run()
        assert count(container, "stored_sends") == left
