"""A whole journey of gift cards, and all that it leaves: what they are claimed and redeemed with is nowhere
but on the piece, on its claim page, and in an operator's audited download."""

import base64
import gzip
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import sql

from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.orders.giftcards.service import REPORT_REASONS
from support.event_receiver import EventReceiver
from support.factories import make_account, make_operator, people
from support.giftcard_servers import FUNDING_SOURCE, TREMENDOUS_KEY, TremendousServer
from support.leak_detector import Detector, find_secrets, read_file
from support.orders import HOME
from support.processes import Command, CommandRunner, answers, free_port, until
from support.production import LIVE_SETTINGS
from support.qr_scans import PHONE
from support.sender_service import SenderService, open_sender_service

SHOP = "https://shop.example.com/spring?from=card"
GIFT = {"giftcard_brand": "brindlewick", "giftcard_amount": 2_500, "message": "For you, %FIRST_NAME%!"}
PIN = "PIN-83125-90472-66318"
"""Longer than those that testing mode makes up, which may stand anywhere by chance."""
STOCK = {"stock code": "BOUGHT-7Q2M-X4KD-93TP", "stock pin": "PIN-55018-27364-41990"}
LINK = re.compile(r"https?://[^\s\"'<>\\]+/files/[^\s\"'<>\\]+")


class Journey:
    """Calls a real server and runs commands, and shows the detector every answer and all that they say."""

    def __init__(self, sender_service: SenderService, runner: CommandRunner, port: int) -> None:
        self.sender_service, self.detector = sender_service, Detector()
        self._command_runner, self._followed = runner, set[str]()
        self.operator = make_operator(sender_service.container, sender_service.sender.http)
        url = f"http://127.0.0.1:{port}"
        self._running = [self.start("serve", "--no-jobs", "--port", str(port)), self.start("work")]
        until(lambda: answers(url), what="the service ready")
        self._http = httpx2.Client(base_url=url, headers={"User-Agent": PHONE}, timeout=60)

    def visit(
        self, method: str, path: str, *, token: str | None = None, may_show: str = "", **how: Any
    ) -> httpx2.Response:
        """Links in the answer are followed."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = self._http.request(method, path, headers=headers, **how)
        self.detector.see(f"{method} {path}: head", f"{answer.status_code} {answer.headers}", may_show=may_show)
        self.detector.see_file(f"{method} {path}", answer.content, may_show=may_show)
        if answer.headers.get("Content-Type", "").startswith("application/json"):
            for link in sorted({*LINK.findall(answer.text)} - self._followed):
                self._followed.add(link)
                self.visit("GET", link)
        return answer

    def start(self, *words: str) -> Command:
        return self._command_runner.start(*words, settings=self.sender_service.settings)

    def run(self, *commands: tuple[str, ...]) -> None:
        """All at once; the detector sees what they say."""
        for words, command in [(words, self.start(*words)) for words in commands]:
            assert command.wait() == 0, f"{words}: {command.output}"
            self._see(words, command)

    def run_in_vain(self, *words: str) -> None:
        command = self.start(*words)
        assert command.wait() not in (0, None), f"{words}: {command.output}"
        self._see(words, command)

    def _see(self, words: tuple[str, ...], command: Command) -> None:
        self.detector.see(f"quillpost {' '.join(words)}", command.output)
        assert "Traceback" not in command.output

    def send(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """A call of the sender's."""
        return self.visit(method, f"/api/v2{path}", token=self.sender_service.sender.token, json=body)

    def operate(self, path: str, **how: Any) -> httpx2.Response:
        return self.visit("GET", f"/api/v2{path}", token=self.operator.token, **how)

    def cards(self) -> dict[int, tuple[str, CardSecret]]:
        """The claim and the card of each piece with a card, as only the key's holder can read them."""
        encryptor, found = self.sender_service.container.encryptor, {}
        query = (
            "select item_id, claim_sealed, card_sealed from giftcards where card_sealed is not null order by item_id"
        )
        for item, claim, card in self.sender_service.rows(query):
            opened = issuance.decrypt_card(encryptor, issuance.card_context(item), bytes(card))
            found[item] = issuance.decrypt_claim(encryptor, item, bytes(claim)), opened
        return found

    def stop(self) -> None:
        """Once more changes nothing."""
        for process in self._running:
            process.stop()
        self._http.close()
        for name, process in zip(("server", "worker"), self._running, strict=True):
            self.detector.see(f"the log of the {name}", process.output)


