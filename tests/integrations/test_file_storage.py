"""What every file store promises, asked of the folder and of S3."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from quillpost.core.errors import NotReady, Unavailable
from quillpost.core.ports import FileMissing, FileStore
from quillpost.integrations.storage.objects import build_folder_store, build_s3_store

ROOT = Path(__file__).parents[2]
MOTO = Path(os.environ.get("QUILLPOST_TEST_MOTO", ROOT / ".tools/s3/bin/moto_server"))

# Large enough for obstore to upload it in parts.
LARGE = 12_000_000

KEEPS_WRITING = """
import sys
from pathlib import Path
from quillpost.integrations.storage.objects import build_folder_store
store = build_folder_store(Path(sys.argv[1]))
while True:
    for letter in (b"a", b"b"):
        store.put("batches/7/print.pdf", letter * int(sys.argv[2]))
        print("written", flush=True)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    while True:
        if server.poll() is not None:
            pytest.fail(f"The S3 stand-in ended with code {server.returncode} before it answered.")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    if not MOTO.exists():
        pytest.fail("The S3 tests need moto_server: run `make setup`, or set QUILLPOST_TEST_MOTO.")
    port = free_port()
    server = subprocess.Popen(
        [str(MOTO), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(server, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def bucket_at(endpoint: str, bucket: str) -> FileStore:
    return build_s3_store(bucket, region="us-east-1", access_key_id="test", secret_access_key="test", endpoint=endpoint)


def new_bucket(endpoint: str) -> FileStore:
    bucket = f"quillpost-{uuid4().hex}"
    creation = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(creation, timeout=30).close()
    return bucket_at(endpoint, bucket)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "folder":
        return build_folder_store(tmp_path / "files")
    return new_bucket(request.getfixturevalue("s3_endpoint"))


def test_a_file_comes_back_as_it_was_put(store: FileStore) -> None:
    store.put("batches/7/print.pdf", b"%PDF\0\xff")
    assert store.get("batches/7/print.pdf") == b"%PDF\0\xff"


@pytest.mark.parametrize("size", [0, LARGE])
def test_size_does_not_matter(store: FileStore, size: int) -> None:
    data = os.urandom(size)
    store.put("a/b", data)
    assert store.get("a/b") == data


@pytest.mark.parametrize("size", [0, LARGE])
def test_a_long_file_goes_in_and_out_piece_by_piece(store: FileStore, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "long").write_bytes(b"before" + data)
    with (tmp_path / "long").open("rb") as file:
        file.seek(len(b"before"))
        store.put_file("a/long", file)
    with store.open("a/long") as found:
        assert found.read(10) == data[:10]
        assert found.read() == data[10:]
    assert store.get("a/long") == data


def test_what_is_not_there_cannot_be_opened(store: FileStore) -> None:
    store.put("a/b", b"x")
    for key in ("a/c", "a", "a/b/c"):
        with pytest.raises(FileMissing):
            store.open(key)


def test_a_second_put_replaces_the_first(store: FileStore) -> None:
    store.put("a/b.txt", b"a long first version")
    store.put("a/b.txt", b"second")
    assert store.get("a/b.txt") == b"second"
    assert list(store.keys("")) == ["a/b.txt"]


def test_a_file_that_was_never_put_is_missing(store: FileStore) -> None:
    with pytest.raises(FileMissing):
        store.get("a/b.txt")
    assert not store.exists("a/b.txt")


def test_the_folder_of_a_file_is_no_file(store: FileStore) -> None:
    store.put("a/b.txt", b"x")
    assert not store.exists("a")
    with pytest.raises(FileMissing):
        store.get("a")


def test_a_deleted_file_is_missing(store: FileStore) -> None:
    store.put("a/b.txt", b"x")
    assert store.exists("a/b.txt")
    store.delete("a/b.txt")
    assert not store.exists("a/b.txt")


def test_deleting_a_missing_file_is_no_error(store: FileStore) -> None:
    store.delete("a/b.txt")
    assert list(store.keys("")) == []


def test_keys_come_in_order_and_by_any_prefix(store: FileStore) -> None:
    for key in ("b/7/2.pdf", "b/7/10.pdf", "b/71/1.pdf", "b/8/1.pdf", "a", "b-1"):
        store.put(key, b"x")
    assert list(store.keys("")) == ["a", "b-1", "b/7/10.pdf", "b/7/2.pdf", "b/71/1.pdf", "b/8/1.pdf"]
    assert list(store.keys("b/7")) == ["b/7/10.pdf", "b/7/2.pdf", "b/71/1.pdf"]
    assert list(store.keys("b/7/")) == ["b/7/10.pdf", "b/7/2.pdf"]
    assert list(store.keys("b/7/2.pdf")) == ["b/7/2.pdf"]
    assert list(store.keys("c")) == []


def test_a_listing_longer_than_a_page_is_whole(store: FileStore) -> None:
    expected = [f"n/{number:04}" for number in range(1_001)]
    for key in expected:
        store.put(key, b"")
    assert list(store.keys("n/")) == expected


@pytest.mark.parametrize(
    "key",
    [
        *("", "/etc/passwd", "../up", "a/../b", "a/..", "./a", "a//b", "a/", ".hidden", "C:/a"),
        *("a\\b", "a b", "ü", "a\0b", "a\n", "a#1", "a%2e", "x" * 201, "/".join(["x" * 100] * 10)),
    ],
)
def test_a_key_that_could_lead_elsewhere_is_refused(store: FileStore, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put(key, b"x"),
        lambda: store.get(key),
        lambda: store.exists(key),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is not a file key"):
            call()


def test_a_reader_never_sees_half_a_file(store: FileStore) -> None:
    versions = {letter * 300_000 for letter in (b"a", b"b")}
    store.put("a/b", min(versions))
    done = threading.Event()

    def write() -> None:
        try:
            for _ in range(20):
                for version in versions:
                    store.put("a/b", version)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(store.get("a/b"))
    writer.join()
    assert seen <= versions


def test_a_killed_writer_leaves_a_whole_file_and_no_other(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", KEEPS_WRITING, str(tmp_path / "files"), str(LARGE)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    with writer.stdout:
        for _ in range(2):
            assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    store = build_folder_store(tmp_path / "files")
    assert store.get("batches/7/print.pdf") in (b"a" * LARGE, b"b" * LARGE)
    assert list(store.keys("")) == ["batches/7/print.pdf"]


def test_a_draft_that_a_killed_writer_left_is_not_listed(tmp_path: Path) -> None:
    store = build_folder_store(tmp_path)
    (tmp_path / "print.pdf#8713508713508713508").write_bytes(b"half")
    assert list(store.keys("")) == []
    assert not store.exists("print.pdf")


def test_drafts_of_killed_writers_are_forgotten_and_those_of_others_are_not(tmp_path: Path) -> None:
    store = build_folder_store(tmp_path)
    store.put("batches/7/print.pdf", b"whole")
    old, fresh = (tmp_path / "batches" / "7" / f"print.pdf#{n}" for n in (871350, 871351))
    for draft in (old, fresh):
        draft.write_bytes(b"half")
    long_ago = datetime.now(UTC) - timedelta(days=2)
    os.utime(old, (long_ago.timestamp(),) * 2)
    os.utime(tmp_path / "batches" / "7" / "print.pdf", (long_ago.timestamp(),) * 2)
    assert store.delete_unfinished(before=datetime.now(UTC) - timedelta(days=1)) == 1
    assert (old.exists(), fresh.exists()) == (False, True)
    assert store.get("batches/7/print.pdf") == b"whole"


def test_a_file_is_on_disk_before_its_key_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, Path.replace

    def noting_flush(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        flush(descriptor)

    def noting_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noting_flush)
    monkeypatch.setattr(Path, "replace", noting_rename)
    build_folder_store(tmp_path).put("batches/print.pdf", b"x")
    assert steps == ["file", "rename", "folder", "folder"]


def test_a_failed_write_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    store = build_folder_store(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match=r"^The file storage cannot be used now\."):
            store.put("print.pdf", b"x")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    build_folder_store(tmp_path / "var" / "files")
    assert stat.S_IMODE((tmp_path / "var" / "files").stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotReady, match=r"cannot be made: .+\.$"):
        build_folder_store(tmp_path / "file" / "files")


def assert_unavailable(store: FileStore) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put("a/b", b"x"),
        lambda: store.get("a/b"),
        lambda: store.keys(""),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match=r"^The file storage cannot be used now\."):
            call()


def test_a_folder_that_went_away_is_unavailable(tmp_path: Path) -> None:
    store = build_folder_store(tmp_path / "disk")
    (tmp_path / "disk").rmdir()
    assert_unavailable(store)
    with pytest.raises(Unavailable):
        store.exists("a/b")
    assert not (tmp_path / "disk").exists()


def test_a_bucket_that_is_not_there_is_unavailable(s3_endpoint: str) -> None:
    assert_unavailable(bucket_at(s3_endpoint, "no-such-bucket"))


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    store = bucket_at(f"http://127.0.0.1:{free_port()}", "any")
    assert_unavailable(store)
    with pytest.raises(Unavailable):
        store.exists("a/b")
