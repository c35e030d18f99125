"""Steps for which a whole batch is in memory are taken one at a time."""

import asyncio
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.fulfillment import models as fulfillment_models
from quillpost.fulfillment.batches import tasks as batch_tasks

JOBS = 3
PATIENCE = 30


@pytest.mark.parametrize(
    ("step", "queue", "function"),
    [
        (fulfillment_models.COMPOSE, "compose", "compose_batch"),
        (fulfillment_models.HAND_OVER, "hand_over", "hand_over_batch"),
    ],
)
def test_of_such_a_step_one_is_taken_at_a_time(
    container: Container, monkeypatch: pytest.MonkeyPatch, step: str, queue: str, function: str
) -> None:
    guard, at_work, most, done = threading.Lock(), [0], [0], []

    def takes_a_while(_production: Any, batch_id: int, **_when: Any) -> None:
        with guard:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.2)
        with guard:
            at_work[0] -= 1
            done.append(batch_id)

    monkeypatch.setattr(batch_tasks, function, takes_a_while)
    with container.db.system_transaction() as tx:
        for batch_id in range(JOBS):
            fulfillment_models.enqueue_step(tx, step, batch_id)
        queues = tx.execute(sa.text("select distinct queue_name from procrastinate_jobs")).scalars().all()
    assert queues == [queue]
    asyncio.run(_work_until(lambda: len(done) == JOBS, container))
    assert sorted(done) == list(range(JOBS))
    assert most == [1]


async def _work_until(is_done: Any, container: Container) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(bootstrap.build_runner(Settings(), container, concurrency=4).run(stop))
    deadline = time.monotonic() + PATIENCE
    while not is_done() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    stop.set()
    await working
