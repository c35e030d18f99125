"""A worker is killed while events are put in the outbox once more; another goes on where it was."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from quillpost.notifications.webhooks.tasks import FACTS_PER_TRANSACTION
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.processes import CommandRunner, until
from support.sender_office import SenderService, open_sender_service

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
DELIVERED = "select fact_id from deliveries order by id"
IN_ORDER = "select id from facts where at < now() - interval '30 minutes' order by at, id"

STEPS = [
    # Taken, and nothing told; all but committed; committed, and more to tell; the same of the second step.
    pytest.param(CrashPoint("quillpost.notifications.webhooks.tasks:_lock_replay", "after"), marks=pytest.mark.long),
    CrashPoint("quillpost.notifications.webhooks.queries:schedule_queue", "after"),
    CrashPoint("quillpost.notifications.webhooks.tasks:_lock_replay", "before", 2),
    pytest.param(
        CrashPoint("quillpost.notifications.webhooks.queries:schedule_queue", "before", 2), marks=pytest.mark.long
    ),
]


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_nothing_is_left_out_and_nothing_comes_twice(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    order = sender_service.sender.send().json()["id"]
    assert sender_service.sender.put(f"/orders/{order}/cancel").status_code == 200
    assert len(sender_service.rows(HAPPENED, how_many=FACTS)) == FACTS
    [hook] = sender_service.sender.get("/webhooks").json()["data"]
    since = sender_service.value("select to_char(now() - interval '2 hours', 'YYYY-MM-DD\"T\"HH24:MI:SSZ')")
    response = sender_service.sender.post(f"/webhooks/{hook['id']}/replay", {"from": since})
    assert (response.status_code, response.json()["truncated"]) == (202, True)
    # What is told again waits in the outbox, where it can be counted in peace.
    assert sender_service.sender.post(f"/webhooks/{hook['id']}/pause").status_code == 200

    killed = command_runner.start("work", settings=sender_service.settings, crash=step)
    assert killed.wait() == -signal.SIGKILL, f"the step was never reached:\n{killed.output}"
    healthy = command_runner.start("work", settings=sender_service.settings)
    until(lambda: sender_service.rows("select 1 from webhook_replays") == [], what="the replay has come to its end")
    assert healthy.stop() == 0, healthy.output
    happened = sender_service.rows(IN_ORDER)
    again = set(happened)
    assert [fact for fact in sender_service.rows(DELIVERED) if fact in again] == happened
    assert sender_service.value("select count(*) from procrastinate_jobs where status in ('failed', 'doing')") == 0
