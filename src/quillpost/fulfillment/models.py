"""What every step of production is given, and the steps as jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Sealer
from quillpost.core.stored_files import Shelf
from quillpost.fulfillment.checks import ReviewLimits
from quillpost.fulfillment.environments import World
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.rendering.renderer import Studio

DEFAULT_LIMITS = ReviewLimits()


@dataclass(frozen=True, slots=True)
class Press:
    db: Database
    studio: Studio
    shelf: Shelf
    worlds: Mapping[str, World]
    qr_base: str
    sealer: Sealer
    issuers: Mapping[str, GiftcardIssuer]
    """By mode, who issues the cards that pieces bring."""
    review: ReviewLimits = DEFAULT_LIMITS
    answer_within: timedelta | None = None
    """How long live orders that are due wait for a verifier; without one, not at all."""
    opt_out: str | None = None
    """What stands before a piece's code on the line about getting no more mail, where there is one."""

    @property
    def stocks(self) -> dict[str, str]:
        """The paper of each piece."""
        return {name: piece.stock for name, piece in self.studio.pieces.items()}


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
