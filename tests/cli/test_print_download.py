"""`quillpost print download`: a batch's files in a folder, in clear, for one pair of eyes, and noted."""

import hashlib
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.cli import print_room
from quillpost.core.database.tables.fulfillment import batch_files
from quillpost.core.errors import NotReady
from quillpost.fulfillment.batches.files import BatchFileStorage, batch_file_key
from support.cli_results import Quillpost
from support.factories import Build, Clock, run_jobs_for
from support.orders import create_order, open_account
from support.production import LIVE_SETTINGS

NAMES = ["manifest.csv", "manifest.json", "print.pdf", "statement.json"]


def test_files_are_written_for_their_owner_alone_and_noted(
    build: Build, clock: Clock, conninfo: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    container = build(**LIVE_SETTINGS, review_seconds=1)
    sender = open_account(container, mode="live")
    create_order(container, sender)
    create_order(container, sender, size="6x9")
    run_jobs_for(container, clock, seconds=12)
    with container.db.system_transaction() as tx:
        operator = account_service.create_account(
            tx, email="op@example.com", name="Op", is_operator=True, now=container.clock()
        )
        known = {
            f"batch-{row.batch_id:06d}-{row.name}": bytes(row.sha256) for row in tx.execute(sa.select(batch_files))
        }
        this = batch_files.c.batch_id == 1, batch_files.c.name == "print.pdf"
        tx.execute(sa.update(batch_files).where(*this).values(is_secret=True))
    kept = BatchFileStorage(container.storage.store, container.encryptor)
    kept.put_files(
        1, {"print.pdf": container.storage.store.get(batch_file_key(1, "print.pdf"))}, secret_names={"print.pdf"}
    )
    settings = {"home": tmp_path / "home", "database_url": conninfo, **LIVE_SETTINGS}
    there = tmp_path / "there"

    for name in ("batch-000001", "batch-000002"):
        result = quillpost("print", "download", name, "--to", there, **settings)
        assert (result.code, result.out) == (0, f"4 files of {name}: {there}\n"), result.err
    assert len(known) == 8
    written = {file.name: hashlib.sha256(file.read_bytes()).digest() for file in there.iterdir()}
    assert written == known
    assert {file.stat().st_mode & 0o777 for file in there.iterdir()} == {0o600}

    other = tmp_path / "other"
    result = quillpost("print", "download", 1, "--to", other, "--file", "print.pdf", **settings)
    assert (result.code, [file.name for file in other.iterdir()]) == (0, ["batch-000001-print.pdf"])
    (other / "batch-000001-print.pdf").write_text("open to all")
    (other / "batch-000002-print.pdf").symlink_to(tmp_path / "elsewhere")
    for number in (1, 2):
        refused = quillpost("print", "download", number, "--to", other, **settings)
        assert refused.is_one_sentence(), refused
        assert f"{other}/batch-00000{number}-print.pdf is there already" in refused.err
    assert len([*other.iterdir()]) == 2
    assert (other / "batch-000001-print.pdf").read_text() == "open to all"
    assert not (tmp_path / "elsewhere").exists()
    for words, why in (((1, "--file", "no.pdf"), "batch-000001 has no no.pdf."), ((7,), "There is no batch 7.")):
        refused = quillpost("print", "download", *words, "--to", tmp_path / "none", **settings)
        assert refused.is_one_sentence(), refused
        assert why in refused.err
    container.storage.store.delete(batch_file_key(1, "print.pdf"))
    assert "remake batch-000001" in quillpost("print", "download", 1, "--to", tmp_path / "none", **settings).err
    assert not (tmp_path / "none").exists()

    with container.db.system_transaction() as tx:
        assert [describe_entry(entry) for entry in reversed(list_audit_entries(tx, operator))] == [
            f"the command line downloaded print files: batch-000001 (live, files: {', '.join(NAMES)})",
            f"the command line downloaded print files: batch-000002 (live, files: {', '.join(NAMES)})",
            "the command line downloaded print files: batch-000001 (live, files: print.pdf)",
        ]


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path) -> None:
    files = {tmp_path / "one": b"secret", tmp_path / "no such folder" / "two": b""}
    with pytest.raises(NotReady, match="cannot be written: No such file or directory"):
        print_room._write_files(tmp_path, files)
    assert [*tmp_path.iterdir()] == []
