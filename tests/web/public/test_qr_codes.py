"""Where a scan of a printed code leads, and one of a code on a screen."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pypdfium2 as pdfium
import pytest
import zxingcpp
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.core.telemetry import REGISTRY
from quillpost.core.tokens import PREVIEW_CODE, UNAMBIGUOUS_CHARS
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.qr_scans.service import ScanRecorder
from quillpost.web.application import create_app
from quillpost.web.rendering import CONTENT_SECURITY_POLICY
from support.factories import Account, Build, Clock, count_rows, make_account, person
from support.pages import ParsedPage, assert_shows
from support.production import batch_rows, files_of, sweep_due_orders
from support.qr_scans import PAGE, PHONE, codes_of, count_scans, inbox_rows, scan
from support.rows import run
from support.test_client import TestClient

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
NOBODYS = "AbCdEf12"
OLD, NEW = "https://old.example.com", "https://new.example.org"


def sent(owner: Account, container: Container, url: str | None = PAGE, **recipient: str) -> str:
    """The code on a card."""
    order = owner.send(recipients=[person(**recipient)], qrcode_url=url)
    assert order.status_code == 200, order.text
    [code] = codes_of(container, order.json()["id"])
    return code


def lead(http: TestClient, code: str, method: str = "GET") -> str:
    answer = scan(http, code, method)
    assert (answer.status_code, answer.headers["cache-control"]) == (302, "no-store")
    return str(answer.headers["location"])


@contextmanager
def served(container: Container, address: str = "203.0.113.9") -> Iterator[TestClient]:
    """The service as it runs after a start with these parts, and who calls it from there."""
    client = (address, 1)
    app = create_app(container)
    with TestClient(app, base_url=container.base_url, client=client, raise_server_exceptions=False) as http:
        yield http


def codes_in(pictures: Sequence[Image.Image]) -> list[str]:
    """What a phone reads there."""
    formats = zxingcpp.BarcodeFormats(zxingcpp.QRCode)
    return [code.text for picture in pictures for code in zxingcpp.read_barcodes(picture, formats)]


def codes_of_pdf(content: bytes) -> list[str]:
    document = pdfium.PdfDocument(content)
    pictures = [page.render(scale=300 / 72).to_pil() for page in document]
    document.close()
    return codes_in(pictures)


def test_a_scan_leads_to_the_page_for_its_recipient_also_of_a_canceled_order(
    owner: Account, http: TestClient, container: Container
) -> None:
    url = "https://shop.example.com/hi?n=~FIRST_NAME|you~&c=%CITY%&x=~CUSTOM1|none~#top"
    code = sent(owner, container, url, name="JOSÉ O'BRIEN", city="Port & Quay")
    for method in ("GET", "GET", "HEAD"):  # looked up, and remembered
        destination = urlsplit(lead(http, code, method))
        assert destination[1:3] == ("shop.example.com", "/hi")
        assert destination.fragment == "top"
        assert parse_qs(destination.query) == {"n": ["José"], "c": ["Port & Quay"], "x": ["none"]}
    # Nobody's words lead elsewhere.
    code = sent(owner, container, "https://shop.example.com/~CUSTOM1~/end", custom1="/../../@evil.example?x#y\r\nA: b")
    destination = urlsplit(lead(http, code))
    assert (destination.netloc, destination.path.endswith("/end")) == ("shop.example.com", True)
    order = owner.send(qrcode_url=PAGE).json()["id"]
    assert owner.post(f"/orders/{order}/cancel").status_code == 200
    [code] = codes_of(container, order)
    assert lead(http, code) == PAGE


@pytest.mark.usefixtures("clean_database")
def test_each_scan_but_a_head_request_is_stored_by_kind(owner: Account, http: TestClient, container: Container) -> None:
    code = sent(owner, container)
    for method in ("HEAD", "GET", "HEAD", "GET"):
        lead(http, code, method)
    seen = [(row.kind, row.agent, row.at) for row in inbox_rows(container)]
    assert seen == [("person", PHONE, container.clock())] * 2
    assert lead(http, code + "/") == PAGE, "a slash behind it changes nothing"
    machines: list[tuple[str, dict[str, str], str]] = [
        ("", {}, "bot"), ("curl/8.5.0", {}, "bot"), ("WhatsApp/2.23.20.0 A", {}, "preview"),
        (PHONE, {"Sec-Purpose": "prefetch"}, "preview"),
        (PHONE, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, "preview"),
        (PHONE, {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, "person"),
    ]  # fmt: skip
    for agent, headers, _ in machines:
        assert scan(http, code, agent=agent, **headers).headers["location"] == PAGE
    assert [row.kind for row in inbox_rows(container)][3:] == [kind for _, _, kind in machines]


def test_the_answer_carries_what_every_answer_carries(
    owner: Account, http: TestClient, container: Container, capsys: pytest.CaptureFixture[str]
) -> None:
    code, labels = sent(owner, container), {"method": "GET", "route": "/q/{code}", "status": "302"}
    before = REGISTRY.get_sample_value("quillpost_requests_total", labels) or 0
    answer = scan(http, code, **{"X-Request-Id": "callers-own-id"})
    assert answer.headers["X-Request-Id"] == "callers-own-id"
    assert re.fullmatch(r"[0-9a-f]{32}", scan(http, code, **{"X-Request-Id": "no good\t"}).headers["X-Request-Id"])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert (answer.content, answer.headers["Content-Length"]) == (b"", "0")
    assert REGISTRY.get_sample_value("quillpost_requests_total", labels) == before + 2
    assert code not in capsys.readouterr().err


def test_an_unknown_code_gets_a_helpful_message(owner: Account, http: TestClient, container: Container) -> None:
    without_page, before = sent(owner, container, None), count_rows(container)
    for code in (NOBODYS, without_page, "None", "x", "%00", "a" * 500, "..%2f", "AbCdE-12", "%F0%9F%90%87"):
        answer, shown = scan(http, code), scan(http, code, **BROWSER)
        assert (answer.status_code, set(answer.json()), shown.status_code) == (404, {"message"}, 404), code
        if code != "..%2f":  # two steps of a path, which is nobody's code
            assert shown.headers["Cache-Control"] == "no-store"
            assert "We do not know this code." in shown.text
            for words in (shown.text.lower(), answer.json()["message"].lower()):
                # No code is printed in letters: nobody can compare or type one.
                assert "the whole square in view" in " ".join(words.split())
                assert not re.search("compare|capital|typed", words)
            assert shown.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            seen = ParsedPage.of(shown.text)
            assert seen.inline_code == []
            assert not [name for name in seen.attributes if name == "style" or name.startswith("on")]
            assert all(address.startswith(("/assets/", "#main")) for address in seen.addresses)
    assert count_rows(container) == before


def test_a_code_expires_only_where_that_is_set(build: Build, clock: Clock) -> None:
    usual = build()
    with served(usual) as http:
        code = sent(make_account(usual, http, "owner@example.com"), usual)
    clock.advance(days=90, seconds=-1)
    with served(build(qr_valid_days=90)) as http:
        assert lead(http, code) == PAGE
    clock.advance(seconds=1)
    with served(build(qr_valid_days=90)) as http:
        for method in ("GET", "HEAD"):
            assert scan(http, code, method).status_code == 410
        assert "has expired" in scan(http, code).json()["message"]
        shown = scan(http, code, **BROWSER)
        assert (shown.status_code, shown.headers["Cache-Control"]) == (410, "no-store")
        assert "This code has expired." in ParsedPage.of(shown.text).words
    assert len(inbox_rows(usual)) == 1
    clock.advance(days=4_000)
    with served(usual) as http:
        assert lead(http, code) == PAGE


def test_a_scan_that_cannot_be_stored_asks_to_be_made_again(
    owner: Account, http: TestClient, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = sent(owner, container)
    lead(http, code)

    async def away(*_args: object, **_how: object) -> None:
        raise Unavailable("The database does not answer.")

    monkeypatch.setattr(ScanRecorder, "record_scan", away)
    response = scan(http, code)
    assert (response.status_code, response.headers["Retry-After"], "location" in response.headers) == (503, "5", False)
    shown = scan(http, code, **BROWSER)
    assert shown.status_code == 503
    assert f"/q/{code}" in ParsedPage.of(shown.text).addresses
    assert lead(http, code, "HEAD") == PAGE, "where it leads is known"


def test_whoever_guesses_is_stopped_and_whoever_scans_a_card_is_not(build: Build) -> None:
    container = build(calls_a_minute=5)
    with served(container) as http:
        code = sent(make_account(container, http, "owner@example.com"), container)
        other = sent(make_account(container, http, "other@example.com"), container)
        lead(http, code)
        rows = count_rows(container)
        assert [scan(http, f"Guess{n:03}").status_code for n in range(8)] == [404] * 5 + [429] * 3
        refused = scan(http, "Guess100")
        assert (refused.status_code, int(refused.headers["Retry-After"]) <= 60) == (429, True)
        assert "Wait" in refused.json()["message"]
        # Whoever shares that network and holds a card is led on, whether it was scanned before or not.
        assert [lead(http, each) for each in (code, other)] == [PAGE, PAGE]
        assert count_rows(container) == rows | {"visit_inbox": rows["visit_inbox"] + 2}
        assert_shows(scan(http, "Guess101", **BROWSER), "One moment", status=429)
    with served(container, "198.51.100.7") as http:
        assert scan(http, "Guess102").status_code == 404, "another network has guessed nothing"
        # The same wrong code, however often: a card that is read wrongly makes nobody a stranger.
        assert {scan(http, NOBODYS).status_code for _ in range(12)} == {404}


@pytest.mark.usefixtures("clean_database")
def test_a_previews_code_counts_nowhere_a_proofs_does(owner: Account, http: TestClient, container: Container) -> None:
    shown = owner.send(qrcode_url=PAGE, preview=True).json()["data"]["previews"]
    [code] = codes_in([Image.open(io.BytesIO(http.get(urlsplit(url).path).content)) for url in shown])
    assert code.rpartition("/q/")[2] == PREVIEW_CODE
    assert set(PREVIEW_CODE) - set(UNAMBIGUOUS_CHARS), "no piece can have it"
    before = count_rows(container)
    pages = [scan(http, PREVIEW_CODE), scan(http, PREVIEW_CODE, "HEAD"), scan(http, PREVIEW_CODE, **BROWSER)]
    assert [(page.status_code, page.headers["Cache-Control"]) for page in pages] == [(200, "no-store")] * 3
    assert "preview" in pages[0].json()["message"]
    assert "This is a preview." in ParsedPage.of(pages[2].text).words
    assert count_rows(container) == before

    order = owner.send(qrcode_url=PAGE).json()["id"]
    [code] = [text.rpartition("/q/")[2] for text in codes_of_pdf(owner.get(f"/orders/{order}/proof").content)]
    assert [code] == codes_of(container, order)
    assert lead(http, code) == PAGE
    assert (len(inbox_rows(container)), count_scans(container)) == (1, 1)
    assert owner.get(f"/orders/{order}").json()["total_scans"] == 1


def print_one(container: Container, clock: Clock, sender: Account) -> int:
    """A card with a code goes into a batch of its own, and is composed."""
    sent(sender, container)
    sweep_due_orders(container, clock)
    batch = run(container, batch_rows)[-1]
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    return int(batch.id)


def code_on(files: dict[str, bytes]) -> str:
    """What is read on the only piece."""
    [print_file] = [content for name, content in files.items() if name.endswith("print.pdf")]
    [found] = codes_of_pdf(print_file)
    return found


def test_a_new_host_keeps_old_codes_and_files_as_they_are(build: Build, clock: Clock) -> None:
    old = build(base_url=OLD)
    with served(old) as http:
        sender = make_account(old, http, "owner@example.com")
        first = print_one(old, clock, sender)
    old.db.close()
    printed_before = files_of(old, first)

    new = build(base_url=NEW)
    with served(new) as http:
        second = print_one(new, clock, Account(sender.id, sender.token, http))
        codes = [code_on(printed_before), code_on(files_of(new, second))]
        assert [code.rpartition("/q/")[0] for code in codes] == [OLD, NEW]
        for code in codes:
            path = "/q/" + code.rpartition("/q/")[2]
            # Whichever name the world has for us: DNS may send the old one here for years.
            for host in (OLD, NEW, "http://10.0.0.7:8025"):
                answer = http.get(host + path, follow_redirects=False)
                assert (answer.status_code, answer.headers["location"]) == (302, PAGE)

    # Lost before they were handed over, the old batch's files are made again: to the byte, old host and all.
    for key in printed_before:
        new.storage.store.delete(key)
    batch_tasks.hand_over_batch(new.production, first, now=new.clock())
    assert files_of(new, first) == printed_before
