"""Mailing lists and suppression lists: create, read, change, merge, export."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, AliasChoices, ConfigDict, Field

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.clock import ago, iso
from quillpost.core.errors import Invalid
from quillpost.orders.templates.rules import LONGEST_URL, wrong_saved_url
from quillpost.recipients.addresses.service import UNDELIVERABLE
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.export import chunks, csv_file
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.lists.service import key_of
from quillpost.recipients.queries import Recipient
from quillpost.recipients.rules import Person, written
from quillpost.web.api.bodies import (
    NOT_BLANK,
    NULL_IS_LEFT_OUT,
    Body,
    Flag,
    Id,
    SoughtText,
    Switch,
    Text,
    said,
)
from quillpost.web.api.dependencies import (
    AskedPage,
    AskedSearch,
    InTx,
    Log,
    Services,
    SubAccountFilter,
    id_in_path,
    may,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.idempotency import HOLDS_SECRET
from quillpost.web.api.mailing_lists import schemas as schemas
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route

Shape = dict[str, Any]


def list_shape(parts: Parts, mailing_list: MailingList) -> Shape:
    return {
        "id": mailing_list.id,
        "user_id": mailing_list.account_id,
        "sub_account_id": mailing_list.sub_account_id,
        "type": mailing_list.type,
        "description": mailing_list.description,
        "qrcode_url": mailing_list.qrcode_url,
        "total_recipients": mailing_list.total_recipients,
        "processed": mailing_list.processed,
        "is_suppression_list": mailing_list.is_suppression_list,
        "suppress_by": mailing_list.suppress_by if mailing_list.is_suppression_list else None,
        "total_scans": mailing_list.total_scans,
        "unique_scans": mailing_list.unique_scans,
        "total_sends": mailing_list.total_sends,
        "last_scan": iso(mailing_list.last_scan),
        "last_send": iso(mailing_list.last_send),
        "api_key": key_of(parts.sealer, mailing_list),
        "created_at": iso(mailing_list.created_at),
        "created_at_diff": ago(mailing_list.created_at, now=parts.clock()),
        "updated_at": iso(mailing_list.updated_at),
    }


def new_list_shape(parts: Parts, mailing_list: MailingList) -> Shape:
    """As it is made, a list's `created_at` is told in words."""
    shape = list_shape(parts, mailing_list)
    return shape | {"created_at": shape["created_at_diff"]}


def deliverability_of(person: Person) -> Shape:
    """Whether mail arrives there. A row that nobody has judged yet counts as deliverable if it is whole."""
    reaches = person.can_be_mailed and person.deliverability != UNDELIVERABLE
    return {
        "deliverability": person.deliverability if reaches else UNDELIVERABLE,
        "can_deliver": reaches,
        "deliverability_reasons": list(person.reasons),
    }


def recipient_shapes(parts: Parts, lists: Iterable[MailingList]) -> Callable[[Recipient], Shape]:
    """How people on these lists are shown, each with its list under both of its names."""
    # A page may show one list thousands of times: it is written once.
    written_lists = {each.id: orjson.Fragment(orjson.dumps(list_shape(parts, each))) for each in lists}

    def shape(recipient: Recipient) -> Shape:
        mailing_list = written_lists[recipient.mailing_list_id]
        return {
            "id": recipient.id,
            "mailing_list_id": recipient.mailing_list_id,
            **written(recipient.person),
            **deliverability_of(recipient.person),
            "mailing-list": mailing_list,
            "mailing_list": mailing_list,
            "created_at": iso(recipient.created_at),
            "updated_at": iso(recipient.updated_at),
        }

    return shape


router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Mailing lists"])

LONGEST = 300

MAY_READ = [Depends(may("lists:read"))]
MAY_WRITE = [Depends(may("lists:write"))]
MayRead = Annotated[Caller, Depends(may("lists:read"))]
MayWrite = Annotated[Caller, Depends(may("lists:write"))]
ListId = Annotated[str, Path(description="The list's id.", json_schema_extra={"type": "integer"})]
PartOfIt = Annotated[
    SoughtText | None, Query(max_length=LONGEST, description="Only lists with this in their description.")
]
SECRET = {HOLDS_SECRET: "yes"}


