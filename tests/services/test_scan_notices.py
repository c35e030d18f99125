"""Who is told of scans, when, and how many at a time."""

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa
from newsroom import DANA, PHONE, gather, told
from placing import item_ids, open_account
from scanned import coded, come, count
from waiting import wait_until

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import news_threads, scan_news
from quillpost.fulfillment.qr_scans import queries as noting
from quillpost.notifications import unsubscribe
from quillpost.notifications.unsubscribe import Reader
from quillpost.orders.models import Order

CROWD = 100_000

MANY_VISITS = sa.text(
    """
    insert into visits (account_id, mode, order_id, item_id, at, kind, agent)
    select i.account_id, i.mode, i.order_id, i.id, :now, 'person', ''
      from items i, generate_series(1, :each) where i.order_id = :order returning id
    """
)
WAITING = sa.text("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = :name")


@pytest.fixture
def who(parts: Parts) -> Caller:
    return open_account(parts)


def scan(parts: Parts, order: Order, *pieces: int) -> None:
    """These of the order's pieces are scanned, in this order, and counted."""
    with parts.db.work() as tx:
        ids = item_ids(tx, order)
    come(parts, *(ids[piece] for piece in pieces or (0,)))
    count(parts)


def news(parts: Parts) -> int:
    with parts.db.work() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(scan_news)).scalar_one())


def test_the_first_scan_is_told_at_once_to_everyone_named(parts: Parts, who: Caller) -> None:
    order = coded(parts, who, notification_emails=[DANA, "bob@example.com", PHONE])
    scan(parts, order)
    assert gather(parts) == 3
    rows = told(parts)
    assert sorted((row.channel, row.address) for row in rows) == [
        ("mail", "bob@example.com"),
        ("mail", DANA),
        ("text", PHONE),
    ]
    letter = next(row for row in rows if row.address == DANA)
    assert (letter.account_id, letter.mode, letter.kind) == (who.account_id, who.mode, "scans")
    assert letter.subject == "Person 1 scanned your postcard"
    assert "Person 1 in Austin, TX scanned the QR code" in letter.words
    assert "This is its first scan." in letter.words
    text = next(row for row in rows if row.address == PHONE)
    assert text.words.startswith(f"Person 1, Austin TX, scanned your postcard (order {order.id}).")
    assert news(parts) == 0, "news that everyone has heard is forgotten"


def test_further_scans_are_told_together_when_the_window_ends(
    parts: Parts, who: Caller, clock: Clock
) -> None:
    order = coded(parts, who, 3, notification_emails=[DANA])
    scan(parts, order, 0)
    gather(parts)
    for piece in (0, 1, 1, 2):
        clock.advance(minutes=1)
        scan(parts, order, piece)
        assert gather(parts) == 0
    clock.advance(minutes=11)
    assert gather(parts) == 1
    digest = told(parts)[1]
    assert digest.subject == f"4 scans of your postcard (order {order.id})"
    assert "was scanned 4 times, on 3 pieces" in digest.words
    assert "- Person 2, Austin, TX: 2 scans, last on" in digest.words
    assert "has 5 scans in all; 2 of its pieces were scanned more than once." in digest.words
    clock.advance(minutes=15)
    assert gather(parts) == 0


def test_after_a_quiet_window_a_scan_is_told_at_once_again(parts: Parts, who: Caller, clock: Clock) -> None:
    order = coded(parts, who, notification_emails=[DANA])
    scan(parts, order)
    gather(parts)
    clock.advance(minutes=16)
    scan(parts, order)
    assert gather(parts) == 1
    assert "It was scanned 2 times so far." in told(parts)[1].words


def test_orders_do_not_wait_for_one_another(parts: Parts, who: Caller) -> None:
    first, second = (coded(parts, who, notification_emails=[DANA]) for _ in range(2))
    scan(parts, first)
    gather(parts)
    scan(parts, second)
    assert gather(parts) == 1


def test_machines_are_not_told_of(parts: Parts, who: Caller) -> None:
    order = coded(parts, who, notification_emails=[DANA])
    with parts.db.work() as tx:
        item = item_ids(tx, order)[0]
    come(parts, item, kind="bot")
    come(parts, item, kind="preview")
    count(parts)
    assert gather(parts) == 0
    assert news(parts) == 0


def test_an_order_that_names_nobody_leaves_no_news(parts: Parts, who: Caller) -> None:
    scan(parts, coded(parts, who))
    assert (news(parts), gather(parts)) == (0, 0)


def test_an_address_that_is_named_twice_is_told_once(parts: Parts, who: Caller) -> None:
    order = coded(parts, who, notification_emails=[DANA, "Dana@Example.com", DANA])
    scan(parts, order)
    gather(parts)
    assert [row.address for row in told(parts)] == [DANA]


def test_who_has_refused_is_told_no_more_and_others_are(parts: Parts, who: Caller) -> None:
    with parts.db.work() as tx:
        unsubscribe.refuse(tx, Reader(who.account_id, "DANA@example.com"), now=parts.clock())
    order = coded(parts, who, notification_emails=[DANA, "bob@example.com"])
    scan(parts, order)
    gather(parts)
    assert [row.address for row in told(parts)] == ["bob@example.com"]


