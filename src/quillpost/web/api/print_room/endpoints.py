"""The print room: batches, their files, and what is printed again."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import WithJsonSchema

from quillpost.core.clock import iso
from quillpost.core.errors import Invalid
from quillpost.fulfillment.files import BatchStore
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.downloads import take_files
from quillpost.fulfillment.print_room.queries import (
    STATUSES,
    BatchFile,
    BatchFilter,
    BatchShown,
    find_batch,
    find_file,
    list_batches,
    read_batch_shown,
    read_statement,
)
from quillpost.fulfillment.queries import Batch
from quillpost.fulfillment.rules import reference, saved_as
from quillpost.web.api.dependencies import (
    AskedPage,
    InServiceTx,
    Log,
    MayDecide,
    MayLook,
    Services,
    id_in_path,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.filters import Faults, chosen
from quillpost.web.api.orders.responses import base_of
from quillpost.web.api.print_room import schemas as schemas
from quillpost.web.api.print_room.requests import Mark, Reprint, Retry, Rush
from quillpost.web.api.responses import answer, linked
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Print room"])

FILE_LINK = timedelta(days=1)

BatchId = Annotated[str, Path(description="The batch's id.", json_schema_extra={"type": "integer"})]
AskedStatus = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
AskedFlag = Annotated[str | None, WithJsonSchema({"type": "boolean"})]


def batch_filter(
    who: MayLook,
    status: Annotated[AskedStatus, Query(description="Only those that stand here.")] = None,
    is_open: Annotated[
        AskedFlag, Query(alias="open", description="True: those not in the mail yet; false: the others.")
    ] = None,
) -> BatchFilter:
    faults: Faults = {}
    status, flag = chosen("status", status, STATUSES, faults), chosen("open", is_open, FLAGS, faults)
    if faults:
        raise Invalid(faults)
    return BatchFilter(mode=who.mode, status=status, is_open=FLAGS[flag] if flag else None)


FLAGS = {"true": True, "false": False, "1": True, "0": False}


@router.get(
    "/print/batches",
    response_model=schemas.BatchPage,
    responses=errors(422),
    summary="List production batches, newest first",
)
def list_print_batches(
    request: Request,
    who: MayLook,
    wanted: Annotated[BatchFilter, Depends(batch_filter)],
    tx: InServiceTx,
    asked: AskedPage,
    parts: Services,
) -> Response:
    """Those of the token's mode, whosever pieces are in them. While settings are missing without which
    nothing is printed, `meta` names them as `gaps`."""
    gaps = parts.worlds[who.mode].gaps
    return linked(request, list_batches(tx, asked, wanted), shape, more={"gaps": gaps} if gaps else None)


@router.get(
    "/print/batches/{batch_id}",
    response_model=schemas.BatchRead,
    responses=errors(404),
    summary="Read a production batch",
)
def read_print_batch(request: Request, batch_id: BatchId, who: MayLook, parts: Services) -> Response:
    """With its files, its mailing statement, and how many of its pieces stand where."""
    return _shown(request, parts, id_in_path(batch_id), mode=who.mode)


@router.post(
    "/print/batches/{batch_id}/mark",
    response_model=schemas.BatchRead,
    responses=errors(404, *BODY_ERRORS),
    summary="Say how far a batch is",
)
def mark_print_batch(
    request: Request, batch_id: BatchId, body: Mark, who: MayDecide, parts: Services, log: Log
) -> Response:
    """What the printer, or whoever stands at the press, knows. Said twice it changes nothing; what is mailed
    was printed. 409 before the batch was handed to the printer; 422 for a spoiled piece that the carrier has
    seen, or that was reprinted since, which is marked in its new batch."""
    marks.mark(
        parts.db,
        id_in_path(batch_id),
        body.status,
        at=body.moment(),
        spoiled=body.pieces(),
        mode=who.mode,
        noted=log.later("batch.marked", {"name": _named(batch_id), "mode": who.mode, "status": body.status}),
        now=parts.clock(),
    )
    return _shown(request, parts, id_in_path(batch_id), mode=who.mode)


@router.post(
    "/print/batches/{batch_id}/reprint",
    status_code=201,
    response_model=schemas.Reprinted,
    responses=errors(404, *BODY_ERRORS),
    summary="Print pieces again",
)
def reprint_pieces(
    request: Request, batch_id: BatchId, body: Reprint, who: MayDecide, parts: Services, log: Log
) -> Response:
    """By `positions`, by a range `from` and `to`, or by `item_ids`: a new batch of these pieces, each under a
    new barcode. Those printed before are void, which the new batch's ticket says. `left_out` names those that
    cannot be printed again, and why; 409 where none of them can."""
    made = marks.reprint(
        parts.db,
        parts.worlds[who.mode],
        id_in_path(batch_id),
        body.pieces(),
        reason=body.reason,
        noted=log.later(
            "batch.reprinted", {"name": _named(batch_id), "mode": who.mode, "reason": body.reason}
        ),
        now=parts.clock(),
    )
    left_out = [asdict(piece) for piece in made.left_out]
    return _shown(request, parts, made.batch_id, mode=who.mode, status=201, more={"left_out": left_out})


@router.post(
    "/print/batches/{batch_id}/retry",
    response_model=schemas.BatchRead,
    responses=errors(404, *BODY_ERRORS),
    summary="Try a batch's step again",
)
def retry_print_batch(
    request: Request, batch_id: BatchId, who: MayDecide, parts: Services, log: Log, body: Retry | None = None
) -> Response:
    """Composing it, handing it over or asking the printer, now: it was given up, or waits for its time.

    A batch that was offered to a former partner waits until you know that they do not have it, and say so
    with `anew`: people would be mailed twice. 409 for `anew` unless the batch is composed and not handed
    over, and while it is being handed over.
    """
    with parts.db.work() as tx:
        batch = find_batch(tx, id_in_path(batch_id), mode=who.mode)
    anew = body is not None and body.anew
    about = {"name": reference(batch.id), "mode": batch.mode, "anew": anew}
    print_room_service.retry(parts.db, batch.id, anew=anew, noted=log.later("batch.retried", about))
    return _shown(request, parts, batch.id, mode=who.mode)


@router.post(
    "/print/rush",
    response_model=schemas.Rushed,
    responses=errors(*BODY_ERRORS),
    summary="Let orders go before the others",
)
def rush_orders(body: Rush, who: MayDecide, parts: Services, log: Log) -> Response:
    """And without waiting for the daily cut-off. What is in batches already is left out of the answer; 400
    where there is no such order in the token's mode, and then none is rushed."""
    rushed = print_room_service.rush(
        parts.db,
        who.mode,
        body.order_ids,
        operator_id=who.account_id,
        noted=log.counting("orders.rushed", {"mode": who.mode}),
        now=parts.clock(),
    )
    return answer({"message": "success", "order_ids": rushed})