@pytest.fixture
def journey(conninfo: str, home: Path, receiver: EventReceiver, runner: CommandRunner) -> Iterator[Journey]:
    port = free_port()
    settings = {"QUILLPOST_LOG_LEVEL": "debug", "QUILLPOST_BASE_URL": f"http://127.0.0.1:{port}"}
    with open_sender_service(conninfo, home, receiver, **settings) as sender_service:
        journey = Journey(sender_service, runner, port)
        yield journey
        journey.stop()


def test_the_detector_finds_a_secret_however_it_is_written() -> None:
    code = "7ZK4MB0QWX9TFHN2CVRE5JD8AG"
    forms = (
        code, code.lower(), format_claim(code), format_claim(code).lower().replace("-", " "), f"/gift/{code}?x=1",
        code.encode().hex(), format_claim(code).encode().hex().upper(), "".join(f"{sign}\0" for sign in code),
        *(base64.b64encode(f"{'x' * shift}{code}xyz".encode()).decode() for shift in range(4)),
        base64.urlsafe_b64encode(f"no. {format_claim(code)}".encode()).decode(),
    )  # fmt: skip
    for form in forms:
        assert find_secrets(f"before {form} after".encode(), {"claim": code}) == ["claim"], form
    assert find_secrets(f"{code[:25]} {SPECIMEN_CLAIM}".encode(), {"claim": code}) == []


def test_what_cards_are_redeemed_with_is_nowhere_else(journey: Journey, tmp_path: Path, conninfo: str) -> None:
    sender_service, detector = journey.sender_service, journey.detector
    body = GIFT | {"recipients": people(3), "notification_emails": ["dana@example.com"]}
    body["landing_page_url"] = SHOP
    assert journey.send("POST", "/send/giftcard", body | {"preview": True}).status_code == 200
    sent = journey.send("POST", "/send/giftcard", body)
    assert sent.status_code == 200, sent.text
    order = sent.json()["id"]
    sender_service.wait_for_the_end()
    cards = give_long_pins(journey)
    [(batch,)] = sender_service.rows("select id from batches")
    look_at_everything(journey, order, list(cards), batch)

    (kept, claimed, card), (_, reported, _), (void, taken_back, _) = (
        (item, claim, card) for item, (claim, card) in cards.items()
    )
    shown = claim_cards(journey, claimed, reported, taken_back, kept, void)
    assert find_secrets(shown.content, {"card": str(card.code), "pin": PIN}) == ["card", "pin"]
    ask_wrongly(journey, claimed)
    look_at_everything(journey, order, [kept, void], batch)
    printed = journey.operate(f"/print/batches/{batch}/files/print.pdf", may_show="claim")
    sender_service.wait_for_the_end()
    [(another, reissued)] = ((item, card) for item, card in journey.cards().items() if item not in cards)
    [(new_order, new_batch)] = sender_service.rows("select (select max(id) from orders), (select max(id) from batches)")
    assert (order, batch) < (new_order, new_batch)
    look_at_everything(journey, new_order, [void, another], new_batch)
    at_the_command_line(journey, batch, tmp_path)
    journey.stop()

    for event in sender_service.received():
        detector.see("an event", f"{event.headers} {event.body.decode()}")
    see_tables(detector, conninfo)
    see_folder(detector, Path(sender_service.settings["QUILLPOST_HOME"]))
    see_backup(detector, tmp_path / "monday.qpb")

    secrets = {f"claim {item}": claim for item, (claim, _) in cards.items()}
    assert_both_on_paper(printed.content, secrets)
    secrets[f"claim {another}"] = reissued[0]
    everyone = cards | {another: reissued}
    secrets |= {f"card {item}": str(card.code) for item, (_, card) in everyone.items()}
    assert detector.leaks(secrets | {"pin": PIN} | STOCK) == []
    assert_much_was_seen(detector)


