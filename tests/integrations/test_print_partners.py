"""What every print partner promises: a job arrives whole, once, and its progress comes back. And how one over HTTP is
spoken to."""

import base64
import itertools
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quillpost.core.errors import Unavailable
from quillpost.fulfillment.ports import PartnerDown, PrintProgress
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.printing.models import MAX_MARK_BYTES
from support.fake_server import Answer, ScriptedServer, reply_with, respond, stay_silent
from support.print_partners import FILES, KINDS, REFERENCE, SECRET, FolderPrinter, PrintServer, job, now, printer_of

OTHER = "whsec_" + base64.b64encode(b"of somebody else, also 32 bytes.").decode()
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@EVERY_KIND
def test_a_job_arrives_once_with_every_file_and_its_ticket_beside_others(kind: str, tmp_path: Path) -> None:
    with printer_of(kind, tmp_path) as printer:
        first = now()
        printer.partner.submit(job(), now=first)
        ticket = printer.ticket(REFERENCE)
        assert printer.jobs() == [REFERENCE]
        assert printer.files(REFERENCE) == FILES
        assert (ticket["reference"], ticket["piece"], ticket["pieces"]) == (REFERENCE, "postcard-4x6", 1)
        printer.partner.submit(job(), now=first + timedelta(seconds=30))
        assert printer.jobs() == [REFERENCE]
        assert (printer.files(REFERENCE), printer.ticket(REFERENCE)) == (FILES, ticket)
        for reference in ("batch-000008", "batch-0000070"):
            printer.partner.submit(job(reference), now=now())
        assert printer.jobs() == [REFERENCE, "batch-0000070", "batch-000008"]


@EVERY_KIND
def test_a_job_that_broke_off_is_not_begun_and_then_resumed(kind: str, tmp_path: Path) -> None:
    with printer_of(kind, tmp_path) as printer:
        printer.break_off()
        with pytest.raises((PartnerDown, OSError)):
            printer.partner.submit(job(), now=now())
        assert printer.jobs() == []
        printer.partner.submit(job(), now=now())
        assert printer.jobs() == [REFERENCE]
        assert printer.files(REFERENCE) == FILES


@EVERY_KIND
def test_progress_comes_back_step_by_step_until_the_partner_is_out_of_reach(kind: str, tmp_path: Path) -> None:
    at = datetime(2026, 5, 4, 12, tzinfo=UTC)
    with printer_of(kind, tmp_path) as printer:
        partner = printer.partner
        partner.submit(job(), now=now())
        assert partner.progress(REFERENCE, now=now()) == PrintProgress(spoiled={})
        printer.says(REFERENCE, "acknowledged", at)
        printer.says(REFERENCE, "printed", at + timedelta(hours=1), spoiled={"17": "Torn"})
        known = PrintProgress(at, at + timedelta(hours=1), None, {17: "Torn"})
        assert partner.progress(REFERENCE, now=now()) == known
        spoiled = [{"item_id": 17, "reason": " Torn\n"}, {"item_id": 18}]
        printer.says(REFERENCE, "printed", at + timedelta(hours=1), spoiled=spoiled)
        assert partner.progress(REFERENCE, now=now()).spoiled == {17: "Torn", 18: ""}
        printer.says(REFERENCE, "mailed", at + timedelta(hours=2))
        assert partner.progress(REFERENCE, now=now()).mailed_at == at + timedelta(hours=2)
        printer.go_away()
        with pytest.raises((PartnerDown, Unavailable), match=r"\.$"):
            partner.submit(job("batch-000008"), now=now())
        with pytest.raises((PartnerDown, Unavailable)):
            partner.progress(REFERENCE, now=now())


UNREADABLE = [
    *(b"", b"printed!", b"[]", b"{}", b'{"at": 7}', b'{"at": "yesterday"}', b"[" * 100_000, b"\xff\xfe"),
    *(b'{"at": "2926-05-04T12:00:00Z"}', b'{"at": "0001-01-01T00:00:00+14:00"}'),
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": 17}',
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": [17]}',
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"seventeen": "Torn"}}',
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"-1": "Torn"}}',
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": {"17": ["Torn"]}}',
    b'{"at": "2026-05-04T12:00:00Z", "spoiled": [{"item_id": 99999999999999999999, "reason": ""}]}',
]


