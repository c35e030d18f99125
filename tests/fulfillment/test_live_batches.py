"""Batches of live mail: their rules, and what stops them."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.app.container import Container
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.rules import (
    MANIFEST_COLUMNS,
    MAX_BATCH_ITEMS,
    batch_reference,
    build_manifest_csv,
    build_manifest_json,
    parse_batch_reference,
)
from quillpost.fulfillment.models import HAND_OVER, POLL_PRINTER
from quillpost.orders.models import Order
from support.factories import Build, Clock, people
from support.orders import create_order, item_rows, open_account, order_row
from support.print_partners import Printer, printer_of
from support.production import LIVE_SETTINGS, batch_rows, delete_jobs, enqueued_steps, files_of, sweep_due_orders


def row(**changes: object) -> dict[str, object]:
    return dict.fromkeys(MANIFEST_COLUMNS) | {"item_id": 7, "name": "Jane Doe"} | changes


def read_back(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_takes_no_name_for_a_formula(start: str) -> None:
    [piece] = read_back(build_manifest_csv([row(name=f"{start}HYPERLINK(1)", city=f"{start}x")]))
    assert piece["name"] == f"'{start}HYPERLINK(1)"
    assert piece["city"] == f"'{start}x"


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_name_comes_through_whole(name: str) -> None:
    [piece] = read_back(build_manifest_csv([row(name=name)]))
    assert piece["name"].removeprefix("'") == name.removeprefix("'")
    assert piece["name"][0] not in "=+-@\t\r"
    assert json.loads(build_manifest_json([row(name=name)]))["pieces"][0]["name"] == name


def test_a_print_file_has_at_most_five_thousand_pieces() -> None:
    assert MAX_BATCH_ITEMS == 5_000


def test_the_manifest_has_a_head_and_a_line_for_each_piece() -> None:
    lines = build_manifest_csv([row(), row(item_id=8)]).decode().split("\r\n")
    assert lines[0] == ",".join(MANIFEST_COLUMNS)
    assert [line.split(",")[1:2] for line in lines[1:]] == [["7"], ["8"], []]


def test_both_manifests_say_nothing_for_what_is_unknown() -> None:
    [piece] = read_back(build_manifest_csv([row(company=None)]))
    assert piece["company"] == ""
    assert json.loads(build_manifest_json([row(company=None)]))["pieces"][0]["company"] is None


def test_a_batch_has_one_reference() -> None:
    assert [batch_reference(7), batch_reference(123_456), batch_reference(1_234_567)] == [
        "batch-000007", "batch-123456", "batch-1234567",
    ]  # fmt: skip


@given(st.integers(1, 10**9))
def test_a_reference_leads_back_to_its_batch(batch_id: int) -> None:
    assert parse_batch_reference(batch_reference(batch_id)) == batch_id


@pytest.mark.parametrize(
    "name", ["", "batch-7", "batch-0000007", "batch-000007 ", "BATCH-000007", "batch-00000７", "batch--00001", "x"]
)
def test_nothing_else_is_a_reference(name: str) -> None:
    assert parse_batch_reference(name) is None


HOME = {"print.pdf", "manifest.csv", "manifest.json", "statement.json"}
"""What composing keeps in our own store."""


@pytest.fixture(params=["local", "sftp", "http"])
def printer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Printer]:
    with printer_of(request.param, tmp_path) as printer:
        yield printer


def composed(build: Build, clock: Clock, printer: Printer) -> tuple[Container, Order, int]:
    """A batch of three pieces that is ready for this printer, in the printers' own time: signatures age."""
    container = build(**LIVE_SETTINGS | printer.settings)
    order = create_order(container, open_account(container, mode="live"), people(3))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return container, order, batch.id


