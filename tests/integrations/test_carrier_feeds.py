"""What every carrier feed promises, and what the simulated mail of testing mode reports."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import CarrierDown, CarrierFeed, RefusedScanFile, ScanFileForbidden, ScanFileTooLarge
from quillpost.integrations.carriers import folder as drop_folder
from quillpost.integrations.carriers.folder import MAX_FILES_PER_POLL, CombinedFeed, DropFolder, StoredInbox
from quillpost.integrations.carriers.sandbox import (
    DELIVERED,
    MAILBOX_PREFIX,
    MAX_PACE,
    REPORTS_PER_JOURNEY,
    USUAL_JOURNEY,
    MailSimulation,
    SandboxCarrier,
    SandboxMailbox,
    SimulatedScan,
)
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.storage.objects import build_folder_store
from support.sftp_server import SftpServer

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
JOURNEY = timedelta(seconds=100)
ARRIVED = NOON + JOURNEY * 2
PIECE = {"item_id": 1, "name": "Jane Doe", "tracking": "00310999999000000001", "city": "Austin", "province": "TX"}
PIECE |= {"postal_code": "78701-1234"}


@dataclass(frozen=True)
class Stand:
    """A feed, and how a carrier hands a file to it."""

    feed: CarrierFeed
    bring: Callable[[bytes], None]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return build_folder_store(tmp_path / "files")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "drop"
    path.mkdir()
    return path


@pytest.fixture(params=["inbox", "folder", "sftp", "several"])
def stand(request: pytest.FixtureRequest, store: FileStore, folder: Path, tmp_path: Path) -> Iterator[Stand]:
    def drop(data: bytes) -> None:
        (folder / f"scans-{len(data)}.json").write_bytes(data)

    inbox = StoredInbox(store)
    match request.param:
        case "inbox":
            yield Stand(inbox, inbox.store)
        case "folder":
            yield Stand(DropFolder(LocalFolder(folder)), drop)
        case "several":
            feeds: dict[str, CarrierFeed] = {"inbox": inbox, "folder": DropFolder(LocalFolder(folder))}
            yield Stand(CombinedFeed(feeds), inbox.store)
        case "sftp":
            with SftpServer(folder) as house:
                yield Stand(DropFolder(house.place(tmp_path)), drop)


def polled(feed: CarrierFeed) -> list[str]:
    """What is there once nothing grows any more."""
    feed.poll(now=NOON)
    return list(feed.poll(now=NOON).file_names)


def test_a_feed_names_a_file_until_it_is_settled_or_set_aside_with_the_reason(stand: Stand) -> None:
    stand.bring(b"[1]")
    [name] = polled(stand.feed)
    assert polled(stand.feed) == [name]
    assert stand.feed.fetch(name) == b"[1]"
    stand.feed.settle(name)
    stand.feed.settle(name)
    assert polled(stand.feed) == []
    assert not stand.feed.poll(now=NOON).expects_more
    assert list(stand.feed.set_aside()) == []
    with pytest.raises(FileMissing):
        stand.feed.fetch(name)
    stand.bring(b"[2, 2]")
    stand.bring(b"[1, 2, 3]")
    first, second = polled(stand.feed)
    stand.feed.refuse(first, "It is a poem.")
    stand.feed.refuse(first, "It is a poem.")
    assert polled(stand.feed) == [second]
    assert list(stand.feed.set_aside()) == [RefusedScanFile(first, "It is a poem.")]


def test_a_poll_of_pushes_takes_a_bounded_number_and_the_same_push_once(store: FileStore) -> None:
    inbox = StoredInbox(store)
    for data in (b"[1]", b"[1]", b"[2]"):
        inbox.store(data)
    assert len(inbox.poll(now=NOON).file_names) == 2
    for number in range(MAX_FILES_PER_POLL - 1):
        inbox.store(str(number).encode())
    report = inbox.poll(now=NOON)
    assert (len(report.file_names), report.expects_more) == (MAX_FILES_PER_POLL, True)


def test_a_file_that_still_grows_is_not_taken(folder: Path) -> None:
    feed, path = DropFolder(LocalFolder(folder)), folder / "scans.json"
    path.write_bytes(b"[1")
    first = feed.poll(now=NOON)
    assert (list(first.file_names), first.expects_more) == ([], True)
    path.write_bytes(b"[1, 2")
    assert list(feed.poll(now=NOON).file_names) == []
    assert list(feed.poll(now=NOON).file_names) == ["scans.json"]
    path.write_bytes(b"[1, 2]")
    with pytest.raises(FileMissing):
        feed.fetch("scans.json")


def test_only_whole_files_of_bounded_size_are_taken_and_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".hidden", "scans.json.partial", "scans.json.tmp", "scans.json"):
        (folder / name).write_bytes(b"[]")
    (folder / "other").mkdir()
    feed = DropFolder(LocalFolder(folder))
    assert polled(feed) == ["scans.json"]
    for text in (b"[1]", b"[1, 2]"):
        (folder / "scans.json").write_bytes(text)
        feed.settle("scans.json")
    kept = {path.name: path.read_bytes() for path in (folder / "done").iterdir()}
    assert kept == {"scans.json": b"[1]", "1-scans.json": b"[1, 2]"}
    monkeypatch.setattr(drop_folder, "MAX_FILE_BYTES", 10)
    (folder / "scans.json").write_bytes(b"[" + b" " * 20 + b"]")
    with pytest.raises(ScanFileTooLarge, match="larger than 10 bytes"):
        feed.fetch("scans.json")


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Files whose names begin so may not be opened, even by who may open all."""
    begins: list[str] = []
    usual = os.open

    def refusing(path: str | bytes | Path, flags: int, mode: int = 0o777, **more: int) -> int:
        if any(Path(os.fsdecode(path)).name.startswith(each) for each in begins):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return usual(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refusing)
    return begins.append


