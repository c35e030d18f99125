"""People on mailing lists."""

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Id, MessageResponse, PageOptions, PageStart, Timestamp


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


ListType = Literal["csv", "manual", "map", "friends", "retarget", "leads", "automation", "radius", "crm", "qrscans"]
SuppressBy = Literal["address", "household", "email"]
DeliverabilityName = Literal["deliverable", "doubtful", "undeliverable"]
Day = Annotated[str, Doc("ISO 8601.", examples=["1980-02-29"])]
TimeAgo = Annotated[str, Doc("How long ago it was made.", examples=["5 minutes ago"])]


class MailedRecipient(TypedDict):
    """Someone to whom a piece is mailed."""

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


class MailingListBase(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    type: ListType
    description: Annotated[str, Doc("The list's name.")]
    qrcode_url: str | None
    total_recipients: int
    processed: Annotated[bool, Doc("False while an import or a purchase still fills it.")]
    is_suppression_list: Annotated[bool, Doc("Whoever is on it is mailed nothing.")]
    suppress_by: Annotated[SuppressBy | None, Doc("Whom its entries bar; null on any other list.")]
    total_scans: int
    unique_scans: int
    total_sends: int
    last_scan: Timestamp | None
    last_send: Timestamp | None
    api_key: Annotated[
        str, Doc("Lets recipients be added to this list, and to no other: `POST /hooks/lists/{api_key}`.")
    ]
    created_at_diff: TimeAgo
    updated_at: Timestamp


class MailingList(MailingListBase):
    created_at: Timestamp


class CreatedMailingList(MailingListBase):
    """The same, but for `created_at`."""

    created_at: Annotated[str, Doc("Here in words, as `created_at_diff`.")]


class Deliverability(TypedDict):
    deliverability: Annotated[
        DeliverabilityName, Doc("How sure it is that mail arrives there. What is doubtful is mailed all the same.")
    ]
    can_deliver: Annotated[bool, Doc("Whether there is an address that is mailed to.")]
    deliverability_reasons: Annotated[
        list[str], Doc("Why not, or why it is doubtful; also where the post has corrected what was given.")
    ]


_OldListName = TypedDict("_OldListName", {"mailing-list": Annotated[MailingList, Doc("The list it is on.")]})


class Recipient(MailedRecipient, Deliverability, _OldListName):
    """Someone on a list."""

    id: int
    mailing_list_id: int
    dob: Day | None
    anniversary: Day | None
    mailing_list: Annotated[MailingList, Doc("The same, as older clients read it.")]
    created_at: Timestamp
    updated_at: Timestamp


class ListRecipients(PageStart):
    """A page of a list's recipients, in the page-number envelope."""

    current_page: int
    data: list[Recipient]
    first_page_url: str
    last_page: int
    last_page_url: str
    next_page_url: str | None
    path: str
    per_page: int
    prev_page_url: str | None
    to: int | None
    total: int


class RefusedRecipient(InlineRecipient):
    """A row as it was given, and why it was not stored."""

    mailing_list_id: NotRequired[int | None]
    error: Annotated[str, Doc("Which field is wrong, and why.")]


class ListedRecipient(InlineRecipient):
    mailing_list_id: Id


class RecipientUpdate(InlineRecipient, total=False):
    mailing_list_id: Id


class RecipientFilter(PageOptions, total=False):
    search: str
    email: str
    mailing_list_id: Id
    sub_account_id: Id


class AddressOrEmail(TypedDict, total=False):
    """An address, in parts or whole on one line, or an e-mail."""

    address: str
    address2: str
    city: str
    province: str
    postal_code: str
    country: str
    email: str


class RemovalResponse(TypedDict):
    status: str


class ErasureResponse(TypedDict):
    message: str
    erased: Annotated[dict[str, int], Doc("How many rows told of the person, by what they are.")]
    waiting: Annotated[int, Doc("Pieces that a printer has: they name the person until they are mailed.")]


class Recipients(Resource[Kind]):
    @listing("/recipients")
    def list(self, **only: Unpack[RecipientFilter]) -> Request[Recipient]:
        """Everyone on any list; `search` keeps those whose name, company, e-mail or address has its words."""
        return Request(query=only)

    @operation("POST /recipients")
    def create(self, *, idempotency_key: str | None = None, **fields: Unpack[ListedRecipient]) -> Request[Recipient]:
        """Put someone on a list: an address or an e-mail is needed."""
        return Request(body=fields, idempotency_key=idempotency_key)

    @operation("GET /recipients/{recipient_id}")
    def read(self, recipient_id: Id) -> Request[Recipient]:
        """One person on one list."""
        return Request(recipient_id)

    @operation("PUT /recipients/{recipient_id}")
    def update(self, recipient_id: Id, **changes: Unpack[RecipientUpdate]) -> Request[Recipient]:
        """Change what is named; the rest stays, and None clears."""
        return Request(recipient_id, body=changes)

    @operation("DELETE /recipients/{recipient_id}")
    def delete(self, recipient_id: Id) -> Request[MessageResponse]:
        """Take someone off their list."""
        return Request(recipient_id)

    @operation("POST /recipients-utils/create-multiple")
    def create_multiple(
        self, recipients: Sequence[ListedRecipient], *, idempotency_key: str | None = None
    ) -> Request[Sequence[Recipient | RefusedRecipient]]:
        """Add many to lists: one result for each, in order; a refused one stops no other."""
        return Request(body=recipients, idempotency_key=idempotency_key)

    @operation("POST /recipients-utils/delete-by-address")
    def delete_by_address(
        self, mailing_list_id: Id, *, idempotency_key: str | None = None, **whom: Unpack[AddressOrEmail]
    ) -> Request[RemovalResponse]:
        """Remove everyone with this address, or this e-mail, from a list."""
        return Request(body={"mailing_list_id": mailing_list_id, **whom}, idempotency_key=idempotency_key)

    @operation("POST /recipients/lookup")
    def lookup(self, email: str, *, idempotency_key: str | None = None) -> Request[Recipient]:
        """The person with this e-mail; `NotFoundError` if there is none."""
        return Request(body={"email": email}, idempotency_key=idempotency_key)

    @operation("POST /recipients/erase")
    def erase(self, *, idempotency_key: str | None = None, **whom: Unpack[AddressOrEmail]) -> Request[ErasureResponse]:
        """Erase everyone at this address or with this e-mail; counts and money stay."""
        return Request(body=whom, idempotency_key=idempotency_key)
