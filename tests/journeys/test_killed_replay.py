"""A worker is killed while events are put in the outbox once more; another goes on where it was."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from crashing_worker import CrashPoint
from event_receiver import EventReceiver
from office import Office, opened_office
from processes import Nursery, until

from quillpost.notifications.webhooks.fan_out import FACTS_PER_TRANSACTION

AT_ONCE = {"QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4", "QUILLPOST_JOB_STALL_SECONDS": "2"}
FACTS = FACTS_PER_TRANSACTION * 2 + 10

# As many as it takes for three steps, one after the other, of an hour ago.
HAPPENED = """
    insert into facts (account_id, sub_account_id, mode, kind, order_id, order_status, previous, current, at)
    select account_id, sub_account_id, mode, 'order.status', id, status, 'reviewing', 'processing',
           now() - interval '1 hour' + n * interval '1 millisecond'
      from orders, generate_series(1, :how_many) n
    returning 1
"""
TOLD = "select fact_id from deliveries order by id"
IN_ORDER = "select id from facts where at < now() - interval '30 minutes' order by at, id"

STEPS = [
    # Taken, and nothing told; all but committed; committed, and more to tell; the same of the second step.
    pytest.param(CrashPoint("quillpost.notifications.webhooks.fan_out:_lock_replay", "after"), marks=pytest.mark.long),
    CrashPoint("quillpost.notifications.webhooks.queries:schedule_queue", "after"),
    CrashPoint("quillpost.notifications.webhooks.fan_out:_lock_replay", "before", 2),
    pytest.param(
        CrashPoint("quillpost.notifications.webhooks.queries:schedule_queue", "before", 2), marks=pytest.mark.long
    ),
]


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **AT_ONCE) as office:
        yield office


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_nothing_is_left_out_and_nothing_comes_twice(step: CrashPoint, office: Office, nursery: Nursery) -> None:
    order = office.sender.send().json()["id"]
    assert office.sender.put(f"/orders/{order}/cancel").status_code == 200
    assert len(office.rows(HAPPENED, how_many=FACTS)) == FACTS
    [hook] = office.sender.get("/webhooks").json()["data"]
    since = office.value("select to_char(now() - interval '2 hours', 'YYYY-MM-DD\"T\"HH24:MI:SSZ')")
    asked = office.sender.post(f"/webhooks/{hook['id']}/replay", {"from": since})
    assert (asked.status_code, asked.json()["truncated"]) == (202, True)
    # What is told again waits in the outbox, where it can be counted in peace.
    assert office.sender.post(f"/webhooks/{hook['id']}/pause").status_code == 200

    killed = nursery.start("work", settings=office.settings, crash=step)
    assert killed.wait() == -signal.SIGKILL, f"the step was never reached:\n{killed.output}"
    healthy = nursery.start("work", settings=office.settings)
    until(lambda: office.rows("select 1 from webhook_replays") == [], what="the replay has come to its end")
    assert healthy.stop() == 0, healthy.output
    happened = office.rows(IN_ORDER)
    again = set(happened)
    assert [fact for fact in office.rows(TOLD) if fact in again] == happened
    assert office.value("select count(*) from procrastinate_jobs where status in ('failed', 'doing')") == 0
