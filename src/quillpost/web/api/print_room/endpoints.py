"""The print room: batches, their files, and what is printed again."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

from fastapi import Depends, Path, Query, Request, Response
from pydantic import WithJsonSchema

from quillpost.client import print_room as wire
from quillpost.core.errors import Invalid
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference, download_name
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import (
    BATCH_STATUSES,
    BatchDetails,
    BatchFileInfo,
    BatchQuery,
    find_batch,
    find_file,
    list_batches,
    read_batch_details,
    read_statement,
)
from quillpost.fulfillment.print_room.service import read_files_for_download
from quillpost.web.api.dependencies import (
    ApiCaller,
    PageQuery,
    PathId,
    RequestAuditWriter,
    ServiceTransaction,
    require_operator,
)
from quillpost.web.api.orders.search import QueryErrors, parse_choice
from quillpost.web.api.print_room.schemas import Mark, Reprint, Retry, Rush
from quillpost.web.api.responses import json_response, page_of, page_response, to_wire
from quillpost.web.api.routes import PREFIX, ApiRouter
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Print room", resource="orders", authorize=require_operator)

FILE_LINK_LIFETIME = timedelta(days=1)

BatchId = Annotated[PathId, Path(description="The batch's id.")]
BatchStatusQuery = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(BATCH_STATUSES)})]
FlagQuery = Annotated[str | None, WithJsonSchema({"type": "boolean"})]


async def get_batch_filter(
    caller: ApiCaller,
    status: Annotated[BatchStatusQuery, Query(description="Only those that stand here.")] = None,
    is_open: Annotated[
        FlagQuery, Query(alias="open", description="True: those not in the mail yet; false: the others.")
    ] = None,
) -> BatchQuery:
    errors: QueryErrors = {}
    status, flag = (
        parse_choice("status", status, BATCH_STATUSES, errors),
        parse_choice("open", is_open, FLAG_VALUES, errors),
    )
    if errors:
        raise Invalid(errors)
    return BatchQuery(mode=caller.mode, status=status, is_open=FLAG_VALUES[flag] if flag else None)


FLAG_VALUES = {"true": True, "false": False, "1": True, "0": False}


@router.get("/print/batches", page_of(wire.Batch, wire.BatchPageMeta), summary="List production batches, newest first")
def list_print_batches(
    request: Request,
    caller: ApiCaller,
    filters: Annotated[BatchQuery, Depends(get_batch_filter)],
    tx: ServiceTransaction,
    page_request: PageQuery,
    container: Services,
) -> Response:
    """Those of the token's mode, whosever pieces are in them. While settings are missing without which
    nothing is printed, `meta` names them as `gaps`."""
    gaps = container.environments[caller.mode].gaps
    return page_response(
        request, list_batches(tx, page_request, filters), serialize_batch, extra_meta={"gaps": gaps} if gaps else None
    )


@router.get("/print/batches/{batch_id}", wire.BatchWithFiles, summary="Read a production batch")
def read_print_batch(request: Request, batch_id: BatchId, caller: ApiCaller, container: Services) -> Response:
    """With its files, its mailing statement, and how many of its pieces stand where."""
    return _batch_response(request, container, batch_id, mode=caller.mode)


@router.post("/print/batches/{batch_id}/mark", wire.BatchWithFiles, summary="Say how far a batch is")
def mark_print_batch(
    request: Request, batch_id: BatchId, body: Mark, caller: ApiCaller, container: Services, audit: RequestAuditWriter
) -> Response:
    """What the printer, or whoever stands at the press, knows. Said twice it changes nothing; what is mailed
    was printed. 409 before the batch was handed to the printer; 422 for a spoiled piece that the carrier has
    seen, or that was reprinted since, which is marked in its new batch."""
    reports.mark_batch(
        container.db,
        batch_id,
        body.status,
        at=body.parse_time(),
        spoiled=body.spoiled_items(),
        mode=caller.mode,
        write_audit=audit.recorder(
            "batch.marked", {"name": batch_reference(batch_id), "mode": caller.mode, "status": body.status}
        ),
        now=container.clock(),
    )
    return _batch_response(request, container, batch_id, mode=caller.mode)


@router.post("/print/batches/{batch_id}/reprint", wire.ReprintedBatch, status_code=201, summary="Print pieces again")
def reprint_pieces(
    request: Request,
    batch_id: BatchId,
    body: Reprint,
    caller: ApiCaller,
    container: Services,
    audit: RequestAuditWriter,
) -> Response:
    """By `positions`, by a range `from` and `to`, or by `item_ids`: a new batch of these pieces, each under a
    new barcode. Those printed before are void, which the new batch's ticket says. `left_out` names those that
    cannot be printed again, and why; 409 where none of them can."""
    reprint = reports.reprint_selection(
        container.db,
        container.environments[caller.mode],
        batch_id,
        body.selected_items(),
        reason=body.reason,
        write_audit=audit.recorder(
            "batch.reprinted", {"name": batch_reference(batch_id), "mode": caller.mode, "reason": body.reason}
        ),
        now=container.clock(),
    )
    left_out = [asdict(item) for item in reprint.skipped]
    return _batch_response(
        request, container, reprint.batch_id, mode=caller.mode, status=201, extra_fields={"left_out": left_out}
    )


@router.post("/print/batches/{batch_id}/retry", wire.BatchWithFiles, summary="Try a batch's step again")
def retry_print_batch(
    request: Request,
    batch_id: BatchId,
    caller: ApiCaller,
    container: Services,
    audit: RequestAuditWriter,
    body: Retry | None = None,
) -> Response:
    """Composing it, handing it over or asking the printer, now: it was given up, or waits for its time.

    A batch that was offered to a former partner waits until you know that they do not have it, and say so
    with `anew`: people would be mailed twice. 409 for `anew` unless the batch is composed and not handed
    over, and while it is being handed over.
    """
    with container.db.system_transaction() as tx:
        batch = find_batch(tx, batch_id, mode=caller.mode)
    to_new_partner = body is not None and body.anew
    details = {"name": batch_reference(batch.id), "mode": batch.mode, "anew": to_new_partner}
    print_room_service.retry_batch(
        container.db, batch.id, reoffer=to_new_partner, write_audit=audit.recorder("batch.retried", details)
    )
    return _batch_response(request, container, batch.id, mode=caller.mode)


@router.post("/print/rush", wire.RushResponse, summary="Let orders go before the others")
def rush_orders(body: Rush, caller: ApiCaller, container: Services, audit: RequestAuditWriter) -> Response:
    """And without waiting for the daily cut-off. What is in batches already is left out of the answer; 400
    where there is no such order in the token's mode, and then none is rushed."""
    rushed = print_room_service.rush_orders(
        container.db,
        caller.mode,
        body.order_ids,
        operator_id=caller.account_id,
        write_audit=audit.counting_recorder("orders.rushed", {"mode": caller.mode}),
        now=container.clock(),
    )
    return json_response(wire.RushResponse(message="success", order_ids=rushed))


