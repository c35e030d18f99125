"""What the release before had to deliver, and had delivered, when a database is upgraded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from receivers import Receivers, deliver
from test_upgrade import OldHouse, database_of_before

from makers import Clock
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.schema import migrate
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import service as webhook_service

pytestmark = pytest.mark.costly

LANES = "select webhook_id, due_at, woken, leased_by, failures, resting_until from webhook_lanes order by 1"
SUBSCRIBE = """
    insert into webhooks (account_id, mode, url, type, verb, secret_sealed, status, created_at, updated_at)
    select id, 'test', 'https://example.com/' || %s, 'order.status_update', 'post', '', %s, now(), now()
      from accounts
    returning id
"""
ADD = """
    insert into deliveries (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, body, status,
                            attempts, next_at, created_at, delivered_at)
    select account_id, mode, %(hook)s, id, event_id, 'order.status_update', 'order:' || order_id,
           %(body)s, %(status)s, %(attempts)s, %(next_at)s, %(created_at)s, %(delivered_at)s
      from facts where order_id = %(order)s and kind = 'order.status' order by id limit %(most)s
    returning id
"""


@dataclass
class Mailroom:
    """The release before's subscriptions, by what they are, and the deliveries of each kind."""

    hooks: dict[str, int]
    ids: dict[str, list[int]] = field(default_factory=dict)

    def add(self, connection: psycopg.Connection, kind: str, hook: str, order: int, **how: Any) -> None:
        row = {"hook": self.hooks[hook], "order": order, "status": "pending", "body": None, "attempts": 0}
        row |= {"next_at": None, "delivered_at": None, "most": 10}
        self.ids[kind] = [number for (number,) in connection.execute(ADD, row | how)]


@pytest.fixture
def old(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    with database_of_before(postgres) as conninfo:
        yield conninfo


@pytest.fixture
def container(old: str, clock: Clock, tmp_path: Path) -> Iterator[Container]:
    container = bootstrap.build_container(Settings(home=tmp_path / "home"), old, clock=clock.now)
    yield container
    container.db.close()


@pytest.fixture
def today() -> datetime:
    """The upgrade knows no time but the real one: days are opened, and old ones left behind, by that."""
    return datetime.now(UTC)


@pytest.fixture
def room(old: str, container: Container, clock: Clock, today: datetime) -> Mailroom:
    """All that, upgraded. The order whose last pieces went abroad is fulfilled by the upgrade itself, and the
    one whose pieces the carrier has is mailed: two more events, which come after all that was waiting."""
    orders, now = OldHouse(old, clock).write(), clock.now()
    with psycopg.connect(old) as connection:
        room = Mailroom({what: _subscribe(connection, container, what) for what in ("active", "paused")})
        for kind, hook, next_at in (("due", "active", now), ("held", "paused", None)):
            room.add(connection, kind, hook, orders["all abroad"], next_at=next_at, created_at=now)
        room.add(connection, "later", "active", orders["held"], most=1, attempts=1,
                 next_at=now + timedelta(hours=1), created_at=now)  # fmt: skip
        for kind, order, status, age in (
            ("delivered", "delivered", "delivered", 0),
            ("failed", "mailed", "failed", 29),
            ("too old", "printed", "delivered", 40),
        ):
            at = today - timedelta(days=age)
            room.add(connection, kind, "active", orders[order], status=status, body="{}", attempts=1,
                     created_at=at, delivered_at=at if status == "delivered" else None)  # fmt: skip
    migrate(old)
    return room


def _subscribe(connection: psycopg.Connection, container: Container, status: str) -> int:
    row = connection.execute(SUBSCRIBE, (status, status)).fetchone()
    assert row is not None
    sealed = container.encryptor.encrypt(b"whsec_" + b"b2xk" * 8, context=f"webhooks:{row[0]}:secret")
    connection.execute("update webhooks set secret_sealed = %s where id = %s", (sealed, row[0]))
    return int(row[0])


def asked(container: Container, query: str) -> Sequence[tuple[Any, ...]]:
    with container.db.system_transaction() as tx:
        return [tuple(row) for row in tx.execute(sa.text(query))]


def told(receivers: Receivers) -> list[tuple[str, str]]:
    return [(url, json.loads(body)["data"]["order.current_status"]) for url, body in receivers.asked]


def _but_mailed(heard: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was told of the other order, which is mailed now: it comes when it comes."""
    others = [one for one in heard if one[1] != "mailed"]
    assert len(others) == len(heard) - 1
    return others


def test_what_was_settled_lies_in_its_day_and_what_is_too_old_is_left_behind(
    room: Mailroom, container: Container, today: datetime
) -> None:
    places = asked(container, "select id, tableoid::regclass::text from deliveries")
    month_ago = today - timedelta(days=29)
    expected = {number: "deliveries_pending" for kind in ("due", "held", "later") for number in room.ids[kind]}
    expected |= dict.fromkeys(room.ids["delivered"], f"deliveries_{today:%Y%m%d}")
    expected |= dict.fromkeys(room.ids["failed"], f"deliveries_{month_ago:%Y%m%d}")
    assert dict(places) == expected
    assert all(room.ids.values())
    deliveries.maintain_partitions(container.db, now=today)
    assert set(asked(container, "select id from deliveries where status <> 'pending'")) == {
        (number,) for number in (*room.ids["delivered"], *room.ids["failed"])
    }


def test_what_was_due_is_delivered_and_what_was_held_goes_when_it_is_resumed(
    room: Mailroom, container: Container, clock: Clock
) -> None:
    way = ["reviewing", "processing", "printing", "fulfilled"]
    lanes = {row[0]: row[1:] for row in asked(container, LANES)}
    assert set(lanes) == set(room.hooks.values())
    assert lanes[room.hooks["active"]] == (clock.now(), 0, None, 0, None)

    heard = told(deliver(container, *[200] * 5))
    assert _but_mailed(heard) == [("https://example.com/active", status) for status in way]
    held = f"select id from deliveries where status = 'pending' and webhook_id = {room.hooks['paused']}"
    assert {(number,) for number in room.ids["held"]} < set(asked(container, held))

    with container.db.system_transaction() as tx:
        webhook_service.resume_webhook(tx, room.hooks["paused"], now=clock.now())
    heard = told(deliver(container, *[200] * 5))
    assert _but_mailed(heard) == [("https://example.com/paused", status) for status in way]

    clock.advance(hours=1)
    assert told(deliver(container, 200)) == [("https://example.com/active", "reviewing")]
    assert asked(container, "select id from deliveries where status = 'pending'") == []
