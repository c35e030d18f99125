"""Which print partner gets a batch, once, and what becomes of live ones there."""

import csv
import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.app.container import Container
from quillpost.cli.orders import format_waiting
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import Conflict
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import rules
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.service import WaitingOrders
from quillpost.fulfillment.models import HAND_OVER, POLL_PRINTER
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.models import Order
from support import production as press
from support.factories import Build, Clock, people, person
from support.orders import create_order, item_ids, item_rows, open_account, order_row
from support.print_partners import LocalPrinter, Printer, printer_of
from support.rows import execute, run
from support.waiting import is_lock_awaited, wait_until

SAME = [
    ("file:///press/in", "file:///press/in/"), ("file:/press/in", "FILE:///press/in"),
    ("sftp://press@print.example.com/in", "sftp://press@Print.Example.COM:22/in//"),
    ("https://print.example.com", "https://print.example.com:443/"),
    ("https://print.example.com/base", "HTTPS://PRINT.example.com/base/"),
    ("http://10.0.0.7/press", "http://10.0.0.7:80/press"),
    ("https://[2001:DB8::1]:443/in", "https://[2001:db8::1]/in"), ("folder", "folder"), ("sandbox", "sandbox"),
]  # fmt: skip
DIFFERENT = [
    ("folder", "sandbox"), ("folder", "file:///folder"), ("file:///press/in", "file:///press/In"),
    ("file:///press/in", "file:///press"), ("sftp://press@print.example.com/in", "sftp://other@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://Press@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com:443/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com/~/in"),
    ("https://print.example.com", "http://print.example.com"),
    ("https://print.example.com", "https://print.example.com:80"),
    ("https://print.example.com", "https://print.example.org"),
    ("https://[2001:db8::1]:8443/in", "https://[2001:db8::1]/in"),
]  # fmt: skip


def test_the_same_address_in_other_words_is_the_same_partner() -> None:
    for one, other in SAME:
        assert not reports.is_other_partner(one, other), (one, other)
        assert not reports.is_other_partner(other, one), (other, one)
    for one, other in DIFFERENT:
        assert reports.is_other_partner(one, other), (one, other)
        assert reports.is_other_partner(other, one), (other, one)
    for address in {address for pair in SAME + DIFFERENT for address in pair}:
        assert reports.partner_name(reports.partner_name(address)) == reports.partner_name(address)
    assert not reports.is_other_partner(None, "folder"), "a batch that knows no partner may be anybody's"


def test_the_cutoff_is_shown_in_its_own_zone_and_with_its_date_when_it_is_not_within_a_day() -> None:
    now, new_york = datetime(2026, 5, 4, 12, tzinfo=UTC), ZoneInfo("America/New_York")
    at_four, one_day = now + timedelta(hours=8), timedelta(days=1)
    several = [WaitingOrders(at_four, 1, 1), *(WaitingOrders(at_four + n * one_day, 1, 40) for n in (1, 2))]
    cases: list[tuple[list[WaitingOrders], str, tzinfo, str]] = [
        ([WaitingOrders(at_four, 18, 1_204)], "live", new_york,
         "1,204 pieces of 18 orders wait until 16:00 (America/New_York)."),
        ([WaitingOrders(now + one_day, 2, 3)], "live", new_york,
         "3 pieces of 2 orders wait until 2026-05-05 08:00 (America/New_York)."),
        (several, "test", UTC,
         "1 piece of 1 test order waits until 20:00 (UTC), 80 pieces of 2 test orders longer."),
    ]  # fmt: skip
    for waiting, mode, zone, line in cases:
        assert format_waiting(waiting, mode, zone=zone, now=now) == line


FORMER, PRESENT = "https://old.example.com/press", "https://new.example.com/press"


class Killed(BaseException):
    """What a process that is killed leaves of a call."""


