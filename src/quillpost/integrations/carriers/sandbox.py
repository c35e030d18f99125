"""The carrier of testing mode: the same seed and barcode always give the same scans. They are written when a job is
mailed, a file for each report, so that a poll only lists names."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quillpost.core.ports import FileStore
from quillpost.fulfillment.ports import CarrierReport, RefusedScanFile

PRINTER_FAILURE_NAME = "test printer failure"
MAX_PACE = 1.05  # of the slowest item
REPORTS_PER_JOURNEY = 10


@dataclass(frozen=True, slots=True)
class JourneyLeg:
    share: float
    phase: str
    description: str = ""
    is_local: bool = True


AT_ORIGIN = JourneyLeg(0.25, "Phase 1a - Origin Primary Processing", is_local=False)
AT_DESTINATION = JourneyLeg(0.5, "Phase 2b - Destination SCF Processing")
SORTED = JourneyLeg(0.75, "Phase 3c - Destination Sequenced Carrier Sortation")
DELIVERED = JourneyLeg(1.0, "Phase 4c - Delivery")
FORWARDED = JourneyLeg(0.5, "PARS Processing", "Forwarded")
RETURNED_TO_SENDER = JourneyLeg(1.0, "PARS Processing", "Return to sender")
LOST = JourneyLeg(1.0, "Miscellaneous", "Destroyed as dead mail")
USUAL_JOURNEY = (AT_ORIGIN, AT_DESTINATION, SORTED, DELIVERED)
RETURNED_JOURNEY = (AT_ORIGIN, AT_DESTINATION, RETURNED_TO_SENDER)
REROUTED_JOURNEY = (
    AT_ORIGIN, FORWARDED, JourneyLeg(0.65, AT_DESTINATION.phase), JourneyLeg(0.8, SORTED.phase), DELIVERED,
)  # fmt: skip
DESTROYED_JOURNEY = (AT_ORIGIN, LOST)
VANISHED_JOURNEY = (AT_ORIGIN,)
JOURNEYS_BY_NAME: Mapping[str, Sequence[JourneyLeg]] = {
    "test returned": RETURNED_JOURNEY,
    "test rerouted": REROUTED_JOURNEY,
    "test lost": DESTROYED_JOURNEY,
}

# How many of a hundred failing items fail how.
FAILED_JOURNEYS: Sequence[tuple[float, Sequence[JourneyLeg]]] = (
    (0.05, RETURNED_JOURNEY),
    (0.05, REROUTED_JOURNEY),
    (0.02, DESTROYED_JOURNEY),
    (0.03, VANISHED_JOURNEY),
)
SPOILED_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class SimulatedScan:  # a leg with its report, and its share of the journey
    journey_leg: JourneyLeg
    share: float
    slot: int


@dataclass(frozen=True, slots=True)
class MailSimulation:
    """`loss_rate` is the share of scans that are missed, repeated or late; a few percent of that share of
    items fail."""

    seed: int = 1
    loss_rate: float = 0.0

    def is_spoiled(self, item: Mapping[str, object]) -> bool:
        if str(item["name"]).lower() in JOURNEYS_BY_NAME:
            return False
        return self._build_random("print", item).random() < self.loss_rate * SPOILED_SHARE

    def simulate_scans(self, item: Mapping[str, object]) -> Iterator[SimulatedScan]:
        randomness = self._build_random("mail", item)
        pace = 0.9 + randomness.random() * (MAX_PACE - 0.9)
        legs = JOURNEYS_BY_NAME.get(str(item["name"]).lower())
        is_named_journey = legs is not None
        for leg in legs if legs is not None else self._choose_legs(randomness):
            share = leg.share * pace
            slot = min(int(share / MAX_PACE * REPORTS_PER_JOURNEY) + 1, REPORTS_PER_JOURNEY)
            if is_named_journey or not self.loss_rate:
                yield SimulatedScan(leg, share, slot)
                continue
            is_missed, is_late, is_repeated = (randomness.random() < self.loss_rate for _ in range(3))
            if not is_missed:
                yield SimulatedScan(leg, share, min(slot + 2, REPORTS_PER_JOURNEY) if is_late else slot)
                if is_repeated:
                    yield SimulatedScan(leg, share, min(slot + 1, REPORTS_PER_JOURNEY))

    def _choose_legs(self, randomness: random.Random) -> Sequence[JourneyLeg]:
        chance = randomness.random()
        for share, legs in FAILED_JOURNEYS:
            chance -= share * self.loss_rate
            if chance < 0:
                return legs
        return USUAL_JOURNEY

    def _build_random(self, purpose: str, item: Mapping[str, object]) -> random.Random:
        return random.Random(f"{self.seed}|{purpose}|{item['tracking'] or item['item_id']}")  # noqa: S311


def build_scan_event(
    item: Mapping[str, object], scan: SimulatedScan, *, mailed_at: datetime, journey: timedelta
) -> dict[str, str]:
    """In the postal service's format."""
    journey_leg = scan.journey_leg
    city = str(item.get("city") or "") if journey_leg.is_local else "Sandbox"
    return {
        "imb": str(item["tracking"]),
        "mailPhase": journey_leg.phase,
        "handlingEventTypeDescription": journey_leg.description,
        "scanDatetime": (mailed_at + journey * scan.share).isoformat(),
        "scanFacilityName": "Simulated P&DC",
        "scanFacilityCity": city,
        "scanFacilityState": str(item.get("province") or "") if journey_leg.is_local else "",
        "scanFacilityZip": str(item.get("postal_code") or "")[:5] if journey_leg.is_local else "",
    }


