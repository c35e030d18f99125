"""The outside as one mode sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, time, timedelta, tzinfo

from quillpost.fulfillment.ports import PrintPartner
from quillpost.fulfillment.tracking.ports import CarrierFeed


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