def _named(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the list a description.")
    return text.strip()


Description = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_named)]


class ListFields(Body):
    """What both a new list and a changed one may have."""

    qrcode_url: Annotated[Text | None, AfterValidator(said)] = Field(
        None, max_length=LONGEST_URL, description="Where QR codes on mail to this list lead."
    )
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that it belongs to; null is none.",
    )

    suppress_by: schemas.SuppressBy | None = Field(
        None,
        description="Of a suppression list, whom an entry bars: everyone at its address, as when nothing is"
        " said; its household, those of its family name at its address; or its email, wherever they live.",
    )

    def columns(self, parts: ServiceParts) -> dict[str, Any]:
        """What was named, or what is wrong with it."""
        wrong = wrong_saved_url(self.qrcode_url, parts.check_url) if self.qrcode_url else None
        if wrong is not None:
            raise Invalid({"qrcode_url": [wrong]})
        given = self.given()
        if given.get("suppress_by", "") is None:
            del given["suppress_by"]
        return given


class NewMailingList(ListFields):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"description": "Open house visitors", "type": "manual"}]}
    )

    description: Description = Field(
        max_length=LONGEST,
        validation_alias=AliasChoices("description", "name"),
        description="What you call it.",
        examples=["Open house visitors"],
    )
    type: Annotated[schemas.ListType, NULL_IS_LEFT_OUT] = Field(
        "manual", description="Where its people come from."
    )
    is_suppression_list: Switch = Field(False, description="Whoever is on it is mailed nothing.")

    def columns(self, parts: ServiceParts) -> dict[str, Any]:
        ours = {"type": self.type, "is_suppression_list": self.is_suppression_list}
        return ours | super().columns(parts)


class ChangedMailingList(ListFields):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"description": "Visitors in May", "qrcode_url": None}]}
    )

    # Each default stands for "stays"; null is none of them.
    description: Description = Field(
        default_factory=str,
        max_length=LONGEST,
        validation_alias=AliasChoices("description", "name"),
        description="What you call it.",
    )
    type: schemas.ListType = Field(
        default_factory=lambda: "manual", description="Where its people come from."
    )
    is_suppression_list: Flag = Field(default_factory=bool, description="Whoever is on it is mailed nothing.")


class Merge(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"into": 14}]})

    into: Id = Field(description="The list that takes everyone in.")


