"""Who is told of scans, when, how many at a time, and in which words."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database.tables.notifications import news_threads, scan_news
from quillpost.core.text import to_one_line
from quillpost.fulfillment.qr_scans import queries as noting
from quillpost.notifications import messages
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader, ScannedItem, ScanNews, fit_text_message
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


def test_further_scans_are_reported_when_the_window_ends(container: Container, owner: Caller, clock: Clock) -> None:
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


def test_unsubscribing_in_the_window_stops_its_notification(container: Container, owner: Caller, clock: Clock) -> None:
    scan(container, followed_order(container, owner))
    unsubscribe(container, owner)
    clock.advance(minutes=16)
    write_digests(container)
    assert ([row.status for row in notification_rows(container)], news(container)) == (["unwanted"], 0)


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
    assert (write_digests(container), addresses(container), news(container)) == (1, [BOB, DANA], 0)


def test_an_order_that_goes_takes_its_news_along(container: Container, owner: Caller) -> None:
    order = scanned_order(container, owner, DANA)
    execute(container, "delete from items where order_id = :order", order=order.id)
    assert write_digests(container) == 1
    assert (notification_rows(container), write_digests(container, window=timedelta(0))) == ([], 0)


NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_attempts_wait_longer_each_time_by_mail_and_by_text() -> None:
    channels = [outbox.channel_for_address(address) for address in ("dana@example.com", "+15125550100@sms")]
    assert channels == ["mail", "text"]
    *waits, last = (next_wait(n) for n in range(1, len(outbox.RETRY_DELAYS) + 2))
    assert last is None
    assert waits == sorted(set(outbox.RETRY_DELAYS)) == list(outbox.RETRY_DELAYS)
    assert sum(outbox.RETRY_DELAYS, timedelta()) < outbox.GIVE_UP_AFTER, "the schedule would be cut short"
    for retry_after, wait in ((10, 60), (300, 300), (10**9, 86_400)):
        assert next_wait(1, retry_after=retry_after) == timedelta(seconds=wait), "as asked, up to a day"
    rests = [outbox.backoff_delay(failures).total_seconds() for failures in range(1, 9)]
    assert (rests, outbox.backoff_delay(10**6)) == ([5, 10, 20, 40, 80, 160, 300, 300], outbox.MAX_BACKOFF)


def next_wait(attempts: int, *, jitter: float = 0, retry_after: int | None = None) -> timedelta | None:
    at = outbox.next_attempt_at(attempts, now=NOW, jitter=jitter, retry_after_seconds=retry_after)
    return None if at is None else at - NOW


@given(st.integers(1, len(outbox.RETRY_DELAYS)), st.floats(0, 1))
def test_jitter_adds_a_tenth_at_most(attempts: int, jitter: float) -> None:
    usual, wait = outbox.RETRY_DELAYS[attempts - 1], next_wait(attempts, jitter=jitter)
    assert wait is not None
    assert usual <= wait <= usual * 1.1 + timedelta(microseconds=1)


@given(st.text())
def test_a_line_is_one_line(text: str) -> None:
    line = to_one_line(text, max_length=20)
    assert len(line) <= 20
    assert line.isprintable()
    assert line == line.strip()


def test_odd_letters_go_or_are_written_otherwise() -> None:
    for given_text, line in (
        ("Jane\r\nBcc: everyone@example.com", "Jane Bcc: everyone@example.com"),
        ("a\u202eb\u2028c\x00d", "a b c d"),
        ("x" * 31, "x" * 29 + "…"),
    ):
        assert to_one_line(given_text, max_length=30) == line
    for text, message in (
        ("Zoë met José", "Zoe met José"),  # the alphabet has é and lacks ë
        ("“Anna” – 5 €", '"Anna" - 5 €'),
        ("x" * 161, "x" * 157 + "..."),
        ("x" * 160, "x" * 160),
        ("[" * 81, "[" * 78 + "..."),
    ):
        assert fit_text_message(text) == message


@given(st.text())
def test_a_text_message_fits_into_one_in_letters_that_phones_know(text: str) -> None:
    message = fit_text_message(text)
    assert set(message) <= messages.GSM_CHARS | messages.GSM_EXTENDED_CHARS
    assert len(message) + sum(letter in messages.GSM_EXTENDED_CHARS for letter in message) <= messages.MAX_TEXT_LENGTH


AT = datetime(2026, 5, 4, 12, 3, tzinfo=UTC)


def scanned(**changes: Any) -> ScannedItem:
    usual = {"item_id": 345, "name": "Jane Doe", "city": "Austin", "province": "TX", "scans": 1, "total_scans": 1}
    values: dict[str, Any] = {**usual, "last_at": AT, **changes}
    return ScannedItem(**values)


def summary(*named: ScannedItem, **changes: Any) -> ScanNews:
    usual = {"order_id": 12, "type": "postcard", "first_at": AT, "last_at": AT, "order_scans": 3, "items": named}
    counts = {"scans": sum(each.scans for each in named), "item_count": len(named), "order_multi_scans": 0}
    values: dict[str, Any] = {**usual, **counts, **changes}
    return ScanNews(**values)


def test_one_scan_names_person_place_time_and_count() -> None:
    one = summary(scanned())
    assert messages.build_subject(one) == "Jane Doe scanned your postcard"
    assert messages.build_email_text(one, zone=UTC) == (
        "Jane Doe in Austin, TX scanned the QR code on your postcard on May 4, 2026, at 12:03 UTC.\n\n"
        "This is its first scan. It is piece 345 of order 12, which has 3 scans in all."
    )

    again = messages.build_email_text(summary(scanned(total_scans=4)), zone=ZoneInfo("America/Chicago"))
    assert "on May 4, 2026, at 07:03 CDT." in again, "in the operator's own time"
    assert "It was scanned 4 times so far." in again
    nobody = summary(scanned(name=None, city=None, province=None))
    assert messages.build_subject(nobody) == "Someone scanned your postcard"
    assert messages.build_email_text(nobody, zone=UTC).startswith("Someone scanned the QR code")
    assert messages.build_text_message(nobody).startswith("Someone, scanned")


def test_several_scans_are_listed_with_totals() -> None:
    jane = scanned(scans=2, total_scans=5, last_at=AT + timedelta(minutes=2))
    bob = scanned(item_id=346, name="Bob Roe", city="Waco")
    several = summary(jane, bob, last_at=jane.last_at, order_scans=1_240, order_multi_scans=1, type="letter")
    assert messages.build_subject(several) == "3 scans of your letter (order 12)"
    assert messages.build_email_text(several, zone=UTC) == (
        "The QR code on your letter was scanned 3 times, on 2 pieces, between May 4, 2026, at 12:03 UTC and "
        "May 4, 2026, at 12:05 UTC:\n\n"
        "- Jane Doe, Austin, TX: 2 scans, last on May 4 at 12:05\n"
        "- Bob Roe, Waco, TX: 1 scan, on May 4 at 12:03\n\n"
        "Order 12 has 1,240 scans in all; 1 of its pieces was scanned more than once."
    )
    breaking = summary(scanned(name="Jane\n\n- Doe\r\nTo: x"), scanned(item_id=1))
    assert "- Jane - Doe To: x, Austin" in messages.build_email_text(breaking, zone=UTC), "a name breaks no line"
    crowd = [scanned(item_id=n, name=f"Person {n}") for n in range(messages.MAX_LISTED_ITEMS)]
    words = messages.build_email_text(summary(*crowd, scans=100_000, item_count=90_000), zone=UTC)
    assert "was scanned 100,000 times, on 90,000 pieces, on May 4, 2026, at 12:03 UTC:" in words
    assert words.count("Person ") == messages.MAX_LISTED_ITEMS, "the others are counted"
    assert "\n- and 89,980 more\n" in words


def test_a_text_message_is_short() -> None:
    one = "Jane Doe, Austin TX, scanned your postcard (order 12). It was scanned 3 times so far."
    many = "12 scans of your postcard (order 12): Jane Doe, Austin TX and 8 more. 240 in all."
    for scans, words in (
        (summary(scanned(total_scans=3)), one),
        (summary(scanned(), scans=12, item_count=9, order_scans=240), many),
    ):
        assert (messages.build_text_message(scans), fit_text_message(words)) == (words, words)
        assert len(words) <= messages.MAX_TEXT_LENGTH


class Reader(HTMLParser):
    """The tags of a page, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def render(title: str, text: str, reasons: Sequence[str] = (), *, unsubscribe: str | None = None) -> Reader:
    reader = Reader()
    reader.feed(messages.render_html(title, text, reasons, unsubscribe=unsubscribe))
    return reader


