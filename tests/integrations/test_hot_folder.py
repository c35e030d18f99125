"""A hot folder shows a job once: whenever we die, whoever else hands it over, even if it is taken at once.

The steps of an attempt are counted, and each test is made to stop, or to be overtaken, at every one of them.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from quillpost.fulfillment.ports import PartnerDown
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.folders.models import OpenFolder, RemoteFolder
from quillpost.integrations.printing.folder import HotFolder
from support.print_partners import FILES, REFERENCE, job, now
from support.sftp_server import SftpServer

pytestmark = pytest.mark.costly

MOST_STEPS = 30


class Died(Exception):
    """As by kill -9: nothing more is done."""


class Watched:
    """A place in which something happens right before the change with this number."""

    def __init__(self, place: RemoteFolder, number: int, happens: Callable[[], None]) -> None:
        self.label = place.label
        self._place, self._left, self._happens = place, number, happens
        self.has_happened = False

    @contextmanager
    def open(self) -> Iterator[OpenFolder]:
        with self._place.open() as visit:
            yield _Watching(visit, self._before)

    def _before(self) -> None:
        if self._left == 0:
            self.has_happened = True
            self._happens()
        self._left -= 1


class _Watching:
    def __init__(self, visit: OpenFolder, before: Callable[[], None]) -> None:
        self._visit, self._before = visit, before

    def __getattr__(self, name: str) -> Any:
        does = getattr(self._visit, name)
        if name not in ("put", "rename", "delete"):
            return does

        def watched(*args: Any, **how: Any) -> Any:
            self._before()
            return does(*args, **how)

        return watched


class Taker:
    """A printer that takes every job out of the folder as soon as it sees it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.taken: list[dict[str, bytes]] = []

    def look(self) -> None:
        for folder in self._root.glob("batch-*"):
            self.taken.append({file.name: file.read_bytes() for file in folder.iterdir()})
            shutil.rmtree(folder)


@pytest.fixture(params=["local", "sftp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[RemoteFolder, Path]]:
    root = tmp_path / "hot"
    if request.param == "local":
        root.mkdir()
        yield LocalFolder(root), root
        return
    with SftpServer(root) as house:
        yield house.place(tmp_path), root


def is_whole(files: dict[str, bytes]) -> bool:
    return files.keys() == {*FILES, "ticket.json"} and files.items() >= FILES.items()


def die() -> None:
    raise Died


def test_whenever_an_attempt_dies_the_next_shows_the_job_once(place: tuple[RemoteFolder, Path]) -> None:
    where, root = place
    steps = 0
    while True:
        dying = Watched(where, steps, die)
        printer, reference = Taker(root), f"batch-{steps:06d}"
        with suppress(Died):
            HotFolder(dying).submit(job(reference), now=now())
        printer.look()
        for _ in range(2):
            HotFolder(where).submit(job(reference), now=now())
            printer.look()
        assert [is_whole(files) for files in printer.taken] == [True], steps
        assert [path.name for path in (root / ".quillpost").glob(f"{reference}.*")] == [f"{reference}.claim"]
        if not dying.has_happened:
            break
        steps += 1
    assert 9 < steps < MOST_STEPS


def test_whenever_an_attempt_is_overtaken_the_job_is_shown_once(place: tuple[RemoteFolder, Path]) -> None:
    where, root = place
    steps = 0
    while True:
        printer, reference = Taker(root), f"batch-{steps:06d}"

        def overtake(reference: str = reference, printer: Taker = printer) -> None:
            HotFolder(where).submit(job(reference), now=now())
            printer.look()

        slow = Watched(where, steps, overtake)
        try:
            HotFolder(slow).submit(job(reference), now=now())
        except PartnerDown:  # its draft was cleaned away: it is asked again, as always
            HotFolder(where).submit(job(reference), now=now())
        printer.look()
        assert [is_whole(files) for files in printer.taken] == [True], steps
        if not slow.has_happened:
            break
        steps += 1
    assert 9 < steps < MOST_STEPS


def test_nothing_is_seen_of_a_job_before_it_is_whole(place: tuple[RemoteFolder, Path]) -> None:
    where, root = place
    seen: set[frozenset[str]] = set()
    for step in range(MOST_STEPS):
        folder = root / f"batch-{step:06d}"

        def look(folder: Path = folder) -> None:
            seen.add(frozenset(file.name for file in folder.glob("*")))

        HotFolder(Watched(where, step, look)).submit(job(folder.name), now=now())
    assert seen == {frozenset(), frozenset({*FILES, "ticket.json"})}


def test_another_job_or_folder_of_the_same_name_is_not_taken_for_this_one(place: tuple[RemoteFolder, Path]) -> None:
    where, root = place
    (root / REFERENCE).mkdir()
    (root / REFERENCE / "theirs").touch()
    with pytest.raises(PartnerDown, match="that is not ours: move it away"):
        HotFolder(where).submit(job(), now=now())
    (root / REFERENCE).rename(root / "old")
    HotFolder(where).submit(job(), now=now())
    assert (root / REFERENCE / "ticket.json").exists()
    with pytest.raises(PartnerDown, match=f"has another job called {REFERENCE}"):
        HotFolder(where).submit(job(**{"print.pdf": b"of another service"}), now=now())
    assert (root / REFERENCE / "print.pdf").read_bytes() == FILES["print.pdf"]
    (root / ".quillpost" / f"{REFERENCE}.claim" / "claim.json").unlink()
    with pytest.raises(PartnerDown, match="has been emptied: remove it"):
        HotFolder(where).submit(job(), now=now())


def test_marks_are_read_where_the_job_was_after_it_was_taken_away(place: tuple[RemoteFolder, Path]) -> None:
    where, root = place
    HotFolder(where).submit(job(), now=now())
    shutil.rmtree(root / REFERENCE)
    (root / REFERENCE).mkdir()
    (root / REFERENCE / "printed.json").write_text('{"at": "2026-05-04T12:00:00Z"}')
    HotFolder(where).submit(job(), now=now())
    assert HotFolder(where).progress(REFERENCE, now=now()).printed_at is not None
    assert not (root / REFERENCE / "ticket.json").exists()
