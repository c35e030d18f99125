"""Whom we notify of what, and in which words."""

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import outbox
from quillpost.core.text import to_one_line
from quillpost.notifications import messages as notification_service
from quillpost.notifications.messages import (
    GSM_CHARS,
    GSM_EXTENDED_CHARS,
    MAX_LISTED_ITEMS,
    MAX_TEXT_LENGTH,
    ScannedItem,
    ScanNews,
    fit_text_message,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(("address", "channel"), [("dana@example.com", "mail"), ("+15125550100@sms", "text")])
def test_a_number_goes_to_the_text_channel(address: str, channel: str) -> None:
    assert outbox.channel_for_address(address) == channel


def test_each_attempt_waits_longer_than_the_one_before_and_the_last_one_ends() -> None:
    waits = [
        outbox.next_attempt_at(n, now=NOW, jitter=0, retry_after_seconds=None)
        for n in range(1, len(outbox.RETRY_DELAYS) + 2)
    ]
    assert waits[-1] is None
    times = [wait - NOW for wait in waits if wait is not None]
    assert times == sorted(set(times)) == list(outbox.RETRY_DELAYS)
    assert sum(times, timedelta()) < outbox.GIVE_UP_AFTER, "the schedule would be cut short"


@given(st.integers(1, len(outbox.RETRY_DELAYS)), st.floats(0, 1))
def test_jitter_adds_a_tenth_at_most(attempts: int, jitter: float) -> None:
    at = outbox.next_attempt_at(attempts, now=NOW, jitter=jitter, retry_after_seconds=None)
    wait = outbox.RETRY_DELAYS[attempts - 1]
    assert at is not None
    assert wait <= at - NOW <= wait * 1.1 + timedelta(microseconds=1)


@pytest.mark.parametrize(("retry_after", "waits"), [(10, 60), (300, 300), (10**9, 86_400)])
def test_a_server_that_asks_for_time_has_it_up_to_a_day(retry_after: int, waits: int) -> None:
    assert outbox.next_attempt_at(1, now=NOW, jitter=0, retry_after_seconds=retry_after) == NOW + timedelta(
        seconds=waits
    )


def test_a_server_that_stays_down_is_left_alone_for_longer_each_time() -> None:
    rests = [outbox.backoff_delay(failures).total_seconds() for failures in range(1, 9)]
    assert rests == [5, 10, 20, 40, 80, 160, 300, 300]
    assert outbox.backoff_delay(10**6) == outbox.MAX_BACKOFF


@given(st.text())
def test_a_line_is_one_line(text: str) -> None:
    line = to_one_line(text, max_length=20)
    assert len(line) <= 20
    assert line.isprintable()
    assert line == line.strip()


@pytest.mark.parametrize(
    ("given_text", "line"),
    [
        ("Jane\r\nBcc: everyone@example.com", "Jane Bcc: everyone@example.com"),
        ("a\u202eb\u2028c\x00d", "a b c d"),
        ("x" * 31, "x" * 29 + "…"),
    ],
)
def test_line_ends_and_turned_letters_go(given_text: str, line: str) -> None:
    assert to_one_line(given_text, max_length=30) == line


@given(st.text())
def test_a_text_message_fits_into_one_in_letters_that_phones_know(text: str) -> None:
    message = fit_text_message(text)
    assert set(message) <= GSM_CHARS | GSM_EXTENDED_CHARS
    assert len(message) + sum(letter in GSM_EXTENDED_CHARS for letter in message) <= MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Zoë met José", "Zoe met José"),  # the alphabet has é and lacks ë
        ("“Anna” – 5 €", '"Anna" - 5 €'),
        ("x" * 161, "x" * 157 + "..."),
        ("x" * 160, "x" * 160),
        ("[" * 81, "[" * 78 + "..."),
    ],
)
def test_letters_that_the_alphabet_lacks_are_written_otherwise(text: str, message: str) -> None:
    assert fit_text_message(text) == message


AT = datetime(2026, 5, 4, 12, 3, tzinfo=UTC)


def scanned(**changes: Any) -> ScannedItem:
    given: dict[str, Any] = {
        "item_id": 345,
        "name": "Jane Doe",
        "city": "Austin",
        "province": "TX",
        "scans": 1,
        "total_scans": 1,
        "last_at": AT,
    }
    return ScannedItem(**given | changes)


def news(*named: ScannedItem, **changes: Any) -> ScanNews:
    given: dict[str, Any] = {
        "order_id": 12,
        "type": "postcard",
        "scans": sum(each.scans for each in named),
        "item_count": len(named),
        "first_at": AT,
        "last_at": AT,
        "order_scans": 3,
        "order_multi_scans": 0,
        "items": named,
    }
    return ScanNews(**given | changes)


def test_one_scan_names_person_place_time_and_count() -> None:
    one = news(scanned())
    assert notification_service.build_subject(one) == "Jane Doe scanned your postcard"
    assert notification_service.build_email_text(one, zone=UTC) == (
        "Jane Doe in Austin, TX scanned the QR code on your postcard on May 4, 2026, at 12:03 UTC.\n\n"
        "This is its first scan. It is piece 345 of order 12, which has 3 scans in all."
    )


