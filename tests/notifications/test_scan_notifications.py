"""Who is told of scans, when, and how many at a time."""

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import news_threads, scan_news
from quillpost.fulfillment.qr_scans import queries as noting
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from quillpost.orders.models import Order
from support.factories import Clock
from support.notifications import DANA, PHONE, notification_rows, write_digests
from support.orders import item_ids, open_account
from support.qr_scans import count_scans, order_with_codes, record_scans
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

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
def caller(container: Container) -> Caller:
    return open_account(container)


def scan(container: Container, order: Order, *pieces: int) -> None:
    """These of the order's pieces are scanned, in this order, and counted."""
    with container.db.system_transaction() as tx:
        ids = item_ids(tx, order)
    record_scans(container, *(ids[piece] for piece in pieces or (0,)))
    count_scans(container)


def news(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(scan_news)).scalar_one())


def test_everyone_named_is_notified_of_the_first_scan_at_once(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA, "bob@example.com", PHONE])
    scan(container, order)
    assert write_digests(container) == 3
    rows = notification_rows(container)
    assert sorted((row.channel, row.address) for row in rows) == [
        ("mail", "bob@example.com"),
        ("mail", DANA),
        ("text", PHONE),
    ]
    letter = next(row for row in rows if row.address == DANA)
    assert (letter.account_id, letter.mode, letter.kind) == (caller.account_id, caller.mode, "scans")
    assert letter.subject == "Person 1 scanned your postcard"
    assert "Person 1 in Austin, TX scanned the QR code" in letter.words
    assert "This is its first scan." in letter.words
    text = next(row for row in rows if row.address == PHONE)
    assert text.words.startswith(f"Person 1, Austin TX, scanned your postcard (order {order.id}).")
    assert news(container) == 0, "news that everyone has heard is forgotten"


def test_further_scans_are_reported_together_when_the_window_ends(
    container: Container, caller: Caller, clock: Clock
) -> None:
    order = order_with_codes(container, caller, 3, notification_emails=[DANA])
    scan(container, order, 0)
    write_digests(container)
    for piece in (0, 1, 1, 2):
        clock.advance(minutes=1)
        scan(container, order, piece)
        assert write_digests(container) == 0
    clock.advance(minutes=11)
    assert write_digests(container) == 1
    digest = notification_rows(container)[1]
    assert digest.subject == f"4 scans of your postcard (order {order.id})"
    assert "was scanned 4 times, on 3 pieces" in digest.words
    assert "- Person 2, Austin, TX: 2 scans, last on" in digest.words
    assert "has 5 scans in all; 2 of its pieces were scanned more than once." in digest.words
    clock.advance(minutes=15)
    assert write_digests(container) == 0


def test_after_a_quiet_window_a_scan_is_reported_at_once_again(
    container: Container, caller: Caller, clock: Clock
) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA])
    scan(container, order)
    write_digests(container)
    clock.advance(minutes=16)
    scan(container, order)
    assert write_digests(container) == 1
    assert "It was scanned 2 times so far." in notification_rows(container)[1].words


def test_orders_do_not_wait_for_one_another(container: Container, caller: Caller) -> None:
    first, second = (order_with_codes(container, caller, notification_emails=[DANA]) for _ in range(2))
    scan(container, first)
    write_digests(container)
    scan(container, second)
    assert write_digests(container) == 1


def test_scans_by_machines_are_not_reported(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA])
    with container.db.system_transaction() as tx:
        item = item_ids(tx, order)[0]
    record_scans(container, item, kind="bot")
    record_scans(container, item, kind="preview")
    count_scans(container)
    assert write_digests(container) == 0
    assert news(container) == 0


def test_an_order_that_names_nobody_leaves_no_news(container: Container, caller: Caller) -> None:
    scan(container, order_with_codes(container, caller))
    assert (news(container), write_digests(container)) == (0, 0)


def test_an_address_named_twice_is_notified_once(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA, "Dana@Example.com", DANA])
    scan(container, order)
    write_digests(container)
    assert [row.address for row in notification_rows(container)] == [DANA]


def test_unsubscribed_readers_are_not_notified_and_others_are(container: Container, caller: Caller) -> None:
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(
            tx, NotificationReader(caller.account_id, "DANA@example.com"), now=container.clock()
        )
    order = order_with_codes(container, caller, notification_emails=[DANA, "bob@example.com"])
    scan(container, order)
    write_digests(container)
    assert [row.address for row in notification_rows(container)] == ["bob@example.com"]