def test_a_refusal_to_a_stranger_is_none_to_me(parts: Parts, who: Caller) -> None:
    stranger = open_account(parts, "stranger@example.com")
    with parts.db.work() as tx:
        unsubscribe.refuse(tx, Reader(stranger.account_id, DANA), now=parts.clock())
    scan(parts, coded(parts, who, notification_emails=[DANA]))
    scan(parts, coded(parts, stranger, notification_emails=[DANA]))
    gather(parts)
    assert [row.account_id for row in told(parts)] == [who.account_id]


def test_who_refuses_before_the_window_ends_hears_nothing_of_it(
    parts: Parts, who: Caller, clock: Clock
) -> None:
    order = coded(parts, who, notification_emails=[DANA])
    scan(parts, order)
    gather(parts)
    scan(parts, order)
    with parts.db.work() as tx:
        unsubscribe.refuse(tx, Reader(who.account_id, DANA), now=parts.clock())
    clock.advance(minutes=16)
    gather(parts)
    assert [row.status for row in told(parts)] == ["unwanted"]
    assert news(parts) == 0


def test_who_changes_their_mind_hears_of_what_comes_then(parts: Parts, who: Caller) -> None:
    reader = Reader(who.account_id, DANA)
    order = coded(parts, who, notification_emails=[DANA])
    with parts.db.work() as tx:
        unsubscribe.refuse(tx, reader, now=parts.clock())
    scan(parts, order)
    with parts.db.work() as tx:
        unsubscribe.accept(tx, reader)
    assert gather(parts) == 0
    scan(parts, order)
    assert gather(parts) == 1
    assert told(parts)[0].subject == "Person 1 scanned your postcard"


def test_a_burst_is_one_notice_for_each_address(parts: Parts, who: Caller) -> None:
    addresses = [f"reader{n}@example.com" for n in range(10)]
    order = coded(parts, who, 50, notification_emails=addresses)
    with parts.db.work() as tx:
        asked = {"order": order.id, "each": CROWD // 50, "now": parts.clock()}
        visits = list(tx.execute(MANY_VISITS, asked).scalars())
        for start in range(0, CROWD, 2_000):
            noting.note(tx, visits[start : start + 2_000], now=parts.clock())
    assert news(parts) == CROWD, "kept once, however many are told of it"
    assert gather(parts) == 10
    rows = told(parts)
    assert [row.address for row in rows] == addresses
    assert {row.subject for row in rows} == {f"100,000 scans of your postcard (order {order.id})"}
    assert "- and 30 more" in rows[0].words
    assert len(rows[0].words) < 3_000
    assert news(parts) == 0


def test_news_that_is_written_while_others_are_told_is_not_lost(
    parts: Parts, who: Caller, clock: Clock
) -> None:
    """One who counts holds the thread until it commits: whoever tells meanwhile passes it by."""
    order = coded(parts, who, 2, notification_emails=[DANA])
    with parts.db.work() as tx:
        asked = {"order": order.id, "each": 1, "now": parts.clock()}
        first, second = tx.execute(MANY_VISITS, asked).scalars()
    blocked = threading.Thread(target=_note, args=(parts, [first]))
    with parts.db.work() as tx:
        noting.note(tx, [second], now=clock.now())
        blocked.start()
        wait_until(lambda: _waiting(parts) == 1)
        assert gather(parts) == 0
    blocked.join()
    assert gather(parts) == 1
    assert told(parts)[0].subject.startswith("2 scans"), "the earlier visit came with the later number"


def _note(parts: Parts, visits: list[int]) -> None:
    with parts.db.work() as tx:
        noting.note(tx, visits, now=parts.clock())


def _waiting(parts: Parts) -> int:
    with parts.db.work() as tx:
        name = tx.execute(sa.text("select current_database()")).scalar_one()
        return int(tx.execute(WAITING, {"name": name}).scalar_one())


def test_two_who_tell_at_once_tell_everyone_once(parts: Parts, who: Caller) -> None:
    order = coded(parts, who, notification_emails=[DANA, "bob@example.com"])
    scan(parts, order)
    with parts.db.work() as tx:
        tx.execute(sa.select(news_threads).where(news_threads.c.address == DANA).with_for_update())
        assert gather(parts) == 1
        assert news(parts) == 1, "Dana has not heard of it"
    assert gather(parts) == 1
    assert sorted(row.address for row in told(parts)) == ["bob@example.com", DANA]
    assert news(parts) == 0


def test_an_order_that_goes_takes_its_news_along(parts: Parts, who: Caller) -> None:
    order = coded(parts, who, notification_emails=[DANA])
    scan(parts, order)
    with parts.db.work() as tx:
        tx.execute(sa.text("delete from items where order_id = :order"), {"order": order.id})
    assert gather(parts) == 1
    assert told(parts) == []
    assert gather(parts, window=timedelta(0)) == 0
