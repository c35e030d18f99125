"""What is sent to subscribers and to people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PostResult:
    """What came of one delivery: a status and the start of the answer, or the error that stopped it."""

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
    """An e-mail, or a text message, to one person. The same key is the same message: one that is sent again
    after a crash carries it, so that the repeat can be told. A text message goes to a number (`+15125550100`)
    and has no use for the subject, the HTML and the link on which its reader says that it is enough."""

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
        """Done once the other side has taken it; else `MessageRejected`, `MessageDeferred` or `NotifierDown`."""
        ...

    async def close(self) -> None: ...


class MessageRejected(Exception):
    """Why this message will never be taken, as a sentence: trying again is in vain."""


class MessageDeferred(Exception):
    """Why it was not taken this time, as a sentence. `retry_after` seconds, where the other side asks."""

    def __init__(self, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NotifierDown(Exception):
    """Why no message at all can be sent at present, as a sentence for an operator."""
