"""Where the postal service pushes scans and a print partner calls back: only with the token or the signature, and what
is said twice happens once."""

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.text import format_iso
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.orders.models import Order
from quillpost.web.application import create_app
from quillpost.web.public.webhooks import endpoints as webhook_endpoints
from support import production
from support.factories import Build, Clock, people, run_due_jobs
from support.orders import balances, create_order, item_rows, open_account
from support.production import LIVE_SETTINGS, batch_rows, mailed_order, print_rows, scan_journey, statuses
from support.rows import execute, run, scalar
from support.test_client import TestClient

CARRIER = "/hooks/carrier/iv-mtr"
TOKEN = "open-sesame-and-close-again"
EVENT = {"imb": "00310555555000000001", "scanDatetime": "2026-05-05T12:00:00Z", "mailPhase": "1"}

SECRET, NEW, STRANGERS = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"a", b"b", b"c"))
PATH = "/hooks/print/acme"
SETTINGS = LIVE_SETTINGS | {"print_partner_name": "acme", "print_secret": f"{NEW} {SECRET}"}


@contextmanager
def served(container: Container) -> Iterator[TestClient]:
    with TestClient(create_app(container), raise_server_exceptions=False) as http:
        yield http


@dataclass
class Carrier:
    http: TestClient
    container: Container

    def push(self, body: Any, authorization: str | bytes = f"Bearer {TOKEN}") -> Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        proof = authorization if isinstance(authorization, bytes) else authorization.encode("latin-1")
        return self.http.post(CARRIER, content=data, headers={b"Authorization": proof})

    def inbox(self) -> list[str]:
        """The pushes that wait to be read."""
        return list(self.container.storage.store.keys("tracking/inbox/"))

    def empty(self) -> None:
        for key in self.inbox():
            self.container.storage.store.delete(key)


@pytest.fixture
def carrier(build: Build) -> Iterator[Carrier]:
    container = build(carrier_token=TOKEN, body_bytes=100_000)
    with served(container) as http:
        yield Carrier(http, container)


def basic(password: str, name: str = "usps") -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_scans_that_are_pushed_move_their_pieces(carrier: Carrier, clock: Clock) -> None:
    container = carrier.container
    order = mailed_order(container, open_account(container))
    scans = [json.loads(scan.raw) for scan in scan_journey(container, *production.tracking_codes(container, order))]
    for _ in range(2):  # the same push twice is one file and one poll
        answer = carrier.push({"events": scans})
        assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    assert len(carrier.inbox()) == 1
    polls = sa.text("select count(*) from procrastinate_jobs where task_name = 'tracking.poll_carriers'")
    assert scalar(container, polls) == 1
    assert statuses(container, order) == ["Printed"]
    clock.advance(days=5)
    run_due_jobs(container)
    assert (statuses(container, order), carrier.inbox()) == (["Delivered"], [])


def test_only_the_carrier_s_token_lets_a_push_in(carrier: Carrier, build: Build) -> None:
    for proof in (f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(TOKEN), basic(TOKEN, name="")):
        assert carrier.push([EVENT], proof).status_code == 202
        assert len(carrier.inbox()) == 1
        carrier.empty()
    for proof in (
        "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, basic("wrong"), basic("", TOKEN),
        "Basic ???", f"Digest {TOKEN}", "Bearer sésame",
    ):  # fmt: skip
        refused = carrier.push([EVENT], proof)
        assert (refused.status_code, refused.json()) == (401, {"message": "Unauthenticated."}), proof
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert carrier.inbox() == []
    with served(build()) as http:  # without a configured token the endpoint is closed
        closed = Carrier(http, carrier.container)
        refused = closed.push([EVENT])
        assert (refused.status_code, "QUILLPOST_CARRIER_TOKEN" in refused.json()["message"]) == (404, True)
        assert closed.push([EVENT], "Bearer ").status_code == 404


def test_too_many_wrong_tokens_are_rate_limited(build: Build) -> None:
    container = build(carrier_token=TOKEN, calls_a_minute=3)
    with served(container) as http:
        carrier = Carrier(http, container)
        assert [carrier.push([EVENT], "Bearer guess").status_code for _ in range(5)] == [401, 401, 401, 429, 429]
        assert carrier.push([EVENT]).status_code == 202