def test_a_file_that_may_not_be_read_is_named_and_left_until_the_server_is_gone(
    folder: Path, tmp_path: Path, shut: Callable[[str], None]
) -> None:
    shut("shut")
    for name in ("shut.json", "scans.json"):
        (folder / name).write_bytes(b"[1]")
    with SftpServer(folder) as house:
        for place in (LocalFolder(folder), house.place(tmp_path)):
            feed = DropFolder(place)
            assert polled(feed) == ["scans.json", "shut.json"]
            with pytest.raises(ScanFileForbidden, match=r"shut\.json cannot be read: Permission denied"):
                feed.fetch("shut.json")
            assert feed.fetch("scans.json") == b"[1]"
            [named] = feed.set_aside()
            assert named.name == "shut.json"
            assert "cannot be read: Permission denied. Let the service read it." in named.reason
    with pytest.raises(CarrierDown, match="could not be reached"):
        feed.poll(now=NOON)


def test_many_files_that_may_not_be_read_are_in_nobody_s_way(folder: Path, shut: Callable[[str], None]) -> None:
    shut("a")
    for number in range(drop_folder.MAX_FILES_PER_POLL):
        (folder / f"a{number}.json").write_bytes(b"[1]")
    (folder / "b.json").write_bytes(b"[1]")
    feed = DropFolder(LocalFolder(folder))
    for name in polled(feed):
        with pytest.raises(ScanFileForbidden):
            feed.fetch(name)
    assert feed.poll(now=NOON).file_names[0] == "b.json"


def test_a_folder_that_is_not_there_is_down_and_keeps_nobody_from_the_other(tmp_path: Path, store: FileStore) -> None:
    inbox, gone = StoredInbox(store), DropFolder(LocalFolder(tmp_path / "gone"))
    inbox.store(b"[1]")
    with pytest.raises(CarrierDown, match="is not there"):
        gone.poll(now=NOON)
    both = CombinedFeed({"gone": gone, "inbox": inbox})
    [name] = both.poll(now=NOON).file_names
    assert both.fetch(name) == b"[1]"
    with pytest.raises(CarrierDown, match="is not there"):
        both.set_aside()
    with pytest.raises(CarrierDown, match="is not there"):
        CombinedFeed({"gone": gone}).poll(now=NOON)


def mail(store: FileStore, reference: str, *pieces: dict[str, object]) -> None:
    mailbox = SandboxMailbox(store, MailSimulation(), journey=JOURNEY)
    mailbox.mail_items(reference, pieces or [PIECE], mailed_at=NOON)


def events_of(store: FileStore, now: datetime) -> list[dict[str, str]]:
    carrier = SandboxCarrier(store)
    files = [json.loads(carrier.fetch(name)) for name in carrier.poll(now=now).file_names]
    return [event for file in files for event in file["events"]]


