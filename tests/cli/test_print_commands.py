"""`quillpost print`: what an operator sees and says at the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import audit_log
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.fulfillment import batches, prints
from support.cli_results import CommandResult, Quillpost
from support.factories import Build, Clock, people, run_jobs_for
from support.orders import create_order, open_account
from support.production import LIVE_SETTINGS, files_of


class PrintRoom:
    """A service with a batch that is with its printer, and the commands beside it."""

    def __init__(self, quillpost: Quillpost, container: Container, **settings: object) -> None:
        self.parts = container
        self._quillpost = quillpost
        self._settings = settings

    def __call__(self, *words: object, **how: object) -> CommandResult:
        return self._quillpost("print", *words, **self._settings, **how)

    def read_json(self, *words: object) -> Any:
        outcome = self(*words, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    def column(self, column: sa.ColumnElement[Any]) -> list[Any]:
        with self.parts.db.system_transaction() as tx:
            return list(tx.execute(sa.select(column).order_by(column.table.c[0])).scalars())


@pytest.fixture
def room(build: Build, clock: Clock, conninfo: str, tmp_path: Path, quillpost: Quillpost) -> PrintRoom:
    container = build(**LIVE_SETTINGS, review_seconds=1)
    create_order(container, open_account(container, mode="live"), people(3))
    run_jobs_for(container, clock, seconds=12)
    return PrintRoom(quillpost, container, home=tmp_path / "home", database_url=conninfo, **LIVE_SETTINGS)


def test_batches_are_listed_as_a_table_and_for_machines(room: PrintRoom) -> None:
    table = room("list")
    assert (table.code, table.err) == (0, "")
    assert all(word in table.out for word in ("batch-000001", "live", "handed", "postcard-4x6", "first", " 3 "))
    [batch] = room.read_json("list")
    assert (batch["id"], batch["reference"], batch["status"]) == (1, "batch-000001", "handed")
    assert batch["created_at"].startswith("2026-05-04T12:00:")
    assert room.read_json("list", "--mode", "test") == room.read_json("list", "--trouble") == []


def test_the_list_names_what_live_mail_lacks(
    room: PrintRoom, quillpost: Quillpost, conninfo: str, tmp_path: Path
) -> None:
    assert "is printed yet" not in room("list").out
    unready = PrintRoom(quillpost, room.parts, home=tmp_path / "home", database_url=conninfo)
    output = unready("list").out
    assert "No live mail is printed yet:\n" in output
    assert "  QUILLPOST_MAILER_ID is not set: no barcode can be printed.\n" in output
    assert "QUILLPOST_MAILER_ID" not in unready("list", "--mode", "test").out
    assert len(unready.read_json("list")) == 1


def test_mailed_batches_are_listed_on_request(room: PrintRoom) -> None:
    assert room("mark", 1, "mailed").code == 0
    assert room.read_json("list") == []
    assert [batch["status"] for batch in room.read_json("list", "--all")] == ["mailed"]


def test_a_batch_is_shown_with_files_statement_and_pieces(room: PrintRoom) -> None:
    shown = room("show", "batch-000001")
    assert (shown.code, shown.err) == (0, "")
    details = room.read_json("show", 1)
    assert details["pieces_by_status"] == {"Processing": 3}
    assert details["statement"]["pieces"] == 3
    for file in details["files"]:
        assert f" {file['name']} " in shown.out
        assert file["sha256"] in shown.out
    assert "Mailing statement" in shown.out
    assert "Processing" in shown.out


def test_a_batch_is_marked_and_spoiled_pieces_fail(room: PrintRoom) -> None:
    result = room("mark", "batch-000001", "printed", "--piece", 2, "--piece", 3, "--reason", "Torn")
    assert (result.code, result.out) == (0, "batch-000001 is marked printed.\n")
    assert sorted(room.column(items.c.status)) == ["Failed", "Failed", "Printed"]
    assert [why for why in room.column(items.c.failure) if why] == ["Torn", "Torn"]
    assert room("mark", 1, "mailed", "--at", "2026-06-01T10:00:00").code == 0
    assert [at.isoformat() for at in room.column(batches.c.mailed_at)] == ["2026-06-01T10:00:00+00:00"]
    shown = room("show", 1).out
    assert "2026-06-01T10:00:00Z" in shown


def test_a_time_elsewhere_is_taken_as_it_is_meant(room: PrintRoom) -> None:
    assert room("mark", 1, "mailed", "--at", "2026-06-01T10:00:00-05:00").code == 0
    assert [at.isoformat() for at in room.column(batches.c.mailed_at)] == ["2026-06-01T15:00:00+00:00"]


def test_a_spoiled_piece_is_named_by_its_item_too(room: PrintRoom) -> None:
    item = room.column(items.c.id)[0]
    assert room("mark", 1, "spoiled", "--item", item).code == 0
    assert room.column(items.c.failure)[0] == "Spoiled in printing"


@pytest.mark.parametrize("which", [("--piece", 1, "--piece", 2), ("--from", 1, "--to", 2), ("--item", 1, "--item", 2)])
def test_pieces_are_printed_again(room: PrintRoom, which: tuple[object, ...]) -> None:
    result = room("reprint", 1, *which, "--reason", "Cut askew")
    assert (result.code, result.out) == (0, "Printed again in batch-000002: 2 pieces.\n"), result.err
    assert len(set(room.column(prints.c.tracking))) == 5
    assert "reprint of 1" in room("list").out
    assert "2, printed again in batch-000002" in room("show", 1).out


def test_in_a_narrow_window_what_is_typed_next_stays_whole(room: PrintRoom) -> None:
    assert room("reprint", 1, "--piece", 1, "--reason", "Cut askew").code == 0
    listed = room("list", columns=80).out
    assert all(word in listed for word in (" batch-000001 ", " batch-000002 ", " rush ", "reprint of"))


def test_spoiling_says_what_really_happened(room: PrintRoom) -> None:
    def mark_spoiled(*pieces: int) -> str:
        outcome = room("mark", 1, "spoiled", *(word for piece in pieces for word in ("--piece", piece)))
        return outcome.out if outcome.code == 0 else outcome.err

    assert mark_spoiled(1, 1) == "1 piece of batch-000001: spoiled, and not billed.\n"
    assert mark_spoiled(1) == "Nothing changes in batch-000001: 1 piece had failed before.\n"
    assert mark_spoiled(1, 2) == "1 piece of batch-000001: spoiled, and not billed. 1 piece had failed before.\n"
    assert room("reprint", 1, "--piece", 3, "--reason", "Torn").code == 0
    assert "Piece 3 was reprinted in batch-000002: mark it there." in mark_spoiled(3)
    assert sorted(room.column(items.c.status)) == ["Failed", "Failed", "Processing"]


def test_a_reprint_says_what_it_leaves_out(room: PrintRoom) -> None:
    assert room("mark", 1, "spoiled", "--piece", 1, "--piece", 2).code == 0
    result = room("reprint", 1, "--from", 1, "--to", 3, "--reason", "Torn")
    assert result.out == "Printed again in batch-000002: 1 piece.\nLeft out: 1-2. Ended already (Failed).\n"
    assert room("reprint", 1, "--piece", 3, "--reason", "Torn").is_one_sentence()


def test_a_failing_batch_is_shown_and_retried(room: PrintRoom) -> None:
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(trouble="The printer does not answer."))
    assert "The printer does not answer." in room("list", "--trouble").out
    assert "The printer does not answer." in room("show", 1).out
    assert room("retry", 1).out == "batch-000001 is tried again.\n"


def test_a_batch_unknown_to_its_former_partner_can_be_offered_again(room: PrintRoom) -> None:
    refused = room("retry", 1, "--anew")
    assert refused.is_one_sentence()
    assert "The batch is handed: only one that is composed" in refused.err
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="composed", partner="https://old.example.com"))
    assert room("retry", 1).out == "batch-000001 is tried again.\n"
    assert room.column(batches.c.partner) == ["https://old.example.com"]
    assert room("retry", 1, "--anew").out == "batch-000001 is offered anew.\n"
    assert room.column(batches.c.partner) == [None]


def test_orders_waiting_for_the_cutoff_are_summed_up_below_the_list(room: PrintRoom) -> None:
    assert "until" not in room("list").out
    whose = open_account(room.parts, "second@example.com", mode="live")
    whom = [create_order(room.parts, whose, people(each)).id for each in (2, 1, 1)]
    waits_until = {whom[0]: "2099-05-06 20:00Z", whom[1]: "2099-05-06 20:00Z", whom[2]: "2099-05-07 20:00Z"}
    with room.parts.db.system_transaction() as tx:
        for order, until in waits_until.items():
            tx.execute(sa.update(orders).where(orders.c.id == order).values(pool_at=sa.text(f"'{until}'")))
    note = "3 pieces of 2 orders wait until 2099-05-06 20:00 (UTC), 1 piece of 1 order longer.\n"
    assert room("list").out.endswith(note)
    assert "until" not in room("list", "--mode", "test").out
    assert len(room.read_json("list")) == 1


def test_pieces_that_lie_in_a_batch_do_not_wait_for_one(room: PrintRoom) -> None:
    with room.parts.db.system_transaction() as tx:
        # As where a mailer had too few barcodes: some are printed, the order waits for the rest.
        tx.execute(sa.update(orders).values(pool_at=sa.text("'2099-05-06 20:00Z'")))
        tx.execute(sa.delete(prints).where(prints.c.position == 3))
    assert room("list").out.endswith("\n1 piece of 1 order waits until 2099-05-06 20:00 (UTC).\n")


def test_lost_files_of_a_batch_are_made_again(room: PrintRoom) -> None:
    before, store = files_of(room.parts, 1), room.parts.storage.store
    for key in before:
        store.delete(key)
    result = room("remake", "batch-000001")
    assert (result.code, result.out) == (0, "The files of batch-000001 are made again.\n"), result.err
    assert files_of(room.parts, 1) == before


def test_files_that_would_differ_are_left_alone(room: PrintRoom) -> None:
    before = files_of(room.parts, 1)
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(items).values(name="Someone Else"))
    result = room("remake", 1)
    assert result.is_one_sentence()
    assert "batch-000001 is left as it is. " in result.err
    assert "print.pdf: not the files that were composed." in result.err
    assert files_of(room.parts, 1) == before


def test_what_is_not_composed_is_not_made_again(room: PrintRoom) -> None:
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="new", indicia=None, qr_base=None))
    result = room("remake", 1)
    assert result.is_one_sentence()
    assert "has not been composed yet." in result.err


def test_what_is_done_is_in_the_log_of_whoever_runs_the_service(room: PrintRoom) -> None:
    now = room.parts.clock()
    with room.parts.db.system_transaction() as tx:
        operator = account_service.create_account(
            tx, email="press@example.com", name="Press", is_operator=True, now=now
        )
    order = create_order(room.parts, open_account(room.parts, "second@example.com", mode="live"))
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(pool_at=now))
    for words in (
        ("mark", 1, "acknowledged"), ("mark", 1, "printed"), ("mark", 1, "printed"),
        ("reprint", 1, "--piece", 2, "--reason", "Torn"), ("retry", 1), ("rush", order.id),
    ):  # fmt: skip
        assert room(*words).code == 0
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(pool_at=sa.text("now() + '1 day'")))
    for _ in range(2):
        assert room("pool").code == 0
    with room.parts.db.transaction(Tenant(operator)) as tx:
        noted = [describe_entry(entry) for entry in reversed(list_audit_entries(tx, operator))]
    assert [line.removeprefix("the command line ") for line in noted] == [
        "marked a print batch: batch-000001 (live, status: acknowledged)",
        "marked a print batch: batch-000001 (live, status: printed)",
        "reprinted pieces: batch-000001 (live, reason: Torn)",
        "tried a batch again: batch-000001 (live, anew: no)",
        "rushed orders (live, how many: 1)",
        "made batches of what waited (live, how many: 1)",
    ]
    with room.parts.db.system_transaction() as tx:
        assert set(tx.execute(sa.select(audit_log.c.account_id)).scalars()) == {operator}


def test_orders_are_rushed_and_pooled(room: PrintRoom) -> None:
    order = create_order(room.parts, open_account(room.parts, "second@example.com", mode="live"))
    assert room("rush", order.id).out == f"Rushed: {order.id}.\n"
    assert room.column(orders.c.rush) == [False, True]
    assert "rushed already" in room("rush", order.id).out
    with room.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).where(orders.c.id == order.id).values(pool_at=sa.text("now() + '1 day'")))
    assert room("pool").out == "No longer waiting for the cut-off: 1 order.\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("show", 99), "There is no batch 99."),
        (("show", "batch-7"), "batch-7 is no batch"),
        (("mark", 99, "printed"), "There is no batch 99."),
        (("mark", 1, "spoiled"), "Name the spoiled pieces"),
        (("mark", 1, "spoiled", "--piece", 4), "There is no piece 4 in batch 1."),
        (("mark", 1, "spoiled", "--item", 999), "Item 999 is not in batch 1."),
        (("mark", 1, "printed", "--at", "2099-01-01"), "This must not lie in the future."),
        (("remake", 99), "There is no batch 99."),
        (("reprint", 1, "--reason", "x"), "Say which pieces"),
        (("reprint", 1, "--reason", "x", "--from", 2), "Give both: from and to."),
        (("reprint", 1, "--reason", "x", "--from", 2, "--to", 9), "There is no piece 9 in batch 1."),
        (("rush", 999), "There is no order 999 in live mode."),
        (("rush", 1, 999), "There is no order 999 in live mode."),
        (("rush", 1, "--mode", "test"), "There is no order 1 in test mode."),
    ],
)
def test_what_cannot_be_is_one_sentence(room: PrintRoom, words: tuple[object, ...], error: str) -> None:
    outcome = room(*words)
    assert outcome.is_one_sentence()
    assert error in outcome.err


def test_what_is_no_word_of_ours_is_refused(room: PrintRoom) -> None:
    assert room("mark", 1, "burnt").code == 2
    assert room.column(batches.c.status) == ["handed"]