@router.post(
    "/print/pool",
    response_model=schemas.Pooled,
    responses=errors(409),
    summary="Make batches of what waits",
)
def pool_orders(who: MayDecide, parts: Services, log: Log) -> Response:
    """Now, instead of at the daily cut-off."""
    noted = log.counting("orders.pooled", {"mode": who.mode})
    pooled = print_room_service.pool_now(parts.db, who.mode, noted=noted, now=parts.clock())
    return answer({"message": "success", "orders": pooled})


def _named(batch_id: str) -> str:
    return reference(id_in_path(batch_id))


def _shown(
    request: Request,
    parts: Services,
    batch_id: int,
    *,
    mode: str,
    status: int = 200,
    more: Mapping[str, Any] | None = None,
) -> Response:
    with parts.db.work() as tx:
        shown = read_batch_shown(tx, batch_id, mode=mode)
    return answer(read_shape(request, parts, shown) | dict(more or {}), status=status)


def shape(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "reference": reference(batch.id),
        "mode": batch.mode,
        "status": batch.status,
        "piece": batch.piece,
        "mail_class": batch.mail_class,
        "stock": batch.stock,
        "rush": batch.rush,
        "reprint_of": batch.reprint_of,
        "pieces": batch.item_count,
        "trouble": batch.trouble,
        "trouble_at": _moment(batch.trouble_at),
        "created_at": iso(batch.created_at),
        "composed_at": _moment(batch.composed_at),
        "handed_at": _moment(batch.handed_at),
        "acknowledged_at": _moment(batch.acknowledged_at),
        "printed_at": _moment(batch.printed_at),
        "mailed_at": _moment(batch.mailed_at),
        "settled_at": _moment(batch.settled_at),
    }


