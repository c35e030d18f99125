"""What every print partner promises: a job arrives whole, once, and its progress comes back."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quillpost.core.errors import Unavailable
from quillpost.fulfillment.ports import PartnerDown, PrintProgress
from support.print_partners import FILES, KINDS, REFERENCE, FolderPrinter, Printer, job, now, printer_of


@pytest.fixture(params=KINDS)
def printer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Printer]:
    with printer_of(request.param, tmp_path) as printer:
        yield printer


@pytest.fixture(params=["store", "local", "sftp"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderPrinter]:
    with printer_of(request.param, tmp_path) as printer:
        assert isinstance(printer, FolderPrinter)
        yield printer


def test_a_job_arrives_with_every_file_and_its_ticket(printer: Printer) -> None:
    printer.partner.submit(job(), now=now())
    assert printer.jobs() == [REFERENCE]
    assert printer.files(REFERENCE) == FILES
    ticket = printer.ticket(REFERENCE)
    assert (ticket["reference"], ticket["piece"], ticket["pieces"]) == (REFERENCE, "postcard-4x6", 1)


def test_the_same_job_twice_is_one_job(printer: Printer) -> None:
    first = now()
    printer.partner.submit(job(), now=first)
    ticket = printer.ticket(REFERENCE)
    printer.partner.submit(job(), now=first + timedelta(seconds=30))
    assert printer.jobs() == [REFERENCE]
    assert (printer.files(REFERENCE), printer.ticket(REFERENCE)) == (FILES, ticket)


def test_several_jobs_lie_side_by_side(printer: Printer) -> None:
    for reference in ("batch-000008", REFERENCE, "batch-0000070"):
        printer.partner.submit(job(reference), now=now())
    assert printer.jobs() == [REFERENCE, "batch-0000070", "batch-000008"]


def test_a_job_that_broke_off_is_not_begun_and_then_resumed(printer: Printer) -> None:
    printer.break_off()
    with pytest.raises((PartnerDown, OSError)):
        printer.partner.submit(job(), now=now())
    assert printer.jobs() == []
    printer.partner.submit(job(), now=now())
    assert printer.jobs() == [REFERENCE]
    assert printer.files(REFERENCE) == FILES


def test_progress_comes_back_step_by_step(printer: Printer) -> None:
    at = datetime(2026, 5, 4, 12, tzinfo=UTC)
    printer.partner.submit(job(), now=now())
    assert printer.partner.progress(REFERENCE, now=now()) == PrintProgress(spoiled={})
    printer.says(REFERENCE, "acknowledged", at)
    printer.says(REFERENCE, "printed", at + timedelta(hours=1), spoiled={"17": "Torn"})
    known = PrintProgress(at, at + timedelta(hours=1), None, {17: "Torn"})
    assert printer.partner.progress(REFERENCE, now=now()) == known
    printer.says(REFERENCE, "mailed", at + timedelta(hours=2))
    assert printer.partner.progress(REFERENCE, now=now()).mailed_at == at + timedelta(hours=2)


def test_spoiled_pieces_may_be_a_list(printer: Printer) -> None:
    printer.partner.submit(job(), now=now())
    printer.says(REFERENCE, "printed", now(), spoiled=[{"item_id": 17, "reason": " Torn\n"}, {"item_id": 18}])
    assert printer.partner.progress(REFERENCE, now=now()).spoiled == {17: "Torn", 18: ""}


def test_one_that_is_out_of_reach_says_so(printer: Printer) -> None:
    printer.partner.submit(job(), now=now())
    printer.go_away()
    with pytest.raises((PartnerDown, Unavailable)) as error:
        printer.partner.submit(job("batch-000008"), now=now())
    assert str(error.value).endswith(".")
    with pytest.raises((PartnerDown, Unavailable)):
        printer.partner.progress(REFERENCE, now=now())


def test_of_a_job_that_is_not_there_nothing_is_known(folder: FolderPrinter) -> None:
    assert folder.partner.progress("batch-999999", now=now()) == PrintProgress(spoiled={})


@pytest.mark.parametrize(
    "mark",
    [
        b"",
        b"printed!",
        b"[]",
        b"{}",
        b'{"at": 7}',
        b'{"at": "yesterday"}',
        b'{"at": "2926-05-04T12:00:00Z"}',
        b'{"at": "0001-01-01T00:00:00+14:00"}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": 17}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": [17]}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"seventeen": "Torn"}}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"-1": "Torn"}}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"17": ["Torn"]}}',
        b'{"at": "2026-05-04T12:00:00Z", "spoiled": [{"item_id": 99999999999999999999, "reason": ""}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_an_unreadable_mark_is_reported_and_can_be_corrected(folder: FolderPrinter, mark: bytes) -> None:
    folder.partner.submit(job(), now=now())
    path = folder.root / REFERENCE / "printed.json"
    path.write_bytes(mark)
    with pytest.raises(PartnerDown, match=f"printed.json of {REFERENCE} in .* cannot be used"):
        folder.partner.progress(REFERENCE, now=now())
    path.write_text('{"at": "2026-05-04T12:00:00"}')
    found = folder.partner.progress(REFERENCE, now=now())
    assert found.printed_at == datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_a_mark_without_end_is_not_read(folder: FolderPrinter) -> None:
    folder.partner.submit(job(), now=now())
    (folder.root / REFERENCE / "mailed.json").write_bytes(b" " * 2_000_001)
    with pytest.raises(PartnerDown, match=r"mailed.json is larger than 2,000,000 bytes"):
        folder.partner.progress(REFERENCE, now=now())
