"""Labels of events and deliveries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Literal

from quillpost.core import exact_json
from quillpost.notifications.webhooks.deliveries import WebhookDelivery
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import (
    ALL_EVENT_TYPES,
    DELIVERED_EVENT,
    ITEM_STATUS_EVENT,
    ORDER_STATUS_EVENT,
    SCAN_EVENT,
)
from quillpost.web.rendering import format_json

EVENT_LABELS: Final[Mapping[str, str]] = {
    ALL_EVENT_TYPES: "Everything",
    ORDER_STATUS_EVENT: "An order moves on",
    ITEM_STATUS_EVENT: "A piece moves on",
    DELIVERED_EVENT: "A piece is delivered",
    SCAN_EVENT: "A QR code is scanned",
}

STATUS_LABELS: Final[Mapping[str, str]] = {"pending": "Waiting", "delivered": "Arrived", "failed": "Given up"}

OutcomeTone = Literal["good", "bad", "waiting"]


@dataclass(frozen=True, slots=True)
class DeliveryOutcomeView:
    """`is_settled`: nothing changes in the next seconds."""

    sentence: str
    tone: OutcomeTone
    is_settled: bool


def describe_outcome(delivery: WebhookDelivery, webhook: WebhookSubscription) -> DeliveryOutcomeView:
    status_text = _status_text(delivery.response_status)
    if delivery.status == "delivered":
        duration = _duration_text(delivery)
        return DeliveryOutcomeView(f"{status_text} in {duration}" if duration else status_text, "good", is_settled=True)
    error_text = _error_text(delivery, status_text)
    if delivery.status == "failed":
        attempts_label = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts:,} attempts"
        return DeliveryOutcomeView(f"{error_text} Given up after {attempts_label}.".strip(), "bad", is_settled=True)
    if not webhook.is_awake:
        return DeliveryOutcomeView(f"It waits: this webhook is {webhook.status}.", "waiting", is_settled=True)
    if delivery.waits_for is not None:
        sentence = f"It waits for delivery {delivery.waits_for} of the same piece or order."
        return DeliveryOutcomeView(sentence, "waiting", is_settled=True)
    if delivery.attempts:
        return DeliveryOutcomeView(f"{error_text} It is tried again.", "bad", is_settled=True)
    return DeliveryOutcomeView("It is on its way.", "waiting", is_settled=False)


def format_payload(text: str | None) -> str | None:
    """JSON by the line, with numbers as they were written."""
    if text is None or not text.startswith("{"):
        return text
    try:
        return format_json(exact_json.parse_json(text.encode()))
    except exact_json.InvalidJson:
        return text


def _status_text(status: int | None) -> str:
    if status is None:
        return ""
    phrase = next((each.phrase for each in HTTPStatus if each == status), "")
    return f"{status} {phrase}".strip()


def _error_text(delivery: WebhookDelivery, status_text: str) -> str:
    sentence = delivery.error or (f"The receiver answered {status_text}" if status_text else "")
    return sentence if not sentence or sentence.endswith(".") else f"{sentence}."


def _duration_text(delivery: WebhookDelivery) -> str | None:
    """From creation to response, if the first attempt succeeded."""
    if delivery.delivered_at is None or delivery.attempts != 1:
        return None
    elapsed = delivery.delivered_at - delivery.created_at
    if elapsed < timedelta(seconds=1):
        return f"{max(1, elapsed // timedelta(milliseconds=1))} ms"
    return f"{elapsed.total_seconds():.1f} seconds" if elapsed < timedelta(minutes=1) else None
