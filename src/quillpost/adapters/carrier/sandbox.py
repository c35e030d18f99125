"""The carrier of testing mode: whatever the sandbox printer mails is reported when its time has come.

All that will be seen of a job is written down when it is mailed, a file for each report. So a poll looks at
names alone, and takes the files that are due: a million pieces cost it no more than one.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from quillpost.adapters.carrier.journeys import Chances, event, told_after
from quillpost.ports.carriers import CarrierReport, SetAside
from quillpost.ports.files import FileStore

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
