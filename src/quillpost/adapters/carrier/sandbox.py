"""The carrier of testing mode. It knows a piece only by what is on it: the barcode and the name.

It collects the jobs that the sandbox printer has mailed and reports each piece's scans when their time
has come on the fast clock. Asked twice it says the same again, as real feeds do.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from quillpost.adapters.printing.folder import FolderPartner
from quillpost.adapters.printing.sandbox import MAILBOX
from quillpost.ports import CarrierReport, CarrierScan, FileMissing, FileStore

# Phase of the mail stream, and how far into the journey it is seen.
USUAL = (("1", 0.25), ("2", 0.5), ("3a", 0.75), ("4c", 1.0))
BY_NAME = {
    "test returned": (("1", 0.25), ("2", 0.5), ("returned", 1.0)),
    "test rerouted": (("1", 0.25), ("PARS", 0.5), ("2", 0.65), ("3a", 0.8), ("4c", 1.0)),
    "test lost": (("1", 0.25), ("destroyed", 1.0)),
}
LAST_SIGHTING = 1.05
"""Jitter delays a sighting by at most this share of its time."""


class SandboxCarrier:
    def __init__(self, store: FileStore, folder: str, *, journey: timedelta) -> None:
        self._store = store
        self._jobs = FolderPartner(store, folder)
        self._journey = journey

    def poll(self, *, now: datetime) -> CarrierReport:
        scans: list[CarrierScan] = []
        arrived: list[str] = []
        in_the_mail = False
        for dropped, mailed_at in self._mailbox():
            for piece in self._jobs.manifest(dropped.removeprefix(f"{MAILBOX}/")):
                if piece["tracking"]:
                    scans.extend(self._sightings(piece, mailed_at, now))
            if now >= mailed_at + self._journey * LAST_SIGHTING:
                arrived.append(dropped)
            else:
                in_the_mail = True
        return CarrierReport(scans, receipt=tuple(arrived), expects_more=in_the_mail)

    def settled(self, receipt: tuple[str, ...]) -> None:
        for dropped in receipt:
            self._store.delete(dropped)

    def _mailbox(self) -> Iterator[tuple[str, datetime]]:
        """Each mailed job and when it was dropped."""
        for dropped in list(self._store.keys(f"{MAILBOX}/")):
            try:
                mailed_at = self._store.get(dropped).decode()
            except FileMissing:  # another poll has settled it since
                continue
            yield dropped, datetime.fromisoformat(mailed_at)

    def _sightings(
        self, piece: dict[str, object], mailed_at: datetime, now: datetime
    ) -> Iterator[CarrierScan]:
        tracking = str(piece["tracking"])
        jitter = 1 + hashlib.sha256(tracking.encode()).digest()[0] / 255 * (LAST_SIGHTING - 1)
        for phase, share in BY_NAME.get(str(piece["name"]).lower(), USUAL):
            at = mailed_at + self._journey * share * jitter
            if at <= now:
                raw = {"imb": tracking, "mailPhase": phase, "scanDatetime": at.isoformat()}
                yield CarrierScan(tracking=tracking, phase=phase, at=at, raw=raw)
