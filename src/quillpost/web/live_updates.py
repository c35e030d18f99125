"""Pages that change while somebody looks at them, by server-sent events.

An endpoint that has made sure that the thing is its reader's answers `stream(request, who, topic, draw)`.
What `draw` returns, fragments by name, is sent at once and whenever the topic has changed: only what differs
from what was sent before. The page has them swapped in: `hx-ext="sse" sse-connect="/orders/7/live"` around
elements with `sse-swap="name"`.

However many look on, one task of the process asks once a second what has changed, and none while nobody does.
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

from quillpost.accounts.users.sessions import SignedIn, still_there
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.core.errors import QuillpostError, Unavailable

Kind = Literal["order", "item", "import", "batch", "account"]
Topic = tuple[Kind, int]
"""What somebody watches: an order, a piece, an import, a print batch, or all that happens in an account."""

JUST_NOW = timedelta(seconds=10)

# PostgreSQL gives every version of a row the number of the transaction that wrote it.
ROWS = "select id, xmin::text as version from {table} where id = any(cast(:ids as bigint[]))"

# A piece's card has a life of its own, of which the piece itself knows nothing.
ITEMS = """
    select i.id, concat(i.xmin, ' ', g.xmin) as version from items i
      left join giftcards g on g.item_id = i.id
     where i.id = any(cast(:ids as bigint[]))
"""

# All that happens to an account's orders and pieces leaves a fact. The newest tells of most; those of the
# last seconds are counted too, for of two that write at once the earlier one may be seen later. What else
# needs attention, or is somebody's first step, leaves none: that is asked of an index each, and of the newest
# few rows.
ACCOUNTS = """
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

ASKING: Final[Mapping[Kind, sa.TextClause]] = {
    "order": sa.text(ROWS.format(table="orders")),
    "item": sa.text(ITEMS),
    "import": sa.text(ROWS.format(table="imports")),
    "batch": sa.text(ROWS.format(table="batches")),
    "account": sa.text(ACCOUNTS),
}


def versions(tx: Tx, topics: Iterable[Topic], *, now: datetime) -> dict[Topic, str]:
    """Of each that is there a text that is another once something has changed. One question for each kind.
    Takes the worker's transaction."""
    by_kind: dict[Kind, list[int]] = {}
    for kind, number in topics:
        by_kind.setdefault(kind, []).append(number)
    found: dict[Topic, str] = {}
    for kind, ids in by_kind.items():
        asked: dict[str, Any] = {"ids": ids}
        if kind == "account":
            asked["just_now"] = now - JUST_NOW
        found |= {(kind, row.id): row.version for row in tx.execute(ASKING[kind], asked)}
    return found


__all__ = ["Live", "Topic", "stream"]

log = structlog.get_logger(__name__)

Draw = Callable[[], Mapping[str, str]]
"""Makes the fragments, by name; runs in a thread, in a transaction of its own."""

