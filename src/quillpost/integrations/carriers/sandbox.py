"""The carrier of testing mode: the same seed and barcode always travel alike.

A carrier knows a piece only by what is on it: the barcode, the name and the address.

All that will be seen of a job is written down when it is mailed, a file for each report. So a poll looks at
names alone, and takes the files that are due: a million pieces cost it no more than one.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quillpost.core.ports import FileStore
from quillpost.fulfillment.tracking.ports import CarrierReport, SetAside

PRINTER_FAILURE_NAME = "test printer failure"

LAST_SIGHTING = 1.05
"""The slowest piece takes so much longer than the journey it is given."""

SLOTS = 10
"""Reports of one journey: what is seen in between is told with the next."""


@dataclass(frozen=True, slots=True)
class Leg:
    """Where a piece is seen, how far into its journey, and what the carrier calls that."""

    share: float
    phase: str
    words: str = ""
    is_local: bool = True


AT_ORIGIN = Leg(0.25, "Phase 1a - Origin Primary Processing", is_local=False)
NEARBY = Leg(0.5, "Phase 2b - Destination SCF Processing")
SORTED = Leg(0.75, "Phase 3c - Destination Sequenced Carrier Sortation")
AT_THE_DOOR = Leg(1.0, "Phase 4c - Delivery")
FORWARDED = Leg(0.5, "PARS Processing", "Forwarded")
SENT_BACK = Leg(1.0, "PARS Processing", "Return to sender")
LOST = Leg(1.0, "Miscellaneous", "Destroyed as dead mail")

USUAL = (AT_ORIGIN, NEARBY, SORTED, AT_THE_DOOR)
RETURNED = (AT_ORIGIN, NEARBY, SENT_BACK)
REROUTED = (
    AT_ORIGIN, FORWARDED, Leg(0.65, NEARBY.phase), Leg(0.8, SORTED.phase), AT_THE_DOOR,
)  # fmt: skip
DESTROYED = (AT_ORIGIN, LOST)
VANISHED = (AT_ORIGIN,)
BY_NAME: Mapping[str, Sequence[Leg]] = {
    "test returned": RETURNED,
    "test rerouted": REROUTED,
    "test lost": DESTROYED,
}

# Of a hundred pieces that may go wrong, how many go wrong how.
ENDINGS: Sequence[tuple[float, Sequence[Leg]]] = (
    (0.05, RETURNED),
    (0.05, REROUTED),
    (0.02, DESTROYED),
    (0.03, VANISHED),
)
SPOILED = 0.03


@dataclass(frozen=True, slots=True)
class Sighting:
    """A leg as it is told: in which report, and at what share of the journey it was seen."""

    leg: Leg
    share: float
    slot: int


@dataclass(frozen=True, slots=True)
class Chances:
    """`losses` is the share of scans that is missed, and of those that come twice or late; of the pieces a
    few in a hundred of that share go wrong."""

    seed: int = 1
    losses: float = 0.0

    def spoils(self, piece: Mapping[str, object]) -> bool:
        """Whether the printer spoils it."""
        if str(piece["name"]).lower() in BY_NAME:
            return False
        return self._dice("print", piece).random() < self.losses * SPOILED

    def sightings(self, piece: Mapping[str, object]) -> Iterator[Sighting]:
        """All that the carrier will tell of a piece."""
        dice = self._dice("mail", piece)
        pace = 0.9 + dice.random() * (LAST_SIGHTING - 0.9)
        legs = BY_NAME.get(str(piece["name"]).lower())
        is_reserved = legs is not None
        for leg in legs if legs is not None else self._legs(dice):
            share = leg.share * pace
            slot = _slot(share)
            if is_reserved or not self.losses:
                yield Sighting(leg, share, slot)
                continue
            is_missed, is_late, is_twice = (dice.random() < self.losses for _ in range(3))
            if not is_missed:
                yield Sighting(leg, share, min(slot + 2, SLOTS) if is_late else slot)
                if is_twice:
                    yield Sighting(leg, share, min(slot + 1, SLOTS))

    def _legs(self, dice: random.Random) -> Sequence[Leg]:
        chance = dice.random()
        for share, legs in ENDINGS:
            chance -= share * self.losses
            if chance < 0:
                return legs
        return USUAL

    def _dice(self, what: str, piece: Mapping[str, object]) -> random.Random:
        return random.Random(f"{self.seed}|{what}|{piece['tracking'] or piece['item_id']}")  # noqa: S311


def _slot(share: float) -> int:
    """The report with which it is told: the next one, the last at the latest."""
    return min(int(share / LAST_SIGHTING * SLOTS) + 1, SLOTS)


def told_after(slot: int, journey: timedelta) -> timedelta:
    """How long after the mailing a report is made."""
    return journey * (LAST_SIGHTING * slot / SLOTS)


def event(
    piece: Mapping[str, object], sighting: Sighting, *, mailed_at: datetime, journey: timedelta
) -> dict[str, str]:
    """The sighting in the postal service's own words."""
    leg = sighting.leg
    city = str(piece.get("city") or "") if leg.is_local else "Sandbox"
    return {
        "imb": str(piece["tracking"]),
        "mailPhase": leg.phase,
        "handlingEventTypeDescription": leg.words,
        "scanDatetime": (mailed_at + journey * sighting.share).isoformat(),
        "scanFacilityName": "Simulated P&DC",
        "scanFacilityCity": city,
        "scanFacilityState": str(piece.get("province") or "") if leg.is_local else "",
        "scanFacilityZip": str(piece.get("postal_code") or "")[:5] if leg.is_local else "",
    }


