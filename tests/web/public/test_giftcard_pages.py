"""Whoever holds a piece comes to its gift card, and nobody else; no page says more than it should."""

import io
import re
import secrets
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
import structlog
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import notices
from quillpost.core.database.tables.orders import giftcards
from quillpost.core.telemetry import configure_logging
from quillpost.core.tokens import hide_secrets
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards import tasks as giftcard_tasks
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, encode_claim, format_claim, parse_claim
from quillpost.web.application import create_app
from quillpost.web.rendering import CONTENT_SECURITY_POLICY
from support.factories import Account, Build, Clock, people, snapshot_rows
from support.giftcard_orders import card_row, issue_order_cards, read_claim, send_giftcards
from support.pages import assert_hides, assert_shows
from support.rows import execute, run
from support.test_client import TestClient

SHOP = "https://shop.example/thänks?from=mail"
SHOP_LED_TO = "https://shop.example/th%C3%A4nks?from=mail"
NOBODYS = "2" * 26
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1"
PAGE = {"Accept": "text/html", "User-Agent": PHONE}


class Piece:
    """A piece in somebody's hand."""

    def __init__(self, container: Container, http: TestClient, item_id: int) -> None:
        self.parts, self.http, self.id = container, http, item_id
        self.claim = read_claim(container, item_id)
        self.path = f"/gift/{self.claim}"

    def get(self, path: str = "", **headers: str) -> Response:
        return self.http.get(self.path + path, headers=PAGE | headers, follow_redirects=False)

    def post(self, path: str, **fields: str) -> Response:
        return self.http.post(self.path + path, data=fields, headers=PAGE, follow_redirects=False)

    @property
    def row(self) -> Any:
        return card_row(self.parts, self.id)

    @property
    def card(self) -> CardSecret:
        sealed = bytes(self.row.card_sealed)
        return issuance.decrypt_card(self.parts.encryptor, issuance.card_context(self.id), sealed)

    @property
    def code(self) -> str:
        return str(self.card.code)

    def put(self, **columns: Any) -> None:
        execute(self.parts, sa.update(giftcards).where(giftcards.c.item_id == self.id).values(columns))

    def put_card(self, card: CardSecret) -> None:
        self.put(card_sealed=issuance.encrypt_card(self.parts.encryptor, issuance.card_context(self.id), card))

    def is_refused(self) -> bool:
        """Whether the button shows nothing, and leaves nothing behind."""
        refused = self.post("/claim")
        return (refused.status_code, self.code in refused.text, self.row.claimed_at) == (409, False, None)


def piece_of(container: Container, sender: Account, **changes: Any) -> Piece:
    [item_id] = issue_order_cards(container, send_giftcards(sender, **changes))
    return Piece(container, sender.http, item_id)


@pytest.fixture
def piece(container: Container, owner: Account) -> Piece:
    return piece_of(container, owner)


def words(answer: Response) -> str:
    """What is read on the page."""
    body = answer.text.partition("<body")[2]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_a_typed_code_leads_to_its_page_or_if_impossible_nowhere(http: TestClient, container: Container) -> None:
    claim = "7ZZZ" * 6 + "01"
    for typed in (claim, claim.lower(), format_claim(claim), f"  {claim[:13]}\n\t{claim[13:].lower()}\n"):
        led = http.post("/gift", data={"code": typed}, follow_redirects=False)
        assert (led.status_code, led.headers["Location"]) == (303, f"/gift/{claim}")
    before = snapshot_rows(container)
    for typed in ("", "7ZZZ", "7" * 27, "U" * 26, "é" * 26, "<b>" * 9):
        refused = http.post("/gift", data={"code": typed}, follow_redirects=False)
        assert (refused.status_code, "That cannot be the code." in refused.text) == (422, True)
        assert_hides(refused, "<b>")
    assert http.get("/gift/7ZZZ").status_code == 404
    for body in (b"\xff\xfe", b"&" * 500, b"code", b"{}"):
        assert http.post("/gift", content=body).status_code == 422
    assert http.post("/gift", content=b"x" * 3_000).status_code == 413
    # An unknown code can be compared with the paper.
    page = http.get(f"/gift/{NOBODYS}")
    assert (page.status_code, format_claim(NOBODYS) in page.text) == (404, True)
    for method, path in (("GET", "/visit"), ("POST", "/claim"), ("GET", "/report"), ("POST", "/report")):
        answer = http.request(method, f"/gift/{NOBODYS}{path}", data={"what": "lost"} if method == "POST" else None)
        assert (answer.status_code, answer.text) == (404, page.text)
    assert snapshot_rows(container) == before