def test_a_refusal_to_a_stranger_is_none_to_me(container: Container, caller: Caller) -> None:
    stranger = open_account(container, "stranger@example.com")
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, NotificationReader(stranger.account_id, DANA), now=container.clock())
    scan(container, order_with_codes(container, caller, notification_emails=[DANA]))
    scan(container, order_with_codes(container, stranger, notification_emails=[DANA]))
    write_digests(container)
    assert [row.account_id for row in notification_rows(container)] == [caller.account_id]


def test_unsubscribing_before_the_window_ends_stops_its_notification(
    container: Container, caller: Caller, clock: Clock
) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA])
    scan(container, order)
    write_digests(container)
    scan(container, order)
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, NotificationReader(caller.account_id, DANA), now=container.clock())
    clock.advance(minutes=16)
    write_digests(container)
    assert [row.status for row in notification_rows(container)] == ["unwanted"]
    assert news(container) == 0


def test_resubscribing_brings_only_later_scans(container: Container, caller: Caller) -> None:
    reader = NotificationReader(caller.account_id, DANA)
    order = order_with_codes(container, caller, notification_emails=[DANA])
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, reader, now=container.clock())
    scan(container, order)
    with container.db.system_transaction() as tx:
        notification_service.resubscribe(tx, reader)
    assert write_digests(container) == 0
    scan(container, order)
    assert write_digests(container) == 1
    assert notification_rows(container)[0].subject == "Person 1 scanned your postcard"


def test_a_burst_is_one_notice_for_each_address(container: Container, caller: Caller) -> None:
    addresses = [f"reader{n}@example.com" for n in range(10)]
    order = order_with_codes(container, caller, 50, notification_emails=addresses)
    with container.db.system_transaction() as tx:
        params = {"order": order.id, "each": CROWD // 50, "now": container.clock()}
        visits = list(tx.execute(MANY_VISITS, params).scalars())
        for start in range(0, CROWD, 2_000):
            noting.insert_scan_news(tx, visits[start : start + 2_000], now=container.clock())
    assert news(container) == CROWD, "kept once, however many are told of it"
    assert write_digests(container) == 10
    rows = notification_rows(container)
    assert [row.address for row in rows] == addresses
    assert {row.subject for row in rows} == {f"100,000 scans of your postcard (order {order.id})"}
    assert "- and 30 more" in rows[0].words
    assert len(rows[0].words) < 3_000
    assert news(container) == 0


def test_scans_recorded_while_others_are_notified_are_not_lost(
    container: Container, caller: Caller, clock: Clock
) -> None:
    """One who counts holds the thread until it commits: whoever tells meanwhile passes it by."""
    order = order_with_codes(container, caller, 2, notification_emails=[DANA])
    with container.db.system_transaction() as tx:
        params = {"order": order.id, "each": 1, "now": container.clock()}
        first, second = tx.execute(MANY_VISITS, params).scalars()
    blocked = threading.Thread(target=_note, args=(container, [first]))
    with container.db.system_transaction() as tx:
        noting.insert_scan_news(tx, [second], now=clock.now())
        blocked.start()
        wait_until(lambda: _waiting(container) == 1)
        assert write_digests(container) == 0
    blocked.join()
    assert write_digests(container) == 1
    assert notification_rows(container)[0].subject.startswith("2 scans"), "the earlier visit came with the later number"


def _note(container: Container, visits: list[int]) -> None:
    with container.db.system_transaction() as tx:
        noting.insert_scan_news(tx, visits, now=container.clock())


def _waiting(container: Container) -> int:
    with container.db.system_transaction() as tx:
        name = tx.execute(sa.text("select current_database()")).scalar_one()
        return int(tx.execute(WAITING, {"name": name}).scalar_one())


def test_two_simultaneous_digests_notify_everyone_once(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA, "bob@example.com"])
    scan(container, order)
    with container.db.system_transaction() as tx:
        tx.execute(sa.select(news_threads).where(news_threads.c.address == DANA).with_for_update())
        assert write_digests(container) == 1
        assert news(container) == 1, "Dana has not heard of it"
    assert write_digests(container) == 1
    assert sorted(row.address for row in notification_rows(container)) == ["bob@example.com", DANA]
    assert news(container) == 0


def test_an_order_that_goes_takes_its_news_along(container: Container, caller: Caller) -> None:
    order = order_with_codes(container, caller, notification_emails=[DANA])
    scan(container, order)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from items where order_id = :order"), {"order": order.id})
    assert write_digests(container) == 1
    assert notification_rows(container) == []
    assert write_digests(container, window=timedelta(0)) == 0
