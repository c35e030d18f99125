"""Where a scan of a printed code leads."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from test_public_pages import BROWSER

from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.core.telemetry import REGISTRY
from quillpost.fulfillment.qr_scans.service import ScanRecorder
from quillpost.web.application import create_app
from quillpost.web.rendering import CONTENT_SECURITY_POLICY
from support.factories import Account, Build, Clock, count_rows, make_account, person
from support.page_parser import ParsedPage
from support.qr_scans import PHONE, codes_of, inbox_rows, scan
from support.test_client import TestClient

PAGE = "https://shop.example.com/hi"
NOBODYS = "AbCdEf12"


def sent(owner: Account, container: Container, url: str = PAGE, **recipient: str) -> str:
    """The code on a card."""
    order = owner.send(recipients=[person(**recipient)], qrcode_url=url)
    assert order.status_code == 200, order.text
    [code] = codes_of(container, order.json()["id"])
    return code


def lead(http: TestClient, code: str, method: str = "GET") -> str:
    answer = scan(http, code, method)
    assert (answer.status_code, answer.headers["cache-control"]) == (302, "no-store")
    return str(answer.headers["location"])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_scan_leads_to_the_senders_page_in_the_recipients_words(
    owner: Account, http: TestClient, container: Container, method: str
) -> None:
    url = "https://shop.example.com/hi?n=~FIRST_NAME|you~&c=%CITY%&x=~CUSTOM1|none~#top"
    code = sent(owner, container, url, name="JOSÉ O'BRIEN", city="Port & Quay")
    for _ in range(2):  # looked up, and remembered
        destination = urlsplit(lead(http, code, method))
        assert destination[1:3] == ("shop.example.com", "/hi")
        assert destination.fragment == "top"
        assert parse_qs(destination.query) == {"n": ["José"], "c": ["Port & Quay"], "x": ["none"]}


def test_nobodys_words_lead_elsewhere(owner: Account, http: TestClient, container: Container) -> None:
    code = sent(owner, container, "https://shop.example.com/~CUSTOM1~/end", custom1="/../../@evil.example?x#y\r\nA: b")
    destination = urlsplit(lead(http, code))
    assert destination.netloc == "shop.example.com"
    assert destination.path.endswith("/end")


def test_every_scan_is_stored_and_a_look_at_the_head_is_not(
    owner: Account, http: TestClient, container: Container
) -> None:
    code = sent(owner, container)
    for method in ("HEAD", "GET", "HEAD", "GET"):
        lead(http, code, method)
    assert [(row.kind, row.agent, row.at) for row in inbox_rows(container)] == [
        ("person", PHONE, container.clock())
    ] * 2


def test_a_slash_behind_it_changes_nothing(owner: Account, http: TestClient, container: Container) -> None:
    assert lead(http, sent(owner, container) + "/") == PAGE


def test_bots_are_redirected_and_counted_separately(owner: Account, http: TestClient, container: Container) -> None:
    code = sent(owner, container)
    machines: list[tuple[str, dict[str, str]]] = [
        ("", {}),
        ("curl/8.5.0", {}),
        ("WhatsApp/2.23.20.0 A", {}),
        (PHONE, {"Sec-Purpose": "prefetch"}),
        (PHONE, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}),
        (PHONE, {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ]
    for agent, headers in machines:
        assert scan(http, code, agent=agent, **headers).headers["location"] == PAGE
    kinds = ["bot", "bot", "preview", "preview", "preview", "person"]
    assert [row.kind for row in inbox_rows(container)] == kinds


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


@pytest.mark.parametrize("code", [NOBODYS, "x", "%00", "a" * 500, "..%2f", "AbCdE-12", "%F0%9F%90%87"])
def test_an_unknown_code_gets_a_helpful_message(http: TestClient, container: Container, code: str) -> None:
    response = http.get(f"/q/{code}", follow_redirects=False)
    assert response.status_code == 404
    assert set(response.json()) == {"message"}
    shown = http.get(f"/q/{code}", headers=BROWSER, follow_redirects=False)
    assert shown.status_code == 404
    if code != "..%2f":  # two steps of a path, which is nobody's code
        assert shown.headers["Cache-Control"] == "no-store"
        for words in (shown.text.lower(), response.json()["message"].lower()):
            # No code is printed in letters: nobody can compare or type one.
            assert "the whole square in view" in " ".join(words.split())
            assert not re.search("compare|capital|typed", words)
    assert inbox_rows(container) == []


def test_an_expired_code_gets_a_helpful_message(
    owner: Account, container: Container, build: Build, clock: Clock
) -> None:
    code = sent(owner, container)
    with TestClient(create_app(build(qr_valid_days=90)), base_url="http://quillpost.test") as http:
        clock.advance(days=90, seconds=-1)
        assert lead(http, code) == PAGE
    with TestClient(create_app(build(qr_valid_days=90)), base_url="http://quillpost.test") as http:
        clock.advance(seconds=1)
        for method in ("GET", "HEAD"):
            assert scan(http, code, method).status_code == 410
        assert "has expired" in scan(http, code).json()["message"]
        shown = scan(http, code, **BROWSER)
        assert (shown.status_code, shown.headers["Cache-Control"]) == (410, "no-store")
        assert "This code has expired." in ParsedPage.of(shown.text).words
    assert len(inbox_rows(container)) == 1


def test_codes_never_expire_by_themselves(owner: Account, http: TestClient, container: Container, clock: Clock) -> None:
    code = sent(owner, container)
    clock.advance(days=4_000)
    assert lead(http, code) == PAGE


def test_a_cancelled_order_s_code_still_leads_on(owner: Account, http: TestClient, container: Container) -> None:
    order = owner.send(qrcode_url=PAGE).json()["id"]
    assert owner.post(f"/orders/{order}/cancel").status_code == 200
    [code] = codes_of(container, order)
    assert lead(http, code) == PAGE


def test_a_piece_without_a_page_to_lead_to_leads_nowhere(
    owner: Account, http: TestClient, container: Container
) -> None:
    [code] = codes_of(container, owner.send().json()["id"])
    assert scan(http, code).status_code == 404
    assert scan(http, "None").status_code == 404


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
    # Where it leads is known; whoever only asks for that has it.
    assert lead(http, code, "HEAD") == PAGE


def test_whoever_guesses_is_stopped_and_whoever_scans_a_card_is_not(build: Build) -> None:
    container = build(calls_a_minute=5)
    with TestClient(create_app(container), base_url="http://quillpost.test", client=("203.0.113.9", 1)) as http:
        code = sent(make_account(container, http, "owner@example.com"), container)
        other = sent(make_account(container, http, "other@example.com"), container)
        lead(http, code)
        rows = count_rows(container)
        statuses = [scan(http, f"Guess{n:03}").status_code for n in range(8)]
        assert statuses == [404] * 5 + [429] * 3
        refused = scan(http, "Guess100")
        assert (refused.status_code, int(refused.headers["Retry-After"]) <= 60) == (429, True)
        assert "Wait" in refused.json()["message"]
        # Whoever shares that network and holds a card is led on, whether it was scanned before or not.
        assert [lead(http, each) for each in (code, other)] == [PAGE, PAGE]
        assert count_rows(container) == rows | {"visit_inbox": rows["visit_inbox"] + 2}
        shown = scan(http, "Guess101", **BROWSER)
        assert (shown.status_code, "One moment" in shown.text) == (429, True)
    with TestClient(create_app(container), base_url="http://quillpost.test", client=("198.51.100.7", 1)) as http:
        assert scan(http, "Guess102").status_code == 404, "another network has guessed nothing"
        # The same wrong code, however often: a card that is read wrongly makes nobody a stranger.
        assert {scan(http, NOBODYS).status_code for _ in range(12)} == {404}


def test_its_pages_are_safe_and_complete_in_themselves(owner: Account, http: TestClient, container: Container) -> None:
    shown = scan(http, NOBODYS, **BROWSER)
    assert shown.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    seen = ParsedPage.of(shown.text)
    assert seen.inline_code == []
    assert not [name for name in seen.attributes if name == "style" or name.startswith("on")]
    assert all(address.startswith(("/assets/", "#main")) for address in seen.addresses)
