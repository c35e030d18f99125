"""Requests to a house that issues gift cards: a few at once, bounded in time and size, never redirected.

What it answers may hold a card, and what it is asked holds our key: no exception and no log line has either.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog

from quillpost.accounts.billing.rules import dollars
from quillpost.core import exact_json
from quillpost.core.errors import NotReady
from quillpost.core.hosts import is_this_machine
from quillpost.integrations.http.client import FAILURES, sentence
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, IssuerDown, NoCard

log = structlog.get_logger(__name__)

SETTING = "QUILLPOST_GIFTCARDS"
LARGEST_ANSWER = 200_000
LONGEST_SECRET, LONGEST_LINK = 200, 2_048
MOST_FAILURES = 3
"""So many in a row, and the others are left for another time: it is down, and not at odds with one card."""
MOST_RESTS, LONGEST_REST, USUAL_REST = 5, 30.0, 1.0
"""How often, and for how many seconds, one call waits where it is told that there were too many."""

NO_FUNDS = 402
MISSING = 404
CONFLICT = 409
REFUSALS = (400, CONFLICT, 422)
TOO_MANY = 429
MONEY_WORDS = (b"fund", b"balance")

T = TypeVar("T")
Rest = Callable[[float], Awaitable[None]]
Outcome = GiftCard | NoCard


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said to one request. Of a refusal there is the status alone."""

    status: int
    told: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


class Line:
    """An open line to the house: its requests share connections, and end with it."""

    def __init__(self, session: aiohttp.ClientSession, calls: "IssuerCalls") -> None:
        self._session, self._calls = session, calls

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        may_miss: bool = False,
    ) -> Answer:
        """The answer, or that it has no money for us or refuses (`Answer.status`); else `IssuerDown`. So is
        what is not found, unless it `may_miss`: our address of them is wrong."""
        for _ in range(MOST_RESTS):
            status, wait, told = await self._once(method, path, body, query)
            if may_miss and status == MISSING:
                return Answer(status)
            if status != TOO_MANY:
                return self._judged(status, told)
            await self._calls.rest(wait)
        raise IssuerDown(f"{self._calls.host} had too many requests.")

    async def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str] | None
    ) -> tuple[int, float, bytes]:
        url = f"{self._calls.base}/{path}"
        data = None if body is None else orjson.dumps(body)
        try:
            async with self._session.request(
                method, url, data=data, params=query, headers=self._calls.headers, allow_redirects=False
            ) as response:
                return response.status, _rest_of(response.headers), await _read(response)
        except FAILURES as failure:
            said = sentence(failure, url, seconds=self._calls.seconds)
        raise IssuerDown(said)  # out here: the failure knows the request, and with it the key

    def _judged(self, status: int, body: bytes) -> Answer:
        host = self._calls.host
        if 300 <= status < 400:
            raise IssuerDown(f"{host} redirects to another address: give the final one in {SETTING}.")
        if status in (401, 403):
            raise IssuerDown(
                f"{host} does not let us in, it answered with status {status}: see {SETTING}_KEY."
            )
        told = _json(body)
        if status == NO_FUNDS:
            return Answer(status)
        if status in REFUSALS and told is not None:  # what is no JSON was said by somebody in between
            return Answer(NO_FUNDS if _is_about_money(body) else status)
        if not 200 <= status < 300:
            raise IssuerDown(f"{host} answered with status {status}.")
        if len(body) > LARGEST_ANSWER:
            raise IssuerDown(f"{host} answered with more than {LARGEST_ANSWER:,} bytes.")
        if told is None:
            raise self.odd()
        return Answer(status, told)

    def odd(self) -> IssuerDown:
        """Their answer is something else than what their documentation says."""
        return IssuerDown(f"{self._calls.host} gave an answer that cannot be read.")


