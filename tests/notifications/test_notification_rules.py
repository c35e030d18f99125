"""When a notice is tried again, and in which letters it is written."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import outbox
from quillpost.core.text import to_one_line
from quillpost.notifications.messages import GSM_CHARS, GSM_EXTENDED_CHARS, MAX_TEXT_LENGTH, fit_text_message

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
