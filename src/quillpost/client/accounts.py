"""The account, and its sub accounts with their own addresses, templates, lists and orders."""

from typing import Annotated, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Id, MessageResponse, Mode, Money, PlainTimestamp


class PingResponse(TypedDict):
    message: str
    test_mode: bool


class Usage(TypedDict):
    month: Annotated[str, Doc("The current one, UTC.", examples=["2026-05"])]
    orders: Annotated[int, Doc("Placed this month and not cancelled.")]
    pieces: Annotated[int, Doc("Of these orders: those that were mailed or will be.")]
    spent: Annotated[int, Doc("In cents: pieces printed this month, less what was given back.")]


class Account(TypedDict):
    id: int
    name: str
    email: str
    company: str | None
    mode: Annotated[Mode, Doc("The token's.")]
    test_mode: bool
    credit: Money
    usage: Usage
    live_ready: Annotated[bool, Doc("Whether live mail could be printed now, in either mode of the token.")]
    live_readiness: Annotated[
        list[str], Doc("What is missing before that, a sentence each; live orders are paused until then.")
    ]


class SubAccountBranding(TypedDict):
    accentColor: str | None
    symbol: str | None
    logo: str | None
    disclaimer: str | None
    headshot: str | None
    name: str | None
    email: str | None
    phone: str | None
    company: str | None
    domain: str | None
    set: Annotated[bool | int | str | None, Doc("As it came.")]
    first_name: str | None


class SubAccount(TypedDict):
    id: int
    user_id: int
    title: str
    name: Annotated[str, Doc("The title, as older clients read it.")]
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    message_background_url: str | None
    postcard6x9_background_url: str | None
    notecard_background_url: str | None
    windowedletter_background_url: str | None
    windowlessletter_background_url: str | None
    branding_fields: SubAccountBranding
    created_at: PlainTimestamp
    updated_at: PlainTimestamp


class BrandingOptions(TypedDict, total=False):
    """What sets a sub account's mail apart; in a change, what is not named stays."""

    accentColor: str | None
    symbol: str | None
    logo: str | None
    disclaimer: str | None
    headshot: str | None
    name: str | None
    email: str | None
    phone: str | None
    company: str | None
    domain: str | None
    set: bool | int | str | None
    first_name: str | None


class SubAccountOptions(TypedDict, total=False):
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    message_background_url: str | None
    postcard6x9_background_url: str | None
    notecard_background_url: str | None
    windowedletter_background_url: str | None
    windowlessletter_background_url: str | None
    branding_fields: BrandingOptions | None


class SubAccountUpdate(SubAccountOptions, total=False):
    title: str


class SubAccounts(Resource[Kind]):
    @listing("/sub-accounts")
    def list(self, *, search: str | None = None) -> Request[SubAccount]:
        """Every sub account, or those whose title, name or return address has the words of `search`."""
        return Request(query={"search": search})

    @operation("POST /sub-accounts")
    def create(
        self, title: str, *, idempotency_key: str | None = None, **fields: Unpack[SubAccountOptions]
    ) -> Request[SubAccount]:
        """A new sub account."""
        return Request(body={"title": title, **fields}, idempotency_key=idempotency_key)

    @operation("GET /sub-accounts/{sub_account_id}")
    def read(self, sub_account_id: Id) -> Request[SubAccount]:
        """One sub account, with its branding and its backgrounds."""
        return Request(sub_account_id)

    @operation("PUT /sub-accounts/{sub_account_id}")
    def update(self, sub_account_id: Id, **changes: Unpack[SubAccountUpdate]) -> Request[SubAccount]:
        """Change what is named; the rest stays, and None clears."""
        return Request(sub_account_id, body=changes)

    @operation("DELETE /sub-accounts/{sub_account_id}")
    def delete(self, sub_account_id: Id) -> Request[MessageResponse]:
        """Delete a sub account that nothing belongs to."""
        return Request(sub_account_id)
