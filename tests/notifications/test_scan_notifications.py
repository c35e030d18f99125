"""Who is told of scans, when, and how many at a time."""

import threading
from datetime import timedelta
from typing import Any

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
from support.rows import execute, run, scalar, scalars
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

BOB, CROWD = "bob@example.com", 10_000

MANY_VISITS = """
    insert into visits (account_id, mode, order_id, item_id, at, kind, agent)
    select i.account_id, i.mode, i.order_id, i.id, :now, 'person', ''
      from items i, generate_series(1, :each) where i.order_id = :order returning id
"""


def scan(container: Container, order: Order, *pieces: int, **how: Any) -> None:
    """These of the order's pieces are scanned, in this order, and counted."""
    ids = run(container, item_ids, order)
    record_scans(container, *(ids[piece] for piece in pieces or (0,)), **how)
    count_scans(container)


def scanned_order(container: Container, caller: Caller, *emails: str, pieces: int = 1) -> Order:
    """One whose first piece was scanned, and who is to hear of it."""
    order = order_with_codes(container, caller, pieces, notification_emails=list(emails))
    scan(container, order)
    return order


def followed_order(container: Container, caller: Caller, *, pieces: int = 1) -> Order:
    """One of whose first scan Dana has heard."""
    order = scanned_order(container, caller, DANA, pieces=pieces)
    write_digests(container)
    return order


def unsubscribe(container: Container, caller: Caller, address: str = DANA) -> None:
    with container.db.system_transaction() as tx:
        notification_service.unsubscribe(tx, NotificationReader(caller.account_id, address), now=container.clock())


def addresses(container: Container) -> list[str]:
    return sorted(row.address for row in notification_rows(container))


def news(container: Container) -> int:
    return int(scalar(container, sa.select(sa.func.count()).select_from(scan_news)))


def test_everyone_named_is_notified_of_the_first_scan_at_once(container: Container, owner: Caller) -> None:
    order = scanned_order(container, owner, DANA, BOB, PHONE, "Dana@Example.com", DANA)
    assert write_digests(container) == 3
    rows = {row.address: row for row in notification_rows(container)}
    assert {address: row.channel for address, row in rows.items()} == {BOB: "mail", DANA: "mail", PHONE: "text"}
    letter = rows[DANA]
    assert (letter.account_id, letter.mode, letter.kind) == (owner.account_id, owner.mode, "scans")
    assert letter.subject == "Person 1 scanned your postcard"
    assert "Person 1 in Austin, TX scanned the QR code" in letter.words
    assert "This is its first scan." in letter.words
    assert rows[PHONE].words.startswith(f"Person 1, Austin TX, scanned your postcard (order {order.id}).")
    assert news(container) == 0, "news that everyone has heard is forgotten"
    scanned_order(container, owner, DANA)
    assert write_digests(container) == 1, "orders do not wait for one another"


def test_further_scans_are_reported_together_when_the_window_ends(
    container: Container, owner: Caller, clock: Clock
) -> None:
    order = followed_order(container, owner, pieces=3)
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
    clock.advance(minutes=1)
    scan(container, order, 1)
    assert write_digests(container) == 1, "at once again after a quiet window"
    assert "It was scanned 3 times so far." in notification_rows(container)[2].words


def test_scans_by_machines_or_that_nobody_follows_are_not_reported(container: Container, owner: Caller) -> None:
    order = order_with_codes(container, owner, notification_emails=[DANA])
    for kind in ("bot", "preview"):
        scan(container, order, kind=kind)
    scanned_order(container, owner)
    assert (news(container), write_digests(container)) == (0, 0)


def test_unsubscribed_readers_are_not_notified_and_others_are(container: Container, owner: Caller) -> None:
    stranger = open_account(container, "stranger@example.com")
    unsubscribe(container, stranger, "DANA@example.com")
    scanned_order(container, stranger, DANA, BOB)
    write_digests(container)
    assert addresses(container) == [BOB]
    scanned_order(container, owner, DANA)
    write_digests(container)
    assert addresses(container) == [BOB, DANA], "a refusal to a stranger is none to me"


def test_unsubscribing_before_the_window_ends_stops_its_notification(
    container: Container, owner: Caller, clock: Clock
) -> None:
    order = followed_order(container, owner)
    scan(container, order)
    unsubscribe(container, owner)
    clock.advance(minutes=16)
    write_digests(container)
    assert [row.status for row in notification_rows(container)] == ["unwanted"]
    assert news(container) == 0


def test_resubscribing_brings_only_later_scans(container: Container, owner: Caller) -> None:
    unsubscribe(container, owner)
    order = scanned_order(container, owner, DANA)
    run(container, notification_service.resubscribe, NotificationReader(owner.account_id, DANA))
    assert write_digests(container) == 0
    scan(container, order)
    assert write_digests(container) == 1
    assert notification_rows(container)[0].subject == "Person 1 scanned your postcard"


def test_a_burst_is_one_notice_for_each_address(container: Container, owner: Caller) -> None:
    readers = [f"reader{n}@example.com" for n in range(10)]
    order = order_with_codes(container, owner, 50, notification_emails=readers)
    with container.db.system_transaction() as tx:
        visits = scalars(tx, MANY_VISITS, order=order.id, each=CROWD // 50, now=container.clock())
        for start in range(0, CROWD, 2_000):
            noting.insert_scan_news(tx, visits[start : start + 2_000], now=container.clock())
    assert news(container) == CROWD, "kept once, however many are told of it"
    assert write_digests(container) == 10
    rows = notification_rows(container)
    assert [row.address for row in rows] == readers
    assert {row.subject for row in rows} == {f"10,000 scans of your postcard (order {order.id})"}
    assert "- and 30 more" in rows[0].words
    assert len(rows[0].words) < 3_000
    assert news(container) == 0


def test_scans_recorded_while_others_are_notified_are_not_lost(container: Container, owner: Caller) -> None:
    """One who counts holds the thread until it commits: whoever tells meanwhile passes it by."""
    order = order_with_codes(container, owner, 2, notification_emails=[DANA])
    first, second = scalars(container, MANY_VISITS, order=order.id, each=1, now=container.clock())

    def note() -> None:
        run(container, noting.insert_scan_news, [first], now=container.clock())

    blocked = threading.Thread(target=note)
    with container.db.system_transaction() as tx:
        noting.insert_scan_news(tx, [second], now=container.clock())
        blocked.start()
        wait_until(lambda: is_lock_awaited(container))
        assert write_digests(container) == 0
    blocked.join()
    assert write_digests(container) == 1
    assert notification_rows(container)[0].subject.startswith("2 scans"), "the earlier visit came with the later number"


def test_two_simultaneous_digests_notify_everyone_once(container: Container, owner: Caller) -> None:
    scanned_order(container, owner, DANA, BOB)
    with container.db.system_transaction() as tx:
        tx.execute(sa.select(news_threads).where(news_threads.c.address == DANA).with_for_update())
        assert write_digests(container) == 1
        assert news(container) == 1, "Dana has not heard of it"
    assert write_digests(container) == 1
    assert addresses(container) == [BOB, DANA]
    assert news(container) == 0


def test_an_order_that_goes_takes_its_news_along(container: Container, owner: Caller) -> None:
    order = scanned_order(container, owner, DANA)
    execute(container, "delete from items where order_id = :order", order=order.id)
    assert write_digests(container) == 1
    assert notification_rows(container) == []
    assert write_digests(container, window=timedelta(0)) == 0
