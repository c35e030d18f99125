"""What every carrier feed promises, and what each of them does besides."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.ports import CarrierDown, CarrierFeed, RefusedScanFile, ScanFileForbidden, ScanFileTooLarge
from quillpost.integrations.carriers import folder as drop_folder
from quillpost.integrations.carriers.folder import MAX_FILES_PER_POLL, CombinedFeed, DropFolder, StoredInbox
from quillpost.integrations.carriers.sandbox import MAILBOX_PREFIX, MailSimulation, SandboxCarrier, SandboxMailbox
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.storage.objects import build_folder_store
from support.sftp_server import SftpServer

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
JOURNEY = timedelta(seconds=100)
ARRIVED = NOON + JOURNEY * 2
PIECE = {
    "item_id": 1,
    "name": "Jane Doe",
    "tracking": "00310999999000000001",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701-1234",
}


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


def test_a_feed_tells_the_same_until_it_is_settled(stand: Stand) -> None:
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


def test_a_feed_sets_a_refused_file_aside_with_the_reason(stand: Stand) -> None:
    stand.bring(b"[1]")
    stand.bring(b"[1, 2]")
    first, second = polled(stand.feed)
    stand.feed.refuse(first, "It is a poem.")
    stand.feed.refuse(first, "It is a poem.")
    assert polled(stand.feed) == [second]
    assert list(stand.feed.set_aside()) == [RefusedScanFile(first, "It is a poem.")]


def test_the_same_push_twice_is_one_file(store: FileStore) -> None:
    inbox = StoredInbox(store)
    for data in (b"[1]", b"[1]", b"[2]"):
        inbox.store(data)
    assert len(inbox.poll(now=NOON).file_names) == 2


def test_a_poll_takes_a_bounded_number_and_says_that_there_are_more(store: FileStore) -> None:
    inbox = StoredInbox(store)
    for number in range(MAX_FILES_PER_POLL + 1):
        inbox.store(str(number).encode())
    report = inbox.poll(now=NOON)
    assert (len(report.file_names), report.expects_more) == (MAX_FILES_PER_POLL, True)


def test_a_file_that_still_grows_is_not_taken(folder: Path) -> None:
    feed = DropFolder(LocalFolder(folder))
    path = folder / "scans.json"
    path.write_bytes(b"[1")
    first = feed.poll(now=NOON)
    assert (list(first.file_names), first.expects_more) == ([], True)
    path.write_bytes(b"[1, 2")
    assert list(feed.poll(now=NOON).file_names) == []
    assert list(feed.poll(now=NOON).file_names) == ["scans.json"]
    path.write_bytes(b"[1, 2]")
    with pytest.raises(FileMissing):
        feed.fetch("scans.json")


def test_unfinished_and_hidden_files_and_folders_are_left_alone(folder: Path) -> None:
    for name in (".hidden", "scans.json.partial", "scans.json.tmp", "scans.json"):
        (folder / name).write_bytes(b"[]")
    (folder / "other").mkdir()
    assert polled(DropFolder(LocalFolder(folder))) == ["scans.json"]


def test_what_was_read_is_kept_under_its_name_however_often_that_returns(folder: Path) -> None:
    feed = DropFolder(LocalFolder(folder))
    for text in (b"[1]", b"[1, 2]"):
        (folder / "scans.json").write_bytes(text)
        feed.settle("scans.json")
    assert {path.name: path.read_bytes() for path in (folder / "done").iterdir()} == {
        "scans.json": b"[1]",
        "1-scans.json": b"[1, 2]",
    }


def test_a_file_that_is_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drop_folder, "MAX_FILE_BYTES", 10)
    (folder / "scans.json").write_bytes(b"[" + b" " * 20 + b"]")
    with pytest.raises(ScanFileTooLarge, match="larger than 10 bytes"):
        DropFolder(LocalFolder(folder)).fetch("scans.json")


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


@pytest.mark.parametrize("where", ["here", "sftp"])
def test_a_file_that_may_not_be_read_is_named_and_left(
    folder: Path, tmp_path: Path, shut: Callable[[str], None], where: str
) -> None:
    shut("shut")
    for name in ("shut.json", "scans.json"):
        (folder / name).write_bytes(b"[1]")
    with SftpServer(folder) as house:
        feed = DropFolder(house.place(tmp_path) if where == "sftp" else LocalFolder(folder))
        assert polled(feed) == ["scans.json", "shut.json"]
        with pytest.raises(ScanFileForbidden, match=r"shut\.json cannot be read: Permission denied"):
            feed.fetch("shut.json")
        assert feed.fetch("scans.json") == b"[1]"
        [named] = feed.set_aside()
    assert named.name == "shut.json"
    assert "cannot be read: Permission denied. Let the service read it." in named.reason


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


def test_an_sftp_server_that_is_gone_is_down(tmp_path: Path, folder: Path) -> None:
    with SftpServer(folder) as house:
        feed = DropFolder(house.place(tmp_path))
        assert list(feed.poll(now=NOON).file_names) == []
    with pytest.raises(CarrierDown, match="could not be reached"):
        feed.poll(now=NOON)


def drop(store: FileStore, reference: str, *pieces: dict[str, object], chances: MailSimulation | None = None) -> None:
    SandboxMailbox(store, chances or MailSimulation(), journey=JOURNEY).mail_items(
        reference, pieces or [PIECE], mailed_at=NOON
    )


def events_of(store: FileStore, now: datetime) -> list[dict[str, str]]:
    carrier = SandboxCarrier(store)
    files = [json.loads(carrier.fetch(name)) for name in carrier.poll(now=now).file_names]
    return [event for file in files for event in file["events"]]


def test_the_sandbox_tells_of_a_piece_when_its_time_has_come(store: FileStore) -> None:
    drop(store, "batch-000001")
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


def test_no_report_tells_of_what_is_yet_to_come(store: FileStore) -> None:
    many = [PIECE | {"tracking": f"{n:020d}", "item_id": n} for n in range(200)]
    drop(store, "batch-000001", *many)
    for step in range(12):
        now = NOON + JOURNEY * step / 10
        assert all(datetime.fromisoformat(event["scanDatetime"]) <= now for event in events_of(store, now))
    assert len(list(store.keys(MAILBOX_PREFIX))) <= 10
    assert len(events_of(store, ARRIVED)) == 800


def test_a_job_mailed_twice_with_the_same_moment_is_the_same_files(store: FileStore) -> None:
    drop(store, "batch-000001")
    before = {key: store.get(key) for key in store.keys(MAILBOX_PREFIX)}
    drop(store, "batch-000001")
    assert {key: store.get(key) for key in store.keys(MAILBOX_PREFIX)} == before


def test_the_sandbox_settles_by_forgetting(store: FileStore) -> None:
    drop(store, "batch-000001")
    drop(store, "batch-000002", PIECE | {"tracking": "00310999999000000002"})
    carrier = SandboxCarrier(store)
    for name in carrier.poll(now=ARRIVED).file_names:
        carrier.settle(name)
        carrier.settle(name)
    assert list(store.keys(MAILBOX_PREFIX)) == []


def test_a_piece_without_a_barcode_is_not_reported(store: FileStore) -> None:
    drop(store, "batch-000001", PIECE | {"tracking": None})
    assert list(store.keys(MAILBOX_PREFIX)) == []
