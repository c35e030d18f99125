"""Files that a carrier has pushed to us: kept in the file store until they are read."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

from quillpost.ports.carriers import CarrierReport, SetAside
from quillpost.ports.files import FileMissing, FileStore

AT_ONCE = 50
"""Files of one poll. Others wait for the next, which comes soon."""

REASON = ".reason.txt"


class Inbox:
    """`inbox/` holds what is to be read, `refused/` what could not be, each with a text that says why."""

    def __init__(self, store: FileStore, folder: str = "tracking") -> None:
        self._store = store
        self._inbox, self._refused = f"{folder}/inbox/", f"{folder}/refused/"

    def keep(self, data: bytes) -> None:
        self._store.put(self._inbox + hashlib.sha256(data).hexdigest(), data)

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        names = [key.removeprefix(self._inbox) for key in self._store.keys(self._inbox)]
        return CarrierReport(names[:AT_ONCE], expects_more=len(names) > AT_ONCE)

    def fetch(self, name: str) -> bytes:
        return self._store.get(self._inbox + name)

    def settle(self, name: str) -> None:
        self._store.delete(self._inbox + name)

    def refuse(self, name: str, reason: str) -> None:
        """The reason first: a file without one would be a riddle."""
        try:
            data = self._store.get(self._inbox + name)
        except FileMissing:
            return
        self._store.put(self._refused + name + REASON, reason.encode())
        self._store.put(self._refused + name, data)
        self._store.delete(self._inbox + name)

    def set_aside(self) -> Sequence[SetAside]:
        names = [key.removeprefix(self._refused) for key in self._store.keys(self._refused)]
        return [SetAside(name, self._reason(name)) for name in names if not name.endswith(REASON)]

    def _reason(self, name: str) -> str:
        try:
            return self._store.get(self._refused + name + REASON).decode()
        except FileMissing:
            return ""
