"""Parts of an account that keep their own addresses, templates, lists and orders."""

from typing import TypedDict, Unpack

from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message


class Branding(TypedDict, total=False):
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


class SubAccount(TypedDict):
    id: int
    user_id: int
    title: str
    name: str
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
    branding_fields: Branding
    created_at: str
    updated_at: str


class SubAccountFields(TypedDict, total=False):
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
    branding_fields: Branding | None


class SubAccountChanges(SubAccountFields, total=False):
    title: str


class SubAccounts(Resource[Kind]):
    @listing("/sub-accounts")
    def list(self, *, search: str | None = None) -> Request[SubAccount]:
        """Every sub account, or those whose title, name or return address has the words of `search`."""
        return Request(query={"search": search})

    @operation("POST /sub-accounts")
    def create(
        self, title: str, *, idempotency_key: str | None = None, **fields: Unpack[SubAccountFields]
    ) -> Request[SubAccount]:
        """A new sub account."""
        return Request(body={"title": title, **fields}, idempotency_key=idempotency_key)

    @operation("GET /sub-accounts/{sub_account_id}")
    def read(self, sub_account_id: Id) -> Request[SubAccount]:
        """One sub account, with its branding and its backgrounds."""
        return Request(sub_account_id)

    @operation("PUT /sub-accounts/{sub_account_id}")
    def update(self, sub_account_id: Id, **changes: Unpack[SubAccountChanges]) -> Request[SubAccount]:
        """Change what is named; the rest stays, and None clears."""
        return Request(sub_account_id, body=changes)

    @operation("DELETE /sub-accounts/{sub_account_id}")
    def delete(self, sub_account_id: Id) -> Request[Message]:
        """Delete a sub account that nothing belongs to."""
        return Request(sub_account_id)
