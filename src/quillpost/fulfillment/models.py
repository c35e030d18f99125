"""The context of production: environments, and the steps of a batch as jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.stored_files import FileStorage
from quillpost.fulfillment.ports import CarrierFeed, PrintPartner
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.rendering.service import Renderer


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Up to where an order goes on by itself; each is a setting."""

    min_dpi: int = 75
    min_contrast: float = 1.7
    max_unfilled_percent: int = 50
    max_undeliverable_percent: int = 50

    def is_resolution_too_low(self, dpi: int | None) -> bool:
        """Whether an order waits whose softest picture prints so; None, they are all sharp."""
        return dpi is not None and dpi < self.min_dpi

    def is_contrast_too_low(self, contrast: float | None) -> bool:
        """The same of one whose handwriting stands out so little; None, it is easy to read."""
        return contrast is not None and contrast < self.min_contrast


@dataclass(frozen=True, slots=True)
class ReadinessGap:
    """Something that is missing before live mail may reach paper: its short name, and a sentence each for
    whoever runs the service, which names the setting, and for whoever sends."""

    name: str
    for_operator: str
    for_sender: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside as one mode sees it: test orders ride a simulated printer and carrier on a fast clock.

    `gaps` names what is missing before anything may reach paper; an order that finds gaps is paused.
    `readiness_gaps` are the same, for every kind of reader.
    `mailer_id` is the postal service's number for us, `indicia` the postage mark by class of mail,
    `service_types` the code that a barcode begins with, by class too, `partner` who the printer is. Pieces
    are pooled at the time of day that `cutoff` is in `zone`; without one, at once. A delivery is inferred so
    long after a piece was processed for it, or last seen at all; without a time, never. A re-routed piece
    that is not seen again for `reroute_timeout` stays so. Where it `needs_credit`, an account's credit must
    cover its orders. `feeds` says in words where the carrier's scans come from.
    """

    mode: str
    printer: PrintPartner
    carrier: CarrierFeed
    review_period: timedelta
    poll_interval: timedelta
    mailer_id: str
    indicia: Mapping[str, tuple[str, ...]]
    service_types: Mapping[str, str]
    partner: str = ""
    gaps: tuple[str, ...] = ()
    readiness_gaps: tuple[ReadinessGap, ...] = ()
    cutoff: time | None = None
    zone: tzinfo = UTC
    infer_delivery_after: timedelta | None = None
    infer_unseen_delivery_after: timedelta | None = None
    reroute_timeout: timedelta = timedelta(days=30)
    needs_credit: bool = False
    feeds: tuple[str, ...] = ()


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
