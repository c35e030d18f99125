"""The whole service as a client sees it: its resources, and the calls that belong to none."""

from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict, Unpack

from quillpost.client.automations import Automations
from quillpost.client.giftcards import Giftcards
from quillpost.client.handwriting_styles import HandwritingStyles
from quillpost.client.image_templates import ImageTemplates
from quillpost.client.imports import Imports
from quillpost.client.mailing_lists import MailingLists
from quillpost.client.message_templates import MessageTemplates
from quillpost.client.orders import Orders
from quillpost.client.print_room import PrintRoom
from quillpost.client.recipients import Recipients
from quillpost.client.requests import Kind, Request, Resource, Wire, operation
from quillpost.client.send import PieceName, PieceSend, Send, Sent
from quillpost.client.sub_accounts import SubAccounts
from quillpost.client.webhooks import Webhooks


class Pong(TypedDict):
    message: Literal["pong"]
    test_mode: bool


class Usage(TypedDict):
    month: str
    orders: int
    pieces: int
    spent: int


class Account(TypedDict):
    id: int
    name: str
    email: str
    company: str | None
    mode: Literal["test", "live"]
    test_mode: bool
    credit: int
    usage: Usage
    live_ready: bool
    live_readiness: list[str]


class PreviewData(TypedDict):
    previews: list[str]
    sides: list[str]
    envelope: NotRequired[str]
    warnings: list[str]


class Preview(TypedDict):
    success: bool
    code: int
    message: str
    data: PreviewData


class EstimateData(TypedDict):
    type: str
    total_recipients: int
    suppressed: int
    duplicates: int
    undeliverable: int
    unit_price: int
    leads_fee: int
    giftcard_total: int
    authorization_total: int
    test_mode: bool
    warnings: list[str]


class Estimate(TypedDict):
    message: str
    data: EstimateData


class StoredSend(TypedDict):
    stored_send_url: str


class EmbedOptions(TypedDict, total=False):
    piece: str
    message: str
    sub_account_id: int
    mailing_list_ids: Sequence[int]
    expires_in: int


class Embed(TypedDict):
    url: str
    expires_at: str


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
        self.print_room: PrintRoom[Kind] = PrintRoom(wire)

    @operation("GET /ping")
    def ping(self) -> Request[Pong]:
        """Is the token good, and is it one of testing mode?"""
        return Request()

    @operation("GET /account")
    def account(self) -> Request[Account]:
        """The account: its name, its mode, its credit, its use this month."""
        return Request()

    @operation("POST /send/{piece}")
    def preview(self, piece: PieceName, **body: Unpack[PieceSend]) -> Request[Preview]:
        """Pictures of the piece, as links that need no token; no order is made."""
        return Request(piece, body={**body, "preview": True})

    @operation("POST /estimate/{piece}")
    def estimate(self, piece: PieceName, **body: Unpack[PieceSend]) -> Request[Estimate]:
        """What a send would cost and whom it would reach; nothing is stored."""
        return Request(piece, body=body)

    @operation("POST /stored_send/{piece}")
    def stored_send(
        self, piece: PieceName, *, idempotency_key: str | None = None, **body: Unpack[PieceSend]
    ) -> Request[StoredSend]:
        """Keep a send for later: `send_stored` takes the URL that this answers."""
        return Request(piece, body=body, idempotency_key=idempotency_key)

    @operation("POST /stored_send/{piece}/{stored_id}")
    def send_stored(self, stored_send_url: str) -> Request[Sent]:
        """Send what was kept. A second call gives the first one's answer."""
        *_, piece, stored_id = stored_send_url.rstrip("/").split("/")
        return Request(piece, stored_id)

    @operation("POST /embeds")
    def embed(self, origin: str, **body: Unpack[EmbedOptions]) -> Request[Embed]:
        """The composer for a frame in a page of this site; what is written there is a stored send."""
        return Request(body={**body, "origin": origin})