def test_one_good_row_is_enough_and_a_body_without_a_scan_is_refused(carrier: Carrier) -> None:
    for body in (
        b"", b"hello", b"imb,scanDatetime\n1,2\n", b"{}", b"[1, 2]", b'{"events": [{"imb": "12"}]}', b'{"events":',
        b"\x1f\x8bdamaged", b"\xff\xfe\x00",
    ):  # fmt: skip
        refused = carrier.push(body)
        assert (refused.status_code, [*refused.json()["errors"]]) == (422, ["body"]), body
        assert refused.json()["message"].endswith(".")
    assert carrier.push({"events": []}).status_code == 202, "a sign of life"
    assert carrier.push([EVENT] * 2_000).status_code == 413
    assert carrier.inbox() == []
    for taken in ({"events": [{"imb": "12"}, EVENT]}, gzip.compress(json.dumps([EVENT]).encode())):
        assert carrier.push(taken).status_code == 202
        assert len(carrier.inbox()) == 1
        carrier.empty()


@dataclass
class Partner:
    """Signs as it should, unless it is told otherwise. Has one batch of three pieces in its hands."""

    http: TestClient
    container: Container
    clock: Clock
    batch_id: int
    order: Order

    @property
    def reference(self) -> str:
        return f"batch-{self.batch_id:06d}"

    def body(self, event: str, **changes: Any) -> bytes:
        usual = {"reference": self.reference, "event": event, "at": format_iso(self.clock.now())}
        return json.dumps(usual | changes).encode()

    def call(self, event: str, **changes: Any) -> Response:
        return self.send(self.body(event, **changes))

    def send(self, body: bytes, *, secret: str = SECRET, path: str = PATH, late: timedelta = timedelta(0)) -> Response:
        at = self.clock.now() - late
        headers = signatures.sign([secret], message_id="msg_1", at=at, body=body)
        return self.http.post(path, content=body, headers=headers)

    def hand_over(self) -> None:
        batch_tasks.hand_over_batch(self.container.production, self.batch_id, now=self.container.clock())

    def batch(self) -> sa.Row[Any]:
        return next(row for row in run(self.container, batch_rows) if row.id == self.batch_id)

    def put(self, **columns: Any) -> None:
        execute(self.container, sa.update(batches).values(**columns))

    def statuses(self) -> list[tuple[str, str | None]]:
        return [(item.status, item.failure) for item in run(self.container, item_rows, self.order)]


@pytest.fixture
def early(build: Build, clock: Clock) -> Iterator[Partner]:
    """Before the handover."""
    container = build(**SETTINGS)
    order = create_order(container, open_account(container, mode="live"), people(3))
    production.sweep_due_orders(container, clock)
    batch_id = int(run(container, batch_rows)[-1].id)
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    with served(container) as http:
        yield Partner(http, container, clock, batch_id, order)


@pytest.fixture
def partner(early: Partner) -> Partner:
    early.hand_over()
    return early


def test_a_batch_goes_from_word_to_word(early: Partner) -> None:
    partner = early
    answer = partner.call("acknowledged")  # before the handover it must be sent again
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "5")
    partner.hand_over()
    for secret in (SECRET, NEW):  # both are believed while one is changed
        answer = partner.send(partner.body("acknowledged"), secret=secret)
        assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    assert partner.batch().acknowledged_at == partner.clock.now()
    partner.clock.advance(hours=1)
    ahead = partner.clock.now() + timedelta(minutes=4)  # a clock that runs ahead loses nothing
    assert partner.call("printed", at=format_iso(ahead)).status_code == 202
    assert partner.statuses() == [("Printed", None)] * 3
    assert partner.batch().printed_at == partner.clock.now()
    partner.clock.advance(hours=1)
    body = {"reference": partner.reference, "event": "mailed"}  # one that names no time means now
    assert partner.send(json.dumps(body).encode()).status_code == 202
    assert (partner.batch().status, partner.batch().mailed_at) == ("mailed", partner.clock.now())


def test_spoiled_pieces_are_named_by_item_barcode_or_place(partner: Partner) -> None:
    first, second, third = run(partner.container, print_rows, partner.order)
    spoiled = [
        {"item_id": first.item_id, "reason": "Torn"}, {"tracking": second.tracking, "reason": "Smeared"},
        {"position": third.position},
    ]  # fmt: skip
    assert partner.call("printed", spoiled=spoiled).status_code == 202
    assert partner.statuses() == [("Failed", "Torn"), ("Failed", "Smeared"), ("Failed", "Spoiled in printing")]


def test_a_repeated_event_takes_effect_once(partner: Partner) -> None:
    spoiled = [{"position": 1, "reason": "Torn"}]
    for _ in range(2):
        assert partner.call("spoiled", spoiled=spoiled).status_code == 202
    for _ in range(2):
        assert partner.call("printed").status_code == 202
    once = run(partner.container, balances, partner.order)
    for event in ("printed", "acknowledged", "mailed", "printed"):
        assert partner.call(event, spoiled=spoiled).status_code == 202
    assert run(partner.container, balances, partner.order) == once
    assert partner.statuses() == [("Failed", "Torn"), ("Printed", None), ("Printed", None)]
    assert partner.batch().status == "mailed"


