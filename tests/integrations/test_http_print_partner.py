"""A print partner over HTTP: what it hears, and what becomes of its answers."""

import base64
import itertools
import ssl
from collections.abc import Iterator
from datetime import timedelta

import pytest

from quillpost.fulfillment.ports import PartnerDown
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.printing.models import MAX_MARK_BYTES
from support.fake_server import respond
from support.print_partners import FILES, REFERENCE, job, now
from support.print_server import SECRET, PrintServer
from support.scripted_server import ScriptedServer, reply_with, stay_silent

OTHER = "whsec_" + base64.b64encode(b"of somebody else, also 32 bytes.").decode()


@pytest.fixture
def house() -> Iterator[PrintServer]:
    with PrintServer() as house:
        yield house


@pytest.fixture
def partner(house: PrintServer) -> HttpPartner:
    return HttpPartner(house.url, secrets=[SECRET], seconds=10)


def test_the_ticket_comes_last_and_every_file_before_it(house: PrintServer, partner: HttpPartner) -> None:
    partner.submit(job(), now=now())
    paths = [f"put /press/jobs/{REFERENCE}/{name}" for name in FILES]
    assert house.requests == [*paths, f"put /press/jobs/{REFERENCE}"]


def test_submitting_again_sends_the_same_bytes(house: PrintServer, partner: HttpPartner) -> None:
    partner.submit(job(), now=now())
    first = dict(house.tickets[REFERENCE])
    partner.submit(job(), now=now() + timedelta(seconds=60))
    assert house.tickets == {REFERENCE: first}
    assert house.files == {REFERENCE: FILES}


def test_every_request_is_signed_when_it_is_made(house: PrintServer) -> None:
    ticks = itertools.count(0, 10)
    partner = HttpPartner(house.url, secrets=[SECRET], seconds=10, monotonic=lambda: next(ticks))
    begun = now()
    partner.submit(job(), now=begun)
    assert [stamp - int(begun.timestamp()) for stamp in house.stamps] == [10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize("secrets", [[OTHER], [OTHER, SECRET]])
def test_a_secret_is_changed_without_losing_a_job(house: PrintServer, secrets: list[str]) -> None:
    partner = HttpPartner(house.url, secrets=secrets, seconds=10)
    if SECRET in secrets:
        partner.submit(job(), now=now())
        assert list(house.tickets) == [REFERENCE]
        return
    with pytest.raises(PartnerDown, match="not signed with our secret"):
        partner.submit(job(), now=now())
    assert house.files == {}


def test_a_signature_that_is_old_is_not_believed(house: PrintServer, partner: HttpPartner) -> None:
    house.files[REFERENCE] = {}
    with pytest.raises(PartnerDown, match="not signed"):
        # The files are checked by hand, without a look at the time; the ticket by the library.
        partner.submit(job(), now=now() - timedelta(minutes=6))
    assert house.tickets == {}


@pytest.mark.parametrize(
    ("status", "words", "error"),
    [
        (422, b"No such\n stock", "refuses batch-000007/print.pdf, it answered with status 422: No such"),
        (400, b"7ZK4MB0QWX9TFHN2CVRE5JD8AG is there twice", "status 400: [hidden] is there twice"),
        (404, b"", "refuses batch-000007/print.pdf, it answered with status 404."),
        (401, b"\xff\x00" + b"long " * 1_000, "status 401: \N{REPLACEMENT CHARACTER} long long"),
        (408, b"slow", "cannot take batch-000007/print.pdf now, it answered with status 408: slow"),
        (429, b"", "cannot take batch-000007/print.pdf now, it answered with status 429."),
        (503, b"down", "cannot take batch-000007/print.pdf now, it answered with status 503: down"),
        (302, b"", "redirects to another address: give the final one in QUILLPOST_PRINT_PARTNER."),
    ],
)  # fmt: skip
def test_a_refusal_is_reported_in_the_partners_own_words(
    house: PrintServer, partner: HttpPartner, status: int, words: bytes, error: str
) -> None:
    house.answers = [respond(status, words, Location="http://127.0.0.1:9/elsewhere")]
    with pytest.raises(PartnerDown) as down:
        partner.submit(job(), now=now())
    assert error in str(down.value)
    assert len(str(down.value)) < 400
    assert SECRET not in str(down.value)
    assert len(house.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"printed_at": 7}',
        b'{"printed_at": "soon"}',
        b'{"mailed_at": "2926-05-04T12:00:00Z"}',
        b'{"spoiled": [{"tracking": "x"}]}',
        b" " * (MAX_MARK_BYTES + 1),
    ],
)
def test_an_unreadable_response_counts_as_down(house: PrintServer, partner: HttpPartner, answer: bytes) -> None:
    house.answers = [respond(200, answer)]
    with pytest.raises(PartnerDown):
        partner.progress(REFERENCE, now=now())
    partner.submit(job(), now=now())
    assert partner.progress(REFERENCE, now=now()).printed_at is None


def test_an_unknown_job_counts_as_down(partner: HttpPartner) -> None:
    with pytest.raises(PartnerDown, match="refuses batch-000007, it answered with status 404: no such job"):
        partner.progress(REFERENCE, now=now())


def test_a_partner_that_never_answers_is_given_up() -> None:
    with ScriptedServer(stay_silent) as silent:
        partner = HttpPartner(silent.url(""), secrets=[SECRET], seconds=0.3)
        with pytest.raises(PartnerDown, match=r"127.0.0.1 did not answer within 0.3 seconds"):
            partner.progress(REFERENCE, now=now())


def test_a_truncated_response_counts_as_down() -> None:
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Length: 100", b"{")) as short:
        partner = HttpPartner(short.url(""), secrets=[SECRET], seconds=10)
        with pytest.raises(PartnerDown, match="broke off in the middle"):
            partner.progress(REFERENCE, now=now())


def test_a_partner_without_a_certificate_is_not_spoken_to(house: PrintServer) -> None:
    address = house.url.replace("http://", "https://")
    partner = HttpPartner(address, secrets=[SECRET], seconds=5, tls=ssl.create_default_context())
    with pytest.raises(PartnerDown):
        partner.submit(job(), now=now())
    assert house.requests == []
