"""Whom we notify of what, and in which words."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import outbox
from quillpost.core.text import to_one_line
from quillpost.notifications import messages
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


def test_a_number_goes_to_the_text_channel() -> None:
    channels = [outbox.channel_for_address(address) for address in ("dana@example.com", "+15125550100@sms")]
    assert channels == ["mail", "text"]


def next_wait(attempts: int, *, jitter: float = 0, retry_after: int | None = None) -> timedelta | None:
    at = outbox.next_attempt_at(attempts, now=NOW, jitter=jitter, retry_after_seconds=retry_after)
    return None if at is None else at - NOW


def test_each_attempt_waits_longer_than_the_one_before_and_the_last_one_ends() -> None:
    *waits, last = (next_wait(n) for n in range(1, len(outbox.RETRY_DELAYS) + 2))
    assert last is None
    assert waits == sorted(set(outbox.RETRY_DELAYS)) == list(outbox.RETRY_DELAYS)
    assert sum(outbox.RETRY_DELAYS, timedelta()) < outbox.GIVE_UP_AFTER, "the schedule would be cut short"
    for retry_after, wait in ((10, 60), (300, 300), (10**9, 86_400)):
        assert next_wait(1, retry_after=retry_after) == timedelta(seconds=wait), "as asked, up to a day"


@given(st.integers(1, len(outbox.RETRY_DELAYS)), st.floats(0, 1))
def test_jitter_adds_a_tenth_at_most(attempts: int, jitter: float) -> None:
    usual, wait = outbox.RETRY_DELAYS[attempts - 1], next_wait(attempts, jitter=jitter)
    assert wait is not None
    assert usual <= wait <= usual * 1.1 + timedelta(microseconds=1)


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


def test_line_ends_and_turned_letters_go() -> None:
    for given_text, line in (
        ("Jane\r\nBcc: everyone@example.com", "Jane Bcc: everyone@example.com"),
        ("a\u202eb\u2028c\x00d", "a b c d"),
        ("x" * 31, "x" * 29 + "…"),
    ):
        assert to_one_line(given_text, max_length=30) == line


@given(st.text())
def test_a_text_message_fits_into_one_in_letters_that_phones_know(text: str) -> None:
    message = fit_text_message(text)
    assert set(message) <= GSM_CHARS | GSM_EXTENDED_CHARS
    assert len(message) + sum(letter in GSM_EXTENDED_CHARS for letter in message) <= MAX_TEXT_LENGTH


def test_letters_that_the_alphabet_lacks_are_written_otherwise() -> None:
    for text, message in (
        ("Zoë met José", "Zoe met José"),  # the alphabet has é and lacks ë
        ("“Anna” – 5 €", '"Anna" - 5 €'),
        ("x" * 161, "x" * 157 + "..."),
        ("x" * 160, "x" * 160),
        ("[" * 81, "[" * 78 + "..."),
    ):
        assert fit_text_message(text) == message


AT = datetime(2026, 5, 4, 12, 3, tzinfo=UTC)


def scanned(**changes: Any) -> ScannedItem:
    usual = {"item_id": 345, "name": "Jane Doe", "city": "Austin", "province": "TX", "scans": 1, "total_scans": 1}
    values: dict[str, Any] = {**usual, "last_at": AT, **changes}
    return ScannedItem(**values)


def news(*named: ScannedItem, **changes: Any) -> ScanNews:
    usual = {"order_id": 12, "type": "postcard", "first_at": AT, "last_at": AT, "order_scans": 3, "items": named}
    counts = {"scans": sum(each.scans for each in named), "item_count": len(named), "order_multi_scans": 0}
    values: dict[str, Any] = {**usual, **counts, **changes}
    return ScanNews(**values)


def test_one_scan_names_person_place_time_and_count() -> None:
    one = news(scanned())
    assert messages.build_subject(one) == "Jane Doe scanned your postcard"
    assert messages.build_email_text(one, zone=UTC) == (
        "Jane Doe in Austin, TX scanned the QR code on your postcard on May 4, 2026, at 12:03 UTC.\n\n"
        "This is its first scan. It is piece 345 of order 12, which has 3 scans in all."
    )

    again = messages.build_email_text(news(scanned(total_scans=4)), zone=ZoneInfo("America/Chicago"))
    assert "on May 4, 2026, at 07:03 CDT." in again, "in the operator's own time"
    assert "It was scanned 4 times so far." in again
    nobody = news(scanned(name=None, city=None, province=None))
    assert messages.build_subject(nobody) == "Someone scanned your postcard"
    assert messages.build_email_text(nobody, zone=UTC).startswith("Someone scanned the QR code")
    assert messages.build_text_message(nobody).startswith("Someone, scanned")


def test_several_scans_are_listed_with_totals() -> None:
    jane = scanned(scans=2, total_scans=5, last_at=AT + timedelta(minutes=2))
    bob = scanned(item_id=346, name="Bob Roe", city="Waco")
    several = news(jane, bob, last_at=AT + timedelta(minutes=2), order_scans=1_240, order_multi_scans=1, type="letter")
    assert messages.build_subject(several) == "3 scans of your letter (order 12)"
    assert messages.build_email_text(several, zone=UTC) == (
        "The QR code on your letter was scanned 3 times, on 2 pieces, between May 4, 2026, at 12:03 UTC and "
        "May 4, 2026, at 12:05 UTC:\n\n"
        "- Jane Doe, Austin, TX: 2 scans, last on May 4 at 12:05\n"
        "- Bob Roe, Waco, TX: 1 scan, on May 4 at 12:03\n\n"
        "Order 12 has 1,240 scans in all; 1 of its pieces was scanned more than once."
    )
    breaking = news(scanned(name="Jane\n\n- Doe\r\nTo: x"), scanned(item_id=1))
    assert "- Jane - Doe To: x, Austin" in messages.build_email_text(breaking, zone=UTC), "a name breaks no line"
    crowd = [scanned(item_id=n, name=f"Person {n}") for n in range(MAX_LISTED_ITEMS)]
    words = messages.build_email_text(news(*crowd, scans=100_000, item_count=90_000), zone=UTC)
    assert "was scanned 100,000 times, on 90,000 pieces, on May 4, 2026, at 12:03 UTC:" in words
    assert words.count("Person ") == MAX_LISTED_ITEMS, "the others are counted"
    assert "\n- and 89,980 more\n" in words


def test_a_text_message_is_short() -> None:
    one = "Jane Doe, Austin TX, scanned your postcard (order 12). It was scanned 3 times so far."
    many = "12 scans of your postcard (order 12): Jane Doe, Austin TX and 8 more. 240 in all."
    for scan_news, words in (
        (news(scanned(total_scans=3)), one),
        (news(scanned(), scans=12, item_count=9, order_scans=240), many),
    ):
        assert messages.build_text_message(scan_news) == words
        assert fit_text_message(words) == words
        assert len(words) <= MAX_TEXT_LENGTH


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


def render(title: str, text: str, reasons: Sequence[str] = (), *, unsubscribe: str | None = None) -> Reader:
    return read(messages.render_html(title, text, reasons, unsubscribe=unsubscribe))


def test_the_html_says_what_the_text_says_and_fetches_nothing() -> None:
    page = render("Title", "One.\n\n- a\n- b\n\nTwo, line one\nline two", ["Why."], unsubscribe="https://x/u")
    tags = [tag for tag, _ in page.tags]
    assert tags.count("li") == 2
    assert ("a", {"href": "https://x/u"}) in page.tags
    assert all(words in page.words for words in ("One.", "line two", "Why.", "Unsubscribe"))
    assert not {"img", "link", "script", "iframe"} & set(tags)


@given(st.text(), st.text(), st.text())
def test_nobody_puts_tags_into_the_html(title: str, words: str, reason: str) -> None:
    bad = '<img src=x onerror="x">'
    page = render(bad + title, bad + words, [bad + reason], unsubscribe='https://x/"><img>')
    assert "img" not in [tag for tag, _ in page.tags]


def test_addresses_are_links() -> None:
    for text, links in (
        ("See https://example.com/a?b=1&c=2.", ["https://example.com/a?b=1&c=2"]),
        ("(http://example.com/x) and https://y.example,", ["http://example.com/x", "https://y.example"]),
        ("javascript:alert(1) ftp://x", []),
        ('https://example.com/"onclick=x', ["https://example.com/"]),
    ):
        found = [attributes for tag, attributes in render("Title", text).tags if tag == "a"]
        assert found == [{"href": link} for link in links]
