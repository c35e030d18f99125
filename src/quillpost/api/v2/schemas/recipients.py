"""People on mailing lists as the API description shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from quillpost.api.v2.schemas.common import Links, Meta, Moment, linked_example
from quillpost.api.v2.schemas.mailing_lists import EXAMPLE as LIST_EXAMPLE
from quillpost.api.v2.schemas.mailing_lists import MailingListShape

Day = Annotated[str, Field(description="ISO 8601.", examples=["1980-02-29"])]
CUSTOM = tuple(f"custom{n}" for n in range(1, 11))

EXAMPLE: dict[str, Any] = {
    "id": 340,
    "mailing_list_id": 12,
    "name": "Jane Doe",
    "company": None,
    "address": "12 Main St",
    "address2": "Apt 4",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "country": "US",
    "dob": "1980-02-29",
    "anniversary": None,
    "email": "jane@example.com",
    "phone": None,
    **dict.fromkeys(CUSTOM),
    "custom1": "a blue door",
    "deliverability": "doubtful",
    "can_deliver": True,
    "deliverability_reasons": ["The city and the ZIP code do not belong together."],
    "mailing-list": LIST_EXAMPLE,
    "mailing_list": LIST_EXAMPLE,
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-01T09:30:00Z",
}
REFUSED_EXAMPLE: dict[str, Any] = {
    "mailing_list_id": 12,
    "name": "John Doe",
    "address": "12 Main St",
    "postal_code": "1",
    "error": "postal_code: A ZIP code has 5 digits, or 5-4.",
}


class RecipientRead(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    mailing_list_id: int
    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str | None
    dob: Day | None
    anniversary: Day | None
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
    deliverability: Literal["deliverable", "doubtful", "undeliverable"] = Field(
        description="How sure it is that mail arrives there. What is doubtful is mailed all the same."
    )
    can_deliver: bool = Field(description="Whether there is an address that is mailed to.")
    deliverability_reasons: list[str] = Field(
        description="Why not, or why it is doubtful; also where the post has corrected what was given."
    )
    mailing_list_: MailingListShape = Field(alias="mailing-list", description="The list it is on.")
    mailing_list: MailingListShape = Field(description="The same, as older clients read it.")
    created_at: Moment
    updated_at: Moment


class RecipientPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [linked_example("/recipients", EXAMPLE)]})

    data: list[RecipientRead]
    links: Links
    meta: Meta


_PATH = "https://mail.example.com/api/v2/mailing-lists-utils/recipients/12"


class ListRecipients(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "current_page": 1,
                    "data": [EXAMPLE],
                    "first_page_url": f"{_PATH}?page=1",
                    "from": 1,
                    "last_page": 10,
                    "last_page_url": f"{_PATH}?page=10",
                    "next_page_url": f"{_PATH}?page=2",
                    "path": _PATH,
                    "per_page": 25,
                    "prev_page_url": None,
                    "to": 25,
                    "total": 240,
                }
            ]
        }
    )

    current_page: int
    data: list[RecipientRead]
    first_page_url: str
    from_: int | None = Field(alias="from")
    last_page: int
    last_page_url: str
    next_page_url: str | None
    path: str
    per_page: int
    prev_page_url: str | None
    to: int | None
    total: int


class RefusedRecipient(BaseModel):
    """A row as it was given, and why it was not stored."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFUSED_EXAMPLE]})

    mailing_list_id: int | None = None
    name: str | None = None
    company: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str | None = None
    dob: str | None = None
    anniversary: str | None = None
    email: str | None = None
    phone: str | None = None
    custom1: str | None = None
    custom2: str | None = None
    custom3: str | None = None
    custom4: str | None = None
    custom5: str | None = None
    custom6: str | None = None
    custom7: str | None = None
    custom8: str | None = None
    custom9: str | None = None
    custom10: str | None = None
    error: str = Field(description="Which field is wrong, and why.")


class RecipientsAdded(RootModel[list[RecipientRead | RefusedRecipient]]):
    model_config = ConfigDict(json_schema_extra={"examples": [[EXAMPLE, REFUSED_EXAMPLE]]})


class RecipientRemoved(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "Recipient 340 Deleted"}]})

    status: str