class IssuerCalls:
    """For worker threads: each call runs a short event loop of its own in the calling thread."""

    def __init__(
        self,
        base: str,
        *,
        headers: Mapping[str, str],
        at_once: int,
        seconds: float = 30.0,
        rest: Rest = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.base, self.seconds, self.rest = base, seconds, rest
        self.host = urlsplit(base).hostname or base
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._at_once, self._tls = at_once, tls
        # The address is the operator's own setting, not a caller's: it may well be on a private network.
        self._guard = OutboundGuard(allow_private=True)

    def none_of(self, card: CardAsked, answer: Answer) -> NoCard:
        """What a refusal means of which no order is found there. The catalogue is the operator's, who can
        mend it, so nobody's piece fails for it."""
        if answer.status == NO_FUNDS:
            return NoCard(f"The funds at {self.host} do not cover {card.brand} over {dollars(card.cents)}.")
        refused = (
            f"{self.host} refuses {card.brand} over {dollars(card.cents)} under its code {card.product}, with"
            f" status {answer.status}"
        )
        if answer.status == CONFLICT:
            return NoCard(f"{refused}: it has the order, and does not find it.", "ordered")
        return NoCard(f"{refused}: see the brand's issuer code and amounts, `quillpost giftcards brands`.")

    def talk(self, talk: Callable[[Line], Coroutine[Any, Any, T]]) -> T:
        async def over_a_line() -> T:
            async with self._guard.session(seconds=self.seconds, tls=self._tls) as session:
                return await talk(Line(session, self))

        return asyncio.run(over_a_line())

    def each(
        self, asked: Sequence[CardAsked], one: Callable[[Line, CardAsked], Awaitable[Outcome]]
    ) -> Mapping[str, Outcome]:
        """What became of each, by its reference. One that fails is left out; all of them: `IssuerDown`."""

        async def all_of_them(line: Line) -> Mapping[str, Outcome]:
            desk = _Desk(asked)
            await asyncio.gather(*(desk.serve(line, one) for _ in range(self._at_once)))
            return desk.found()

        return self.talk(all_of_them)


class _Desk:
    """Cards to be asked for, which several serve at once until it is plain that nobody is there."""

    def __init__(self, asked: Sequence[CardAsked]) -> None:
        self._waiting = deque({card.reference: card for card in asked}.values())
        self._found: dict[str, Outcome] = {}
        self._fault: IssuerDown | None = None
        self._failures = 0

    async def serve(self, line: Line, one: Callable[[Line, CardAsked], Awaitable[Outcome]]) -> None:
        while self._waiting and self._failures < MOST_FAILURES:
            card = self._waiting.popleft()
            try:
                self._found[card.reference] = await one(line, card)
                self._failures = 0
            except IssuerDown as fault:
                self._fault = fault
                self._failures += 1

    def found(self) -> Mapping[str, Outcome]:
        if self._fault is not None:
            if not self._found:
                raise IssuerDown(str(self._fault))
            log.warning("giftcards_left_out", issued=len(self._found), why=str(self._fault))
        return self._found


def checked(address: str) -> str:
    """The house's address without a slash at its end, or `NotReady` with what is wrong with it."""
    try:
        parsed = urlsplit(address)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        is_plain = False
    if not is_plain or parsed.scheme not in ("http", "https") or not address.isprintable() or " " in address:
        raise NotReady(f"{SETTING} must name an address such as https://host.")
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a user or a password: set {SETTING}_KEY instead.")
    if parsed.scheme == "http" and not is_this_machine(parsed.hostname or ""):
        raise NotReady(f"{SETTING} must begin with https: our key and the cards go over that line.")
    return address.rstrip("/")


def text(value: object, *, most: int = LONGEST_SECRET) -> str | None:
    """What can be shown to whoever claims the card; anything else is as good as nothing."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.isprintable() or len(value) > most:
        return None
    return value.strip() or None


def link(value: object) -> str | None:
    """A page that a browser may be sent to."""
    given = text(value, most=LONGEST_LINK)
    return given if given and given.startswith("https://") and " " not in given else None


def day(value: object) -> date | None:
    given = text(value) or ""
    try:
        return date.fromisoformat(given[:10])
    except ValueError:
        return None


def is_worth(value: object, cents: int) -> bool:
    """Whether it is the amount that was asked for; what is not said is believed."""
    if value is None:
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool) and round(value * 100) == cents


def listed(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list, where it is one."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_about_money(body: bytes) -> bool:
    """Houses refuse with several statuses what they are not paid for; that is mended, a wrong card is not."""
    return any(word in body.lower() for word in MONEY_WORDS)


def _json(body: bytes) -> Mapping[str, Any] | None:
    try:
        told = exact_json.read(body)
    except exact_json.NotJson:
        return None
    return told if isinstance(told, dict) else None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """No more than one byte too many."""
    body = bytearray()
    while len(body) <= LARGEST_ANSWER and (
        chunk := await response.content.read(LARGEST_ANSWER + 1 - len(body))
    ):
        body += chunk
    return bytes(body)


def _rest_of(headers: Mapping[str, str]) -> float:
    """What `Retry-After` says in seconds, within reason; dates are not read."""
    said = headers.get("Retry-After", "").strip()
    return min(float(said), LONGEST_REST) if said.isascii() and said.isdigit() else USUAL_REST
