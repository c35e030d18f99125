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
from support.orders import create_order, item_ids, item_rows, open_account, order_row
from support.print_partners import LocalPrinter, Printer, printer_of
from support.production import (
    LIVE_SETTINGS,
    compose,
    delete_jobs,
    enqueued_steps,
    files_of,
    hand_over,
    only_batch,
    poll,
    sweep_due_orders,
)


def row(**changes: object) -> dict[str, object]:
    return dict.fromkeys(MANIFEST_COLUMNS) | {"item_id": 7, "name": "Jane Doe"} | changes


def read_back(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    for start in "=+-@\t\r":
        [piece] = read_back(build_manifest_csv([row(name=f"{start}HYPERLINK(1)", city=f"{start}x")]))
        assert (piece["name"], piece["city"]) == (f"'{start}HYPERLINK(1)", f"'{start}x")


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_name_comes_through_whole(name: str) -> None:
    [piece] = read_back(build_manifest_csv([row(name=name)]))
    assert piece["name"].removeprefix("'") == name.removeprefix("'")
    assert piece["name"][0] not in "=+-@\t\r"
    assert json.loads(build_manifest_json([row(name=name)]))["pieces"][0]["name"] == name


def test_the_manifest_has_a_head_and_a_line_for_each_piece_and_says_nothing_for_what_is_unknown() -> None:
    lines = build_manifest_csv([row(), row(item_id=8)]).decode().split("\r\n")
    assert lines[0] == ",".join(MANIFEST_COLUMNS)
    assert [line.split(",")[1:2] for line in lines[1:]] == [["7"], ["8"], []]
    assert read_back(build_manifest_csv([row(company=None)]))[0]["company"] == ""
    assert json.loads(build_manifest_json([row(company=None)]))["pieces"][0]["company"] is None
    assert MAX_BATCH_ITEMS == 5_000


@given(st.integers(1, 10**9))
def test_a_reference_leads_back_to_its_batch(batch_id: int) -> None:
    assert parse_batch_reference(batch_reference(batch_id)) == batch_id


def test_a_batch_has_one_reference_and_nothing_else_is_one() -> None:
    references = ["batch-000007", "batch-123456", "batch-1234567"]
    assert [batch_reference(number) for number in (7, 123_456, 1_234_567)] == references
    odd = ("", "batch-7", "batch-0000007", "batch-000007 ", "BATCH-000007", "batch-00000७", "batch--00001", "x")
    assert [name for name in odd if parse_batch_reference(name) is not None] == []


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
    batch_id = compose(container, only_batch(container).id)
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return container, order, batch_id


def test_a_batch_arrives_as_it_was_composed_and_comes_back_mailed(build: Build, clock: Clock, printer: Printer) -> None:
    """Spoiled pieces that are not in the batch are shown, and the rest is taken."""
    parts, order, batch_id = composed(build, clock, printer)
    hand_over(parts, batch_id)
    name = batch_reference(batch_id)
    arrived = printer.files(name)
    kept = {key.rpartition("/")[2]: data for key, data in files_of(parts, batch_id).items()}
    assert arrived.keys() == HOME | {"ticket.xjdf"}
    assert {file: arrived[file] for file in HOME} == {file: kept[file] for file in HOME}
    ticket = printer.ticket(name)
    assert (ticket["pieces"], ticket["mail_class"]) == (3, "first")
    assert {file["name"] for file in ticket["files"]} == HOME

    def trouble_with(spoiled: dict[str, str]) -> str | None:
        printer.says(name, "printed", parts.clock(), spoiled=spoiled)
        poll(parts, batch_id)
        statuses = [(item.status, item.failure) for item in item_rows(parts, order)]
        assert statuses == [("Printed", None), ("Failed", "Torn"), ("Printed", None)]
        assert (order_row(parts, order).status, only_batch(parts).status) == ("printing", "printed")
        trouble: str | None = only_batch(parts).trouble
        return trouble

    torn = str(item_ids(parts, order)[1])
    printer.says(name, "acknowledged", parts.clock())
    assert trouble_with({"999999": "Torn", torn: "Torn"}) == (
        "The printer calls spoiled item 999999, which is not in this batch. Ask what is meant, and mark it by hand."
    )
    error = trouble_with({str(number): "" for number in range(900_001, 900_012)})
    assert error is not None
    assert "items 900001, 900002, " in error
    assert ", 900010, ..., which are not in this batch." in error
    assert trouble_with({torn: "Torn"}) is None
    printer.says(name, "mailed", parts.clock())
    poll(parts, batch_id)
    assert only_batch(parts).status == "mailed"


def test_a_partner_that_is_away_or_breaks_off_is_shown_and_waited_for(
    build: Build, clock: Clock, printer: Printer
) -> None:
    parts, _, batch_id = composed(build, clock, printer)
    if not isinstance(printer, LocalPrinter):
        printer.break_off()
        hand_over(parts, batch_id)
        assert (printer.jobs(), only_batch(parts).status) == ([], "composed")
    delete_jobs(parts)
    printer.go_away()
    hand_over(parts, batch_id)
    batch = only_batch(parts)
    assert (batch.status, bool(batch.trouble), batch.trouble_at) == ("composed", True, parts.clock())
    assert enqueued_steps(parts) == [(HAND_OVER, {"batch_id": batch_id})]
    printer.come_back()
    for _ in range(2):
        hand_over(parts, batch_id)
    assert (printer.jobs(), only_batch(parts).status) == ([batch_reference(batch_id)], "handed")
    delete_jobs(parts)
    printer.go_away()
    poll(parts, batch_id)
    assert (only_batch(parts).status, bool(only_batch(parts).trouble)) == ("handed", True)
    assert enqueued_steps(parts) == [(POLL_PRINTER, {"batch_id": batch_id})]
    printer.come_back()
    poll(parts, batch_id)
    assert (only_batch(parts).status, only_batch(parts).trouble) == ("handed", None)
