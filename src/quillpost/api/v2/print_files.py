"""The files of production batches, for operators. Whoever takes one is noted: some hold what gift cards are
claimed with."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from quillpost.api.audited import Log
from quillpost.api.docs import errors
from quillpost.api.needs import Parts, id_in_path
from quillpost.api.operators import MayDecide
from quillpost.api.route import PREFIX, V2Route
from quillpost.api.v2.print_room import BatchId
from quillpost.fulfilment.batch_store import BatchStore
from quillpost.fulfilment.downloads import take_files
from quillpost.fulfilment.rules import reference, saved_as
from quillpost.fulfilment.shown import BatchFile, find_batch, find_file

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Print room"])

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
    batch_id: BatchId, name: FileName, who: MayDecide, parts: Parts, log: Log
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
def look_for_print_file(batch_id: BatchId, name: FileName, who: MayDecide, parts: Parts) -> Response:
    """Whether it is there, and how large. Nobody has it by that, so that nothing is noted."""
    number = id_in_path(batch_id)
    file = _find(parts, number, name, mode=who.mode)
    headers = _to_be_saved(number, file) | {"Content-Length": str(file.size)}
    return Response(media_type=file.content_type, headers=headers)


def _find(parts: Parts, batch_id: int, name: str, *, mode: str) -> BatchFile:
    with parts.db.work() as tx:
        return find_file(tx, find_batch(tx, batch_id, mode=mode).id, name)


def _to_be_saved(batch_id: int, file: BatchFile) -> dict[str, str]:
    name = saved_as(batch_id, file.name)
    return {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
