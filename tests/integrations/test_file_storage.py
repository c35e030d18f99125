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
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from quillpost.core.errors import NotReady, Unavailable
from quillpost.core.ports import FileMissing, FileStore
from quillpost.integrations.storage.objects import build_folder_store, build_s3_store
from support.processes import free_port

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


def test_a_file_of_any_size_goes_in_and_out_whole_or_piece_by_piece(store: FileStore, tmp_path: Path) -> None:
    store.put("batches/7/print.pdf", b"%PDF\0\xff")
    assert store.get("batches/7/print.pdf") == b"%PDF\0\xff"
    for size in (0, LARGE):
        data = os.urandom(size)
        store.put("a/b", data)
        assert store.get("a/b") == data
        (tmp_path / "long").write_bytes(b"before" + data)
        with (tmp_path / "long").open("rb") as file:
            file.seek(len(b"before"))
            store.put_file("a/long", file)
        with store.open("a/long") as found:
            assert found.read(10) == data[:10]
            assert found.read() == data[10:]
        assert store.get("a/long") == data


def test_what_is_not_there_is_missing_and_a_second_put_replaces_the_first(store: FileStore) -> None:
    store.delete("a/b.txt")
    for key in ("a/b.txt", "a/c", "a", "a/b.txt/c"):
        assert not store.exists(key)
        for read in (store.get, store.open):
            with pytest.raises(FileMissing):
                read(key)
    assert list(store.keys("")) == []
    store.put("a/b.txt", b"a long first version")
    store.put("a/b.txt", b"second")
    assert store.get("a/b.txt") == b"second"
    assert list(store.keys("")) == ["a/b.txt"]
    assert [store.exists(key) for key in ("a/b.txt", "a")] == [True, False]
    for read in (store.get, store.open):
        with pytest.raises(FileMissing):
            read("a")
    store.delete("a/b.txt")
    assert not store.exists("a/b.txt")


def test_keys_come_in_order_by_any_prefix_and_over_more_than_a_page(store: FileStore) -> None:
    for key in ("b/7/2.pdf", "b/7/10.pdf", "b/71/1.pdf", "b/8/1.pdf", "a", "b-1"):
        store.put(key, b"x")
    assert list(store.keys("")) == ["a", "b-1", "b/7/10.pdf", "b/7/2.pdf", "b/71/1.pdf", "b/8/1.pdf"]
    assert list(store.keys("b/7")) == ["b/7/10.pdf", "b/7/2.pdf", "b/71/1.pdf"]
    assert list(store.keys("b/7/")) == ["b/7/10.pdf", "b/7/2.pdf"]
    assert list(store.keys("b/7/2.pdf")) == ["b/7/2.pdf"]
    assert list(store.keys("c")) == []
    expected = [f"n/{number:04}" for number in range(1_001)]
    for key in expected:
        store.put(key, b"")
    assert list(store.keys("n/")) == expected


def test_a_key_that_could_lead_elsewhere_is_refused(store: FileStore, subtests: pytest.Subtests) -> None:
    outside = ("", "/etc/passwd", "../up", "a/../b", "a/..", "./a", "a//b", "a/", ".hidden", "C:/a", "a\\b", "a b", "ü")
    for key in (*outside, "a\0b", "a\n", "a#1", "a%2e", "x" * 201, "/".join(["x" * 100] * 10)):
        uses: list[Callable[[str], object]] = [partial(store.put, data=b"x"), store.get, store.exists, store.delete]
        with subtests.test(repr(key[:40])):
            for use in uses:
                with pytest.raises(ValueError, match="is not a file key"):
                    use(key)


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


def test_drafts_of_killed_writers_are_not_listed_and_forgotten_and_those_of_others_are_not(tmp_path: Path) -> None:
    store, folder = build_folder_store(tmp_path), tmp_path / "batches" / "7"
    store.put("batches/7/print.pdf", b"whole")
    old, fresh = (folder / f"print.pdf#{n}" for n in (8713508713508713508, 871351))
    for draft in (old, fresh):
        draft.write_bytes(b"half")
    assert list(store.keys("")) == ["batches/7/print.pdf"]
    long_ago = datetime.now(UTC) - timedelta(days=2)
    for file in (old, folder / "print.pdf"):
        os.utime(file, (long_ago.timestamp(),) * 2)
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


def test_the_folder_is_for_its_owner_alone_and_reported_if_it_cannot_be_made(tmp_path: Path) -> None:
    build_folder_store(tmp_path / "var" / "files")
    assert stat.S_IMODE((tmp_path / "var" / "files").stat().st_mode) == 0o700
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotReady, match=r"cannot be made: .+\.$"):
        build_folder_store(tmp_path / "file" / "files")


def test_a_folder_a_bucket_or_a_server_that_is_not_there_is_unavailable(tmp_path: Path, s3_endpoint: str) -> None:
    folder = build_folder_store(tmp_path / "disk")
    (tmp_path / "disk").rmdir()
    silent = bucket_at(f"http://127.0.0.1:{free_port()}", "any")
    for store in (folder, silent, bucket_at(s3_endpoint, "no-such-bucket")):
        calls: list[Callable[[], object]] = [lambda: store.put("a/b", b"x"), lambda: store.get("a/b")]  # noqa: B023
        calls.append(lambda: store.keys(""))  # noqa: B023
        for call in calls:
            with pytest.raises(Unavailable, match=r"^The file storage cannot be used now\."):
                call()
    for store in (folder, silent):
        with pytest.raises(Unavailable):
            store.exists("a/b")
    assert not (tmp_path / "disk").exists()