@pytest.mark.long
def test_nor_is_what_a_house_issues_for_live_mail(
    conninfo: str, home: Path, receiver: EventReceiver, runner: CommandRunner, tmp_path: Path
) -> None:
    """A link of the house's is the card; a partner's folder has the claim, and nothing else of it."""
    partner, port = tmp_path / "partner", free_port()
    partner.mkdir()
    with TremendousServer() as house:
        settings = {
            "QUILLPOST_LOG_LEVEL": "debug",
            "QUILLPOST_REVIEW_SECONDS": "0",
            "QUILLPOST_GIFTCARDS": f"tremendous:{house.url()}",
            "QUILLPOST_GIFTCARDS_KEY": TREMENDOUS_KEY,
            "QUILLPOST_GIFTCARDS_ACCOUNT": FUNDING_SOURCE,
            **{f"QUILLPOST_{name.upper()}": str(value) for name, value in LIVE_SETTINGS.items()},
            "QUILLPOST_PRINT_PARTNER": f"file://{partner}",
        }
        with open_sender_service(conninfo, home, receiver, **settings) as sender_service:
            sender = make_account(sender_service.container, sender_service.sender.http, "live@example.com", mode="live")
            journey = Journey(sender_service, runner, port)
            sent = sender.send("giftcard", **GIFT | HOME)
            assert sent.status_code == 200, sent.text
            until(lambda: sender_service.rows("select 1 from batches where status = 'handed'"), what="a job")
            [(piece, (claim, card))] = journey.cards().items()
            shown = journey.visit("POST", f"/gift/{claim}/claim", may_show="claim card")
            assert card.url is not None
            assert card.url in shown.text
            for path in (f"/orders/{sent.json()['id']}", f"/order-items/{piece}", "/orders/stats"):
                journey.visit("GET", f"/api/v2{path}", token=sender.token)
            journey.run(("print", "show", "1"), ("giftcards", "list"), ("backup", str(tmp_path / "live.qpb")))
            journey.stop()
    see_tables(journey.detector, conninfo)
    see_folder(journey.detector, home)
    see_backup(journey.detector, tmp_path / "live.qpb")
    for file in sorted(each for each in partner.rglob("*") if each.is_file()):
        may_show = "claim" if file.name == "print.pdf" else ""
        journey.detector.see_file(f"partner {file.name}", file.read_bytes(), may_show=may_show)
    assert house.secrets == [card.url]
    assert_both_on_paper(next(partner.rglob("print.pdf")).read_bytes(), {"claim": claim})
    assert journey.detector.leaks({"claim": claim, "card": card.url}) == []


def give_long_pins(journey: Journey) -> dict[int, tuple[str, CardSecret]]:
    """Four digits are found anywhere: from here on the cards have a PIN that is not."""
    encryptor = journey.sender_service.container.encryptor
    changed = {
        item: (claim, CardSecret(code=card.code, pin=PIN, expires_on=card.expires_on))
        for item, (claim, card) in journey.cards().items()
    }
    with psycopg.connect(journey.sender_service.container.db.conninfo) as db:
        for item, (_, card) in changed.items():
            sealed = issuance.encrypt_card(encryptor, issuance.card_context(item), card)
            db.execute("update giftcards set card_sealed = %s where item_id = %s", (sealed, item))
    return changed


def look_at_everything(journey: Journey, order: int, items: list[int], batch: int) -> None:
    """As a sender and as an operator."""
    own = (f"/orders/{order}{more}" for more in ("", "/items", "/track", "/proof"))
    more = (f"/order-items/{item}" for item in items)
    lists = ("/orders", "/orders/list", "/orders/stats", "/giftcard-brands", "/giftcard-brands-list", "/webhooks")
    for path in (*own, *more, *lists):
        assert journey.send("GET", path).status_code in (200, 302, 303, 307), path
    for path in ("/print/batches", f"/print/batches/{batch}", "/print/held"):
        assert journey.operate(path).status_code == 200
    for file in ("manifest.csv", "manifest.json", "envelopes.pdf", "statement.json"):
        assert journey.operate(f"/print/batches/{batch}/files/{file}").status_code == 200
    assert journey.visit("GET", "/metrics", token=journey.operator.token).status_code == 200
    preview = GIFT | {"recipients": people(1), "preview": True}
    assert journey.send("POST", "/send/giftcard", preview).status_code == 200


def claim_cards(
    journey: Journey, claimed: str, reported: str, taken_back: str, kept: int, void: int
) -> httpx2.Response:
    """One is claimed, after a look at the sender's page; one reported; one taken back, and another card sent
    in its place. The page that shows the first."""
    journey.visit("GET", "/gift")
    typed = journey.visit("POST", "/gift", data={"code": format_claim(claimed).lower()}, may_show="claim")
    assert typed.headers["Location"] == f"/gift/{claimed}"
    assert journey.visit("GET", f"/gift/{claimed}", may_show="claim").status_code == 200
    assert journey.visit("POST", f"/gift/{claimed}/claim", may_show="claim").status_code == 409
    assert journey.visit("GET", f"/gift/{claimed}/visit").headers["Location"] == SHOP
    shown = journey.visit("POST", f"/gift/{claimed}/claim", may_show="claim card pin")
    assert shown.status_code == 200

    assert journey.visit("GET", f"/gift/{reported}/report", may_show="claim").status_code == 200
    complaint = {"what": next(iter(REPORT_REASONS))}
    response = journey.visit("POST", f"/gift/{reported}/report", data=complaint, may_show="claim")
    assert response.status_code == 303, response.text
    assert journey.visit("POST", f"/gift/{reported}/claim", may_show="claim").status_code == 409

    path = f"/order-items/{void}/invalidate-giftcard"
    assert journey.send("PUT", path, {"reason": "Sent in error", "reissue": True}).status_code == 200
    assert journey.send("PUT", f"/order-items/{kept}/invalidate-giftcard").status_code >= 400
    assert journey.visit("POST", f"/gift/{taken_back}/claim", may_show="claim").status_code >= 400
    return shown


