"""Environments, the context of production, and the steps of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Message
from quillpost.core.files import FileStorage
from quillpost.fulfillment.ports import CarrierFeed, PrintPartner
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.rendering.service import Renderer


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Thresholds of the automatic review; each is a setting."""

    min_dpi: int = 75
    min_contrast: float = 1.7
    max_unfilled_percent: int = 50
    max_undeliverable_percent: int = 50

    def is_resolution_too_low(self, dpi: int | None) -> bool:
        """None: all images are sharp enough."""
        return dpi is not None and dpi < self.min_dpi

    def is_contrast_too_low(self, contrast: float | None) -> bool:
        """None: the handwriting is easy to read."""
        return contrast is not None and contrast < self.min_contrast


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside as one mode sees it: test orders use a simulated printer and carrier on a fast clock. Orders that
    meet `gaps` are paused: the sentences are for operators, `for_sender` among their params. `indicia` (postage
    marks) and `service_types` (barcode prefixes) are by mail class. Items are pooled at `cutoff` in `zone`; without
    one, at once. Without a time, no delivery is inferred. A re-routed item that is not seen for `reroute_timeout` stays
    so. `feeds` says where carrier scans come from."""

    mode: str
    printer: PrintPartner
    carrier: CarrierFeed
    review_period: timedelta
    poll_interval: timedelta
    mailer_id: str
    indicia: Mapping[str, tuple[str, ...]]
    service_types: Mapping[str, str]
    partner: str = ""
    gaps: tuple[Message, ...] = ()
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
    giftcard_issuers: Mapping[str, GiftcardIssuer]  # by mode
    review_limits: ReviewLimits = DEFAULT_REVIEW_LIMITS
    verification_timeout: timedelta | None = None
    """How long due live orders wait for address verification; None: not at all."""
    opt_out: str | None = None  # URL before an item's code on the opt-out line

    @property
    def stock_by_product(self) -> dict[str, str]:
        return {name: layout.stock for name, layout in self.renderer.products.items()}


POOL = "fulfillment.pool_due_orders"
COMPOSE, HAND_OVER = "fulfillment.compose_batch", "fulfillment.hand_over_batch"
POLL_PRINTER = "fulfillment.poll_printer"
NEXT_STEP = {"new": COMPOSE, "composed": HAND_OVER, "handed": POLL_PRINTER, "printed": POLL_PRINTER}
"""By the status of a batch; a mailed one needs nothing more."""

COMPOSE_QUEUE = "compose"  # CPU-bound: a machine of its own may run `work --queues compose`
HAND_OVER_QUEUE = "hand_over"  # holds all files of a batch in memory: one at a time
STEP_QUEUES = {COMPOSE: COMPOSE_QUEUE, HAND_OVER: HAND_OVER_QUEUE}
URGENT_PRIORITY = 10


def enqueue_step(tx: Tx, step: str, batch_id: int, *, at: datetime | None = None, is_urgent: bool = False) -> None:
    """Run the step after this transaction commits, not before `at`; never twice at once."""
    if jobs.is_waiting(tx, step, batch_id=batch_id):
        return
    queue = STEP_QUEUES.get(step, "default")
    jobs.enqueue(tx, step, at=at, queue=queue, priority=URGENT_PRIORITY if is_urgent else 0, batch_id=batch_id)
