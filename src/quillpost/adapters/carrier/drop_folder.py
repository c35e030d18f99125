"""A folder into which a carrier, or whoever fetches for it, drops files: on this machine or over SFTP.

What was read moves to `done/`, what could not be read to `refused/` with the reason beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice

from quillpost.adapters.places.place import Barred, OpenPlace, Place, PlaceDown, TooLarge
from quillpost.ports.carriers import CarrierDown, CarrierReport, FileBarred, SetAside, TooMuch
from quillpost.ports.files import FileMissing

AT_ONCE = 50
LARGEST = 100_000_000
UNFINISHED = (".partial", ".tmp")
DONE, REFUSED, REASON = "done", "refused", ".reason.txt"
LONGEST_REASON = 2_000
MOST_LOOKED_AT = 500
LONGEST_NAME = 150
"""Leaves room for what is put before and behind it."""


class DropFolder:
    """A file is taken once its size is what it was at the poll before: it may still be being written.

    That memory, and which files may not be read, is all it keeps, and losing it only delays a file until the
    next poll.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sizes: Mapping[str, int] = {}
        self._barred: set[str] = set()

    def poll(self, *, now: datetime) -> CarrierReport:  # noqa: ARG002
        with self._visiting() as visit:
            sizes = _sizes(visit)
        ready = [name for name, size in sizes.items() if self._sizes.get(name) == size]
        self._sizes = sizes
        # However many may not be read, they are not in the way of the others.
        self._barred &= sizes.keys()
        ready.sort(key=self._barred.__contains__)
        return CarrierReport(ready[:AT_ONCE], expects_more=len(sizes) > min(len(ready), AT_ONCE))

    def fetch(self, name: str) -> bytes:
        with self._visiting() as visit:
            try:
                data = visit.get(name, most_bytes=LARGEST)
            except TooLarge as large:
                raise TooMuch(f"{large} Split it, or pack it with gzip.") from None
            except Barred as barred:
                self._barred.add(name)
                raise FileBarred(str(barred)) from None
        self._barred.discard(name)
        if len(data) != self._sizes.get(name, len(data)):
            raise FileMissing(name)  # it has begun to grow again: a later poll takes it
        return data

    def settle(self, name: str) -> None:
        with self._visiting() as visit:
            _move(visit, name, DONE)

    def refuse(self, name: str, reason: str) -> None:
        with self._visiting() as visit:
            moved = _move(visit, name, REFUSED)
            if moved is not None:
                visit.put(moved + REASON, reason.encode())

    def set_aside(self) -> Sequence[SetAside]:
        with self._visiting() as visit:
            names = visit.names(REFUSED)
            refused = [
                SetAside(name, _reason(visit, name) if name + REASON in names else "")
                for name in names
                if not name.endswith(REASON)
            ]
            return [*refused, *_barred(visit)]

    @contextmanager
    def _visiting(self) -> Iterator[OpenPlace]:
        try:
            with self._place.open() as visit:
                yield visit
        except PlaceDown as down:
            raise CarrierDown(f"The carrier's folder {self._place.shown}: {down}") from None


def _sizes(visit: OpenPlace) -> dict[str, int]:
    """Of the files that may be whole; folders have none."""
    wanted = (name for name in visit.names("") if name[0] != "." and len(name) <= LONGEST_NAME)
    sizes = {name: visit.size(name) for name in wanted if not name.endswith(UNFINISHED)}
    return {name: size for name, size in sizes.items() if size is not None}


def _move(visit: OpenPlace, name: str, folder: str) -> str | None:
    """Its new name, which may be numbered: a carrier may use the same one again. None if it has gone."""
    number = 0
    try:
        while True:
            target = f"{folder}/{name}" if not number else f"{folder}/{number}-{name}"
            if visit.rename(name, target):
                return target
            number += 1
    except FileMissing:
        return None


def _reason(visit: OpenPlace, name: str) -> str:
    try:
        return visit.get(f"{REFUSED}/{name}{REASON}", most_bytes=LONGEST_REASON).decode(errors="replace")
    except (FileMissing, TooLarge, Barred):
        return ""


def _barred(visit: OpenPlace) -> Iterator[SetAside]:
    """Files that wait and may not be read: a look at the first byte tells."""
    for name in islice(_sizes(visit), MOST_LOOKED_AT):
        try:
            visit.get(name, most_bytes=0)
        except (FileMissing, TooLarge):
            continue
        except Barred as barred:
            yield SetAside(name, f"{barred} Let the service read it.")
