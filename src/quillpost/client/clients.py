"""The two clients, one that blocks and one that is awaited, and all that they can call."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self, Unpack

import httpx2

from quillpost.client.accounts import Account, PingResponse, SubAccounts
from quillpost.client.automations import Automations
from quillpost.client.giftcards import Giftcards
from quillpost.client.handwriting import HandwritingStyles, Signatures
from quillpost.client.imports import Imports
from quillpost.client.mailing_lists import MailingLists
from quillpost.client.orders import Orders
from quillpost.client.print_room import PrintRoom
from quillpost.client.recipients import Recipients
from quillpost.client.requests import Async, Kind, Request, Resource, Sync, Wire, operation
from quillpost.client.send import (
    Embed,
    EmbedOptions,
    EstimateResponse,
    PieceName,
    PieceSend,
    PreviewResponse,
    Send,
    SendResponse,
    StoredSend,
)
from quillpost.client.templates import ImageTemplates, MessageTemplates
from quillpost.client.transport import AwaitedWire, BlockingWire, Patience, Writer
from quillpost.client.webhooks import Webhooks


class Service(Resource[Kind]):
    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.send: Send[Kind] = Send(wire)
        self.orders: Orders[Kind] = Orders(wire)
        self.mailing_lists: MailingLists[Kind] = MailingLists(wire)
        self.imports: Imports[Kind] = Imports(wire)
        self.recipients: Recipients[Kind] = Recipients(wire)
        self.image_templates: ImageTemplates[Kind] = ImageTemplates(wire)
        self.message_templates: MessageTemplates[Kind] = MessageTemplates(wire)
        self.sub_accounts: SubAccounts[Kind] = SubAccounts(wire)
        self.webhooks: Webhooks[Kind] = Webhooks(wire)
        self.automations: Automations[Kind] = Automations(wire)
        self.giftcards: Giftcards[Kind] = Giftcards(wire)
        self.handwriting_styles: HandwritingStyles[Kind] = HandwritingStyles(wire)
        self.signatures: Signatures[Kind] = Signatures(wire)
        self.print_room: PrintRoom[Kind] = PrintRoom(wire)

    @operation("GET /ping")
    def ping(self) -> Request[PingResponse]:
        """Is the token good, and is it one of testing mode?"""
        return Request()

    @operation("GET /account")
    def account(self) -> Request[Account]:
        """The account: its name, its mode, its credit, its use this month."""
        return Request()

    @operation("POST /send/{piece}")
    def preview(self, piece: PieceName, **body: Unpack[PieceSend]) -> Request[PreviewResponse]:
        """Pictures of the piece, as links that need no token; no order is made."""
        return Request(piece, body={**body, "preview": True})

    @operation("POST /estimate/{piece}")
    def estimate(self, piece: PieceName, **body: Unpack[PieceSend]) -> Request[EstimateResponse]:
        """What a send would cost and whom it would reach; nothing is stored."""
        return Request(piece, body=body)

    @operation("POST /stored_send/{piece}")
    def stored_send(
        self, piece: PieceName, *, idempotency_key: str | None = None, **body: Unpack[PieceSend]
    ) -> Request[StoredSend]:
        """Keep a send for later: `send_stored` takes the URL that this answers."""
        return Request(piece, body=body, idempotency_key=idempotency_key)

    @operation("POST /stored_send/{piece}/{stored_id}")
    def send_stored(self, stored_send_url: str) -> Request[SendResponse]:
        """Send what was kept. A second call gives the first one's answer."""
        *_, piece, stored_id = stored_send_url.rstrip("/").split("/")
        return Request(piece, stored_id)

    @operation("POST /embeds")
    def embed(self, origin: str, **body: Unpack[EmbedOptions]) -> Request[Embed]:
        """The composer for a frame in a page of this site; what is written there is a stored send."""
        return Request(body={**body, "origin": origin})


RETRIES = 12
"""Longer than a server takes to start again."""

HERE = "http://127.0.0.1:8025"


class Quillpost(Service[Sync]):
    """A connection to Quillpost, for use by several threads; close it, or use it with `with`.

    `timeout` is how many seconds the service may be silent; `deadline` how many one call may take with
    all its retries. `transport` stands in for the network, and for the environment's proxies.
    """

    def __init__(
        self,
        token: str,
        base_url: str = HERE,
        *,
        timeout: float = 30,
        retries: int = RETRIES,
        deadline: float = 120,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        http = httpx2.Client(transport=transport)
        self._blocking = BlockingWire(Writer(base_url, token), http, Patience(timeout, retries, deadline), sleep)
        super().__init__(self._blocking)

    def download(self, url: str) -> bytes:
        """What a signed link, such as a preview's, shows to anyone who has it: no token is sent."""
        return self._blocking.download(url)

    def close(self) -> None:
        self._blocking.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncQuillpost(Service[Async]):
    """The same to be awaited: `await client.ping()`, `async for order in client.orders.list()`."""

    def __init__(
        self,
        token: str,
        base_url: str = HERE,
        *,
        timeout: float = 30,
        retries: int = RETRIES,
        deadline: float = 120,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        http = httpx2.AsyncClient(transport=transport)
        self._awaited = AwaitedWire(Writer(base_url, token), http, Patience(timeout, retries, deadline), sleep)
        super().__init__(self._awaited)

    async def download(self, url: str) -> bytes:
        """What a signed link, such as a preview's, shows to anyone who has it: no token is sent."""
        return await self._awaited.download(url)

    async def close(self) -> None:
        await self._awaited.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