def test_a_batch_arrives_as_it_was_composed_and_comes_back_mailed(build: Build, clock: Clock, printer: Printer) -> None:
    parts, order, batch_id = composed(build, clock, printer)
    batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    name = batch_reference(batch_id)
    arrived = printer.files(name)
    kept = {key.rpartition("/")[2]: data for key, data in files_of(parts, batch_id).items()}
    assert arrived.keys() == HOME | {"ticket.xjdf"}
    assert {file: arrived[file] for file in HOME} == {file: kept[file] for file in HOME}
    ticket = printer.ticket(name)
    assert (ticket["pieces"], ticket["mail_class"]) == (3, "first")
    assert {file["name"] for file in ticket["files"]} == HOME

    with parts.db.system_transaction() as tx:
        torn = item_rows(tx, order)[1].id
    printer.says(name, "acknowledged", parts.clock())
    printer.says(name, "printed", parts.clock(), spoiled={str(torn): "Torn"})
    batch_tasks.poll_printer(parts.production, batch_id, now=parts.clock())
    with parts.db.system_transaction() as tx:
        statuses = [(item.status, item.failure) for item in item_rows(tx, order)]
        assert statuses == [("Printed", None), ("Failed", "Torn"), ("Printed", None)]
        assert order_row(tx, order).status == "printing"
    printer.says(name, "mailed", parts.clock())
    batch_tasks.poll_printer(parts.production, batch_id, now=parts.clock())
    with parts.db.system_transaction() as tx:
        assert [row.status for row in batch_rows(tx)] == ["mailed"]


def test_a_spoiled_piece_that_is_not_in_the_batch_is_shown_and_the_rest_is_taken(
    build: Build, clock: Clock, printer: Printer
) -> None:
    parts, order, batch_id = composed(build, clock, printer)
    batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    name = batch_reference(batch_id)

    def report_spoiled(**spoiled: str) -> str | None:
        printer.says(name, "printed", parts.clock(), spoiled=spoiled)
        batch_tasks.poll_printer(parts.production, batch_id, now=parts.clock())
        with parts.db.system_transaction() as tx:
            [batch] = batch_rows(tx)
        assert batch.status == "printed"
        error: str | None = batch.trouble
        return error

    with parts.db.system_transaction() as tx:
        torn = item_rows(tx, order)[1].id
    assert report_spoiled(**{"999999": "Torn", str(torn): "Torn"}) == (
        "The printer calls spoiled item 999999, which is not in this batch. Ask what is meant, and mark it by hand."
    )
    with parts.db.system_transaction() as tx:
        assert [item.status for item in item_rows(tx, order)] == ["Printed", "Failed", "Printed"]
    many = {str(number): "" for number in range(900_001, 900_012)}
    error = report_spoiled(**many)
    assert error is not None
    assert "items 900001, 900002, " in error
    assert ", 900010, ..., which are not in this batch." in error
    assert report_spoiled(**{str(torn): "Torn"}) is None


def test_a_partner_that_is_away_is_shown_and_waited_for(build: Build, clock: Clock, printer: Printer) -> None:
    parts, _, batch_id = composed(build, clock, printer)
    delete_jobs(parts)
    printer.go_away()
    batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    with parts.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert (batch.status, bool(batch.trouble), batch.trouble_at) == ("composed", True, parts.clock())
        assert enqueued_steps(tx) == [(HAND_OVER, {"batch_id": batch_id})]
    printer.come_back()
    batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    assert printer.jobs() == [batch_reference(batch_id)]
    delete_jobs(parts)
    printer.go_away()
    batch_tasks.poll_printer(parts.production, batch_id, now=parts.clock())
    with parts.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert (batch.status, bool(batch.trouble)) == ("handed", True)
        assert enqueued_steps(tx) == [(POLL_PRINTER, {"batch_id": batch_id})]
    printer.come_back()
    batch_tasks.poll_printer(parts.production, batch_id, now=parts.clock())
    with parts.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        assert (batch.status, batch.trouble) == ("handed", None)


@pytest.mark.parametrize("printer", ["sftp", "http"], indirect=True)
def test_a_batch_that_breaks_off_on_its_way_is_handed_over_once(build: Build, clock: Clock, printer: Printer) -> None:
    parts, _, batch_id = composed(build, clock, printer)
    printer.break_off()
    batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    assert printer.jobs() == []
    with parts.db.system_transaction() as tx:
        assert [row.status for row in batch_rows(tx)] == ["composed"]
    for _ in range(2):
        batch_tasks.hand_over_batch(parts.production, batch_id, now=parts.clock())
    assert printer.jobs() == [batch_reference(batch_id)]
    with parts.db.system_transaction() as tx:
        assert [row.status for row in batch_rows(tx)] == ["handed"]
