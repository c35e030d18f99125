"""`quillpost print`: what an operator sees and says at the command line, of batches and of orders that are held."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.cli import print_room
from quillpost.core.database.tables.accounts import audit_log
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batch_files, batches, order_verdicts, prints
from quillpost.core.errors import NotReady
from quillpost.fulfillment.batches.files import BatchFileStorage, batch_file_key
from quillpost.orders.models import Order
from support.cli_results import CommandResult, Quillpost
from support.factories import Build, Clock, people, run_jobs_for
from support.orders import create_order, open_account, order_row
from support.production import LIVE_SETTINGS, files_of
from support.rows import execute, run, scalars

PIECES = 6


class PrintRoom:
    """A service that prints live mail, and the commands beside it."""

    def __init__(self, container: Container, clock: Clock, beside: Quillpost) -> None:
        self.parts, self.clock, self.beside = container, clock, beside

    def __call__(self, *words: object, **how: object) -> CommandResult:
        return self.beside("print", *words, **LIVE_SETTINGS | how)

    def read_json(self, *words: object) -> Any:
        outcome = self(*words, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    def column(self, column: sa.ColumnElement[Any]) -> list[Any]:
        return scalars(self.parts, sa.select(column).order_by(column.table.c[0]))

    def update(self, table: sa.Table, *where: sa.ColumnElement[bool], **values: object) -> None:
        execute(self.parts, sa.update(table).where(*where).values(values))

    def log_of_operator(self) -> list[str]:
        with self.parts.db.system_transaction() as tx:
            [operator] = set(tx.execute(sa.select(audit_log.c.account_id)).scalars())
            entries = reversed(list_audit_entries(tx, operator))
            return [describe_entry(entry).removeprefix("the command line ") for entry in entries]

    def open_operator(self) -> None:
        operator = {"email": "press@example.com", "name": "Press", "is_operator": True}
        with self.parts.db.system_transaction() as tx:
            account_service.create_account(tx, **operator, now=self.parts.clock())  # type: ignore[arg-type]

    def create_order(self, email: str, count: int = 1) -> Order:
        return create_order(self.parts, open_account(self.parts, email, mode="live"), people(count))

    def create_held_order(self, mode: str = "live", email: str = "owner@example.com") -> Order:
        """It waits for an operator."""
        order = create_order(self.parts, open_account(self.parts, email, mode), people(2), message="Hello %COMPANY%!")
        run_jobs_for(self.parts, self.clock, seconds=11)
        assert self.status_of(order) == "paused"
        return order

    def status_of(self, order: Order) -> str:
        return str(run(self.parts, order_row, order).status)

    def decisions(self) -> list[tuple[Any, ...]]:
        with self.parts.db.system_transaction() as tx:
            rows = tx.execute(sa.select(order_verdicts).order_by(order_verdicts.c.id))
            return [(row.order_id, row.verdict, row.reason, row.operator_id) for row in rows]


@pytest.fixture
def container(build: Build) -> Container:
    return build(**LIVE_SETTINGS, review_seconds=1)


@pytest.fixture
def commands(container: Container, clock: Clock, beside: Quillpost) -> PrintRoom:
    return PrintRoom(container, clock, beside)


@pytest.fixture
def room(commands: PrintRoom) -> PrintRoom:
    """With a batch that is with its printer."""
    commands.create_order("owner@example.com", PIECES)
    run_jobs_for(commands.parts, commands.clock, seconds=12)
    return commands


def test_batches_are_listed_shown_tried_again_and_offered_anew(room: PrintRoom) -> None:
    table = room("list")
    assert (table.code, table.err) == (0, "")
    assert all(word in table.out for word in ("batch-000001", "live", "handed", "postcard-4x6", "first", f" {PIECES} "))
    assert "is printed yet" not in table.out
    [batch] = room.read_json("list")
    assert (batch["id"], batch["reference"], batch["status"]) == (1, "batch-000001", "handed")
    assert batch["created_at"].startswith("2026-05-04T12:00:")
    assert room.read_json("list", "--mode", "test") == room.read_json("list", "--trouble") == []

    shown, details = room("show", "batch-000001"), room.read_json("show", 1)
    assert (shown.code, shown.err) == (0, "")
    assert (details["pieces_by_status"], details["statement"]["pieces"]) == ({"Processing": PIECES}, PIECES)
    described = [word for file in details["files"] for word in (f" {file['name']} ", file["sha256"])]
    assert all(word in shown.out for word in ("Mailing statement", "Processing", *described))

    unready = room.beside("print", "list")
    assert "No live mail is printed yet:\n" in unready.out
    assert "  QUILLPOST_MAILER_ID is not set: no barcode can be printed.\n" in unready.out
    assert "QUILLPOST_MAILER_ID" not in room.beside("print", "list", "--mode", "test").out
    assert len(json.loads(room.beside("print", "list", "--json").out)) == 1

    room.update(batches, trouble="The printer does not answer.")
    for shown_error in (room("list", "--trouble"), room("show", 1)):
        assert "The printer does not answer." in shown_error.out
    assert room("retry", 1).out == "batch-000001 is tried again.\n"

    assert room("retry", 1, "--anew").is_one_sentence("The batch is handed: only one that is composed")
    room.update(batches, status="composed", partner="https://old.example.com")
    for words, done, partner in (((), "tried again", "https://old.example.com"), (("--anew",), "offered anew", None)):
        assert room("retry", 1, *words).out == f"batch-000001 is {done}.\n"
        assert room.column(batches.c.partner) == [partner]
    room.update(batches, status="handed")
    assert room("mark", 1, "mailed", "--at", "2026-06-01T10:00:00-05:00").code == 0, "as it is meant elsewhere"
    assert room.column(batches.c.mailed_at)[0].isoformat() == "2026-06-01T15:00:00+00:00"
    assert room.read_json("list") == []
    assert [batch["status"] for batch in room.read_json("list", "--all")] == ["mailed"]


def test_orders_waiting_for_the_cutoff_are_summed_up_below_the_list(room: PrintRoom) -> None:
    assert "until" not in room("list").out
    first, *others = (room.create_order(f"{count}@example.com", count).id for count in (2, 1, 3))
    room.update(orders, orders.c.id.in_([first, others[0]]), pool_at=sa.text("'2099-05-06 20:00Z'"))
    room.update(orders, orders.c.id == others[1], pool_at=sa.text("'2099-05-07 20:00Z'"))
    note = "3 pieces of 2 orders wait until 2099-05-06 20:00 (UTC), 3 pieces of 1 order longer.\n"
    assert room("list").out.endswith(note)
    assert "until" not in room("list", "--mode", "test").out
    assert len(room.read_json("list")) == 1
    # As where a mailer had too few barcodes: some pieces are printed, and the order waits for the rest.
    room.update(orders, pool_at=None)
    room.update(orders, orders.c.id == 1, pool_at=sa.text("'2099-05-06 20:00Z'"))
    execute(room.parts, sa.delete(prints).where(prints.c.position == 3))
    assert room("list").out.endswith("\n1 piece of 1 order waits until 2099-05-06 20:00 (UTC).\n")


def test_a_batch_is_marked_and_spoiled_pieces_fail(room: PrintRoom) -> None:
    def mark_spoiled(*pieces: int) -> str:
        outcome = room("mark", 1, "spoiled", *(word for piece in pieces for word in ("--piece", piece)))
        return outcome.out if outcome.code == 0 else outcome.err

    assert mark_spoiled(1, 1) == "1 piece of batch-000001: spoiled, and not billed.\n"
    assert mark_spoiled(1) == "Nothing changes in batch-000001: 1 piece had failed before.\n"
    assert mark_spoiled(1, 2) == "1 piece of batch-000001: spoiled, and not billed. 1 piece had failed before.\n"
    assert room("reprint", 1, "--piece", 3, "--reason", "Torn").code == 0
    assert "Piece 3 was reprinted in batch-000002: mark it there." in mark_spoiled(3)
    left_out = room("reprint", 1, "--from", 1, "--to", 4, "--reason", "Torn")
    assert "Printed again in batch-000003: 1 piece.\nLeft out: 1-2. Ended already (Failed)." in left_out.out
    assert room("mark", 1, "spoiled", "--item", room.column(items.c.id)[4]).code == 0
    result = room("mark", "batch-000001", "printed", "--piece", 6, "--reason", "Torn")
    assert (result.code, result.out) == (0, "batch-000001 is marked printed.\n")
    failures = ["Spoiled in printing", "Spoiled in printing", None, None, "Spoiled in printing", "Torn"]
    assert room.column(items.c.failure) == failures
    assert [status == "Failed" for status in room.column(items.c.status)] == [why is not None for why in failures]
    assert room("mark", 1, "mailed", "--at", "2026-06-01T10:00:00").code == 0
    assert room.column(batches.c.mailed_at)[0].isoformat() == "2026-06-01T10:00:00+00:00"
    assert "2026-06-01T10:00:00Z" in room("show", 1).out


def test_pieces_are_printed_again_by_number_range_or_item(room: PrintRoom) -> None:
    fifth, sixth = room.column(items.c.id)[4:]
    chosen = (("--piece", 1, "--piece", 2), ("--from", 3, "--to", 4), ("--item", fifth, "--item", sixth))
    for batch, which in enumerate(chosen, 2):
        result = room("reprint", 1, *which, "--reason", "Cut askew")
        assert (result.code, result.out) == (0, f"Printed again in batch-00000{batch}: 2 pieces.\n"), result.err
        if batch == 2:
            assert "2, printed again in batch-000002" in room("show", 1).out
    assert len(set(room.column(prints.c.tracking))) == 2 * PIECES
    assert "reprint of 1" in room("list").out
    narrow = room("list", columns=80).out  # what is typed next stays whole
    assert all(word in narrow for word in (" batch-000001 ", " batch-000002 ", " rush ", "reprint of"))
    assert room("mark", 1, "spoiled", "--piece", 1).is_one_sentence()


def test_lost_files_of_a_batch_are_made_again_unless_they_would_differ(room: PrintRoom) -> None:
    before, store = files_of(room.parts, 1), room.parts.storage.store
    for key in before:
        store.delete(key)
    result = room("remake", "batch-000001")
    assert (result.code, result.out) == (0, "The files of batch-000001 are made again.\n"), result.err
    assert files_of(room.parts, 1) == before
    room.update(items, name="Someone Else")
    result = room("remake", 1)
    assert result.is_one_sentence("batch-000001 is left as it is. ", "print.pdf: not the files that were composed.")
    assert files_of(room.parts, 1) == before
    room.update(batches, status="new", indicia=None, qr_base=None)
    assert room("remake", 1).is_one_sentence("has not been composed yet.")


def test_what_is_done_is_in_the_log_of_whoever_runs_the_service(room: PrintRoom) -> None:
    room.open_operator()
    order = room.create_order("second@example.com")
    for words in (
        ("mark", 1, "acknowledged"), ("mark", 1, "printed"), ("mark", 1, "printed"),
        ("reprint", 1, "--piece", 2, "--reason", "Torn"), ("retry", 1),
    ):  # fmt: skip
        assert room(*words).code == 0
    assert room("rush", order.id).out == f"Rushed: {order.id}.\n"
    assert room.column(orders.c.rush) == [False, True]
    assert "rushed already" in room("rush", order.id).out
    room.update(orders, orders.c.id == order.id, pool_at=sa.text("now() + '1 day'"))
    assert room("pool").out == "No longer waiting for the cut-off: 1 order.\n"
    assert room("pool").code == 0
    assert room.log_of_operator() == [
        "marked a print batch: batch-000001 (live, status: acknowledged)",
        "marked a print batch: batch-000001 (live, status: printed)",
        "reprinted pieces: batch-000001 (live, reason: Torn)",
        "tried a batch again: batch-000001 (live, anew: no)",
        "rushed orders (live, how many: 1)",
        "made batches of what waited (live, how many: 1)",
    ]


REFUSED: tuple[tuple[tuple[object, ...], str], ...] = (
    (("show", 99), "There is no batch 99."), (("show", "batch-7"), "batch-7 is no batch"),
    (("mark", 99, "printed"), "There is no batch 99."), (("mark", 1, "spoiled"), "Name the spoiled pieces"),
    (("mark", 1, "spoiled", "--piece", 7), "There is no piece 7 in batch 1."),
    (("mark", 1, "spoiled", "--item", 999), "Item 999 is not in batch 1."),
    (("mark", 1, "printed", "--at", "2099-01-01"), "This must not lie in the future."),
    (("remake", 99), "There is no batch 99."), (("reprint", 1, "--reason", "x"), "Say which pieces"),
    (("reprint", 1, "--reason", "x", "--from", 2), "Give both: from and to."),
    (("reprint", 1, "--reason", "x", "--from", 2, "--to", 9), "There is no piece 9 in batch 1."),
    (("rush", 999), "There is no order 999 in live mode."), (("rush", 1, 999), "There is no order 999 in live mode."),
    (("rush", 1, "--mode", "test"), "There is no order 1 in test mode."), (("release", 999), "There is no order 999."),
    (("refuse", 999, "--reason", "No"), "There is no order 999."),
    (("refuse", 2, "--reason", "  "), "Give a --reason: the sender reads it."),
    (("refuse", 2, "--reason", "x" * 501), "at most 500 characters"),
    (("release", 2, "--reason", "x" * 501), "at most 500 characters"),
    (("refuse", 2, "--reason", "caf\udce9"), "The --reason is no UTF-8"),
)  # fmt: skip
NO_WORDS_OF_OURS = (
    ("mark", 1, "burnt"), ("refuse", 2), ("release", "x"), ("release", 0), ("release", 2**63), ("release", 2, 3),
    ("held", "--mode", "tset"),
)  # fmt: skip


def test_what_cannot_be_is_one_sentence_and_changes_nothing(room: PrintRoom, subtests: pytest.Subtests) -> None:
    held = room.create_held_order(email="second@example.com")
    assert held.id == 2
    for words, error in REFUSED:
        with subtests.test(ascii(words)[:60]):
            outcome = room(*words)
            assert outcome.is_one_sentence(error)
    for odd in NO_WORDS_OF_OURS:
        with subtests.test(ascii(odd)):
            assert room(*odd).code == 2
    unready = {name: value for name, value in LIVE_SETTINGS.items() if name != "mailer_id"}
    outcome = room.beside("print", "release", held.id, **unready)
    assert outcome.is_one_sentence("This order cannot be released yet.", "QUILLPOST_MAILER_ID")
    assert (room.status_of(held), room.decisions(), room.column(batches.c.status)) == ("paused", [], ["handed"])


def test_held_orders_are_listed_in_a_table_or_as_json(commands: PrintRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = commands.create_held_order(), commands.create_held_order(email="[bold]second@example.com")
    tried_out = commands.create_held_order("test", "third@example.com")
    table, listing = commands("held"), commands.read_json("held")
    assert (table.code, table.err) == (0, "")
    for word in ("owner@example.com", "[bold]second@example.com", "postcard, 2 pieces, $2.18,", "2026-05-04T12:00:"):
        assert word in table.out
    assert [order["id"] for order in listing] == [first.id, second.id]
    assert [each["id"] for each in commands.read_json("held", "--mode", "test")] == [tried_out.id]
    [why] = listing[0].pop("reasons")
    assert "%COMPANY%" in why
    assert f"  {why}\n" in table.out
    assert listing[0] == {
        "id": first.id, "account_id": first.account_id, "account_email": "owner@example.com", "sub_account_id": None,
        "type": "postcard", "recipient_count": 2, "pieces": 2, "grand_total": 218,
        "created_at": "2026-05-04T12:00:00Z", "paused_at": "2026-05-04T12:00:11Z",
    }  # fmt: skip
    monkeypatch.setattr("quillpost.cli.orders.MAX_LISTED", 1)
    assert commands("held").out.endswith("\nThese are the oldest 1 of 2.\n")
    assert [order["id"] for order in commands.read_json("held")] == [first.id]


def test_a_held_order_is_released_or_refused_once_and_that_is_noted(commands: PrintRoom) -> None:
    commands.open_operator()
    first, second = commands.create_held_order(), commands.create_held_order(email="second@example.com")
    tried_out = commands.create_held_order("test", "third@example.com")
    for order, words in ((first, ()), (tried_out, ("--reason", " They like it so. "))):
        result = commands("release", order.id, *words)
        assert (result.code, result.out) == (0, f"Order {order.id} is released.\n"), result.err
        assert commands.status_of(order) == "processing"
    for words in (("release", first.id), ("refuse", first.id, "--reason", "No")):  # type: ignore[assignment]
        assert commands(*words).is_one_sentence("Processing")
    result = commands("refuse", second.id, "--reason", "Not yours.")
    assert (result.code, result.out) == (0, f"Order {second.id} is refused.\n"), result.err
    assert commands.read_json("held") == commands.read_json("held", "--mode", "test") == []
    assert commands.decisions() == [
        (first.id, "released", "", None),
        (tried_out.id, "released", "They like it so.", None),
        (second.id, "refused", "Not yours.", None),
    ]
    assert commands.log_of_operator() == [
        f"released an order: order {first.id} (live)",
        f"released an order: order {tried_out.id} (test, reason: They like it so.)",
        f"refused an order: order {second.id} (live, reason: Not yours.)",
    ]
    with commands.parts.db.system_transaction() as tx:  # its sender reads why
        row = order_row(tx, second)
        failures = set(tx.execute(sa.select(items.c.failure).where(items.c.order_id == second.id)).scalars())
    assert (row.status, row.order_total) == ("error", 0)
    assert row.warnings == ["An operator refused this order: Not yours."]
    assert failures == {"Order refused: Not yours."}


NAMES = "manifest.csv, manifest.json, print.pdf, statement.json"


def test_files_are_downloaded_for_their_owner_alone_and_that_is_noted(commands: PrintRoom, tmp_path: Path) -> None:
    sender, container = open_account(commands.parts, mode="live"), commands.parts
    for size in ("4x6", "6x9"):
        create_order(container, sender, size=size)
    run_jobs_for(container, commands.clock, seconds=12)
    commands.open_operator()
    commands.update(batch_files, batch_files.c.batch_id == 1, batch_files.c.name == "print.pdf", is_secret=True)
    store = container.storage.store
    BatchFileStorage(store, container.encryptor).put_files(
        1, {"print.pdf": store.get(batch_file_key(1, "print.pdf"))}, secret_names={"print.pdf"}
    )
    there, other, nowhere = tmp_path / "there", tmp_path / "other", tmp_path / "none"
    for name in ("batch-000001", "batch-000002"):
        result = commands("download", name, "--to", there)
        assert (result.code, result.out) == (0, f"4 files of {name}: {there}\n"), result.err
    rows = execute(container, sa.select(batch_files))
    known = {f"batch-{row.batch_id:06d}-{row.name}": bytes(row.sha256) for row in rows}
    assert len(known) == 8
    assert {file.name: hashlib.sha256(file.read_bytes()).digest() for file in there.iterdir()} == known
    assert {file.stat().st_mode & 0o777 for file in there.iterdir()} == {0o600}

    result = commands("download", 1, "--to", other, "--file", "print.pdf")
    assert (result.code, [file.name for file in other.iterdir()]) == (0, ["batch-000001-print.pdf"])
    (other / "batch-000001-print.pdf").write_text("open to all")
    (other / "batch-000002-print.pdf").symlink_to(tmp_path / "elsewhere")
    for words, to, why in (
        ((1,), other, f"{other}/batch-000001-print.pdf is there already"),
        ((2,), other, f"{other}/batch-000002-print.pdf is there already"),
        ((1, "--file", "no.pdf"), nowhere, "batch-000001 has no no.pdf."),
        ((7,), nowhere, "There is no batch 7."),
        ((1,), nowhere, "remake batch-000001"),
    ):
        if why.startswith("remake"):
            store.delete(batch_file_key(1, "print.pdf"))
        assert commands("download", *words, "--to", to).is_one_sentence(why)
    assert len([*other.iterdir()]) == 2
    assert (other / "batch-000001-print.pdf").read_text() == "open to all"
    assert not nowhere.exists()
    assert not (tmp_path / "elsewhere").exists()
    assert commands.log_of_operator() == [
        f"downloaded print files: batch-000001 (live, files: {NAMES})",
        f"downloaded print files: batch-000002 (live, files: {NAMES})",
        "downloaded print files: batch-000001 (live, files: print.pdf)",
    ]


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path) -> None:
    files = {tmp_path / "one": b"secret", tmp_path / "no such folder" / "two": b""}
    with pytest.raises(NotReady, match="cannot be written: No such file or directory"):
        print_room._write_files(tmp_path, files)
    assert [*tmp_path.iterdir()] == []