STREAM: Final = "text/event-stream"
HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Nobody keeps it, and no proxy waits for its end before it passes on what there is."""
MOST = 500
MOST_OF_ONE = 20
MOST_OF_A_PERSON = 40
MOST_OF_AN_ACCOUNT = 150
"""Streams of a process, of one session, of all sessions of somebody, of all who look at an account: nobody
takes all of them."""
AT_ONCE = 4
"""Fragments that are drawn at a time, fewer than there are threads: pages come first."""
FULL = "Too many pages are kept up to date just now. This one shows how things stood when it was opened."


@dataclass(frozen=True, slots=True)
class Rhythm:
    """In seconds: how often we look, say that we are still there, and ask whether the reader is; after what
    time a stream ends (browsers come back by themselves), and after how long they do."""

    look: float = 1
    heartbeat: float = 15
    session: float = 15
    lasts: float = 600
    back_after: float = 3


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Watcher:
    """One stream: what it is about, for whom, and whether there is news."""

    who: SignedIn
    topic: Topic
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True
        self.has_news.set()

    async def wait(self, seconds: float) -> bool:
        """Whether there was news within this time."""
        try:
            async with asyncio.timeout(seconds):
                await self.has_news.wait()
        except TimeoutError:
            return False
        return True


class Live:
    """All streams of a process, and the one task that looks out for them."""

    def __init__(self, db: Database, clock: Clock, rhythm: Rhythm | None = None) -> None:
        self._db, self._clock = db, clock
        self.rhythm = rhythm or Rhythm()
        # A stream whose reader left before it began is forgotten with its watcher.
        self._watchers: WeakSet[_Watcher] = WeakSet()
        self._door = threading.Lock()
        self._lookout: asyncio.Task[None] | None = None
        self._easel = asyncio.Semaphore(AT_ONCE)
        self._is_ending = False

    @property
    def watched(self) -> int:
        """How many streams are open."""
        return len(self._all())

    def end(self) -> None:
        """The server stops: it waits for open connections, and these would stay for minutes."""
        self._is_ending = True
        for watcher in self._all():
            watcher.end()

    def take_place(self, who: SignedIn, topic: Topic) -> _Watcher:
        """The place of one more stream; `Unavailable` where there are too many, or this reader or their
        account has too many. However many ask at once, each is told in turn."""
        with self._door:
            others = [watcher.who for watcher in self._watchers]
            if (
                self._is_ending
                or len(others) >= MOST
                or sum(each.session_id == who.session_id for each in others) >= MOST_OF_ONE
                or sum(each.person_id == who.person_id for each in others) >= MOST_OF_A_PERSON
                or sum(each.here.account_id == who.here.account_id for each in others) >= MOST_OF_AN_ACCOUNT
            ):
                raise Unavailable(FULL)
            watcher = _Watcher(who, topic)
            self._watchers.add(watcher)
        return watcher

    async def events(self, place: _Watcher | None, draw: Draw) -> AsyncIterator[str]:
        """The stream itself. Unless its reader has a place, what there is now and no more."""
        sent: dict[str, bytes] = {}
        if place is None:
            yield _news(await run_in_threadpool(draw), sent)
            return
        with self._watching(place) as watcher:
            yield f"retry: {round(self.rhythm.back_after * 1000)}\n\n"
            ends_at = asyncio.get_running_loop().time() + self.rhythm.lasts
            while not watcher.is_over and asyncio.get_running_loop().time() < ends_at:
                watcher.has_news.clear()
                try:
                    async with self._easel:
                        drawn = await run_in_threadpool(draw)
                except Unavailable:  # whoever looks out finds the same, and goes on
                    await asyncio.sleep(self.rhythm.look)
                    watcher.has_news.set()
                except QuillpostError:  # it is gone, or no longer theirs: who comes back is told so
                    return
                else:
                    if news := _news(drawn, sent):
                        yield news
                while not await watcher.wait(self.rhythm.heartbeat):
                    yield ": still here\n\n"
                    if asyncio.get_running_loop().time() >= ends_at:
                        return

    @contextmanager
    def _watching(self, watcher: _Watcher) -> Iterator[_Watcher]:
        if self._is_ending:
            watcher.end()
        self._look_out()
        try:
            yield watcher
        finally:
            with self._door:
                self._watchers.discard(watcher)

    def _all(self) -> list[_Watcher]:
        with self._door:
            return list(self._watchers)

    def _look_out(self) -> None:
        """Somebody does from here on; a task of a loop that is gone is nobody."""
        loop = asyncio.get_running_loop()
        if self._lookout is None or self._lookout.done() or self._lookout.get_loop() is not loop:
            # In a context of its own: it is no part of the request that it begins with.
            self._lookout = loop.create_task(self._stay_on_the_lookout(), context=Context())

    async def _stay_on_the_lookout(self) -> None:
        loop = asyncio.get_running_loop()
        known: dict[Topic, str | None] = {}
        asked_at = loop.time()
        try:
            while self.watched:
                try:
                    await self._look(known)
                    if loop.time() - asked_at >= self.rhythm.session:
                        asked_at = loop.time()
                        await self._see_who_left()
                except Unavailable:
                    log.warning("live.blind")
                await asyncio.sleep(self.rhythm.look)
        finally:
            # Where it broke, nobody waits for news that never comes.
            for watcher in self._all():
                watcher.end()

    async def _look(self, known: dict[Topic, str | None]) -> None:
        """Tell those whose topic is another than it was. What is new here counts as changed: it was drawn
        before we looked for the first time."""
        topics = {watcher.topic for watcher in self._all()}
        found = await asyncio.to_thread(self._ask, topics)
        changed = {topic for topic in topics if topic not in known or known[topic] != found.get(topic)}
        known.clear()
        known.update({topic: found.get(topic) for topic in topics})
        for watcher in self._all():
            if watcher.topic in changed:
                watcher.has_news.set()

    async def _see_who_left(self) -> None:
        """Whose session has ended, or is in another account or mode by now, sees no more."""
        watchers = self._all()
        are_there = await asyncio.to_thread(self._ask_who_is_there, [watcher.who for watcher in watchers])
        for watcher, is_there in zip(watchers, are_there, strict=True):
            if not is_there:
                watcher.end()

    def _ask(self, topics: set[Topic]) -> dict[Topic, str]:
        with self._db.work() as tx:
            return versions(tx, topics, now=self._clock())

    def _ask_who_is_there(self, readers: list[SignedIn]) -> list[bool]:
        with self._db.work() as tx:
            return still_there(tx, readers, now=self._clock())


def stream(request: Request, who: SignedIn, topic: Topic, draw: Draw) -> StreamingResponse:
    """What `draw` shows, now and whenever the topic has changed. `topic` is the reader's: whoever answers so
    has made sure of that. Whoever does not ask for a stream gets what there is now."""
    live: Live = request.app.state.live
    stays = STREAM in request.headers.get("accept", "")
    place = live.take_place(who, topic) if stays else None
    return StreamingResponse(live.events(place, draw), media_type=STREAM, headers=dict(HEADERS))


def _news(drawn: Mapping[str, str], sent: dict[str, bytes]) -> str:
    """One event for each fragment that is not as it was sent; nothing, if all are. Notes what is sent."""
    events = []
    for name, text in drawn.items():
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if sent.get(name) != digest:
            sent[name] = digest
            lines = "\n".join(f"data: {line}" for line in text.splitlines() or [""])
            events.append(f"event: {name}\n{lines}\n\n")
    return "".join(events)
