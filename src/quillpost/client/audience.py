"""Lists and the people on them, as calls and answers have them."""

from typing import TypedDict


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