@router.get(
    "/mailing-lists",
    response_model=schemas.MailingListPage,
    responses=errors(400, 422),
    dependencies=MAY_READ,
    summary="List mailing lists, newest first",
)
def list_mailing_lists(
    request: Request,
    tx: InTx,
    parts: Services,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    search: AskedSearch,
    query: PartOfIt = None,
) -> Response:
    """Suppression lists are among them. `search` looks at descriptions, by the beginnings of their words;
    `query` anywhere in them."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = list_queries.list_page(
        tx, asked, sub_account_id=sub_account_id, description=said(query), search=search
    )
    return linked(request, page, lambda each: list_shape(parts, each))


@router.post(
    "/mailing-lists",
    status_code=201,
    response_model=schemas.MailingListCreated,
    responses=errors(*BODY_ERRORS),
    summary="Make a mailing list",
)
def create_mailing_list(body: NewMailingList, who: MayWrite, tx: InTx, parts: Services) -> Response:
    """It is empty. Whoever is on a suppression list of the account gets none of its mail; one of a sub
    account bars mail of that sub account, and of none."""
    made = list_service.make_list(tx, who, parts.sealer, body.columns(parts), now=parts.clock())
    return answer(new_list_shape(parts, made), status=201, headers=SECRET)


@router.get(
    "/mailing-lists/{mailing_list_id}",
    response_model=schemas.MailingListShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a mailing list",
)
def read_mailing_list(mailing_list_id: ListId, tx: InTx, parts: Services) -> Response:
    """With how many are on it, and what has become of mail to them."""
    return answer(list_shape(parts, list_queries.read_list(tx, id_in_path(mailing_list_id))))


@router.put(
    "/mailing-lists/{mailing_list_id}",
    response_model=schemas.MailingListShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change a mailing list",
)
def change_mailing_list(
    mailing_list_id: ListId, body: ChangedMailingList, who: MayWrite, tx: InTx, parts: Services
) -> Response:
    """What is not named stays. In another sub account its recipients are there with it, and so are the
    sub account's subscriptions to its events. It becomes no suppression list, and moves to no other sub
    account, while an order waits to be sent to it or an automation on it is switched on."""
    changed = list_service.change_list(
        tx, who, id_in_path(mailing_list_id), body.columns(parts), now=parts.clock()
    )
    return answer(list_shape(parts, changed))


@router.delete(
    "/mailing-lists/{mailing_list_id}",
    response_model=Message,
    responses=errors(400, 404),
    dependencies=MAY_WRITE,
    summary="Delete a mailing list",
)
def delete_mailing_list(mailing_list_id: ListId, tx: InTx) -> Response:
    """With its recipients and the subscriptions to its events; not while an order waits to be sent to it, or
    an automation on it is switched on."""
    list_service.end_list(tx, id_in_path(mailing_list_id))
    return answer({"message": "success"})


@router.post(
    "/mailing-lists/{mailing_list_id}/merge",
    response_model=schemas.MailingListShape,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Merge a mailing list into another",
)
def merge_mailing_list(mailing_list_id: ListId, body: Merge, tx: InTx, parts: Services) -> Response:
    """Everyone goes over, but for those whose address is there already and, of those without an address,
    whose e-mail is; the subscriptions to the list's events and its automations go over too. Its counts of
    sends and scans are added to the other's, and the emptied list is deleted. Suppression lists merge with
    those alone that bar by the same."""
    merged = list_service.merge_lists(tx, id_in_path(mailing_list_id), body.into, clock=parts.clock)
    return answer(list_shape(parts, merged), headers=SECRET)


@router.post(
    "/mailing-lists/{mailing_list_id}/dedupe",
    response_model=schemas.DoublesRemoved,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Remove doubles from a mailing list",
)
def dedupe_mailing_list(mailing_list_id: ListId, tx: InTx) -> Response:
    """An address is on a list once anyway, so this is about those without one. Of each e-mail the oldest
    stays; and none does where someone of the same e-mail and name has an address on the list, unless it is
    a suppression list. On one that bars by e-mail, of each e-mail the oldest stays, with or without one."""
    removed = list_service.drop_doubles(tx, id_in_path(mailing_list_id))
    return answer({"message": "success", "removed": removed})


@router.post(
    "/mailing-lists/{mailing_list_id}/rotate-key",
    response_model=schemas.MailingListShape,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Give a mailing list a new key",
)
def rotate_list_key(mailing_list_id: ListId, tx: InTx, parts: Services, log: Log) -> Response:
    """The old `api_key` stops at once."""
    changed = list_service.rotate_key(tx, parts.sealer, id_in_path(mailing_list_id), now=parts.clock())
    about = {"name": changed.description, "id": changed.id}
    log.note(tx, "list.key", about, sub_account_id=changed.sub_account_id)
    return answer(list_shape(parts, changed), headers=SECRET)


@router.get(
    "/mailing-lists/{mailing_list_id}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A line of field names, then a line for each recipient.",
            "content": {"text/csv": {"schema": {"type": "string"}, "example": "id,name\n340,Jane Doe\n"}},
        },
        **errors(404),
    },
    dependencies=MAY_READ,
    summary="Export a mailing list as CSV",
)
def export_mailing_list(mailing_list_id: ListId, tx: InTx, log: Log) -> Response:
    """Everyone, as they were added. A value that a spreadsheet would take for a formula has a ' before it."""
    found = list_queries.read_list(tx, id_in_path(mailing_list_id))
    about = {"name": found.description, "id": found.id}
    log.note(tx, "list.exported", about, sub_account_id=found.sub_account_id)
    return StreamingResponse(
        chunks(csv_file(tx, found.id)),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="mailing-list-{found.id}.csv"'},
    )
