"""Saved mailing lists, and searches for the addresses around one."""

from datetime import datetime
from typing import Annotated, NotRequired, Unpack

from typing_extensions import TypedDict

from quillpost.client.recipients import CreatedMailingList, ListType, MailingList, Recipient, SuppressBy
from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Id, MessageResponse, Money, PageOptions


class RadiusSearch(TypedDict):
    """The nearest to an address, for five cents each."""

    address: str
    record_count: NotRequired[int]
    distance_miles: NotRequired[float]
    postal_code: NotRequired[str]
    record_types: NotRequired[str]
    include_condos: NotRequired[bool]
    include_businesses: NotRequired[bool]
    use_property_owner: NotRequired[bool]
    include_search_address: NotRequired[bool]
    exclude_already_mailed: NotRequired[bool]
    mailed_within_days: NotRequired[int]


class RadiusOptions(RadiusSearch):
    mailing_list_id: NotRequired[Id]
    sub_account_id: NotRequired[Id]
    description: NotRequired[str]
    name: NotRequired[str]


class RadiusCount(TypedDict):
    message: str
    count: Annotated[int, Doc("How many there are, at most as many as were asked for.")]
    leads_fee: Money


class RadiusPurchase(TypedDict):
    message: str
    mailing_list_id: Annotated[int, Doc("The list that they are on.")]
    count: Annotated[int, Doc("How many were bought.")]
    leads_fee: Money
    failure: bool


class RadiusPreviewData(TypedDict):
    count: Annotated[int, Doc("How many addresses there are.")]
    leads_fee: Money
    unit_price: Money
    estimated_total: Money
    warnings: Annotated[list[str], Doc("What deserves a look; X-Warnings says the same.")]


class RadiusPreview(TypedDict):
    """What a send with `radius_search.preview` = true answers: no order is made."""

    success: bool
    code: int
    message: str
    data: RadiusPreviewData


class DedupeResponse(TypedDict):
    message: str
    removed: Annotated[int, Doc("How many recipients were removed.")]


class ListFilter(PageOptions, total=False):
    search: str
    query: str
    sub_account_id: Id


class RecipientsFilter(PageOptions, total=False):
    sub_account_id: Id
    search: str
    updated_since: datetime | str


class ListOptions(TypedDict, total=False):
    type: ListType
    qrcode_url: str | None
    sub_account_id: Id | None
    is_suppression_list: bool
    suppress_by: SuppressBy | None


class ListUpdate(ListOptions, total=False):
    description: str


class MailingLists(Resource[Kind]):
    @listing("/mailing-lists")
    def list(self, **only: Unpack[ListFilter]) -> Request[MailingList]:
        """Lists, newest first; `query` looks into their names."""
        return Request(query=only)

    @operation("POST /mailing-lists")
    def create(
        self, description: str, *, idempotency_key: str | None = None, **fields: Unpack[ListOptions]
    ) -> Request[CreatedMailingList]:
        """A new list; `description` is its name."""
        return Request(body={"description": description, **fields}, idempotency_key=idempotency_key)

    @operation("POST /mailing-lists-utils/count-radius-search")
    def count_radius_search(self, **search: Unpack[RadiusOptions]) -> Request[RadiusCount]:
        """How many addresses there are around one, and what they would cost; asking is free."""
        return Request(body=search)

    @operation("POST /mailing-lists-utils/buy-radius-search")
    def buy_radius_search(
        self, *, idempotency_key: str | None = None, **search: Unpack[RadiusOptions]
    ) -> Request[RadiusPurchase]:
        """Buy the addresses around one, onto a new list or onto `mailing_list_id`."""
        return Request(body=search, idempotency_key=idempotency_key)

    @operation("GET /mailing-lists/{mailing_list_id}")
    def read(self, mailing_list_id: Id) -> Request[MailingList]:
        """One list."""
        return Request(mailing_list_id)

    @operation("PUT /mailing-lists/{mailing_list_id}")
    def update(self, mailing_list_id: Id, **changes: Unpack[ListUpdate]) -> Request[MailingList]:
        """Change what is named; the rest stays."""
        return Request(mailing_list_id, body=changes)

    @operation("DELETE /mailing-lists/{mailing_list_id}")
    def delete(self, mailing_list_id: Id) -> Request[MessageResponse]:
        """Delete the list and everyone on it."""
        return Request(mailing_list_id)

    @operation("POST /mailing-lists/{mailing_list_id}/merge")
    def merge(self, mailing_list_id: Id, *, into: Id, idempotency_key: str | None = None) -> Request[MailingList]:
        """Move everyone to another list, which is answered."""
        return Request(mailing_list_id, body={"into": into}, idempotency_key=idempotency_key)

    @operation("POST /mailing-lists/{mailing_list_id}/dedupe")
    def dedupe(self, mailing_list_id: Id, *, idempotency_key: str | None = None) -> Request[DedupeResponse]:
        """Remove those who are on the list twice."""
        return Request(mailing_list_id, idempotency_key=idempotency_key)

    @operation("POST /mailing-lists/{mailing_list_id}/rotate-key")
    def rotate_key(self, mailing_list_id: Id, *, idempotency_key: str | None = None) -> Request[MailingList]:
        """A new `api_key`; the old one ends."""
        return Request(mailing_list_id, idempotency_key=idempotency_key)

    @operation("GET /mailing-lists/{mailing_list_id}/export", is_file=True)
    def export(self, mailing_list_id: Id) -> Request[bytes]:
        """Everyone on the list, as a CSV file."""
        return Request(mailing_list_id)

    @listing("/mailing-lists-utils/recipients/{mailing_list_id}")
    def recipients(self, mailing_list_id: Id, **only: Unpack[RecipientsFilter]) -> Request[Recipient]:
        """Everyone on the list, or those who have changed since a time, or have the words of `search`."""
        return Request(mailing_list_id, query=only)