MAILBOX = "sandbox/mailbox/"
AT_ONCE = 20
DUE = "%Y%m%dT%H%M%S.%f"
NAME = re.compile(r"(\d{8}T\d{6}\.\d{6})-.+\.json")


class Mailbox:
    """Where the sandbox printer drops its jobs."""

    def __init__(self, store: FileStore, chances: Chances, *, journey: timedelta) -> None:
        self._store = store
        self._chances = chances
        self._journey = journey

    def drop(self, reference: str, pieces: Iterable[Mapping[str, object]], *, mailed_at: datetime) -> None:
        """Mail the pieces. Done again with the same moment, it writes the same files."""
        reports: dict[int, list[dict[str, str]]] = defaultdict(list)
        for piece in pieces:
            if piece["tracking"]:
                for sighting in self._chances.sightings(piece):
                    told = event(piece, sighting, mailed_at=mailed_at, journey=self._journey)
                    reports[sighting.slot].append(told)
        for slot, events in sorted(reports.items()):
            due = (mailed_at + told_after(slot, self._journey)).astimezone(UTC)
            data = json.dumps({"events": events}, ensure_ascii=False).encode()
            self._store.put(f"{MAILBOX}{due.strftime(DUE)}-{reference}-{slot}.json", data)


class SandboxCarrier:
    def __init__(self, store: FileStore) -> None:
        self._store = store

    def poll(self, *, now: datetime) -> CarrierReport:
        today = now.astimezone(UTC).strftime(DUE)
        names = [key.removeprefix(MAILBOX) for key in self._store.keys(MAILBOX)]
        names = [name for name in names if NAME.fullmatch(name)]
        due = [name for name in names if name[: len(today)] <= today][:AT_ONCE]
        return CarrierReport(due, expects_more=len(names) > len(due))

    def fetch(self, name: str) -> bytes:
        return self._store.get(MAILBOX + name)

    def settle(self, name: str) -> None:
        self._store.delete(MAILBOX + name)

    def refuse(self, name: str, reason: str) -> None:  # noqa: ARG002
        """It wrote the file itself: a person could do nothing with it."""
        self._store.delete(MAILBOX + name)

    def set_aside(self) -> Sequence[SetAside]:
        return ()