@router.post("/print/pool", wire.PoolResponse, errors=[409], summary="Make batches of what waits")
def pool_orders(caller: ApiCaller, container: Services, audit: RequestAuditWriter) -> Response:
    """Now, instead of at the daily cut-off."""
    record = audit.counting_recorder("orders.pooled", {"mode": caller.mode})
    pooled = print_room_service.pool_orders_now(container.db, caller.mode, write_audit=record, now=container.clock())
    return json_response(wire.PoolResponse(message="success", orders=pooled))


def _batch_response(
    request: Request,
    container: Services,
    batch_id: int,
    *,
    mode: str,
    status: int = 200,
    extra_fields: Mapping[str, Any] | None = None,
) -> Response:
    with container.db.system_transaction() as tx:
        batch_view = read_batch_details(tx, batch_id, mode=mode)
    return json_response(
        serialize_batch_details(request, container, batch_view) | dict(extra_fields or {}), status=status
    )


def serialize_batch(batch: ProductionBatch) -> wire.Batch:
    return to_wire(wire.Batch, batch, reference=batch_reference(batch.id), pieces=batch.item_count)


def serialize_batch_details(request: Request, container: Services, batch_view: BatchDetails) -> wire.BatchWithFiles:
    """Reads files: call it outside of a transaction."""
    expires = container.clock() + FILE_LINK_LIFETIME
    files: list[wire.BatchFile] = [
        {
            "name": file.name,
            "size": file.size,
            "sha256": file.sha256,
            "secret": file.is_secret,
            "url": base_url(request) + _file_path(container, batch_view.batch.id, file, expires=expires),
        }
        for file in batch_view.files
    ]
    return {
        **serialize_batch(batch_view.batch),
        "pieces_by_status": batch_view.pieces,
        "void": batch_view.void,
        "reprints": batch_view.reprints,
        "files": files,
        "statement": cast(wire.Statement | None, read_statement(container.storage.store, batch_view)),
    }


