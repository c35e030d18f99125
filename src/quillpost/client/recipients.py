"""People on mailing lists."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message


class InlineRecipient(TypedDict, total=False):
    """Someone to mail to: an address in parts, or whole on one line, or at least an e-mail."""

    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str | None
    email: str | None
    phone: str | None
    dob: str | None
    anniversary: str | None
    custom1: str | None
    custom2: str | None
    custom3: str | None
    custom4: str | None
    custom5: str | None
    custom6: str | None
    custom7: str | None
    custom8: str | None
    custom9: str | None
    custom10: str | None


class MailedRecipient(TypedDict):
    """Someone whom a piece is mailed to."""

    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str | None
    email: str | None
    phone: str | None
    custom1: str | None
    custom2: str | None
    custom3: str | None
    custom4: str | None
    custom5: str | None
    custom6: str | None
    custom7: str | None
    custom8: str | None
    custom9: str | None
    custom10: str | None


class MailingList(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    type: str
    description: str
    qrcode_url: str | None
    total_recipients: int
    processed: bool
    is_suppression_list: bool
    suppress_by: str | None
    total_scans: int
    unique_scans: int
    total_sends: int
    last_scan: str | None
    last_send: str | None
    api_key: str
    created_at: str
    created_at_diff: str
    updated_at: str


_ItsList = TypedDict("_ItsList", {"mailing-list": MailingList, "mailing_list": MailingList})


class Recipient(MailedRecipient, _ItsList):
    """Someone on a list, which has two names."""

    id: int
    mailing_list_id: int
    dob: str | None
    anniversary: str | None
    deliverability: str
    can_deliver: bool
    deliverability_reasons: list[str]
    created_at: str
    updated_at: str


class RefusedRecipient(InlineRecipient):
    """One of many that was not stored: what was sent, and why."""

    error: str


class NewRecipient(InlineRecipient):
    mailing_list_id: Id


class RecipientChanges(InlineRecipient, total=False):
    mailing_list_id: Id


class RecipientFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    search: str
    email: str
    mailing_list_id: Id
    sub_account_id: Id


class AddressQuery(TypedDict, total=False):
    """An address, in parts or whole on one line, or an e-mail."""

    address: str
    address2: str
    city: str
    province: str
    postal_code: str
    country: str
    email: str


class Deleted(TypedDict):
    status: str


class Erased(TypedDict):
    """`erased` has how many rows told of the person; `waiting`, pieces that a printer has, until mailed."""

    message: str
    erased: Mapping[str, int]
    waiting: int


class Recipients(Resource[Kind]):
    @listing("/recipients")
    def list(self, **only: Unpack[RecipientFilter]) -> Request[Recipient]:
        """Everyone on any list; `search` keeps those whose name, company, e-mail or address has its words."""
        return Request(query=only)

    @operation("POST /recipients")
    def create(self, *, idempotency_key: str | None = None, **fields: Unpack[NewRecipient]) -> Request[Recipient]:
        """Put someone on a list: an address or an e-mail is needed."""
        return Request(body=fields, idempotency_key=idempotency_key)

    @operation("GET /recipients/{recipient_id}")
    def read(self, recipient_id: Id) -> Request[Recipient]:
        """One person on one list."""
        return Request(recipient_id)

    @operation("PUT /recipients/{recipient_id}")
    def update(self, recipient_id: Id, **changes: Unpack[RecipientChanges]) -> Request[Recipient]:
        """Change what is named; the rest stays, and None clears."""
        return Request(recipient_id, body=changes)

    @operation("DELETE /recipients/{recipient_id}")
    def delete(self, recipient_id: Id) -> Request[Message]:
        """Take someone off their list."""
        return Request(recipient_id)

    @operation("POST /recipients-utils/create-multiple")
    def create_multiple(
        self, recipients: Sequence[NewRecipient], *, idempotency_key: str | None = None
    ) -> Request[Sequence[Recipient | RefusedRecipient]]:
        """Put many on lists: one result for each, in order; those that are refused stop nobody."""
        return Request(body=recipients, idempotency_key=idempotency_key)

    @operation("POST /recipients-utils/delete-by-address")
    def delete_by_address(
        self, mailing_list_id: Id, *, idempotency_key: str | None = None, **whom: Unpack[AddressQuery]
    ) -> Request[Deleted]:
        """Take whoever has this address, or this e-mail, off a list."""
        return Request(body={"mailing_list_id": mailing_list_id, **whom}, idempotency_key=idempotency_key)

    @operation("POST /recipients/lookup")
    def lookup(self, email: str, *, idempotency_key: str | None = None) -> Request[Recipient]:
        """Whoever has this e-mail; `NotFound` where nobody has."""
        return Request(body={"email": email}, idempotency_key=idempotency_key)

    @operation("POST /recipients/erase")
    def erase(self, *, idempotency_key: str | None = None, **whom: Unpack[AddressQuery]) -> Request[Erased]:
        """Forget whoever lives at this address or has this e-mail, for good; counts and money stay."""
        return Request(body=whom, idempotency_key=idempotency_key)
