"""Mailing lists as the API description shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.web.api.orders.schemas import Links, Meta, Timestamp, page_example

ListType = Literal[
    "csv", "manual", "map", "friends", "retarget", "leads", "automation", "radius", "crm", "qrscans",
]  # fmt: skip
SuppressBy = Literal["address", "household", "email"]
TimeAgo = Annotated[str, Field(description="How long ago it was made.", examples=["5 minutes ago"])]

EXAMPLE: dict[str, Any] = {
    "id": 12,
    "user_id": 1,
    "sub_account_id": None,
    "type": "manual",
    "description": "Open house visitors",
    "qrcode_url": "https://example.com/welcome",
    "total_recipients": 240,
    "processed": True,
    "is_suppression_list": False,
    "suppress_by": None,
    "total_scans": 31,
    "unique_scans": 27,
    "total_sends": 480,
    "last_scan": "2026-05-09T17:12:40Z",
    "last_send": "2026-05-03T08:00:00Z",
    "api_key": "ql_tH3xZ0p1vQmW8cR5yKdUe2LsNaBgJ7fXoI4wMhCqD6E",
    "created_at": "2026-05-01T09:30:00Z",
    "created_at_diff": "1 week ago",
    "updated_at": "2026-05-01T09:30:00Z",
}
NEW_EXAMPLE = EXAMPLE | {
    **dict.fromkeys(("total_recipients", "total_scans", "unique_scans", "total_sends"), 0),
    **dict.fromkeys(("last_scan", "last_send")),
    **dict.fromkeys(("created_at", "created_at_diff"), "just now"),
}


class MailingListShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    sub_account_id: int | None
    type: ListType
    description: str = Field(description="The list's name.")
    qrcode_url: str | None
    total_recipients: int
    processed: bool = Field(description="False while an import or a purchase still fills it.")
    is_suppression_list: bool = Field(description="Whoever is on it is mailed nothing.")
    suppress_by: SuppressBy | None = Field(description="Whom its entries bar; null on any other list.")
    total_scans: int
    unique_scans: int
    total_sends: int
    last_scan: Timestamp | None
    last_send: Timestamp | None
    api_key: str = Field(
        description="Lets recipients be added to this list, and to no other: `POST /hooks/lists/{api_key}`."
    )
    created_at: Timestamp
    created_at_diff: TimeAgo
    updated_at: Timestamp


class MailingListCreated(MailingListShape):
    """The same, but for `created_at`."""

    model_config = ConfigDict(json_schema_extra={"examples": [NEW_EXAMPLE]})

    created_at: Annotated[str, Field(description="Here in words, as `created_at_diff`.")]


class MailingListPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/mailing-lists", EXAMPLE)]})

    data: list[MailingListShape]
    links: Links
    meta: Meta


class DoublesRemoved(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "success", "removed": 3}]})

    message: str
    removed: int = Field(description="How many recipients were removed.")
