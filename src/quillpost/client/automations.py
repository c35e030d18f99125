"""Sends that start by themselves."""

from typing import Any, Literal, NotRequired, TypedDict, Unpack

from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message
from quillpost.client.send import PieceName, PieceSend

Trigger = Literal["list_entry", "scan", "date"]
DateField = Literal["dob", "anniversary"]


class AutomatedSend(PieceSend, total=False):
    """A send without its audience and its time, which are the automation's own."""

    piece: PieceName


class Automation(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    mode: str
    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    send: dict[str, Any]
    daily_limit: int
    enabled: bool
    waiting: int
    held_by: str | None
    held_until: str | None
    sent_count: int
    last_sent_at: str | None
    last_order_id: int | None
    last_error: str | None
    last_error_at: str | None
    created_at: str
    updated_at: str


class ComingDay(TypedDict):
    date: str
    recipients: int


class AutomationPreviewData(TypedDict):
    previews: list[str]
    sides: list[str]
    envelope: NotRequired[str]
    warnings: list[str]
    waiting: int
    coming: list[ComingDay]
    coming_total: int


class AutomationPreview(TypedDict):
    success: bool
    code: int
    message: str
    data: AutomationPreviewData


class AutomationFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    sub_account_id: Id
    mailing_list_id: Id


class AutomationFields(TypedDict, total=False):
    mailing_list_id: Id | None
    date_field: DateField | None
    days_offset: int
    daily_limit: int
    enabled: bool


class AutomationChanges(AutomationFields, total=False):
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
        **fields: Unpack[AutomationFields],
    ) -> Request[Automation]:
        """A new one, switched off unless `enabled` is true."""
        body = {"name": name, "trigger": trigger, "send": send, **fields}
        return Request(body=body, idempotency_key=idempotency_key)

    @operation("GET /automations/{automation_id}")
    def read(self, automation_id: Id) -> Request[Automation]:
        """One automation: what it does, and how it fares."""
        return Request(automation_id)

    @operation("PUT /automations/{automation_id}")
    def update(self, automation_id: Id, **changes: Unpack[AutomationChanges]) -> Request[Automation]:
        """Change what is named, or switch it on or off with `enabled`; the rest stays."""
        return Request(automation_id, body=changes)

    @operation("DELETE /automations/{automation_id}")
    def delete(self, automation_id: Id) -> Request[Message]:
        """Delete it; orders that it has made stay."""
        return Request(automation_id)

    @operation("POST /automations/{automation_id}/preview")
    def preview(self, automation_id: Id, *, idempotency_key: str | None = None) -> Request[AutomationPreview]:
        """Pictures of its piece, and who is mailed next; no order is made."""
        return Request(automation_id, idempotency_key=idempotency_key)
