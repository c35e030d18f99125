"""Several feeds as one. One that is down keeps nobody from the others."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from quillpost.ports.carriers import CarrierDown, CarrierFeed, CarrierReport, SetAside

log = structlog.get_logger(__name__)


class SeveralFeeds:
    """A file's name begins with its feed's, and a slash."""

    def __init__(self, feeds: Mapping[str, CarrierFeed]) -> None:
        self._feeds = feeds

    def poll(self, *, now: datetime) -> CarrierReport:
        names: list[str] = []
        expects_more = False
        for feed, report in self._reports(now):
            names += [f"{feed}/{name}" for name in report.names]
            expects_more = expects_more or report.expects_more
        return CarrierReport(names, expects_more)

    def fetch(self, name: str) -> bytes:
        feed, own = self._found(name)
        return feed.fetch(own)

    def settle(self, name: str) -> None:
        feed, own = self._found(name)
        feed.settle(own)

    def refuse(self, name: str, reason: str) -> None:
        feed, own = self._found(name)
        feed.refuse(own, reason)

    def set_aside(self) -> Sequence[SetAside]:
        found: list[SetAside] = []
        for name, feed in self._feeds.items():
            found += [SetAside(f"{name}/{each.name}", each.reason) for each in feed.set_aside()]
        return found

    def _reports(self, now: datetime) -> list[tuple[str, CarrierReport]]:
        reports, faults = [], []
        for name, feed in self._feeds.items():
            try:
                reports.append((name, feed.poll(now=now)))
            except CarrierDown as down:
                log.warning("tracking.feed_down", feed=name, reason=str(down))
                faults.append(down)
        if faults and not reports:
            raise faults[0]
        return reports

    def _found(self, name: str) -> tuple[CarrierFeed, str]:
        feed, _, own = name.partition("/")
        return self._feeds[feed], own
