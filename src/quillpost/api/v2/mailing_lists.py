"""Mailing lists, suppression lists among them: making, reading, changing, merging and exporting them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, AliasChoices, ConfigDict, Field

from quillpost.accounts.rules import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.api.answers import answer, linked
from quillpost.api.audited import Log
from quillpost.api.bodies import NOT_BLANK, NULL_IS_LEFT_OUT, Body, Flag, Id, SoughtText, Switch, Text, said
from quillpost.api.docs import BODY_ERRORS, errors
from quillpost.api.idempotency import HOLDS_SECRET
from quillpost.api.needs import AskedPage, AskedSearch, InTx, Parts, SubAccountFilter, id_in_path, may
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.audience_shapes import list_shape, new_list_shape
from quillpost.api.v2.schemas import mailing_lists as schemas
from quillpost.api.v2.schemas.common import Message
from quillpost.audience import list_keeping, lists
from quillpost.audience.export import chunks, csv_file
from quillpost.creative.wording import LONGEST_URL, wrong_saved_url
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts as ServiceParts

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
    parts: Parts,
    asked: AskedPage,
    sub_account_id: SubAccountFilter,
    search: AskedSearch,
    query: PartOfIt = None,
) -> Response:
    """Suppression lists are among them. `search` looks at descriptions, by the beginnings of their words;
    `query` anywhere in them."""
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    page = lists.list_page(tx, asked, sub_account_id=sub_account_id, description=said(query), search=search)
    return linked(request, page, lambda each: list_shape(parts, each))


@router.post(
    "/mailing-lists",
    status_code=201,
    response_model=schemas.MailingListCreated,
    responses=errors(*BODY_ERRORS),
    summary="Make a mailing list",
)
def create_mailing_list(body: NewMailingList, who: MayWrite, tx: InTx, parts: Parts) -> Response:
    """It is empty. Whoever is on a suppression list of the account gets none of its mail; one of a sub
    account bars mail of that sub account, and of none."""
    made = list_keeping.make_list(tx, who, parts.sealer, body.columns(parts), now=parts.clock())
    return answer(new_list_shape(parts, made), status=201, headers=SECRET)


@router.get(
    "/mailing-lists/{mailing_list_id}",
    response_model=schemas.MailingListShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a mailing list",
)
def read_mailing_list(mailing_list_id: ListId, tx: InTx, parts: Parts) -> Response:
    """With how many are on it, and what has become of mail to them."""
    return answer(list_shape(parts, lists.read_list(tx, id_in_path(mailing_list_id))))


@router.put(
    "/mailing-lists/{mailing_list_id}",
    response_model=schemas.MailingListShape,
    responses=errors(404, *BODY_ERRORS),
    summary="Change a mailing list",
)
def change_mailing_list(
    mailing_list_id: ListId, body: ChangedMailingList, who: MayWrite, tx: InTx, parts: Parts
) -> Response:
    """What is not named stays. In another sub account its recipients are there with it, and so are the
    sub account's subscriptions to its events. It becomes no suppression list, and moves to no other sub
    account, while an order waits to be sent to it or an automation on it is switched on."""
    changed = list_keeping.change_list(
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
    list_keeping.end_list(tx, id_in_path(mailing_list_id))
    return answer({"message": "success"})


@router.post(
    "/mailing-lists/{mailing_list_id}/merge",
    response_model=schemas.MailingListShape,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Merge a mailing list into another",
)
def merge_mailing_list(mailing_list_id: ListId, body: Merge, tx: InTx, parts: Parts) -> Response:
    """Everyone goes over, but for those whose address is there already and, of those without an address,
    whose e-mail is; the subscriptions to the list's events and its automations go over too. Its counts of
    sends and scans are added to the other's, and the emptied list is deleted. Suppression lists merge with
    those alone that bar by the same."""
    merged = list_keeping.merge_lists(tx, id_in_path(mailing_list_id), body.into, clock=parts.clock)
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
    removed = list_keeping.drop_doubles(tx, id_in_path(mailing_list_id))
    return answer({"message": "success", "removed": removed})


@router.post(
    "/mailing-lists/{mailing_list_id}/rotate-key",
    response_model=schemas.MailingListShape,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Give a mailing list a new key",
)
def rotate_list_key(mailing_list_id: ListId, tx: InTx, parts: Parts, log: Log) -> Response:
    """The old `api_key` stops at once."""
    changed = list_keeping.rotate_key(tx, parts.sealer, id_in_path(mailing_list_id), now=parts.clock())
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
    found = lists.read_list(tx, id_in_path(mailing_list_id))
    about = {"name": found.description, "id": found.id}
    log.note(tx, "list.exported", about, sub_account_id=found.sub_account_id)
    return StreamingResponse(
        chunks(csv_file(tx, found.id)),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="mailing-list-{found.id}.csv"'},
    )