def test_what_is_wrong_is_named_and_what_is_forged_or_old_changes_nothing(partner: Partner) -> None:
    for changes, field in WRONG:
        answer = partner.call(**{"event": "printed"} | changes)
        assert (answer.status_code, list(answer.json().get("errors", []))) == (422, [field]), changes
        assert answer.json()["message"].endswith(".")
    for body in (b"", b"no json", b"[]", b"7", b"\xff", b"[" * 10_000, b'{"a":1,"a":1}'):
        answer = partner.send(body)
        assert (answer.status_code, answer.json().keys()) == (422, {"message", "errors"}), body
    assert partner.send(b"[]").json()["errors"] == {"body": ["This must be an object."]}
    assert partner.send(b" " * (webhook_endpoints.MAX_PARTNER_BODY_BYTES + 1)).status_code == 413
    assert partner.statuses() == [("Processing", None)] * 3
    body = partner.body("printed")
    signed = signatures.sign([SECRET], message_id="m", at=partner.clock.now(), body=body)
    answers = [
        partner.send(body, secret=STRANGERS), partner.send(body, late=timedelta(minutes=6)),
        partner.send(body, late=-timedelta(minutes=6)), partner.http.post(PATH, content=body),
        partner.http.post(PATH, content=body.replace(b"printed", b"mailed!"), headers=signed),
        partner.http.post(PATH, content=body, headers=signed | {"webhook-id": "another"}),
        partner.http.post(PATH, content=body, headers=signed | {"webhook-signature": ""}),
    ]  # fmt: skip
    assert {answer.status_code for answer in answers} == {401}
    assert answers[0].json() == {"message": "The signature does not fit this body, or is too old."}
    answer = partner.http.get(PATH)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST, OPTIONS")
    assert partner.statuses() == [("Processing", None)] * 3


def test_what_is_not_this_partner_s_is_not_found(partner: Partner, build: Build) -> None:
    for path in ("/hooks/print/partner", "/hooks/print/ACME", "/hooks/print/%00"):
        answer = partner.send(b"{}", path=path)
        assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})
    for reference in ("batch-999999", "batch-999999999999999999"):
        assert partner.call("printed", reference=reference).status_code == 404
    partner.put(mode="test")
    assert partner.call("printed").status_code == 404
    partner.put(mode="live", partner="sftp://press@print.example.com/in")
    answer = partner.call("printed")
    assert (answer.status_code, answer.json()["message"]) == (409, "This batch was handed to another partner.")
    assert "Retry-After" not in answer.headers  # it is final
    assert partner.batch().status == "handed"
    assert partner.statuses() == [("Processing", None)] * 3
    settings: list[dict[str, str]] = [{}, LIVE_SETTINGS, {"print_secret": SECRET}]
    for each in settings:  # without a partner and its secret there is no endpoint
        with served(build(**each)) as http:
            assert http.post("/hooks/print/partner", content=b"{}").status_code == 404


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"reference": None}, "reference"), ({"reference": "batch-7"}, "reference"),
    ({"reference": "batch-٠٠٠٠٠٧"}, "reference"), ({"reference": 7}, "reference"), ({"event": "eaten"}, "event"),
    ({"event": None}, "event"), ({"at": "yesterday"}, "at"), ({"at": 7}, "at"),
    ({"at": "0001-01-01T00:00:00+14:00"}, "at"), ({"at": "2926-01-01T00:00:00Z"}, "at"), ({"spoiled": {}}, "spoiled"),
    ({"event": "spoiled"}, "spoiled"), ({"spoiled": [{"reason": "Torn"}]}, "spoiled.0"),
    ({"spoiled": [{"position": 1, "item_id": 1}]}, "spoiled.0"), ({"spoiled": [{"position": 4}]}, "spoiled.0.position"),
    ({"spoiled": [{"position": 2**40}]}, "spoiled.0.position"),
    ({"spoiled": [{"item_id": 2**63 - 1}]}, "spoiled.0.item_id"),
    ({"spoiled": [{"item_id": 2**63}]}, "spoiled.0.item_id"),
    ({"spoiled": [{"tracking": "00310123456789000000"[::-1]}]}, "spoiled.0.tracking"),
    ({"spoiled": [{"position": 1}, {"position": 1, "reason": "x" * 201}]}, "spoiled.1.reason"),
    ({"spoiled": [{"position": 1, "reason": "a\0b"}]}, "spoiled.0.reason"),
    ({"spoiled": [{"position": 1}] * 5_001}, "spoiled"),
]  # fmt: skip