def test_the_sandbox_tells_of_a_piece_when_its_time_has_come_and_settles_by_forgetting(store: FileStore) -> None:
    mail(store, "batch-000001")
    before = {key: store.get(key) for key in store.keys(MAILBOX_PREFIX)}
    mail(store, "batch-000001")
    assert {key: store.get(key) for key in store.keys(MAILBOX_PREFIX)} == before
    carrier = SandboxCarrier(store)
    early = carrier.poll(now=NOON)
    assert (list(early.file_names), early.expects_more) == ([], True)
    half = events_of(store, NOON + JOURNEY * 0.65)
    assert [event["mailPhase"].split()[1] for event in half] == ["1a", "2b"]
    assert half[1]["scanFacilityCity"] == "Austin"
    late = carrier.poll(now=NOON + JOURNEY * 1.05)
    assert (len(late.file_names), late.expects_more) == (4, False)
    for event in events_of(store, ARRIVED):
        assert NOON < datetime.fromisoformat(event["scanDatetime"]) <= NOON + JOURNEY * 1.05
    mail(store, "batch-000002", PIECE | {"tracking": "00310999999000000002"})
    for name in carrier.poll(now=ARRIVED).file_names:
        carrier.settle(name)
        carrier.settle(name)
    assert list(store.keys(MAILBOX_PREFIX)) == []
    mail(store, "batch-000003", PIECE | {"tracking": None})
    assert list(store.keys(MAILBOX_PREFIX)) == [], "a piece without a barcode is not reported"


def test_no_report_tells_of_what_is_yet_to_come(store: FileStore) -> None:
    mail(store, "batch-000001", *(PIECE | {"tracking": f"{n:020d}", "item_id": n} for n in range(200)))
    for step in range(12):
        now = NOON + JOURNEY * step / 10
        assert all(datetime.fromisoformat(event["scanDatetime"]) <= now for event in events_of(store, now))
    assert len(list(store.keys(MAILBOX_PREFIX))) <= 10
    assert len(events_of(store, ARRIVED)) == 800


def piece(number: int = 1, name: str = "Jane Doe") -> dict[str, Any]:
    return {"item_id": number, "tracking": f"{number:020d}", "name": name}


def fates(chances: MailSimulation, pieces: int = 2_000) -> list[list[SimulatedScan]]:
    return [list(chances.simulate_scans(piece(number))) for number in range(pieces)]


def test_without_losses_every_piece_is_seen_on_its_whole_way() -> None:
    for sightings in fates(MailSimulation()):
        assert [sighting.journey_leg for sighting in sightings] == list(USUAL_JOURNEY)
        shares = [sighting.share for sighting in sightings]
        assert shares == sorted(shares)
        assert shares[-1] <= MAX_PACE
        assert all(sighting.share <= MAX_PACE * sighting.slot / REPORTS_PER_JOURNEY for sighting in sightings)
    assert not any(MailSimulation().is_spoiled(piece(number)) for number in range(2_000))
    assert len({sightings[-1].share for sightings in fates(MailSimulation(), 100)}) > 90, "they take different times"


def test_the_same_seed_gives_the_same_fate_and_another_another() -> None:
    assert fates(MailSimulation(1, 0.3)) == fates(MailSimulation(1, 0.3)) != fates(MailSimulation(2, 0.3))


def test_losses_are_of_every_kind_and_at_the_configured_rate() -> None:
    chances = MailSimulation(1, 0.2)
    found = fates(chances)
    legs = [{sighting.journey_leg for sighting in sightings} for sightings in found]
    missed = sum(DELIVERED not in seen for seen in legs) / len(legs)
    assert 0.15 < missed < 0.30
    words = {sighting.journey_leg.description for sightings in found for sighting in sightings}
    assert words == {"", "Forwarded", "Return to sender", "Destroyed as dead mail"}
    assert any(len(sightings) != len({(s.journey_leg, s.share) for s in sightings}) for sightings in found)
    assert any([s.slot for s in sightings] != sorted(s.slot for s in sightings) for sightings in found)
    assert 0 < sum(chances.is_spoiled(piece(number)) for number in range(2_000)) < 40
    assert not any(fates(MailSimulation(1, 1.0), 200)), "everything can be lost"


def test_a_reserved_name_fares_as_it_says_whatever_else_gets_lost() -> None:
    for name in ("Test Returned", "Test Rerouted", "Test Lost"):
        calm, wild = (list(MailSimulation(1, loss).simulate_scans(piece(name=name))) for loss in (0.0, 1.0))
        assert [scan.journey_leg for scan in calm] == [scan.journey_leg for scan in wild] != [], name