def read_shape(request: Request, parts: Services, shown: BatchShown) -> dict[str, Any]:
    """A batch by itself. Its files may be far: no transaction is open."""
    expires = parts.clock() + FILE_LINK
    files = [
        {
            "name": file.name,
            "size": file.size,
            "sha256": file.sha256,
            "secret": file.is_secret,
            "url": base_of(request) + _way_to(parts, shown.batch.id, file, expires=expires),
        }
        for file in shown.files
    ]
    return shape(shown.batch) | {
        "pieces_by_status": shown.pieces,
        "void": shown.void,
        "reprints": shown.reprints,
        "files": files,
        "statement": read_statement(parts.shelf.store, shown),
    }


def _way_to(parts: Services, batch_id: int, file: BatchFile, *, expires: datetime) -> str:
    """A link for whoever has it; to a secret file the call that needs an operator's token, and is noted."""
    if file.is_secret:
        return f"{PREFIX}/print/batches/{batch_id}/files/{file.name}"
    return parts.shelf.path(f"batch-{batch_id}/{file.name}", expires=expires)


def _moment(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


FILES = "/print/batches/{batch_id}/files/{name}"
BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILE_CONTENT: dict[str, Any] = {
    "application/pdf": BYTES,
    "text/csv": {"schema": {"type": "string"}, "example": "position,item_id\n1,340\n"},
    "application/json": {
        "schema": {"anyOf": [{"type": "object"}, {"type": "array"}]},
        "example": {"batch": "B-12"},
    },
    "application/octet-stream": BYTES,
}
"""By the end of its name: .pdf, .csv, .json, and any other."""
FileName = Annotated[str, Path(description="The file's name, such as print.pdf.")]


@router.get(
    FILES,
    response_class=Response,
    responses={
        200: {
            "description": "The file, to be saved; of which kind it is, its name says.",
            "content": FILE_CONTENT,
        },
        **errors(404),
    },
    summary="Download a file of a batch",
)
def download_print_file(
    batch_id: BatchId, name: FileName, who: MayDecide, parts: Services, log: Log
) -> Response:
    """As it was composed. The print file of gift cards holds what they are claimed with, and is to be had
    here alone. Every download is noted in the audit log before the file leaves."""
    number = id_in_path(batch_id)
    file = _find(parts, number, name, mode=who.mode)
    about = {"name": reference(number), "mode": who.mode, "files": [file.name]}
    kept = BatchStore(parts.shelf.store, parts.sealer)
    noted = log.later("print_file.downloaded", about)
    found = take_files(parts.db, kept, number, [file], noted=noted)
    return Response(found[file.name], media_type=file.content_type, headers=_to_be_saved(number, file))


@router.head(FILES, include_in_schema=False)
def look_for_print_file(batch_id: BatchId, name: FileName, who: MayDecide, parts: Services) -> Response:
    """Whether it is there, and how large. Nobody has it by that, so that nothing is noted."""
    number = id_in_path(batch_id)
    file = _find(parts, number, name, mode=who.mode)
    headers = _to_be_saved(number, file) | {"Content-Length": str(file.size)}
    return Response(media_type=file.content_type, headers=headers)


def _find(parts: Services, batch_id: int, name: str, *, mode: str) -> BatchFile:
    with parts.db.work() as tx:
        return find_file(tx, find_batch(tx, batch_id, mode=mode).id, name)


def _to_be_saved(batch_id: int, file: BatchFile) -> dict[str, str]:
    name = saved_as(batch_id, file.name)
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