def test_the_page_names_card_and_sender_and_shows_no_code(piece: Piece, owner: Account, stranger: Account) -> None:
    page = piece.get()
    assert page.status_code == 200
    for word in ("A gift for you", "Brindlewick Coffee", "$25", "From Dana Whitfield", "Show my gift card",
                 "Test card: not worth anything."):  # fmt: skip
        assert word in words(page)
    assert_hides(page, piece.code, "Jane", "12 Main St", "owner@example.com")
    assert re.search(r'<rect [^>]*fill="#[0-9a-f]{6}"', page.text)
    for account in (owner, stranger):  # a token changes nothing here
        assert piece.get(Authorization=f"Bearer {account.token}").text == page.text
        unknown = piece.http.get(f"/gift/{NOBODYS}", headers={"Authorization": f"Bearer {account.token}"})
        assert unknown.status_code == 404
        assert account.get(f"/gift/{piece.claim}").status_code == 404
    piece.put(opened_at=None)
    answer = piece.http.get(f"/gift?code={piece.claim}", follow_redirects=False)  # is not read
    assert (answer.status_code, piece.claim in answer.text, piece.row.opened_at) == (200, False, None)


def test_every_page_is_private_and_under_the_policy(http: TestClient, piece: Piece) -> None:
    answers = [http.get("/gift"), http.get(f"/gift/{NOBODYS}"), piece.get(), piece.get("/report"),
               piece.post("/claim"), piece.post("/report")]  # fmt: skip
    for page in answers:
        assert page.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert_hides(page, "style=", "<script>")
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page.text)
    failures = [http.request(method, path, content=body, headers=headers)
                for method, path, body in (("DELETE", piece.path, b""), ("GET", f"{piece.path}/nowhere", b""),
                                           ("POST", f"{piece.path}/report", b"x" * 3_000))
                for headers in ({}, PAGE)]  # fmt: skip
    assert [each.status_code for each in failures] == [405, 405, 404, 404, 413, 413]
    assert ["<html" in each.text for each in failures] == [False, True] * 3
    for answer in [*answers, *failures, piece.get("/visit"), http.post("/gift", data={"code": NOBODYS})]:
        for name, value in {
            "Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer",
            "X-Frame-Options": "DENY",
        }.items():  # fmt: skip
            assert answer.headers[name] == value


def test_the_button_shows_the_card_every_time(container: Container, owner: Account, clock: Clock) -> None:
    ids = issue_order_cards(container, send_giftcards(owner, recipients=people(2)))
    piece, other = (Piece(container, owner.http, each) for each in ids)
    # Without a page to visit there is nothing to visit.
    assert (piece.get("/visit").headers["Location"], piece.row.visited_at) == (piece.path, None)
    for method in ("GET", "HEAD"):  # a phone that opens the shown card again finds the way to it
        led = piece.http.request(method, f"{piece.path}/claim", follow_redirects=False)
        assert (led.status_code, led.headers["Location"]) == (303, piece.path)
    odd = piece.http.get("/gift/%2F%0A..%3F/claim", follow_redirects=False)
    assert odd.status_code == 404 or odd.headers["Location"].startswith("/gift/%")
    assert piece.row.claimed_at is None
    shown = piece.post("/claim")
    for word in (piece.code, f"PIN {piece.card.pin}", "Good until May 4, 2027", "not worth anything"):
        assert word in words(shown)
    assert_hides(shown, "Redeem it now", other.code)
    assert piece.post("/claim").text == shown.text
    assert (other.row.claimed_at, other.row.opened_at) == (None, None), "the claim of one piece shows no other"
    page = piece.get()
    assert_shows(page, "Show my gift card again")
    assert_hides(page, piece.code)
    piece.put(mode="live")
    assert_hides(piece.get(), "not worth anything")
    # A card may be a page of its issuer.
    piece.put_card(CardSecret(url="https://issuer.example/c/abc?x=1&y=2"))
    shown = piece.post("/claim")
    link = '<a class="button first" href="https://issuer.example/c/abc?x=1&amp;y=2" target="_blank" rel="nor'
    assert_shows(shown, link)
    assert "PIN" not in words(shown)
    piece.put_card(CardSecret(code="<i>1</i>", url="javascript:alert(1)"))
    shown = piece.post("/claim")
    assert_shows(shown, "&lt;i&gt;1&lt;/i&gt;")
    assert_hides(shown, "javascript:")


