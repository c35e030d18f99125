"""Clients that deliver webhooks, e-mails and text messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PostResult:
    """A status and the start of the response, or the error that prevented one."""

    status: int | None
    body: str = ""
    error: str | None = None
    retry_after: int | None = None


class WebhookClient(Protocol):
    """Delivers a signed event to a subscriber: guarded, bounded in time, without redirects."""

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """An e-mail or a text message to one address. A repeat after a crash has the same key, by which it can be
    recognized. A text message goes to a number (`+15125550100`) and ignores subject, HTML and link."""

    key: str
    to: str
    subject: str
    text: str
    at: datetime
    html: str = ""
    unsubscribe_url: str | None = None


class Notifier(Protocol):
    """Sends messages, one attempt each and bounded in time; several at once."""

    async def send(self, message: OutgoingMessage) -> None:
        """Returns once the other side has accepted it; else `MessageRejected`, `MessageDeferred` or `NotifierDown`."""

    async def close(self) -> None: ...


class MessageRejected(Exception):
    """Why this message will never be accepted, as a sentence."""


class MessageDeferred(Exception):
    """Why it was not accepted this time, as a sentence. `retry_after` in seconds, where the other side asks."""

    def __init__(self, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NotifierDown(Exception):
    """Why no message can be sent at present, as a sentence for an operator."""
