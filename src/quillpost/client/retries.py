"""When a call is made again, and how long to wait before."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom

import httpx2

from quillpost.client.errors import QuillpostError, Unreachable, error_of

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 20.0

PASSING = (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError)
"""Failures of the way there and back; the others would only happen again."""

BUSY = frozenset({429, 502, 503, 504})
CONFLICT = 409

_chance = SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one answer may take, how often a call is made again, and how long all of that may take. Waits
    that the service asks for (`Retry-After`) count against the deadline only."""

    timeout: float
    retries: int
    deadline: float


def backoff(retry: int) -> float:
    """Up to twice as long each time, and by chance anything below: callers who failed together part."""
    return _chance.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**retry))


class Attempts:
    """The attempts of one call. Each call that we make may be made again: a POST carries its key."""

    def __init__(self, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._ends = clock() + patience.deadline
        self._retries = 0
        self._pauses = 0

    @property
    def timeout(self) -> float:
        """Seconds for the next attempt."""
        return max(0.0, min(self._patience.timeout, self._ends - self._clock()))

    def pause_after(self, outcome: httpx2.Response | httpx2.RequestError) -> float:
        """Seconds to wait before the next attempt; what failed is raised where there is none to make."""
        error = _error(outcome)
        asked = error.retry_after or 0.0
        is_used_up = self._retries >= self._patience.retries and not (asked and self._patience.retries)
        if not _is_passing(outcome, error) or is_used_up:
            raise error
        pause = max(backoff(self._pauses), asked)
        if self._clock() + pause >= self._ends:
            raise error
        self._pauses += 1
        if not asked:
            self._retries += 1
        return pause


def _error(outcome: httpx2.Response | httpx2.RequestError) -> QuillpostError:
    if isinstance(outcome, httpx2.Response):
        return error_of(outcome)
    url = outcome.request.url
    why = str(outcome) or type(outcome).__name__
    error = Unreachable(f"{url.scheme}://{url.netloc.decode()} cannot be reached: {why.rstrip('.')}.")
    error.__cause__ = outcome
    return error


def _is_passing(outcome: httpx2.Response | httpx2.RequestError, error: QuillpostError) -> bool:
    if isinstance(outcome, httpx2.RequestError):
        return isinstance(outcome, PASSING)
    # A key that is in use will be free; a key that was used with another body never will.
    return error.status in BUSY or (error.status == CONFLICT and error.retry_after is not None)