def test_a_card_that_cannot_be_shown_has_a_page_that_says_so(container: Container, piece: Piece) -> None:
    for status in ("asked", "refused"):
        piece.put(status=status)
        assert "This card is not ready yet." in words(piece.get())
        assert piece.is_refused()
    sealed = piece.row.card_sealed
    piece.put(status="issued", card_sealed=b"no seal at all")
    broken = piece.post("/claim")
    assert (broken.status_code, "Your card cannot be shown just now." in words(broken)) == (500, True)
    assert piece.row.claimed_at is None
    piece.put(card_sealed=sealed)
    run(container, giftcard_tasks.void_cards, [piece.id], reason="Lost", now=container.clock())
    page = piece.get()
    assert page.status_code == 410
    for word in ("This gift card is no longer valid.", "Ask Dana Whitfield:"):
        assert word in words(page)
    assert piece.is_refused()
    assert piece.get("/report").headers["Location"] == piece.path


def test_nothing_is_noted_for_programs_that_come_ahead(container: Container, owner: Account) -> None:
    piece = piece_of(container, owner, landing_page_url=SHOP)
    before = piece.row
    for headers in ({"Sec-Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}, {"X-Moz": "prefetch"},
                    {"X-Purpose": "preview"}, {"User-Agent": "WhatsApp/2.23.20.0"},
                    {"User-Agent": "curl/8.5.0"}, {"User-Agent": "Mozilla/5.0 (compatible; bingbot/2.0)"},
                    {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}):  # fmt: skip
        assert piece.get(**headers).status_code == 200
        led = piece.get("/visit", **headers)
        assert (led.status_code, led.headers["Location"]) == (303, piece.path)
    for path in ("", "/visit", "/report"):
        assert piece.http.head(piece.path + path, follow_redirects=False).content == b""
    assert piece.row == before
    piece.get(**{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
    assert piece.row.opened_at is not None


def test_a_page_to_visit_first_is_shown_and_learns_nothing(container: Container, clock: Clock, owner: Account) -> None:
    piece = piece_of(container, owner, landing_page_url=SHOP)
    page, not_yet = piece.get(), "You have not been at shop.example yet."
    for word in ("First, visit shop.example .", "Continue"):
        assert word in words(page)
    assert_shows(page, f'href="{piece.path}/visit" target="_blank" rel="noreferrer noopener"')
    assert_shows(page, f'<form method="get" action="{piece.path}">')
    assert_hides(page, "/claim")
    early = piece.post("/claim")
    assert (early.status_code, "First, visit" in early.text) == (409, True)
    assert_hides(early, piece.code)
    assert [not_yet in words(each) for each in (page, early, piece.get("?from=here"))] == [False, True, True]
    led = piece.get("/visit")
    assert (led.status_code, led.headers["Location"]) == (303, SHOP_LED_TO)
    assert led.headers["Referrer-Policy"] == "no-referrer"
    assert piece.claim not in str(led.headers["Location"])
    assert piece.row.visited_at == clock.now()
    assert_shows(piece.get(), "Show my gift card")
    assert_shows(piece.post("/claim"), piece.code)
    assert piece.get("/visit").headers["Location"] == SHOP_LED_TO


def test_a_sample_says_that_it_is_one(http: TestClient) -> None:
    for code in (SPECIMEN_CLAIM, SPECIMEN_CLAIM.lower(), format_claim(SPECIMEN_CLAIM)):
        page = http.get(f"/gift/{code}")
        assert (page.status_code, "This is a sample." in page.text) == (200, True)
        assert http.post(f"/gift/{code}/claim").text == page.text


def test_a_report_locks_only_a_card_that_nobody_has_seen(container: Container, owner: Account, clock: Clock) -> None:
    ids = issue_order_cards(container, send_giftcards(owner, recipients=people(2)))
    piece, shown = (Piece(container, owner.http, each) for each in ids)
    assert_shows(piece.get("/report"), "It was lost or stolen", "The card will be locked.")
    assert_shows(piece.post("/report", what="boredom"), "Choose what is wrong.", status=422)
    assert piece.row.reported_at is None
    done = piece.post("/report", what="lost")
    assert (done.status_code, done.headers["Location"]) == (303, piece.path)
    for word in ("It was reported (“It was lost or stolen”)", "Dana Whitfield has been told"):
        assert word in words(piece.get())
    assert piece.is_refused()
    piece.post("/report", what="broken")
    [letter] = execute(container, sa.select(notices).where(notices.c.account_id == owner.id))
    assert "It was lost or stolen" in letter.words
    assert piece.claim not in str(letter)
    shown.post("/claim")
    assert_hides(shown.get("/report"), "The card will be locked.")
    shown.post("/report", what="broken")
    assert_shows(shown.post("/claim"), shown.code)
    assert "You reported: “The code does not work”." in words(shown.get())
    assert shown.get("/report").headers["Location"] == shown.path


def test_no_log_or_metric_shows_it(build: Build, owner: Account, piece: Piece, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the page breaks in the middle."""
    http = TestClient(create_app(build()), raise_server_exceptions=False)
    code, pin, lines = piece.code, str(piece.card.pin), io.StringIO()
    configure_logging(as_json=True, level="debug")
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(lines))
    for path in ("", "/visit", "/report"):
        http.get(piece.path + path, follow_redirects=False)
    assert_shows(http.post(f"{piece.path}/claim"), code)

    def broken(_encryptor: object, context: str, _sealed: bytes) -> CardSecret:
        raise ValueError(f"{context} of {http.base_url}{piece.path} in {format_claim(piece.claim)}: {piece.claim}")

    monkeypatch.setattr(issuance, "decrypt_card", broken)
    assert http.post(f"{piece.path}/claim").status_code == 500
    logged = lines.getvalue()
    assert '"route": "/gift/{code}/claim"' in logged
    assert "/gift/[hidden] in [hidden]: [hidden]" in logged
    metrics = http.get("/metrics").text
    for secret in (piece.claim, format_claim(piece.claim), code, f'"{pin}"'):
        assert secret not in logged
        assert secret not in metrics


def test_no_claim_begins_as_the_ids_do_that_logs_show(monkeypatch: pytest.MonkeyPatch) -> None:
    timed, good = b"\x01" * 16, b"\x41" * 16
    assert encode_claim(timed).startswith("01")
    drawn = iter([timed, timed, good])
    monkeypatch.setattr(secrets, "token_bytes", lambda _: next(drawn))
    assert issuance.new_claim() == encode_claim(good)


SPELLINGS: list[Callable[[str, str], str]] = [
    lambda claim, _: claim, lambda claim, _: claim.lower(), lambda _, printed: printed,
    lambda _, printed: printed.replace("-", " "), lambda claim, _: f"/gift/{claim[:-3]}",
    lambda _, printed: f"/gift/{printed[:12]}", lambda claim, _: f"%2Fgift%2F{claim}",
    lambda _, printed: f"{printed[:15]} / {printed[16:]}", lambda _, printed: f"{printed[:15]}\\n{printed[16:]}",
    lambda _, printed: printed.replace("-", "\u2011"), lambda _, printed: printed.replace("-", "%20"),
    lambda _, printed: printed.replace("-", " - "),
]  # fmt: skip


def test_claims_are_hidden_wherever_they_stand_and_nothing_else_is() -> None:
    for _ in range(100):
        claim = issuance.new_claim()
        for spell in SPELLINGS:
            hidden = hide_secrets(f'GET "{spell(claim, format_claim(claim))}" 200')
            assert hidden in ('GET "[hidden]" 200', 'GET "/gift/[hidden]" 200', 'GET "%2Fgift%2F[hidden]" 200')
        assert (
            hide_secrets(f"https://x.example/gift/{claim}/report?a=1") == "https://x.example/gift/[hidden]/report?a=1"
        )
        assert hide_secrets(f"\\n{claim}") == "\\n[hidden]"
    for text in ("01J9ZQ4Y8V3N6T2K5M7P0R1S4X", "12345678901234567890123456", "/gift/summer-sale", "/gift",
                 "/gift/{code}/claim", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "2" * 25 + "A" * 5,
                 "0123456789abcdef0123456789abcdef", "in 01J9ZQ4Y8V3N6T2K5M7P0R1S4X",
                 "Request 3f2504e0-4f89-41d3-9a0c-0305e82c3301 failed",
                 "on a 4x6 postcard that prints at 102", "on a 4x6 card it is 6x9 on a letter",
                 "over that place with that place", "1763320000000 1763320000001"):  # fmt: skip
        assert hide_secrets(text) == text
    for written in ("7ZK4MB0QWX9TF HN2CVRE5JD8AG", "7ZK4MB0QWX9TF\nHN2CVRE5JD8AG", "7ZK4MB0QWX9TF\\nHN2CVRE5JD8AG",
                    "7ZK4 MB0Q WX9T FHN2 CVRE 5JD8 AG", "7ZK4M-B0QWX-9TFHN-2CVRE-5JD8A-G",
                    "OZK4MB0QWX9TFHN2CVRE5JD8AG", "lzk4-mb0q-wx9tf-hn2c-vre5-jd8ag",
                    "7ZK4-MB0QWX9TF HN2CVRE5 JD8AG"):  # fmt: skip
        assert parse_claim("".join(written.replace("\\n", "\n").split())) is not None
        assert hide_secrets(f'In the letter of May 4 it is "{written}", they say') == (
            'In the letter of May 4 it is "[hidden]", they say'
        )
        assert hide_secrets(f"The code {written} is wrong") == "The code [hidden] is wrong"
