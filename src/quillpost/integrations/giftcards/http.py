"""Requests to gift card issuers: a few at once, bounded in time and size, never redirected. Responses may hold a card,
and requests hold our key: neither appears in exceptions or logs."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, ClassVar, TypedDict, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core import exact_json
from quillpost.core.errors import NotReady
from quillpost.core.text import is_loopback_host
from quillpost.integrations.http.client import (
    REQUEST_FAILURES,
    ServiceClient,
    describe_failure,
    parse_service_url,
    read_bounded,
)
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret, IssuerDown

log = structlog.get_logger(__name__)
SETTING = "QUILLPOST_GIFTCARDS"
MAX_RESPONSE_BYTES = 200_000
MAX_SECRET_LENGTH, MAX_LINK_LENGTH = 200, 2_048
MAX_FAILURES = 3  # in a row: the issuer is down, so the others wait
MAX_ATTEMPTS, MAX_WAIT_SECONDS, DEFAULT_WAIT_SECONDS = 5, 30.0, 1.0  # after a 429
NO_FUNDS_STATUS = 402
NOT_FOUND_STATUS = 404
CONFLICT_STATUS = 409
REFUSAL_STATUSES = (400, CONFLICT_STATUS, 422)
TOO_MANY_STATUS = 429
MONEY_WORDS = (b"fund", b"balance")
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
CardOutcome = CardSecret | CardNotIssued


@dataclass(frozen=True, slots=True)
class IssuerResponse:
    """Of a refusal only the status is set."""

    status: int
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class IssuerConnection:
    """An open session with the issuer."""

    def __init__(self, session: aiohttp.ClientSession, client: "IssuerClient") -> None:
        self._session, self._client = session, client

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        allow_missing: bool = False,
    ) -> IssuerResponse:
        """The response, or its status where it has no money for us or refuses; else `IssuerDown`, also for a 404 unless
        `allow_missing`: then our URL is wrong."""
        for _ in range(MAX_ATTEMPTS):
            status, wait_seconds, response_body = await self._send(method, path, body, query)
            if allow_missing and status == NOT_FOUND_STATUS:
                return IssuerResponse(status)
            if status != TOO_MANY_STATUS:
                return self._check_response(status, response_body)
            await self._client.sleep(wait_seconds)
        raise IssuerDown(f"{self._client.host} had too many requests.")

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str] | None
    ) -> tuple[int, float, bytes]:
        url = f"{self._client.base_url}/{path}"
        data = None if body is None else orjson.dumps(body)
        try:
            async with self._session.request(
                method, url, data=data, params=query, headers=self._client.headers, allow_redirects=False
            ) as response:
                return (
                    response.status,
                    _read_retry_after(response.headers),
                    await read_bounded(response, MAX_RESPONSE_BYTES),
                )
        except REQUEST_FAILURES as failure:
            reason = describe_failure(failure, url, seconds=self._client.seconds)
        raise IssuerDown(reason)  # out here: the failure knows the request, and with it the key

    def _check_response(self, status: int, body: bytes) -> IssuerResponse:
        host = self._client.host
        if 300 <= status < 400:
            raise IssuerDown(f"{host} redirects to another address: give the final one in {SETTING}.")
        if status in (401, 403):
            raise IssuerDown(f"{host} does not let us in, it answered with status {status}: see {SETTING}_KEY.")
        payload = _parse_object(body)
        if status == NO_FUNDS_STATUS:
            return IssuerResponse(status)
        if status in REFUSAL_STATUSES and payload is not None:  # what is not JSON comes from a proxy in between
            # Issuers refuse with several statuses what is not paid for; that can be fixed, a wrong card cannot.
            is_unpaid = any(word in body.lower() for word in MONEY_WORDS)
            return IssuerResponse(NO_FUNDS_STATUS if is_unpaid else status)
        if not 200 <= status < 300:
            raise IssuerDown(f"{host} answered with status {status}.")
        if len(body) > MAX_RESPONSE_BYTES:
            raise IssuerDown(f"{host} answered with more than {MAX_RESPONSE_BYTES:,} bytes.")
        if payload is None:
            raise self.build_invalid_response_error()
        return IssuerResponse(status, payload)

    def build_invalid_response_error(self) -> IssuerDown:
        return IssuerDown(f"{self._client.host} gave an answer that cannot be read.")


class ClientOptions(TypedDict, total=False):
    seconds: float
    sleep: Sleep
    tls: ssl.SSLContext | None


class IssuerClient(ABC):
    """An issuer over HTTP. For worker threads: each call runs a short event loop in the calling thread."""

    reference_field: ClassVar[str]
    """The name of our reference in the issuer's orders."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        concurrency: int,
        seconds: float = 30.0,
        sleep: Sleep = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.base_url, self.seconds, self.sleep = base_url, seconds, sleep
        self.host = urlsplit(base_url).hostname or base_url
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._concurrency = concurrency
        self._service = ServiceClient(base_url, error=IssuerDown, seconds=seconds, tls=tls)

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Mapping[str, CardOutcome]:
        """Results by reference. One that fails is left out; all of them: `IssuerDown`."""
        del now

        async def issue_all(connection: IssuerConnection) -> Mapping[str, CardOutcome]:
            card_queue = _CardQueue(card_requests)
            tasks = (card_queue.issue_waiting(connection, self._issue_card) for _ in range(self._concurrency))
            await asyncio.gather(*tasks)
            return card_queue.get_outcomes()

        return self._run_with_connection(issue_all)

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del brand, product, cents
        return None

    def return_card(self, reference: str, *, now: datetime) -> bool:
        del reference, now
        return False

    def check_connection(self) -> str:
        async def check(connection: IssuerConnection) -> str:
            await self._check_account(connection)
            return f"{self.host} lets us in"

        return self._run_with_connection(check)

    @abstractmethod
    async def _check_account(self, connection: IssuerConnection) -> None: ...

    @abstractmethod
    def _build_order(self, card: CardRequest) -> Mapping[str, Any]: ...

    @abstractmethod
    async def _read_card(
        self, connection: IssuerConnection, order: Mapping[str, Any], card: CardRequest
    ) -> CardOutcome: ...

    def _unwrap_order(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return payload

    async def _issue_card(self, connection: IssuerConnection, card: CardRequest) -> CardOutcome:
        response = await connection.request("POST", "orders", self._build_order(card))
        if response.is_success:
            order: Mapping[str, Any] | None = self._unwrap_order(response.payload)
        else:
            order = await self._find_order(connection, card.reference)
        return (
            self._explain_no_card(card, response) if order is None else await self._read_card(connection, order, card)
        )

    async def _find_order(self, connection: IssuerConnection, reference: str) -> Mapping[str, Any] | None:
        """The order of an earlier request whose response may have been lost; it is paid for."""
        response = await connection.request("GET", "orders", query={self.reference_field: reference})
        if not response.is_success:
            raise connection.build_invalid_response_error()
        orders = list_objects(response.payload.get("orders"))
        return next((order for order in orders if order.get(self.reference_field) == reference), None)

    def _explain_no_card(self, card: CardRequest, response: IssuerResponse) -> CardNotIssued:
        """What a refusal means where no order is found. The catalog is the operator's, who can fix it, so no item fails
        for it."""
        if response.status == NO_FUNDS_STATUS:
            return CardNotIssued(
                f"The funds at {self.host} do not cover {card.brand} over {format_dollars(card.cents)}."
            )
        refusal = (
            f"{self.host} refuses {card.brand} over {format_dollars(card.cents)} under its code "
            f"{card.issuer_product}, with"
            f" status {response.status}"
        )
        if response.status == CONFLICT_STATUS:
            return CardNotIssued(f"{refusal}: it has the order, and does not find it.", "ordered")
        return CardNotIssued(f"{refusal}: see the brand's issuer code and amounts, `quillpost giftcards brands`.")

    def _run_with_connection(self, conversation: Callable[[IssuerConnection], Coroutine[Any, Any, T]]) -> T:
        async def run_conversation() -> T:
            async with self._service.open_session() as session:
                return await conversation(IssuerConnection(session, self))

        return asyncio.run(run_conversation())


class _CardQueue:
    """Cards to be requested by several tasks, until the issuer is known to be down."""

    def __init__(self, card_requests: Sequence[CardRequest]) -> None:
        self._waiting = deque({card.reference: card for card in card_requests}.values())
        self._outcomes: dict[str, CardOutcome] = {}
        self._error: IssuerDown | None = None
        self._failures = 0

    async def issue_waiting(
        self, connection: IssuerConnection, issue_one: Callable[[IssuerConnection, CardRequest], Awaitable[CardOutcome]]
    ) -> None:
        while self._waiting and self._failures < MAX_FAILURES:
            card = self._waiting.popleft()
            try:
                self._outcomes[card.reference] = await issue_one(connection, card)
                self._failures = 0
            except IssuerDown as error:
                self._error = error
                self._failures += 1

    def get_outcomes(self) -> Mapping[str, CardOutcome]:
        if self._error is not None:
            if not self._outcomes:
                raise IssuerDown(str(self._error))
            log.warning("giftcards.issue_incomplete", issued=len(self._outcomes), error=str(self._error))
        return self._outcomes


def check_url(url: str) -> str:
    """The issuer's URL without a slash at its end, or `NotReady`."""
    expected = "must name an address such as https://host."
    hint = f"set {SETTING}_KEY instead."
    parsed = parse_service_url(url, SETTING, hint=hint, expected=expected, unreadable=expected)
    if parsed.scheme == "http" and not is_loopback_host(parsed.hostname or ""):
        raise NotReady(f"{SETTING} must begin with https: our key and the cards go over that line.")
    return url.rstrip("/")


def clean_text(value: object, *, max_length: int = MAX_SECRET_LENGTH) -> str | None:
    """Text that can be shown with the card, or None."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.isprintable() or len(value) > max_length:
        return None
    return value.strip() or None


def clean_link(value: object) -> str | None:
    url = clean_text(value, max_length=MAX_LINK_LENGTH)
    return url if url and url.startswith("https://") and " " not in url else None


def parse_date(value: object) -> date | None:
    date_text = clean_text(value) or ""
    try:
        return date.fromisoformat(date_text[:10])
    except ValueError:
        return None


def matches_amount(value: object, cents: int) -> bool:
    """A missing amount is accepted."""
    if value is None:
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool) and round(value * 100) == cents


def list_objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse_object(body: bytes) -> Mapping[str, Any] | None:
    try:
        payload = exact_json.parse_json(body)
    except exact_json.InvalidJson:
        return None
    return payload if isinstance(payload, dict) else None


def _read_retry_after(headers: Mapping[str, str]) -> float:
    """`Retry-After` in seconds, limited; dates are ignored."""
    retry_after = headers.get("Retry-After", "").strip()
    return (
        min(float(retry_after), MAX_WAIT_SECONDS)
        if retry_after.isascii() and retry_after.isdigit()
        else DEFAULT_WAIT_SECONDS
    )
