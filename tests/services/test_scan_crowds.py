"""One code that is scanned without end: everyone is led on, and only so many scans are kept."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
import structlog
from placing import item_ids, open_account
from scanned import PAGE, Ticks, coded, codes_of, inbox

from makers import Build
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans import rate_limits
from quillpost.fulfillment.qr_scans.queries import Coming
from quillpost.fulfillment.qr_scans.rate_limits import MINUTE, Crowds
from quillpost.fulfillment.qr_scans.rules import Kind
from quillpost.fulfillment.qr_scans.service import MOST_A_MINUTE, Desk, Found, Known

MOST = 3


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def desk(parts: Parts, ticks: Ticks) -> Iterator[Desk]:
    desk = Desk(parts.db, parts.clock, most_a_minute=MOST, ticks=ticks)
    yield desk
    desk.close()


def follow(desk: Desk, *codes: str, kind: Kind = "person") -> list[Found]:
    async def all_at_once() -> list[Found]:
        return await asyncio.gather(
            *(desk.follow(code, desk.recall(code), kind, "test", counts=True) for code in codes)
        )

    return asyncio.run(all_at_once())


def test_everyone_is_led_on_and_so_many_are_kept(
    parts: Parts, owner: Caller, desk: Desk, ticks: Ticks
) -> None:
    order = coded(parts, owner, 2)
    [one, other] = codes_of(parts, order.id)
    with parts.db.work() as tx:
        [first, second] = item_ids(tx, order)
    lead = PAGE.encode()
    with structlog.testing.capture_logs() as lines:
        assert follow(desk, *[one] * 10) == [Known(first, lead)] * 10
        for _ in range(10):
            assert follow(desk, one) == [Known(first, lead)]
    assert [row.item_id for row in inbox(parts)] == [first] * MOST
    told = [line for line in lines if line["event"] == "scans.left_out"]
    assert [(line["item"], line["kind"]) for line in told] == [(first, "person")], "said once a minute"

    follow(desk, other, one)
    assert [row.item_id for row in inbox(parts)] == [first] * MOST + [second]
    ticks.now += MINUTE
    follow(desk, *[one] * 10)
    assert [row.item_id for row in inbox(parts)] == [first] * MOST + [second] + [first] * MOST


def test_machines_keep_no_person_from_counting(parts: Parts, owner: Caller, desk: Desk) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    follow(desk, *[code] * 10, kind="bot")
    follow(desk, *[code] * 10, kind="preview")
    follow(desk, code)
    assert [row.kind for row in inbox(parts)] == ["bot"] * MOST + ["preview"] * MOST + ["person"]


def test_scans_that_could_not_be_kept_are_not_held_against_anyone(
    parts: Parts, owner: Caller, desk: Desk, conninfo: str
) -> None:
    [code] = codes_of(parts, coded(parts, owner).id)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("alter table visit_inbox rename to elsewhere")
        for _ in range(MOST):
            with pytest.raises(Unavailable):
                follow(desk, code)
        admin.execute("alter table elsewhere rename to visit_inbox")
    follow(desk, *[code] * MOST)
    assert len(inbox(parts)) == MOST


def test_no_more_pieces_are_remembered_than_there_is_room_for(
    parts: Parts, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "REMEMBERED", 5)
    crowd = Crowds(MOST, ticks=ticks)
    for item in range(100):
        assert len(crowd.admit([Coming(item, parts.clock(), "person", "test")])) == 1
    assert len(crowd._kept) == 5


def test_the_operator_says_how_many(build: Build) -> None:
    assert build().scans._crowds._most == MOST_A_MINUTE == 30
    assert build(scans_a_minute=7).scans._crowds._most == 7
