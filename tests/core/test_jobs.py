"""Steps for which a whole batch is in memory are taken one at a time."""

import asyncio
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, enqueue_step

STEPS = {COMPOSE: ("compose", "compose_batch"), HAND_OVER: ("hand_over", "hand_over_batch")}
JOBS = 3


@pytest.mark.usefixtures("conninfo")  # a worker makes tables for the coming days
def test_of_such_a_step_one_is_taken_at_a_time(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, at_work, most = threading.Lock(), dict.fromkeys(STEPS, 0), dict.fromkeys(STEPS, 0)
    done: dict[str, list[int]] = {step: [] for step in STEPS}
    all_done, idle = threading.Event(), threading.Event()

    def working_at(step: str) -> Any:
        def takes_a_while(_production: Any, batch_id: int, **_when: Any) -> None:
            with guard:
                at_work[step] += 1
                most[step] = max(most[step], at_work[step])
            idle.wait(0.2)  # long enough for another to begin, if it may
            with guard:
                at_work[step] -= 1
                done[step].append(batch_id)
                if all(len(each) == JOBS for each in done.values()):
                    all_done.set()

        return takes_a_while

    with container.db.system_transaction() as tx:
        for step, (_, function) in STEPS.items():
            monkeypatch.setattr(batch_tasks, function, working_at(step))
            for batch_id in range(JOBS):
                enqueue_step(tx, step, batch_id)
        queues = tx.execute(sa.text("select distinct queue_name from procrastinate_jobs")).scalars().all()
    assert sorted(queues) == [queue for queue, _ in STEPS.values()]

    async def work() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(bootstrap.build_runner(Settings(), container, concurrency=8).run(stop))
        assert await asyncio.to_thread(all_done.wait, 60)
        stop.set()
        await working

    asyncio.run(work())
    assert {step: sorted(batches) for step, batches in done.items()} == {step: [*range(JOBS)] for step in STEPS}
    assert most == dict.fromkeys(STEPS, 1)
