"""The steps of a batch's way, as jobs."""

from datetime import datetime

from quillpost import jobs
from quillpost.database import Tx

POOL = "fulfilment.pool"
COMPOSE, HAND_OVER, FOLLOW = "fulfilment.compose", "fulfilment.hand_over", "fulfilment.follow"
NEXT_STEP = {"new": COMPOSE, "composed": HAND_OVER, "handed": FOLLOW, "printed": FOLLOW}
"""What is to be done with a batch that stands so; one in the mail needs nothing more."""

COMPOSE_QUEUE = "compose"
"""Composing takes a processor to itself, so a machine can be given to it: `work --queues compose`."""

HAND_OVER_QUEUE = "hand_over"
"""All files of a batch are in memory while it is handed over: one batch at a time."""

QUEUES = {COMPOSE: COMPOSE_QUEUE, HAND_OVER: HAND_OVER_QUEUE}
"""Of the steps that have one of their own; a worker takes these queues singly."""


URGENT = 10


def book(tx: Tx, step: str, batch_id: int, *, at: datetime | None = None, is_urgent: bool = False) -> None:
    """Take the step once this transaction has committed, not before `at`; never twice side by side."""
    if jobs.is_waiting(tx, step, batch_id=batch_id):
        return
    queue = QUEUES.get(step, "default")
    jobs.defer(tx, step, at=at, queue=queue, priority=URGENT if is_urgent else 0, batch_id=batch_id)