def test_the_html_says_what_the_text_says_with_links_and_fetches_nothing() -> None:
    page = render("Title", "One.\n\n- a\n- b\n\nTwo, line one\nline two", ["Why."], unsubscribe="https://x/u")
    tags = [tag for tag, _ in page.tags]
    assert tags.count("li") == 2
    assert ("a", {"href": "https://x/u"}) in page.tags
    assert all(words in page.words for words in ("One.", "line two", "Why.", "Unsubscribe"))
    assert not {"img", "link", "script", "iframe"} & set(tags)
    for text, links in (
        ("See https://example.com/a?b=1&c=2.", ["https://example.com/a?b=1&c=2"]),
        ("(http://example.com/x) and https://y.example,", ["http://example.com/x", "https://y.example"]),
        ("javascript:alert(1) ftp://x", []),
        ('https://example.com/"onclick=x', ["https://example.com/"]),
    ):
        found = [attributes for tag, attributes in render("Title", text).tags if tag == "a"]
        assert found == [{"href": link} for link in links]


@given(st.text(), st.text(), st.text())
def test_nobody_puts_tags_into_the_html(title: str, words: str, reason: str) -> None:
    bad = '<img src=x onerror="x">'
    page = render(bad + title, bad + words, [bad + reason], unsubscribe='https://x/"><img>')
    assert "img" not in [tag for tag, _ in page.tags]