def ask_wrongly(journey: Journey, claim: str) -> None:
    """Somebody puts the code where it does not belong."""
    for method, path in (
        ("GET", f"/api/v2/orders/{claim}"), ("GET", f"/api/v2/order-items/{claim}?code={claim}"),
        ("GET", f"/nowhere/{claim}"), ("GET", f"/q/{claim}"), ("GET", f"/files/{claim}"),
        ("PUT", f"/gift/{claim}"), ("GET", f"/gift/{claim}/nowhere"), ("GET", f"/gift?code={claim}"),
    ):  # fmt: skip
        assert journey.visit(method, path, token=journey.sender_service.sender.token).status_code < 500
    for field in ("giftcard_brand", "message_template", "handwriting_color"):
        wrong = GIFT | {"recipients": people(1), field: format_claim(claim)}
        assert journey.send("POST", "/send/giftcard", wrong).status_code == 422


def at_the_command_line(journey: Journey, batch: int, folder: Path) -> None:
    bought = folder / "bought.csv"
    code, pin = STOCK["stock code"], STOCK["stock pin"]
    bought.write_text(f"brand,amount,code,pin\nbrindlewick,25.00,{code},{pin}\n")
    faulty = folder / "faulty.csv"
    faulty.write_text(f"{bought.read_text()}brindlewick,never,{code},{pin}\n,{code},{pin},\n")
    journey.run_in_vain("giftcards", "load", str(faulty))
    journey.run(
        ("giftcards", "load", str(bought)),
        ("doctor",),
        ("print", "list", "--all"),
        ("print", "show", str(batch)),
        ("print", "show", str(batch), "--json"),
        ("print", "download", str(batch), "--to", str(folder / "downloaded")),
        ("giftcards", "list"),
        ("retention",),
        ("audit", "--account", "operator@example.com"),
    )
    assert (folder / f"downloaded/batch-{batch:06d}-print.pdf").read_bytes().startswith(b"%PDF-")
    journey.run(("giftcards", "stock"), ("backup", str(folder / "monday.qpb")))


def see_tables(detector: Detector, conninfo: str) -> None:
    """Every row of every table, bytes as hexadecimal digits."""
    with psycopg.connect(conninfo) as db:
        tables = db.execute(
            """select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')"""
        ).fetchall()
        for schema, table in tables:
            rows = sql.SQL("copy {} to stdout").format(sql.Identifier(schema, table))
            with db.cursor() as cursor, cursor.copy(rows) as copied:
                detector.see(f"table {table}", b"".join(bytes(piece) for piece in copied))


def see_folder(detector: Detector, home: Path) -> None:
    for file in sorted(home.rglob("*")):
        if file.is_file():
            detector.see_file(f"file {file.relative_to(home)}", file.read_bytes())


def see_backup(detector: Detector, backup: Path) -> None:
    with gzip.open(backup) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as entries:
        whole = bytearray()
        for entry in entries:
            data = entries.extractfile(entry)
            assert data is not None
            content = data.read()
            whole += content
            detector.see_file(f"backup {entry.name}", content)
    detector.see("the backup", bytes(whole))


def assert_both_on_paper(printed: bytes, claims: dict[str, str]) -> None:
    """The claim of every piece is there to be typed, and to be scanned: so the detector would find it."""
    read: dict[str, set[str]] = {}
    for kind, data in read_file(printed):
        read.setdefault(kind, set()).update(find_secrets(data, claims))
    assert read["text"] == read["codes"] == set(claims)


def assert_much_was_seen(detector: Detector) -> None:
    """A journey that left nothing would leak nothing."""
    seen = {where: data for where, data, _ in detector.seen if data}
    for start in ("table giftcards", "table deliveries", "table notices", "file files/batches/", "an event",
                  "backup files/batches/", "backup database/", "quillpost doctor"):  # fmt: skip
        assert any(where.startswith(start) for where in seen), start
    assert "batches.composed" in seen["the log of the worker"].decode()
    assert "/gift/" in seen["the log of the server"].decode()
    specimens = [where for where, data in seen.items() if "(codes)" in where and SPECIMEN_CLAIM in data.decode()]
    assert any("/files/" in where for where in specimens), "a preview's or a proof's"