def _file_path(container: Services, batch_id: int, file: BatchFileInfo, *, expires: datetime) -> str:
    """A link that needs no token; to a secret file the call that needs an operator's, and is noted."""
    if file.is_secret:
        return f"{PREFIX}/print/batches/{batch_id}/files/{file.name}"
    return container.storage.signed_path(f"batch-{batch_id}/{file.name}", expires_at=expires)


FILE_PATH = "/print/batches/{batch_id}/files/{name}"
BINARY_CONTENT: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILE_CONTENT: dict[str, Any] = {
    "application/pdf": BINARY_CONTENT,
    "text/csv": {"schema": {"type": "string"}, "example": "position,item_id\n1,340\n"},
    "application/json": {"schema": {"anyOf": [{"type": "object"}, {"type": "array"}]}, "example": {"batch": "B-12"}},
    "application/octet-stream": BINARY_CONTENT,
}
"""By the end of its name: .pdf, .csv, .json, and any other."""
FileName = Annotated[str, Path(description="The file's name, such as print.pdf.")]


@router.get_file(
    FILE_PATH,
    "The file, to be saved; of which kind it is, its name says.",
    FILE_CONTENT,
    scope="orders:write",
    summary="Download a file of a batch",
)
def download_print_file(
    batch_id: BatchId, name: FileName, caller: ApiCaller, container: Services, audit: RequestAuditWriter
) -> Response:
    """As it was composed. The print file of gift cards holds what they are claimed with, and is to be had
    here alone. Every download is noted in the audit log before the file leaves."""
    file = _find_file(container, batch_id, name, mode=caller.mode)
    details = {"name": batch_reference(batch_id), "mode": caller.mode, "files": [file.name]}
    store = BatchFileStorage(container.storage.store, container.encryptor)
    record = audit.recorder("print_file.downloaded", details)
    contents = read_files_for_download(container.db, store, batch_id, [file], write_audit=record)
    return Response(contents[file.name], media_type=file.content_type, headers=_download_headers(batch_id, file))


@router.head(FILE_PATH, scope="orders:write")
def head_print_file(batch_id: BatchId, name: FileName, caller: ApiCaller, container: Services) -> Response:
    """Whether it is there, and how large. Nobody has it by that, so that nothing is noted."""
    file = _find_file(container, batch_id, name, mode=caller.mode)
    headers = _download_headers(batch_id, file) | {"Content-Length": str(file.size)}
    return Response(media_type=file.content_type, headers=headers)


def _find_file(container: Services, batch_id: int, name: str, *, mode: str) -> BatchFileInfo:
    with container.db.system_transaction() as tx:
        return find_file(tx, find_batch(tx, batch_id, mode=mode).id, name)


def _download_headers(batch_id: int, file: BatchFileInfo) -> dict[str, str]:
    name = download_name(batch_id, file.name)
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