class PrintShop:
    """A printer who may take a whole job and lose its answer."""

    def __init__(self, container: Container, partner: str, *, error: BaseException | None = None) -> None:
        self.production = press.with_environment(container, printer=self, partner=partner).production
        self.error = error
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self.jobs.append(job.reference)
        if self.error is not None:
            raise self.error

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return PrintProgress()

    def take(self, batch_id: int, clock: Clock) -> None:
        batch_tasks.hand_over_batch(self.production, batch_id, now=clock.now())


@pytest.fixture
def batch_id(container: Container, clock: Clock, clean_database: None) -> int:
    return press.compose_batch(container, clock, open_account(container), [person()])


def offer(container: Container, clock: Clock, batch_id: int, *, error: BaseException | None = None) -> PrintShop:
    """Offered to the former partner, whose answer is lost."""
    former = PrintShop(container, FORMER, error=error or PartnerDown("It answered with status 504."))
    former.take(batch_id, clock)
    return former


def test_a_batch_whose_answer_was_lost_goes_to_no_other_partner_before_a_person_says_so(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former, present = offer(container, clock, batch_id), PrintShop(container, PRESENT)
    step = [(HAND_OVER, {"batch_id": batch_id})]
    press.delete_jobs(container)
    for _ in range(2):
        present.take(batch_id, clock)
    batch = press.read_batch(container, batch_id)
    assert (batch.status, batch.partner) == ("composed", FORMER)
    assert batch.trouble == (
        f"It was offered to {FORMER}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until it is handed"
        f" over; if not, `quillpost print retry {rules.batch_reference(batch_id)} --anew` offers it to {PRESENT}."
    )
    assert press.enqueued_steps(container) == step
    print_room_service.retry_batch(container.db, batch_id)
    present.take(batch_id, clock)
    assert (press.read_batch(container, batch_id).partner, present.jobs) == (FORMER, []), "a retry alone does nothing"

    press.delete_jobs(container)
    print_room_service.retry_batch(container.db, batch_id, reoffer=True)
    batch = press.read_batch(container, batch_id)
    assert (batch.status, batch.partner, batch.trouble, batch.trouble_at) == ("composed", None, None, None)
    assert press.enqueued_steps(container) == step
    present.take(batch_id, clock)
    batch = press.read_batch(container, batch_id)
    assert (batch.status, batch.partner) == ("handed", PRESENT)
    assert former.jobs == present.jobs == [rules.batch_reference(batch_id)]


def test_a_batch_names_its_printer_before_it_is_offered(container: Container, clock: Clock, batch_id: int) -> None:
    """So a process that is killed before it writes down the answer leaves the name."""
    with pytest.raises(Killed):
        offer(container, clock, batch_id, error=Killed())
    present = PrintShop(container, PRESENT)
    present.take(batch_id, clock)
    assert (press.read_batch(container, batch_id).partner, present.jobs) == (FORMER, [])
    # The former partner, configured again, takes the batch.
    former = PrintShop(container, FORMER + "/")
    former.take(batch_id, clock)
    batch = press.read_batch(container, batch_id)
    assert (batch.status, batch.partner, batch.trouble) == ("handed", FORMER + "/", None)
    assert former.jobs == [rules.batch_reference(batch_id)]


def test_only_a_composed_batch_that_waits_is_offered_again(container: Container, clock: Clock, batch_id: int) -> None:
    offer(container, clock, batch_id)
    only = "only one that is composed, and not handed over yet, can be offered anew."
    refusals = {status: f"The batch is {status}: {only}" for status in ("new", "handed", "printed")}
    refusals |= {"mailed": "The batch is in the mail: there is nothing left to do."}
    refusals |= {"composed": "being handed over at this moment"}
    execute(container, "update procrastinate_jobs set status = 'doing' where task_name = :task", task=HAND_OVER)
    for status, message in refusals.items():
        execute(container, sa.update(batches).values(status=status))
        before = press.read_batch(container, batch_id)
        with pytest.raises(Conflict) as refused:
            print_room_service.retry_batch(container.db, batch_id, reoffer=True)
        assert message in refused.value.message
        assert press.read_batch(container, batch_id) == before


def test_of_two_machines_with_other_settings_one_offers_the_batch(container: Container, batch_id: int) -> None:
    def partner_of_offer(partner: str) -> str | None:
        return run(container, fulfillment_queries.offer_batch, batch_id, partner=partner).partner

    assert partner_of_offer(FORMER) == partner_of_offer(PRESENT) == FORMER
    execute(container, sa.update(batches).values(status="handed", partner=None))
    assert partner_of_offer(PRESENT) is None
    assert press.read_batch(container, batch_id).partner is None


def test_a_step_that_begins_while_the_batch_is_taken_back_writes_its_partner_down_again(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former = offer(container, clock, batch_id)
    step = threading.Thread(target=former.take, args=(batch_id, clock))
    with container.db.system_transaction() as tx:
        fulfillment_queries.read_batch(tx, batch_id, locked=True)
        fulfillment_queries.withdraw_offer(tx, batch_id)
        step.start()
        wait_until(lambda: is_lock_awaited(container))
    step.join(timeout=30)
    assert (press.read_batch(container, batch_id).partner, len(former.jobs)) == (FORMER, 2)


def test_partners_are_the_same_however_they_are_written(container: Container, clock: Clock, batch_id: int) -> None:
    written = {"status": "handed", "handed_at": clock.now(), "partner": "https://OLD.example.com:443/press/"}
    execute(container, sa.update(batches).values(**written))
    production = PrintShop(container, FORMER).production
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    assert press.read_batch(container, batch_id).trouble is None
    report = reports.PartnerReport(rules.batch_reference(batch_id), "printed", clock.now())
    reports.record_partner_report(container.db, production.environments["test"], report, now=clock.now())
    assert press.read_batch(container, batch_id).status == "printed"


def row(**changes: object) -> dict[str, object]:
    return dict.fromkeys(rules.MANIFEST_COLUMNS) | {"item_id": 7, "name": "Jane Doe"} | changes


def read_back(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_the_manifest_has_a_line_for_each_piece_with_no_formula_and_nothing_for_what_is_unknown() -> None:
    for start in "=+-@\t\r":
        [piece] = read_back(rules.build_manifest_csv([row(name=f"{start}HYPERLINK(1)", city=f"{start}x")]))
        assert (piece["name"], piece["city"]) == (f"'{start}HYPERLINK(1)", f"'{start}x")
    lines = rules.build_manifest_csv([row(), row(item_id=8)]).decode().split("\r\n")
    assert lines[0] == ",".join(rules.MANIFEST_COLUMNS)
    assert [line.split(",")[1:2] for line in lines[1:]] == [["7"], ["8"], []]
    assert read_back(rules.build_manifest_csv([row(company=None)]))[0]["company"] == ""
    assert json.loads(rules.build_manifest_json([row(company=None)]))["pieces"][0]["company"] is None
    assert rules.MAX_BATCH_ITEMS == 5_000


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_name_comes_through_whole(name: str) -> None:
    [piece] = read_back(rules.build_manifest_csv([row(name=name)]))
    assert piece["name"].removeprefix("'") == name.removeprefix("'")
    assert piece["name"][0] not in "=+-@\t\r"
    assert json.loads(rules.build_manifest_json([row(name=name)]))["pieces"][0]["name"] == name


@given(st.integers(1, 10**9))
def test_a_reference_leads_back_to_its_batch(batch_id: int) -> None:
    assert rules.parse_batch_reference(rules.batch_reference(batch_id)) == batch_id


def test_a_batch_has_one_reference_and_nothing_else_is_one() -> None:
    references = ["batch-000007", "batch-123456", "batch-1234567"]
    assert [rules.batch_reference(number) for number in (7, 123_456, 1_234_567)] == references
    odd = ("", "batch-7", "batch-0000007", "batch-000007 ", "BATCH-000007", "batch-00000७", "batch--00001", "x")
    assert [name for name in odd if rules.parse_batch_reference(name) is not None] == []


HOME = {"print.pdf", "manifest.csv", "manifest.json", "statement.json"}
"""What composing keeps in our own store."""


@pytest.fixture(params=["local", "sftp", "http"])
def printer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Printer]:
    with printer_of(request.param, tmp_path) as printer:
        yield printer


def composed(build: Build, clock: Clock, printer: Printer) -> tuple[Container, Order, int]:
    """A batch of three pieces that is ready for this printer, in the printers' own time: signatures age."""
    container = build(**press.LIVE_SETTINGS | printer.settings)
    order = create_order(container, open_account(container, mode="live"), people(3))
    press.sweep_due_orders(container, clock)
    batch_id = press.compose(container, press.only_batch(container).id)
    clock.advance(seconds=(datetime.now(UTC) - clock.now()).total_seconds())
    return container, order, batch_id


def test_a_batch_arrives_as_it_was_composed_and_comes_back_mailed(build: Build, clock: Clock, printer: Printer) -> None:
    """Spoiled pieces that are not in the batch are shown, and the rest is taken."""
    parts, order, batch_id = composed(build, clock, printer)
    press.hand_over(parts, batch_id)
    name = rules.batch_reference(batch_id)
    arrived = printer.files(name)
    kept = {key.rpartition("/")[2]: data for key, data in press.files_of(parts, batch_id).items()}
    assert arrived.keys() == HOME | {"ticket.xjdf"}
    assert {file: arrived[file] for file in HOME} == {file: kept[file] for file in HOME}
    ticket = printer.ticket(name)
    assert (ticket["pieces"], ticket["mail_class"]) == (3, "first")
    assert {file["name"] for file in ticket["files"]} == HOME

    def error_of(spoiled: dict[str, str]) -> str | None:
        printer.says(name, "printed", parts.clock(), spoiled=spoiled)
        press.poll(parts, batch_id)
        statuses = [(item.status, item.failure) for item in item_rows(parts, order)]
        assert statuses == [("Printed", None), ("Failed", "Torn"), ("Printed", None)]
        assert (order_row(parts, order).status, press.only_batch(parts).status) == ("printing", "printed")
        trouble: str | None = press.only_batch(parts).trouble
        return trouble

    torn = str(item_ids(parts, order)[1])
    printer.says(name, "acknowledged", parts.clock())
    assert error_of({"999999": "Torn", torn: "Torn"}) == (
        "The printer calls spoiled item 999999, which is not in this batch. Ask what is meant, and mark it by hand."
    )
    error = error_of({str(number): "" for number in range(900_001, 900_012)})
    assert error is not None
    assert "items 900001, 900002, " in error
    assert ", 900010, ..., which are not in this batch." in error
    assert error_of({torn: "Torn"}) is None
    printer.says(name, "mailed", parts.clock())
    press.poll(parts, batch_id)
    assert press.only_batch(parts).status == "mailed"


def test_a_partner_that_is_away_or_breaks_off_is_waited_for(build: Build, clock: Clock, printer: Printer) -> None:
    parts, _, batch_id = composed(build, clock, printer)
    if not isinstance(printer, LocalPrinter):
        printer.break_off()
        press.hand_over(parts, batch_id)
        assert (printer.jobs(), press.only_batch(parts).status) == ([], "composed")
    press.delete_jobs(parts)
    printer.go_away()
    press.hand_over(parts, batch_id)
    batch = press.only_batch(parts)
    assert (batch.status, bool(batch.trouble), batch.trouble_at) == ("composed", True, parts.clock())
    assert press.enqueued_steps(parts) == [(HAND_OVER, {"batch_id": batch_id})]
    printer.come_back()
    for _ in range(2):
        press.hand_over(parts, batch_id)
    assert (printer.jobs(), press.only_batch(parts).status) == ([rules.batch_reference(batch_id)], "handed")
    press.delete_jobs(parts)
    printer.go_away()
    press.poll(parts, batch_id)
    assert (press.only_batch(parts).status, bool(press.only_batch(parts).trouble)) == ("handed", True)
    assert press.enqueued_steps(parts) == [(POLL_PRINTER, {"batch_id": batch_id})]
    printer.come_back()
    press.poll(parts, batch_id)
    assert (press.only_batch(parts).status, press.only_batch(parts).trouble) == ("handed", None)
