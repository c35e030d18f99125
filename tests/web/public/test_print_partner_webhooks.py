"""Where a print partner calls back: only what it signed is believed, and what is said twice happens once."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.client import signatures
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.text import format_iso
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.orders.models import Order
from quillpost.web.application import create_app
from quillpost.web.public.webhooks import endpoints as webhook_endpoints
from support.factories import Build, Clock, people
from support.orders import balances, create_order, item_rows, open_account
from support.production import LIVE_SETTINGS, batch_rows, compose_batch, print_rows, sweep_due_orders
from support.test_client import TestClient

SECRET, NEW, STRANGERS = (
    "whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"a", b"b", b"c")
)  # fmt: skip
PATH = "/hooks/print/acme"
SETTINGS = LIVE_SETTINGS | {"print_partner_name": "acme", "print_secret": f"{NEW} {SECRET}"}


@dataclass
class Partner:
    """Signs as it should, unless it is told otherwise."""

    http: TestClient
    container: Container
    clock: Clock
    batch_id: int = 0
    order: Order | None = None

    @property
    def reference(self) -> str:
        return f"batch-{self.batch_id:06d}"

    def call(self, event: str, **changes: Any) -> Response:
        body = {"reference": self.reference, "event": event, "at": format_iso(self.clock.now())} | changes
        return self.send(json.dumps(body).encode())

    def send(self, body: bytes, *, secret: str = SECRET, path: str = PATH, late: timedelta = timedelta(0)) -> Response:
        at = self.clock.now() - late
        headers = signatures.sign([secret], message_id="msg_1", at=at, body=body)
        return self.http.post(path, content=body, headers=headers)

    def batch(self) -> sa.Row[Any]:
        with self.container.db.system_transaction() as tx:
            return next(row for row in batch_rows(tx) if row.id == self.batch_id)

    def statuses(self) -> list[tuple[str, str | None]]:
        assert self.order is not None
        with self.container.db.system_transaction() as tx:
            return [(item.status, item.failure) for item in item_rows(tx, self.order)]


@pytest.fixture
def partner(build: Build, clock: Clock) -> Iterator[Partner]:
    """With one batch of three pieces in its hands."""
    container = build(**SETTINGS)
    owner = open_account(container, mode="live")
    with TestClient(create_app(container), raise_server_exceptions=False) as http:
        batch_id, order = _composed(container, clock, owner)
        batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
        yield Partner(http, container, clock, batch_id, order)


def _composed(container: Container, clock: Clock, owner: Caller) -> tuple[int, Order]:
    order = create_order(container, owner, people(3))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        batch_id = int(batch_rows(tx)[-1].id)
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    return batch_id, order


def test_a_batch_goes_from_word_to_word(partner: Partner) -> None:
    answer = partner.call("acknowledged")
    assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    assert partner.batch().acknowledged_at == partner.clock.now()
    partner.clock.advance(hours=1)
    assert partner.call("printed").status_code == 202
    assert partner.statuses() == [("Printed", None)] * 3
    assert partner.batch().printed_at == partner.clock.now()
    partner.clock.advance(hours=1)
    assert partner.call("mailed").status_code == 202
    assert (partner.batch().status, partner.batch().mailed_at) == ("mailed", partner.clock.now())


def test_spoiled_pieces_are_named_by_item_barcode_or_place(partner: Partner) -> None:
    assert partner.order is not None
    with partner.container.db.system_transaction() as tx:
        first, second, third = print_rows(tx, partner.order)
    spoiled = [
        {"item_id": first.item_id, "reason": "Torn"},
        {"tracking": second.tracking, "reason": "Smeared"},
        {"position": third.position},
    ]
    assert partner.call("printed", spoiled=spoiled).status_code == 202
    assert partner.statuses() == [
        ("Failed", "Torn"), ("Failed", "Smeared"), ("Failed", "Spoiled in printing"),
    ]  # fmt: skip


def test_a_repeated_event_takes_effect_once(partner: Partner) -> None:
    spoiled = [{"position": 1, "reason": "Torn"}]
    for _ in range(2):
        assert partner.call("spoiled", spoiled=spoiled).status_code == 202
    for _ in range(2):
        assert partner.call("printed").status_code == 202
    with partner.container.db.system_transaction() as tx:
        assert partner.order is not None
        once = balances(tx, partner.order)
    for event in ("printed", "acknowledged", "mailed", "printed"):
        assert partner.call(event, spoiled=spoiled).status_code == 202
    with partner.container.db.system_transaction() as tx:
        assert balances(tx, partner.order) == once
    assert partner.statuses() == [("Failed", "Torn"), ("Printed", None), ("Printed", None)]
    assert partner.batch().status == "mailed"


def test_both_secrets_are_believed_while_one_is_changed(partner: Partner) -> None:
    body = {"reference": partner.reference, "event": "printed", "at": format_iso(partner.clock.now())}
    for secret in (SECRET, NEW):
        assert partner.send(json.dumps(body).encode(), secret=secret).status_code == 202


@pytest.mark.parametrize("late", [timedelta(minutes=6), -timedelta(minutes=6)])
def test_a_stranger_or_an_old_call_changes_nothing(partner: Partner, late: timedelta) -> None:
    body = json.dumps(
        {"reference": partner.reference, "event": "printed", "at": format_iso(partner.clock.now())}
    ).encode()
    signed = signatures.sign([SECRET], message_id="m", at=partner.clock.now(), body=body)
    answers = [
        partner.send(body, secret=STRANGERS),
        partner.send(body, late=late),
        partner.http.post(PATH, content=body),
        partner.http.post(PATH, content=body.replace(b"printed", b"mailed!"), headers=signed),
        partner.http.post(PATH, content=body, headers=signed | {"webhook-id": "another"}),
        partner.http.post(PATH, content=body, headers=signed | {"webhook-signature": ""}),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert answers[0].json() == {"message": "The signature does not fit this body, or is too old."}
    assert partner.statuses() == [("Processing", None)] * 3


@pytest.mark.parametrize("path", ["/hooks/print/partner", "/hooks/print/ACME", "/hooks/print/%00"])
def test_an_unknown_partner_finds_nothing(partner: Partner, path: str) -> None:
    answer = partner.send(b"{}", path=path)
    assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


@pytest.mark.parametrize("settings", [{}, LIVE_SETTINGS, {"print_secret": SECRET}])
def test_without_a_partner_and_its_secret_there_is_no_endpoint(build: Build, settings: dict[str, str]) -> None:
    with TestClient(create_app(build(**settings))) as http:
        assert http.post("/hooks/print/partner", content=b"{}").status_code == 404


def test_a_reference_of_nobody_is_not_found(partner: Partner) -> None:
    assert partner.call("printed", reference="batch-999999").status_code == 404
    assert partner.call("printed", reference="batch-999999999999999999").status_code == 404


def test_a_batch_of_testing_mode_is_none_of_the_partners(partner: Partner) -> None:
    with partner.container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(mode="test"))
    assert partner.call("printed").status_code == 404
    assert partner.statuses() == [("Processing", None)] * 3


def test_an_event_before_the_handover_must_be_sent_again(build: Build, clock: Clock) -> None:
    container = build(**SETTINGS)
    batch_id = compose_batch(container, clock, open_account(container, mode="live"), people(1))
    with TestClient(create_app(container), raise_server_exceptions=False) as http:
        partner = Partner(http, container, clock, batch_id)
        answer = partner.call("acknowledged")
        assert (answer.status_code, answer.headers["Retry-After"]) == (409, "5")
        batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
        assert partner.call("acknowledged").status_code == 202


def test_a_clock_that_runs_ahead_loses_nothing(partner: Partner) -> None:
    ahead = partner.clock.now() + timedelta(minutes=4)
    assert partner.call("printed", at=format_iso(ahead)).status_code == 202
    assert partner.batch().printed_at == partner.clock.now()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"reference": None}, "reference"),
    ({"reference": "batch-7"}, "reference"),
    ({"reference": "batch-٠٠٠٠٠٧"}, "reference"),
    ({"reference": 7}, "reference"),
    ({"event": "eaten"}, "event"),
    ({"event": None}, "event"),
    ({"at": "yesterday"}, "at"),
    ({"at": 7}, "at"),
    ({"at": "0001-01-01T00:00:00+14:00"}, "at"),
    ({"at": "2926-01-01T00:00:00Z"}, "at"),
    ({"spoiled": {}}, "spoiled"),
    ({"event": "spoiled"}, "spoiled"),
    ({"spoiled": [{"reason": "Torn"}]}, "spoiled.0"),
    ({"spoiled": [{"position": 1, "item_id": 1}]}, "spoiled.0"),
    ({"spoiled": [{"position": 4}]}, "spoiled.0.position"),
    ({"spoiled": [{"position": 2**40}]}, "spoiled.0.position"),
    ({"spoiled": [{"item_id": 2**63 - 1}]}, "spoiled.0.item_id"),
    ({"spoiled": [{"item_id": 2**63}]}, "spoiled.0.item_id"),
    ({"spoiled": [{"tracking": "00310123456789000000"[::-1]}]}, "spoiled.0.tracking"),
    ({"spoiled": [{"position": 1}, {"position": 1, "reason": "x" * 201}]}, "spoiled.1.reason"),
    ({"spoiled": [{"position": 1, "reason": "a\0b"}]}, "spoiled.0.reason"),
    ({"spoiled": [{"position": 1}] * 5_001}, "spoiled"),
]


def test_what_is_wrong_is_named_and_nothing_happens(partner: Partner) -> None:
    for changes, field in WRONG:
        event = {"event": "printed"} | changes
        answer = partner.call(event.pop("event"), **event)
        assert (answer.status_code, list(answer.json().get("errors", []))) == (422, [field]), changes
        assert answer.json()["message"].endswith(".")
    assert partner.statuses() == [("Processing", None)] * 3


def test_a_signed_body_that_is_no_call_is_a_422(partner: Partner) -> None:
    for body in (b"", b"no json", b"[]", b"7", b"\xff", b"[" * 10_000, b'{"a":1,"a":1}'):
        answer = partner.send(body)
        assert (answer.status_code, answer.json().keys()) == (422, {"message", "errors"}), body
    assert partner.send(b"[]").json()["errors"] == {"body": ["This must be an object."]}


def test_a_body_without_end_is_cut_off(partner: Partner) -> None:
    assert partner.send(b" " * (webhook_endpoints.MAX_PARTNER_BODY_BYTES + 1)).status_code == 413


def test_the_endpoint_accepts_only_posts(partner: Partner) -> None:
    answer = partner.http.get(PATH)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST, OPTIONS")


def test_a_call_that_names_no_time_means_now(partner: Partner) -> None:
    body = {"reference": partner.reference, "event": "printed"}
    assert partner.send(json.dumps(body).encode()).status_code == 202
    assert partner.batch().printed_at == partner.clock.now()


def test_a_partner_says_nothing_of_batches_that_another_has(partner: Partner) -> None:
    with partner.container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(partner="sftp://press@print.example.com/in"))
    answer = partner.call("printed")
    assert (answer.status_code, answer.json()["message"]) == (409, "This batch was handed to another partner.")
    assert "Retry-After" not in answer.headers  # it is final
    assert partner.batch().status == "handed"