@pytest.mark.parametrize("kind", ["store", "local", "sftp"])
def test_an_unreadable_mark_is_reported_and_corrected(kind: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    with printer_of(kind, tmp_path) as printer:
        assert isinstance(printer, FolderPrinter)
        partner = printer.partner
        assert partner.progress("batch-999999", now=now()) == PrintProgress(spoiled={})
        partner.submit(job(), now=now())
        path = printer.root / REFERENCE / "printed.json"
        for mark in UNREADABLE:
            with subtests.test(str(mark[:80])):
                path.write_bytes(mark)
                with pytest.raises(PartnerDown, match=f"printed.json of {REFERENCE} in .* cannot be used"):
                    partner.progress(REFERENCE, now=now())
        path.write_text('{"at": "2026-05-04T12:00:00"}')
        assert partner.progress(REFERENCE, now=now()).printed_at == datetime(2026, 5, 4, 12, tzinfo=UTC)
        (printer.root / REFERENCE / "mailed.json").write_bytes(b" " * 2_000_001)
        with pytest.raises(PartnerDown, match=r"mailed.json is larger than 2,000,000 bytes"):
            partner.progress(REFERENCE, now=now())


@pytest.fixture
def house() -> Iterator[PrintServer]:
    with PrintServer() as house:
        yield house


@pytest.fixture
def partner(house: PrintServer) -> HttpPartner:
    return HttpPartner(house.url(), secrets=[SECRET], seconds=10)


def test_the_ticket_comes_last_and_every_request_is_signed_when_it_is_made(house: PrintServer) -> None:
    ticks = itertools.count(0, 10)
    partner = HttpPartner(house.url(), secrets=[SECRET], seconds=10, monotonic=lambda: next(ticks))
    begun = now()
    partner.submit(job(), now=begun)
    paths = [f"put /press/jobs/{REFERENCE}/{name}" for name in FILES]
    assert house.paths == [*paths, f"put /press/jobs/{REFERENCE}"]
    assert [stamp - int(begun.timestamp()) for stamp in house.stamps] == [10, 20, 30, 40, 50, 60, 70]


def test_a_secret_is_changed_without_loss_and_old_signatures_fail(house: PrintServer, partner: HttpPartner) -> None:
    with pytest.raises(PartnerDown, match="not signed with our secret"):
        HttpPartner(house.url(), secrets=[OTHER], seconds=10).submit(job(), now=now())
    assert house.files == {}
    with pytest.raises(PartnerDown, match="not signed"):
        # The files are checked by hand, without a look at the time; the ticket by the library.
        partner.submit(job(), now=now() - timedelta(minutes=6))
    assert house.tickets == {}
    HttpPartner(house.url(), secrets=[OTHER, SECRET], seconds=10).submit(job(), now=now())
    assert list(house.tickets) == [REFERENCE]


def test_a_refusal_is_in_partners_words(house: PrintServer, partner: HttpPartner, subtests: pytest.Subtests) -> None:
    cases = [
        (422, b"No such\n stock", "refuses batch-000007/print.pdf, it answered with status 422: No such"),
        (400, b"7ZK4MB0QWX9TFHN2CVRE5JD8AG is there twice", "status 400: [hidden] is there twice"),
        (404, b"", "refuses batch-000007/print.pdf, it answered with status 404."),
        (401, b"\xff\x00" + b"long " * 1_000, "status 401: \N{REPLACEMENT CHARACTER} long long"),
        (408, b"slow", "cannot take batch-000007/print.pdf now, it answered with status 408: slow"),
        (429, b"", "cannot take batch-000007/print.pdf now, it answered with status 429."),
        (503, b"down", "cannot take batch-000007/print.pdf now, it answered with status 503: down"),
        (302, b"", "redirects to another address: give the final one in QUILLPOST_PRINT_PARTNER."),
    ]
    for status, words, error in cases:
        with subtests.test(status=status):
            house.answers, house.paths = [respond(status, words, Location="http://127.0.0.1:9/elsewhere")], []
            with pytest.raises(PartnerDown) as down:
                partner.submit(job(), now=now())
            assert error in str(down.value)
            assert len(str(down.value)) < 400
            assert SECRET not in str(down.value)
            assert len(house.paths) == 1


def test_an_unreadable_response_is_as_down(house: PrintServer, partner: HttpPartner, subtests: pytest.Subtests) -> None:
    with pytest.raises(PartnerDown, match="refuses batch-000007, it answered with status 404: no such job"):
        partner.progress(REFERENCE, now=now())
    partner.submit(job(), now=now())
    answers = [b"", b"<html>", b"[]", b'{"printed_at": 7}', b'{"printed_at": "soon"}', b" " * (MAX_MARK_BYTES + 1)]
    answers += [b'{"mailed_at": "2926-05-04T12:00:00Z"}', b'{"spoiled": [{"tracking": "x"}]}']
    for answer in answers:
        with subtests.test(str(answer[:60])):
            house.answers = [respond(200, answer)]
            with pytest.raises(PartnerDown):
                partner.progress(REFERENCE, now=now())
            assert partner.progress(REFERENCE, now=now()).printed_at is None
    failures: dict[str, Answer] = {
        "127.0.0.1 did not answer within 0.3 seconds": stay_silent,
        "broke off in the middle": reply_with("HTTP/1.1 200 OK\nContent-Length: 100", b"{"),
    }
    for reason, failure in failures.items():
        with subtests.test(reason), ScriptedServer(failure) as server:
            failing = HttpPartner(server.url(""), secrets=[SECRET], seconds=0.3 if failure is stay_silent else 10)
            with pytest.raises(PartnerDown, match=reason):
                failing.progress(REFERENCE, now=now())


def test_a_partner_without_a_certificate_is_not_spoken_to(house: PrintServer) -> None:
    address = house.url().replace("http://", "https://")
    partner = HttpPartner(address, secrets=[SECRET], seconds=5, tls=ssl.create_default_context())
    with pytest.raises(PartnerDown):
        partner.submit(job(), now=now())
    assert house.paths == []
