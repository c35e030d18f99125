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
from quillpost.client.requests import Ask, How, Resource, Wire, operation
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


class Service(Resource[How]):
    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.send: Send[How] = Send(wire)
        self.orders: Orders[How] = Orders(wire)
        self.mailing_lists: MailingLists[How] = MailingLists(wire)
        self.imports: Imports[How] = Imports(wire)
        self.recipients: Recipients[How] = Recipients(wire)
        self.image_templates: ImageTemplates[How] = ImageTemplates(wire)
        self.message_templates: MessageTemplates[How] = MessageTemplates(wire)
        self.sub_accounts: SubAccounts[How] = SubAccounts(wire)
        self.webhooks: Webhooks[How] = Webhooks(wire)
        self.automations: Automations[How] = Automations(wire)
        self.giftcards: Giftcards[How] = Giftcards(wire)
        self.handwriting_styles: HandwritingStyles[How] = HandwritingStyles(wire)
        self.print_room: PrintRoom[How] = PrintRoom(wire)

    @operation("GET /ping")
    def ping(self) -> Ask[Pong]:
        """Is the token good, and is it one of testing mode?"""
        return Ask()

    @operation("GET /account")
    def account(self) -> Ask[Account]:
        """The account: its name, its mode, its credit, its use this month."""
        return Ask()

    @operation("POST /send/{piece}")
    def preview(self, piece: PieceName, **body: Unpack[PieceSend]) -> Ask[Preview]:
        """Pictures of the piece, as links that need no token; no order is made."""
        return Ask(piece, body={**body, "preview": True})

    @operation("POST /estimate/{piece}")
    def estimate(self, piece: PieceName, **body: Unpack[PieceSend]) -> Ask[Estimate]:
        """What a send would cost and whom it would reach; nothing is stored."""
        return Ask(piece, body=body)

    @operation("POST /stored_send/{piece}")
    def stored_send(
        self, piece: PieceName, *, idempotency_key: str | None = None, **body: Unpack[PieceSend]
    ) -> Ask[StoredSend]:
        """Keep a send for later: `send_stored` takes the URL that this answers."""
        return Ask(piece, body=body, idempotency_key=idempotency_key)

    @operation("POST /stored_send/{piece}/{stored_id}")
    def send_stored(self, stored_send_url: str) -> Ask[Sent]:
        """Send what was kept. A second call gives the first one's answer."""
        *_, piece, stored_id = stored_send_url.rstrip("/").split("/")
        return Ask(piece, stored_id)

    @operation("POST /embeds")
    def embed(self, origin: str, **body: Unpack[EmbedOptions]) -> Ask[Embed]:
        """The composer for a frame in a page of this site; what is written there is a stored send."""
        return Ask(body={**body, "origin": origin})
