"""What pages say of events and deliveries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Literal

from quillpost.core import exact_json
from quillpost.notifications.webhooks.deliveries import Delivery
from quillpost.notifications.webhooks.queries import Webhook
from quillpost.notifications.webhooks.rules import DELIVERED, EVERY_TYPE, ITEM_STATUS, ORDER_STATUS, SCAN

EVENTS: Final[Mapping[str, str]] = {
    EVERY_TYPE: "Everything",
    ORDER_STATUS: "An order moves on",
    ITEM_STATUS: "A piece moves on",
    DELIVERED: "A piece is delivered",
    SCAN: "A QR code is scanned",
}
"""Every event, in the words of the pages."""

STATUSES: Final[Mapping[str, str]] = {"pending": "Waiting", "delivered": "Arrived", "failed": "Given up"}

Tone = Literal["good", "bad", "waiting"]


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a delivery, in a sentence. `is_settled`: no more is to be expected in the next seconds."""

    sentence: str
    tone: Tone
    is_settled: bool


def outcome(delivery: Delivery, webhook: Webhook) -> Told:
    answered = _answered(delivery.response_status)
    if delivery.status == "delivered":
        quickly = _took(delivery)
        return Told(f"{answered} in {quickly}" if quickly else answered, "good", is_settled=True)
    wrong = _wrong(delivery, answered)
    if delivery.status == "failed":
        tries = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts:,} attempts"
        return Told(f"{wrong} Given up after {tries}.".strip(), "bad", is_settled=True)
    if not webhook.is_awake:
        return Told(f"It waits: this webhook is {webhook.status}.", "waiting", is_settled=True)
    if delivery.waits_for is not None:
        sentence = f"It waits for delivery {delivery.waits_for} of the same piece or order."
        return Told(sentence, "waiting", is_settled=True)
    if delivery.attempts:
        return Told(f"{wrong} It is tried again.", "bad", is_settled=True)
    return Told("It is on its way.", "waiting", is_settled=False)


def payload(words: str | None) -> str | None:
    """What was sent, for people to read: JSON by the line, with its numbers as they were written."""
    if words is None or not words.startswith("{"):
        return words
    try:
        return _by_line(exact_json.read(words.encode()), 0)
    except exact_json.NotJson:
        return words


def _answered(status: int | None) -> str:
    if status is None:
        return ""
    known = next((each.phrase for each in HTTPStatus if each == status), "")
    return f"{status} {known}".strip()


def _wrong(delivery: Delivery, answered: str) -> str:
    sentence = delivery.error or (f"The receiver answered {answered}" if answered else "")
    return sentence if not sentence or sentence.endswith(".") else f"{sentence}."


def _took(delivery: Delivery) -> str | None:
    """From when it was asked for until its answer was written down, of one that went out at once."""
    if delivery.delivered_at is None or delivery.attempts != 1:
        return None
    took = delivery.delivered_at - delivery.created_at
    if took < timedelta(seconds=1):
        return f"{max(1, took // timedelta(milliseconds=1))} ms"
    return f"{took.total_seconds():.1f} seconds" if took < timedelta(minutes=1) else None


def _by_line(value: object, depth: int) -> str:
    if not isinstance(value, dict | list) or not value:
        return exact_json.write(value)
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        rows = [f"{inner}{_by_line(each, depth + 1)}" for each in value]
        return "[\n" + ",\n".join(rows) + f"\n{outer}]"
    rows = [f"{inner}{exact_json.write(name)}: {_by_line(each, depth + 1)}" for name, each in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