MAILBOX_PREFIX = "sandbox/mailbox/"
MAX_REPORTS_PER_POLL = 20
DUE_FORMAT = "%Y%m%dT%H%M%S.%f"
REPORT_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6})-.+\.json")


class SandboxMailbox:
    def __init__(self, store: FileStore, simulation: MailSimulation, *, journey: timedelta) -> None:
        self._store, self._simulation, self._journey = store, simulation, journey

    def mail_items(self, reference: str, items: Iterable[Mapping[str, object]], *, mailed_at: datetime) -> None:
        """Idempotent for the same time."""
        reports: dict[int, list[dict[str, str]]] = defaultdict(list)
        for item in items:
            if item["tracking"]:
                for scan in self._simulation.simulate_scans(item):
                    scan_event = build_scan_event(item, scan, mailed_at=mailed_at, journey=self._journey)
                    reports[scan.slot].append(scan_event)
        for slot, events in sorted(reports.items()):
            due = (mailed_at + self._journey * (MAX_PACE * slot / REPORTS_PER_JOURNEY)).astimezone(UTC)
            data = json.dumps({"events": events}, ensure_ascii=False).encode()
            self._store.put(f"{MAILBOX_PREFIX}{due.strftime(DUE_FORMAT)}-{reference}-{slot}.json", data)


class SandboxCarrier:
    def __init__(self, store: FileStore) -> None:
        self._store = store

    def poll(self, *, now: datetime) -> CarrierReport:
        today = now.astimezone(UTC).strftime(DUE_FORMAT)
        names = [key.removeprefix(MAILBOX_PREFIX) for key in self._store.keys(MAILBOX_PREFIX)]
        names = [name for name in names if REPORT_NAME.fullmatch(name)]
        due_names = [name for name in names if name[: len(today)] <= today][:MAX_REPORTS_PER_POLL]
        return CarrierReport(due_names, expects_more=len(names) > len(due_names))

    def fetch(self, name: str) -> bytes:
        return self._store.get(MAILBOX_PREFIX + name)

    def settle(self, name: str) -> None:
        self._store.delete(MAILBOX_PREFIX + name)

    def refuse(self, name: str, reason: str) -> None:  # noqa: ARG002
        """Our own file: an operator could do nothing about it."""
        self._store.delete(MAILBOX_PREFIX + name)

    def set_aside(self) -> Sequence[RefusedScanFile]:
        return ()
