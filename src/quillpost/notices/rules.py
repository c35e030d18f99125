"""What is decided without asking anyone."""

from datetime import datetime, timedelta
from typing import Literal

Channel = Literal["mail", "text"]

SCANS = "scans"
"""The kind of notice that whoever gets it may refuse."""

PEOPLE = "people"
"""The kind that goes to somebody who signs in, about just that."""

GIFTS = "giftcards"
"""The kind that tells of a gift card that was reported."""

TEXT_SUFFIX = "@sms"

RETRY_AFTER = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60)
)
"""How long a message that was not taken waits before each further attempt."""

GIVE_UP_AFTER = timedelta(days=3)
"""How long one is kept for a server that is down: whoever gets it later wonders more than it tells."""

FORGOTTEN_AFTER = timedelta(days=30)

SHORTEST_REST, LONGEST_REST = timedelta(seconds=5), timedelta(minutes=5)
LONGEST_ASKED = timedelta(days=1)


def channel(address: str) -> Channel:
    return "text" if address.endswith(TEXT_SUFFIX) else "mail"


def next_attempt(attempts: int, *, now: datetime, jitter: float, asked: int | None) -> datetime | None:
    """When to try again after so many attempts; None: that was the last. `jitter` (0 to 1) spreads those that
    failed together over a tenth of the wait. Where the other side asks for more time, it has it."""
    if attempts > len(RETRY_AFTER):
        return None
    wait = RETRY_AFTER[attempts - 1] * (1 + jitter / 10)
    if asked is not None:
        wait = max(wait, min(timedelta(seconds=asked), LONGEST_ASKED))
    return now + wait


def rest(failures: int) -> timedelta:
    """How long a server that was down so many times in a row is left alone."""
    doublings: int = 2 ** min(failures - 1, 10)
    return min(SHORTEST_REST * doublings, LONGEST_REST)