def test_a_further_scan_says_how_often_so_far() -> None:
    assert "It was scanned 4 times so far." in notification_service.build_email_text(
        news(scanned(total_scans=4)), zone=UTC
    )


def test_times_are_the_operators_own() -> None:
    words = notification_service.build_email_text(news(scanned()), zone=ZoneInfo("America/Chicago"))
    assert "on May 4, 2026, at 07:03 CDT." in words


def test_someone_without_a_name_is_someone() -> None:
    one = news(scanned(name=None, city=None, province=None))
    assert notification_service.build_subject(one) == "Someone scanned your postcard"
    assert notification_service.build_email_text(one, zone=UTC).startswith("Someone scanned the QR code")
    assert notification_service.build_text_message(one).startswith("Someone, scanned")


def test_several_scans_are_listed_with_totals() -> None:
    jane = scanned(scans=2, total_scans=5, last_at=AT + timedelta(minutes=2))
    bob = scanned(item_id=346, name="Bob Roe", city="Waco")
    several = news(jane, bob, last_at=AT + timedelta(minutes=2), order_scans=1_240, order_multi_scans=1, type="letter")
    assert notification_service.build_subject(several) == "3 scans of your letter (order 12)"
    assert notification_service.build_email_text(several, zone=UTC) == (
        "The QR code on your letter was scanned 3 times, on 2 pieces, between May 4, 2026, at 12:03 UTC and "
        "May 4, 2026, at 12:05 UTC:\n\n"
        "- Jane Doe, Austin, TX: 2 scans, last on May 4 at 12:05\n"
        "- Bob Roe, Waco, TX: 1 scan, on May 4 at 12:03\n\n"
        "Order 12 has 1,240 scans in all; 1 of its pieces was scanned more than once."
    )


def test_of_very_many_the_first_are_named_and_the_others_counted() -> None:
    crowd = [scanned(item_id=n, name=f"Person {n}") for n in range(MAX_LISTED_ITEMS)]
    words = notification_service.build_email_text(news(*crowd, scans=100_000, item_count=90_000), zone=UTC)
    assert "was scanned 100,000 times, on 90,000 pieces, on May 4, 2026, at 12:03 UTC:" in words
    assert words.count("Person ") == MAX_LISTED_ITEMS
    assert "\n- and 89,980 more\n" in words


@pytest.mark.parametrize(
    ("scan_news", "words"),
    [
        (
            news(scanned(total_scans=3)),
            "Jane Doe, Austin TX, scanned your postcard (order 12). It was scanned 3 times so far.",
        ),
        (
            news(scanned(), scans=12, item_count=9, order_scans=240),
            "12 scans of your postcard (order 12): Jane Doe, Austin TX and 8 more. 240 in all.",
        ),
    ],
)
def test_a_text_message_is_short(scan_news: ScanNews, words: str) -> None:
    assert notification_service.build_text_message(scan_news) == words
    assert fit_text_message(words) == words
    assert len(words) <= MAX_TEXT_LENGTH


def test_a_name_breaks_no_line() -> None:
    words = notification_service.build_email_text(
        news(scanned(name="Jane\n\n- Doe\r\nTo: x"), scanned(item_id=1)), zone=UTC
    )
    assert "- Jane - Doe To: x, Austin" in words


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


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_the_html_says_what_the_text_says_and_fetches_nothing() -> None:
    page = read(
        notification_service.render_html(
            "Title", "One.\n\n- a\n- b\n\nTwo, line one\nline two", ["Why."], unsubscribe="https://x/u"
        )
    )
    tags = [tag for tag, _ in page.tags]
    assert tags.count("li") == 2
    assert ("a", {"href": "https://x/u"}) in page.tags
    assert all(words in page.words for words in ("One.", "line two", "Why.", "Unsubscribe"))
    assert not {"img", "link", "script", "iframe"} & set(tags)


@given(st.text(), st.text(), st.text())
def test_nobody_puts_tags_into_the_html(title: str, words: str, reason: str) -> None:
    hostile = '<img src=x onerror="x">'
    page = read(
        notification_service.render_html(
            hostile + title, f"{hostile}{words}", [hostile + reason], unsubscribe='https://x/"><img>'
        )
    )
    assert "img" not in [tag for tag, _ in page.tags]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("See https://example.com/a?b=1&c=2.", ["https://example.com/a?b=1&c=2"]),
        ("(http://example.com/x) and https://y.example,", ["http://example.com/x", "https://y.example"]),
        ("javascript:alert(1) ftp://x", []),
        ('https://example.com/"onclick=x', ["https://example.com/"]),
    ],
)
def test_addresses_are_links(text: str, links: list[str]) -> None:
    page = read(notification_service.render_html("Title", text, [], unsubscribe=None))
    assert [attributes["href"] for tag, attributes in page.tags if tag == "a"] == links
    assert [set(attributes) for tag, attributes in page.tags if tag == "a"] == [{"href"} for _ in links]
