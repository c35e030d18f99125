"""Pages that change while they are open, by server-sent events.

An endpoint that has checked that the user may see the topic answers `stream_response(request, user, topic, render)`.
The fragments that `render` returns are sent at once and whenever the topic has changed, if they differ from before.
The page swaps them in: `hx-ext="sse" sse-connect="/orders/7/live"` around elements with `sse-swap="name"`.

However many watch, one task of the process polls once a second, and none while nobody does.
"""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from weakref import WeakSet

import sqlalchemy as sa
import structlog
from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from quillpost.accounts.users.sessions import SignedInUser, check_still_signed_in
from quillpost.core.database import Database, Tx
from quillpost.core.errors import QuillpostError, Unavailable
from quillpost.core.text import Clock

TopicKind = Literal["order", "item", "import", "batch", "account"]
Topic = tuple[TopicKind, int]

RECENT_WINDOW = timedelta(seconds=10)

# PostgreSQL gives every version of a row the number of the transaction that wrote it.
ROW_VERSIONS = "select id, xmin::text as version from {table} where id = any(cast(:ids as bigint[]))"

# A piece's card has a life of its own, of which the piece itself knows nothing.
ITEM_VERSIONS = """
    select i.id, concat(i.xmin, ' ', g.xmin) as version from items i
      left join giftcards g on g.item_id = i.id
     where i.id = any(cast(:ids as bigint[]))
"""

# All that happens to an account's orders and pieces leaves a fact. The newest tells of most; those of the
# last seconds are counted too, for of two that write at once the earlier one may be seen later. What else
# needs attention, or is somebody's first step, leaves none: that is asked of an index each, and of the newest
# few rows.
ACCOUNT_VERSIONS = """
    select a.id, concat_ws(' ', newest.at, newest.id, lately.n,
           (select xmin from accounts where id = a.id),
           (select max(id) from mailing_lists where account_id = a.id),
           (select max(finished_at) from imports where account_id = a.id and finished_at is not null),
           (select max(at) from ledger_moves where account_id = a.id and mode = 'live'),
           (select max(reported_at) from giftcards
             where account_id = a.id and mode in ('test', 'live') and reported_at is not null),
           (select string_agg(w::text, ' ' order by id) from (
                select id, status from webhooks where account_id = a.id order by id desc limit 100) w),
           (select string_agg(u::text, ' ' order by id) from (
                select id, enabled, failing_since, last_error_at from automations
                 where account_id = a.id order by id desc limit 100) u)) as version
      from unnest(cast(:ids as bigint[])) as a (id)
      left join lateral (
          select at, id from facts f where f.account_id = a.id
           order by f.at desc, f.id desc limit 1) newest on true
      left join lateral (
          select count(*) as n from (
              select from facts f
               where f.account_id = a.id and f.at > :just_now limit 1000) counted) lately on true
"""

VERSION_QUERIES: Final[Mapping[TopicKind, sa.TextClause]] = {
    "order": sa.text(ROW_VERSIONS.format(table="orders")),
    "item": sa.text(ITEM_VERSIONS),
    "import": sa.text(ROW_VERSIONS.format(table="imports")),
    "batch": sa.text(ROW_VERSIONS.format(table="batches")),
    "account": sa.text(ACCOUNT_VERSIONS),
}


def read_versions(tx: Tx, topics: Iterable[Topic], *, now: datetime) -> dict[Topic, str]:
    """By topic, a text that changes with it. One query for each kind, in the worker's transaction."""
    by_kind: dict[TopicKind, list[int]] = {}
    for kind, topic_id in topics:
        by_kind.setdefault(kind, []).append(topic_id)
    versions_by_topic: dict[Topic, str] = {}
    for kind, ids in by_kind.items():
        parameters: dict[str, Any] = {"ids": ids}
        if kind == "account":
            parameters["just_now"] = now - RECENT_WINDOW
        versions_by_topic |= {(kind, row.id): row.version for row in tx.execute(VERSION_QUERIES[kind], parameters)}
    return versions_by_topic


