"""Sends that start by themselves."""

from typing import Annotated, Any, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.send import PieceName, PieceSend, PreviewData
from quillpost.client.types import Doc, Id, MessageResponse, PageOptions, Timestamp

Trigger = Literal["list_entry", "scan", "date"]
DateField = Literal["dob", "anniversary"]


class AutomatedSend(PieceSend, total=False):
    """A send without its audience and its time, which are the automation's own."""

    piece: PieceName


class Automation(TypedDict):
    id: int
    user_id: int
    sub_account_id: Annotated[int | None, Doc("The sub account that sends: that of its send.")]
    mode: str
    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    send: Annotated[dict[str, Any], Doc("As it was given, to the letter.")]
    daily_limit: int
    enabled: bool
    waiting: Annotated[int, Doc("How many are due and not mailed yet. Without a whole address nobody is due.")]
    held_by: Annotated[
        str | None, Doc("What those who wait are held by, where nothing is wrong: daily_limit, or null.")
    ]
    held_until: Annotated[Timestamp | None, Doc("When they go on, where they are held.")]
    sent_count: Annotated[int, Doc("How many pieces it has sent.")]
    last_sent_at: Timestamp | None
    last_order_id: Annotated[int | None, Doc("The order that it made last.")]
    last_error: Annotated[str | None, Doc("Why it could not send when it last tried.")]
    last_error_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp


class UpcomingDay(TypedDict):
    date: Annotated[str, Doc(examples=["2026-05-06"])]
    recipients: int


class AutomationPreviewData(PreviewData):
    waiting: Annotated[int, Doc("How many are due now.")]
    coming: Annotated[
        list[UpcomingDay],
        Doc("Where the trigger is a date: on which of the next 30 days how many are mailed, as the list is now."),
    ]
    coming_total: Annotated[int, Doc("How many they are together.")]


class AutomationPreview(TypedDict):
    """As a send with `preview` = true answers, and who is mailed next."""

    success: bool
    code: int
    message: str
    data: AutomationPreviewData


class AutomationFilter(PageOptions, total=False):
    sub_account_id: Id
    mailing_list_id: Id


class AutomationOptions(TypedDict, total=False):
    mailing_list_id: Id | None
    date_field: DateField | None
    days_offset: int
    daily_limit: int
    enabled: bool


class AutomationUpdate(AutomationOptions, total=False):
    name: str
    trigger: Trigger
    send: AutomatedSend


class Automations(Resource[Kind]):
    @listing("/automations")
    def list(self, **only: Unpack[AutomationFilter]) -> Request[Automation]:
        """Automations, newest first."""
        return Request(query=only)

    @operation("POST /automations")
    def create(
        self,
        name: str,
        trigger: Trigger,
        send: AutomatedSend,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[AutomationOptions],
    ) -> Request[Automation]:
        """A new one, switched off unless `enabled` is true."""
        body = {"name": name, "trigger": trigger, "send": send, **fields}
        return Request(body=body, idempotency_key=idempotency_key)

    @operation("GET /automations/{automation_id}")
    def read(self, automation_id: Id) -> Request[Automation]:
        """One automation: what it does, and how it fares."""
        return Request(automation_id)

    @operation("PUT /automations/{automation_id}")
    def update(self, automation_id: Id, **changes: Unpack[AutomationUpdate]) -> Request[Automation]:
        """Change what is named, or switch it on or off with `enabled`; the rest stays."""
        return Request(automation_id, body=changes)

    @operation("DELETE /automations/{automation_id}")
    def delete(self, automation_id: Id) -> Request[MessageResponse]:
        """Delete it; orders that it has made stay."""
        return Request(automation_id)

    @operation("POST /automations/{automation_id}/preview")
    def preview(self, automation_id: Id, *, idempotency_key: str | None = None) -> Request[AutomationPreview]:
        """Pictures of its piece, and who is mailed next; no order is made."""
        return Request(automation_id, idempotency_key=idempotency_key)
