"""Mailing lists and suppression lists: create, read, change, merge, export."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, cast

import orjson
from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import recipients as wire
from quillpost.client.mailing_lists import DedupeResponse
from quillpost.client.types import MessageResponse
from quillpost.core.text import format_iso, format_time_ago
from quillpost.recipients.addresses.rules import UNDELIVERABLE
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_chunks, write_csv_file
from quillpost.recipients.lists.service import decrypt_list_key
from quillpost.recipients.models import MailingList, Person, Recipient
from quillpost.recipients.rules import person_to_fields
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestAuditWriter,
    RequestTransaction,
    SearchQuery,
    SubAccountFilter,
)
from quillpost.web.api.idempotency import HOLDS_SECRET_HEADER
from quillpost.web.api.mailing_lists.schemas import MAX_DESCRIPTION_LENGTH, ChangedMailingList, Merge, NewMailingList
from quillpost.web.api.responses import json_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import QueryText, strip_or_none
from quillpost.web.dependencies import Services


def serialize_list(container: Container, mailing_list: MailingList) -> wire.MailingList:
    suppress_by = mailing_list.suppress_by if mailing_list.is_suppression_list else None
    return {
        "id": mailing_list.id,
        "user_id": mailing_list.account_id,
        "sub_account_id": mailing_list.sub_account_id,
        "type": cast(wire.ListType, mailing_list.type),
        "description": mailing_list.description,
        "qrcode_url": mailing_list.qrcode_url,
        "total_recipients": mailing_list.total_recipients,
        "processed": mailing_list.processed,
        "is_suppression_list": mailing_list.is_suppression_list,
        "suppress_by": cast(wire.SuppressBy | None, suppress_by),
        "total_scans": mailing_list.total_scans,
        "unique_scans": mailing_list.unique_scans,
        "total_sends": mailing_list.total_sends,
        "last_scan": format_iso(mailing_list.last_scan),
        "last_send": format_iso(mailing_list.last_send),
        "api_key": decrypt_list_key(container.encryptor, mailing_list),
        "created_at": format_iso(mailing_list.created_at),
        "created_at_diff": format_time_ago(mailing_list.created_at, now=container.clock()),
        "updated_at": format_iso(mailing_list.updated_at),
    }


def serialize_new_list(container: Container, mailing_list: MailingList) -> wire.CreatedMailingList:
    content = serialize_list(container, mailing_list)
    return {**content, "created_at": content["created_at_diff"]}


def serialize_deliverability(person: Person) -> wire.Deliverability:
    return {
        "deliverability": cast(wire.DeliverabilityName, person.mail_deliverability),
        "can_deliver": person.mail_deliverability != UNDELIVERABLE,
        "deliverability_reasons": list(person.reasons),
    }


def create_recipient_serializer(
    container: Container, lists: Iterable[MailingList]
) -> Callable[[Recipient], wire.Recipient]:
    """How people on these lists are shown, each with its list under both of its names."""
    # A page may show one list thousands of times: it is written once.
    serialized_lists: dict[int, Any] = {
        each.id: orjson.Fragment(orjson.dumps(serialize_list(container, each))) for each in lists
    }

    def serialize(recipient: Recipient) -> wire.Recipient:
        mailing_list = serialized_lists[recipient.mailing_list_id]
        content = {
            "id": recipient.id,
            "mailing_list_id": recipient.mailing_list_id,
            **person_to_fields(recipient.person),
            **serialize_deliverability(recipient.person),
            "mailing-list": mailing_list,
            "mailing_list": mailing_list,
            "created_at": format_iso(recipient.created_at),
            "updated_at": format_iso(recipient.updated_at),
        }
        return cast(wire.Recipient, content)

    return serialize


router = ApiRouter("Mailing lists", resource="lists")

ListId = Annotated[PathId, Path(description="The list's id.")]
DescriptionQuery = Annotated[
    QueryText | None, Query(max_length=MAX_DESCRIPTION_LENGTH, description="Only lists with this in their description.")
]
SECRET_HEADERS = {HOLDS_SECRET_HEADER: "yes"}


@router.get("/mailing-lists", page_of(wire.MailingList), summary="List mailing lists, newest first")
def list_mailing_lists(
    request: Request,
    tx: RequestTransaction,
    container: Services,
    page_request: PageQuery,
    sub_account_id: SubAccountFilter,
    search: SearchQuery,
    query: DescriptionQuery = None,
) -> Response:
    """Suppression lists are among them. `search` looks at descriptions, by the beginnings of their words;
    `query` anywhere in them."""
    require_sub_account(tx, sub_account_id)
    page = list_queries.read_list_page(
        tx, page_request, sub_account_id=sub_account_id, description=strip_or_none(query), search_text=search
    )
    return page_response(request, page, lambda mailing_list: serialize_list(container, mailing_list))


@router.post("/mailing-lists", wire.CreatedMailingList, status_code=201, summary="Make a mailing list")
def create_mailing_list(
    body: NewMailingList, caller: ApiCaller, tx: RequestTransaction, container: Services
) -> Response:
    """It is empty. Whoever is on a suppression list of the account gets none of its mail; one of a sub
    account bars mail of that sub account, and of none."""
    mailing_list = list_service.create_list(
        tx, caller, container.encryptor, body.columns(container), now=container.clock()
    )
    return json_response(serialize_new_list(container, mailing_list), status=201, headers=SECRET_HEADERS)


@router.get("/mailing-lists/{mailing_list_id}", wire.MailingList, summary="Read a mailing list")
def read_mailing_list(mailing_list_id: ListId, tx: RequestTransaction, container: Services) -> Response:
    """With how many are on it, and what has become of mail to them."""
    return json_response(serialize_list(container, list_queries.read_list(tx, mailing_list_id)))


@router.put("/mailing-lists/{mailing_list_id}", wire.MailingList, summary="Change a mailing list")
def change_mailing_list(
    mailing_list_id: ListId, body: ChangedMailingList, caller: ApiCaller, tx: RequestTransaction, container: Services
) -> Response:
    """What is not named stays. In another sub account its recipients are there with it, and so are the
    sub account's subscriptions to its events. It becomes no suppression list, and moves to no other sub
    account, while an order waits to be sent to it or an automation on it is switched on."""
    changed = list_service.change_list(tx, caller, mailing_list_id, body.columns(container), now=container.clock())
    return json_response(serialize_list(container, changed))


@router.delete("/mailing-lists/{mailing_list_id}", MessageResponse, errors=[400], summary="Delete a mailing list")
def delete_mailing_list(mailing_list_id: ListId, tx: RequestTransaction) -> Response:
    """With its recipients and the subscriptions to its events; not while an order waits to be sent to it, or
    an automation on it is switched on."""
    list_service.remove_list(tx, mailing_list_id)
    return json_response({"message": "success"})


@router.post("/mailing-lists/{mailing_list_id}/merge", wire.MailingList, summary="Merge a mailing list into another")
def merge_mailing_list(mailing_list_id: ListId, body: Merge, tx: RequestTransaction, container: Services) -> Response:
    """Everyone goes over, but for those whose address is there already and, of those without an address,
    whose e-mail is; the subscriptions to the list's events and its automations go over too. Its counts of
    sends and scans are added to the other's, and the emptied list is deleted. Suppression lists merge with
    those alone that bar by the same."""
    merged = list_service.merge_lists(tx, mailing_list_id, body.into, clock=container.clock)
    return json_response(serialize_list(container, merged), headers=SECRET_HEADERS)


@router.post(
    "/mailing-lists/{mailing_list_id}/dedupe",
    DedupeResponse,
    errors=[409],
    summary="Remove doubles from a mailing list",
)
def dedupe_mailing_list(mailing_list_id: ListId, tx: RequestTransaction) -> Response:
    """An address is on a list once anyway, so this is about those without one. Of each e-mail the oldest
    stays; and none does where someone of the same e-mail and name has an address on the list, unless it is
    a suppression list. On one that bars by e-mail, of each e-mail the oldest stays, with or without one."""
    removed = list_service.remove_duplicates(tx, mailing_list_id)
    return json_response(DedupeResponse(message="success", removed=removed))


@router.post(
    "/mailing-lists/{mailing_list_id}/rotate-key",
    wire.MailingList,
    errors=[409],
    summary="Give a mailing list a new key",
)
def rotate_list_key(
    mailing_list_id: ListId, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """The old `api_key` stops at once."""
    changed = list_service.rotate_key(tx, container.encryptor, mailing_list_id, now=container.clock())
    details = {"name": changed.description, "id": changed.id}
    audit.record(tx, "list.key", details, sub_account_id=changed.sub_account_id)
    return json_response(serialize_list(container, changed), headers=SECRET_HEADERS)


@router.get_file(
    "/mailing-lists/{mailing_list_id}/export",
    "A line of field names, then a line for each recipient.",
    {"text/csv": {"schema": {"type": "string"}, "example": "id,name\n340,Jane Doe\n"}},
    summary="Export a mailing list as CSV",
)
def export_mailing_list(mailing_list_id: ListId, tx: RequestTransaction, audit: RequestAuditWriter) -> Response:
    """Everyone, as they were added. A value that a spreadsheet would take for a formula has a ' before it."""
    mailing_list = list_queries.read_list(tx, mailing_list_id)
    details = {"name": mailing_list.description, "id": mailing_list.id}
    audit.record(tx, "list.exported", details, sub_account_id=mailing_list.sub_account_id)
    return StreamingResponse(
        read_chunks(write_csv_file(tx, mailing_list.id)),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="mailing-list-{mailing_list.id}.csv"'},
    )