__all__ = ["LiveUpdates", "Topic", "stream_response"]

log = structlog.get_logger(__name__)

RenderFragments = Callable[[], Mapping[str, str]]  # runs in a thread, in its own transaction

EVENT_STREAM_TYPE: Final = "text/event-stream"
STREAM_HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No cache keeps it, and no proxy waits for its end."""
MAX_STREAMS = 500
MAX_STREAMS_PER_SESSION = 20
MAX_STREAMS_PER_PERSON = 40
MAX_STREAMS_PER_ACCOUNT = 150
"""Of a process, a session, a person and an account: nobody takes all of them."""
MAX_CONCURRENT_RENDERS = 4  # fewer than there are threads: pages come first
TOO_MANY_STREAMS = "Too many pages are kept up to date just now. This one shows how things stood when it was opened."


@dataclass(frozen=True, slots=True)
class StreamTiming:
    """In seconds. Streams end after `lifetime`; browsers reconnect by themselves, after `reconnect_after`."""

    poll: float = 1
    heartbeat: float = 15
    session_check: float = 15
    lifetime: float = 600
    reconnect_after: float = 3


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Watcher:
    user: SignedInUser
    topic: Topic
    has_changes: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False

    def end(self) -> None:
        self.has_ended = True
        self.has_changes.set()

    async def wait(self, seconds: float) -> bool:
        """Whether something changed in time."""
        try:
            async with asyncio.timeout(seconds):
                await self.has_changes.wait()
        except TimeoutError:
            return False
        return True


class LiveUpdates:
    """All streams of a process, and the one task that polls for them."""

    def __init__(self, db: Database, clock: Clock, timing: StreamTiming | None = None) -> None:
        self._db, self._clock = db, clock
        self.timing = timing or StreamTiming()
        # A stream whose reader left before it began is forgotten with its watcher.
        self._watchers: WeakSet[_Watcher] = WeakSet()
        self._lock = threading.Lock()
        self._poll_task: asyncio.Task[None] | None = None
        self._render_slots = asyncio.Semaphore(MAX_CONCURRENT_RENDERS)
        self._is_ending = False

    @property
    def stream_count(self) -> int:
        return len(self._list_watchers())

    def end(self) -> None:
        """On shutdown: the server waits for open connections, and these would stay for minutes."""
        self._is_ending = True
        for watcher in self._list_watchers():
            watcher.end()

    def register(self, user: SignedInUser, topic: Topic) -> _Watcher:
        """`Unavailable` if there are too many streams in all, or of this session, person or account."""
        with self._lock:
            watching_users = [watcher.user for watcher in self._watchers]
            if (
                self._is_ending
                or len(watching_users) >= MAX_STREAMS
                or sum(other.session_id == user.session_id for other in watching_users) >= MAX_STREAMS_PER_SESSION
                or sum(other.person_id == user.person_id for other in watching_users) >= MAX_STREAMS_PER_PERSON
                or sum(other.here.account_id == user.here.account_id for other in watching_users)
                >= MAX_STREAMS_PER_ACCOUNT
            ):
                raise Unavailable(TOO_MANY_STREAMS)
            watcher = _Watcher(user, topic)
            self._watchers.add(watcher)
        return watcher

    async def events(self, registered: _Watcher | None, render: RenderFragments) -> AsyncIterator[str]:
        """The stream, or only the current state if it is not registered."""
        digests: dict[str, bytes] = {}
        if registered is None:
            yield _format_events(await run_in_threadpool(render), digests)
            return
        with self._watching(registered) as watcher:
            yield f"retry: {round(self.timing.reconnect_after * 1000)}\n\n"
            ends_at = asyncio.get_running_loop().time() + self.timing.lifetime
            while not watcher.has_ended and asyncio.get_running_loop().time() < ends_at:
                watcher.has_changes.clear()
                try:
                    async with self._render_slots:
                        fragments = await run_in_threadpool(render)
                except Unavailable:  # the poll finds the same, and goes on
                    await asyncio.sleep(self.timing.poll)
                    watcher.has_changes.set()
                except QuillpostError:  # it is gone, or no longer theirs
                    return
                else:
                    if events := _format_events(fragments, digests):
                        yield events
                while not await watcher.wait(self.timing.heartbeat):
                    yield ": still here\n\n"
                    if asyncio.get_running_loop().time() >= ends_at:
                        return

    @contextmanager
    def _watching(self, watcher: _Watcher) -> Iterator[_Watcher]:
        if self._is_ending:
            watcher.end()
        self._start_polling()
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    def _list_watchers(self) -> list[_Watcher]:
        with self._lock:
            return list(self._watchers)

    def _start_polling(self) -> None:
        """A task of another, ended loop does not count."""
        loop = asyncio.get_running_loop()
        if self._poll_task is None or self._poll_task.done() or self._poll_task.get_loop() is not loop:
            # In a context of its own: it is no part of the request that it begins with.
            self._poll_task = loop.create_task(self._poll(), context=Context())

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        versions_by_topic: dict[Topic, str | None] = {}
        sessions_checked_at = loop.time()
        try:
            while self.stream_count:
                try:
                    await self._notify_changed(versions_by_topic)
                    if loop.time() - sessions_checked_at >= self.timing.session_check:
                        sessions_checked_at = loop.time()
                        await self._end_expired_sessions()
                except Unavailable:
                    log.warning("live_updates.database_unavailable")
                await asyncio.sleep(self.timing.poll)
        finally:
            # Where it broke, nobody waits for news that never comes.
            for watcher in self._list_watchers():
                watcher.end()

    async def _notify_changed(self, versions_by_topic: dict[Topic, str | None]) -> None:
        """A new topic counts as changed: it was rendered before we first looked."""
        topics = {watcher.topic for watcher in self._list_watchers()}
        current = await asyncio.to_thread(self._read_versions, topics)
        changed = {
            topic
            for topic in topics
            if topic not in versions_by_topic or versions_by_topic[topic] != current.get(topic)
        }
        versions_by_topic.clear()
        versions_by_topic.update({topic: current.get(topic) for topic in topics})
        for watcher in self._list_watchers():
            if watcher.topic in changed:
                watcher.has_changes.set()

    async def _end_expired_sessions(self) -> None:
        """Also of users who look at another account or mode by now."""
        watchers = self._list_watchers()
        are_active = await asyncio.to_thread(self._check_sessions, [watcher.user for watcher in watchers])
        for watcher, is_active in zip(watchers, are_active, strict=True):
            if not is_active:
                watcher.end()

    def _read_versions(self, topics: set[Topic]) -> dict[Topic, str]:
        with self._db.system_transaction() as tx:
            return read_versions(tx, topics, now=self._clock())

    def _check_sessions(self, users: list[SignedInUser]) -> list[bool]:
        with self._db.system_transaction() as tx:
            return check_still_signed_in(tx, users, now=self._clock())


def stream_response(request: Request, user: SignedInUser, topic: Topic, render: RenderFragments) -> StreamingResponse:
    """What `render` shows, now and whenever the topic changes. The caller has checked that the user may see the
    topic. A client that does not ask for a stream gets the current state."""
    live_updates: LiveUpdates = request.app.state.live_updates
    wants_stream = EVENT_STREAM_TYPE in request.headers.get("accept", "")
    watcher = live_updates.register(user, topic) if wants_stream else None
    return StreamingResponse(
        live_updates.events(watcher, render), media_type=EVENT_STREAM_TYPE, headers=dict(STREAM_HEADERS)
    )


def _format_events(fragments: Mapping[str, str], digests: dict[str, bytes]) -> str:
    """One event for each fragment that differs from what was sent before."""
    events = []
    for name, text in fragments.items():
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if digests.get(name) != digest:
            digests[name] = digest
            lines = "\n".join(f"data: {line}" for line in text.splitlines() or [""])
            events.append(f"event: {name}\n{lines}\n\n")
    return "".join(events)
