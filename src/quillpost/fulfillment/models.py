"""What every step of production is given, and the steps as jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.stored_files import FileStorage
from quillpost.fulfillment.checks import ReviewLimits
from quillpost.fulfillment.environments import Environment
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.rendering.renderer import Renderer

DEFAULT_REVIEW_LIMITS = ReviewLimits()


@dataclass(frozen=True, slots=True)
class ProductionContext:
    db: Database
    renderer: Renderer
    storage: FileStorage
    environments: Mapping[str, Environment]
    qr_base: str
    encryptor: Encryptor
    giftcard_issuers: Mapping[str, GiftcardIssuer]
    """By mode, who issues the cards that pieces bring."""
    review_limits: ReviewLimits = DEFAULT_REVIEW_LIMITS
    verification_timeout: timedelta | None = None
    """How long live orders that are due wait for a verifier; without one, not at all."""
    opt_out: str | None = None
    """What stands before a piece's code on the line about getting no more mail, where there is one."""

    @property
    def stock_by_product(self) -> dict[str, str]:
        """The paper of each piece."""
        return {name: layout.stock for name, layout in self.renderer.products.items()}


POOL = "fulfillment.pool_due_orders"
COMPOSE, HAND_OVER, POLL_PRINTER = (
    "fulfillment.compose_batch",
    "fulfillment.hand_over_batch",
    "fulfillment.poll_printer",
)
NEXT_STEP = {"new": COMPOSE, "composed": HAND_OVER, "handed": POLL_PRINTER, "printed": POLL_PRINTER}
"""What is to be done with a batch that stands so; one in the mail needs nothing more."""

COMPOSE_QUEUE = "compose"
"""Composing takes a processor to itself, so a machine can be given to it: `work --queues compose`."""

HAND_OVER_QUEUE = "hand_over"
"""All files of a batch are in memory while it is handed over: one batch at a time."""

STEP_QUEUES = {COMPOSE: COMPOSE_QUEUE, HAND_OVER: HAND_OVER_QUEUE}
"""Of the steps that have one of their own; a worker takes these queues singly."""


URGENT_PRIORITY = 10


def enqueue_step(tx: Tx, step: str, batch_id: int, *, at: datetime | None = None, is_urgent: bool = False) -> None:
    """Take the step once this transaction has committed, not before `at`; never twice side by side."""
    if jobs.is_waiting(tx, step, batch_id=batch_id):
        return
    queue = STEP_QUEUES.get(step, "default")
    jobs.enqueue(tx, step, at=at, queue=queue, priority=URGENT_PRIORITY if is_urgent else 0, batch_id=batch_id)
