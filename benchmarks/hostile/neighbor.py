"""Who calls, by threads of their own: somebody with something heavy, and another account with light calls."""

import http.client
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit

from benchmarks.hostile.bodies import Sent

PATIENCE = 300.0
LIGHT = "/api/v2/mailing-lists"
CALLS = 60
PAUSE = 0.01


class Caller:
    """Somebody with a token; the line is kept from one light call to the next."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._line: http.client.HTTPConnection | None = None

    def get(self, path: str) -> int:
        return self._call("GET", path, None, {})

    def send(self, sent: Sent) -> int:
        """On a line of its own: the server ends one on which nothing comes for a while."""
        self.close()
        return self._call("POST", sent.path, sent.body, {"Content-Type": sent.content_type})

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _call(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> int:
        if self._line is None:
            assert self._place.hostname is not None
            self._line = http.client.HTTPConnection(self._place.hostname, self._place.port, timeout=PATIENCE)
        try:
            self._line.request(method, path, body, {**self._headers, **headers})
            answer = self._line.getresponse()
            answer.read()
        except (http.client.HTTPException, OSError):
            self.close()
            raise
        return answer.status


def median_latency(caller: Caller) -> float:
    """Seconds that a light call takes, as one of its kind."""
    times = []
    caller.close()
    for _ in range(CALLS):
        begun = time.perf_counter()
        status = caller.get(LIGHT)
        if status != http.client.OK:
            raise RuntimeError(f"A light call was answered {status}.")
        times.append(time.perf_counter() - begun)
        time.sleep(PAUSE)
    return statistics.median(times)


@contextmanager
def sending(caller: Caller, sent: Sent) -> Iterator[None]:
    """Somebody who sends this again and again meanwhile; it has begun when this does."""
    over, begun = Event(), Event()

    def send() -> None:
        while not over.is_set():
            begun.set()
            with suppress(http.client.HTTPException, OSError):
                caller.send(sent)

    thread = Thread(target=send, daemon=True)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)
