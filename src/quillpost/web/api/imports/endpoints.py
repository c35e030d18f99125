"""Files of people on their way into a mailing list."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.core.body_limits import Bounds, check_json
from quillpost.core.clock import iso
from quillpost.core.errors import Conflict, Invalid
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import report
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports.columns import FIELDS, name_of, require_someone, warnings_of
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.service import Looked
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists.queries import MailingList
from quillpost.web.api.bodies import MULTIPART
from quillpost.web.api.dependencies import InTx, OneUnit, Services, id_in_path, may
from quillpost.web.api.errors import BODY_ERRORS, WrongBody, errors
from quillpost.web.api.imports import schemas as schemas
from quillpost.web.api.mailing_lists.endpoints import MAY_READ, MAY_WRITE, ListId, MayWrite
from quillpost.web.api.orders.responses import base_of
from quillpost.web.api.responses import answer, name_ignored
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.uploads import HOW, upload_of

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Imports"])

RECENT = 50
PREVIEWED = 10
LONGEST_PREVIEWED = 200
YES, NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

ImportId = Annotated[str, Path(description="The import's id.", json_schema_extra={"type": "integer"})]
InQuery = Annotated[str | None, Query(description="As the field of the form, where the body is the file.")]

_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "CSV, TSV, or a workbook (.xlsx)."},
        "mapping": {
            "type": "string",
            "description": "JSON: by a column's name, or its number from 0, the field that it holds; an empty"
            " text leaves it out. Columns that are not named are guessed.",
        },
        "header": {
            "type": "boolean",
            "description": "Whether the first row names the columns; guessed where it is not said.",
        },
        "file_name": {"type": "string", "description": "What to call the file."},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": _FORM,
                "example": {"file": "(the bytes of visitors.csv)", "mapping": '{"Street": "address"}'},
            },
            "text/csv": {
                "schema": {"type": "string", "minLength": 1, "pattern": r"\w"},
                "example": "Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701\n",
            },
        },
    }
}


def shape(request: Request, work: Import) -> dict[str, Any]:
    has_report = work.status == "done" and work.rows_rejected > 0 and work.file_key is not None
    return {
        "id": work.id,
        "mailing_list_id": work.mailing_list_id,
        "status": work.status,
        "file_name": work.file_name,
        "columns": [column.written() for column in work.columns],
        "warnings": warnings_of(work.columns),
        "rows_total": work.rows_total,
        "rows_read": work.rows_read,
        "rows_imported": work.rows_imported,
        "rows_rejected": work.rows_rejected,
        "duplicates": work.duplicates,
        "progress": work.progress,
        "error": work.error,
        "rejected_url": f"{base_of(request)}{PREFIX}/imports/{work.id}/rejected.csv" if has_report else None,
        "created_at": iso(work.created_at),
        "finished_at": iso(work.finished_at),
    }


def _looked(
    request: Request,
    parts: Services,
    mapping: InQuery = None,
    header: InQuery = None,
    file_name: InQuery = None,
) -> Iterator[Looked]:
    """The file of the request as it would be read, or what is wrong with it."""
    upload = upload_of(request)
    if upload is None:
        raise WrongBody(415, HOW)
    said = upload.uploaded()
    asked = {"mapping": mapping, "header": header, "file_name": file_name} | dict(said.fields)
    looked = import_service.look(
        said.file,
        name=asked["file_name"] or said.name or "import.csv",
        mapping=_mapping(asked["mapping"], parts.limits.bounds),
        has_header=_flag("header", asked["header"]),
    )
    try:
        yield looked
    finally:
        if looked.file is not said.file:  # a workbook's rows
            looked.file.close()


LookedAt = Annotated[Looked, Depends(_looked, scope="function")]


def _known_list(mailing_list_id: ListId, who: MayWrite, parts: Services) -> MailingList:
    """The list, before anybody looks at the file."""
    with parts.db.transaction(tenant(who)) as tx:
        return list_queries.read_list(tx, id_in_path(mailing_list_id))


KnownList = Annotated[MailingList, Depends(_known_list, scope="function")]


@router.post(
    "/mailing-lists/{mailing_list_id}/import",
    status_code=202,
    response_model=schemas.ImportBegun,
    responses=errors(404, *BODY_ERRORS),
    openapi_extra=_BODY,
    summary="Fill a mailing list from a file",
)
def import_into_mailing_list(
    request: Request, into: KnownList, looked: LookedAt, parts: Services, unit: OneUnit
) -> Response:
    """CSV (with commas, tabs, semicolons or bars; UTF-8, UTF-16 or Windows-1252) or the first sheet of an
    .xlsx workbook, up to `QUILLPOST_IMPORT_BYTES`. The answer comes at once. All of its people come onto the
    list at the same moment, when the list's `processed` is true again. A row that cannot be taken is
    reported with its reason and keeps no other out; whoever is on the list already stays as they are."""
    import_service.require_own(into)
    if not into.processed:
        raise Conflict(import_service.BUSY)
    key = import_service.keep(parts.shelf.store, looked, now=parts.clock())
    try:
        made = import_service.place(unit.tx, into.id, looked, key, clock=parts.clock)
    except BaseException:
        parts.shelf.store.delete(key)
        raise
    return name_ignored(answer(shape(request, made), status=202), _ignored(request))


@router.post(
    "/imports/preview",
    response_model=schemas.ImportPreview,
    responses=errors(*BODY_ERRORS),
    openapi_extra=_BODY,
    dependencies=MAY_WRITE,
    summary="See how a file would be read",
)
def preview_import(request: Request, looked: LookedAt) -> Response:
    """Its columns, what they seem to hold, and its first rows; nothing is kept of it. Of a long CSV file the
    beginning is enough."""
    return name_ignored(answer(_previewed(looked)), _ignored(request))


def _ignored(request: Request) -> set[str]:
    """Fields of the form that mean nothing to us."""
    upload = upload_of(request)
    return set() if upload is None else set(upload.uploaded().fields) - _FORM["properties"].keys()


def _mapping(text: str | None, bounds: Bounds) -> dict[str, Any] | None:
    if text is None or not text.strip():
        return None
    told = 'This must be a JSON object of columns and fields, such as {"Street": "address"}.'
    check_json(text.encode(errors="surrogatepass"), bounds)
    try:
        found = json.loads(text, object_pairs_hook=_named_once)
    except (ValueError, RecursionError):
        raise Invalid({"mapping": [told]}) from None
    if not isinstance(found, dict):
        raise Invalid({"mapping": [told]})
    return found


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        first = next(name for name, count in times.items() if count > 1)
        raise Invalid({f"mapping.{name_of(first)}": ["This column is mapped twice: say once what it holds."]})
    return found


def _flag(name: str, text: str | None) -> bool | None:
    if text is None or not text.strip():
        return None
    if text.strip().lower() not in (*YES, *NO):
        raise Invalid({name: ["This must be true or false."]})
    return text.strip().lower() in YES


def _previewed(looked: Looked) -> dict[str, Any]:
    why = None
    try:
        require_someone(looked.columns)
    except Invalid as lacking:
        why = lacking.message
    width = looked.layout.width
    return {
        "file_name": looked.name,
        "header": looked.layout.has_header,
        "encoding": None if looked.layout.is_workbook else looked.layout.encoding,
        "delimiter": None if looked.layout.is_workbook else looked.layout.delimiter,
        "columns": [column.written() for column in looked.columns],
        "warnings": warnings_of(looked.columns),
        "rows": [
            [cell[:LONGEST_PREVIEWED] for cell in row[:width]] + [""] * (width - len(row))
            for row in looked.rows[:PREVIEWED]
        ],
        "fields": list(FIELDS),
        "error": why,
    }


@router.get(
    "/mailing-lists/{mailing_list_id}/imports",
    response_model=schemas.ImportList,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="List the imports into a mailing list, newest first",
)
def list_imports(request: Request, mailing_list_id: ListId, tx: InTx) -> Response:
    """The last 50."""
    found = list_queries.read_list(tx, id_in_path(mailing_list_id))
    return answer(
        {"data": [shape(request, each) for each in import_queries.recent_imports(tx, found.id, most=RECENT)]}
    )


@router.get(
    "/imports/{import_id}",
    response_model=schemas.ImportShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read an import",
)
def read_import(request: Request, import_id: ImportId, tx: InTx) -> Response:
    """How far it is, and in the end how many were taken."""
    return answer(shape(request, import_queries.read_import(tx, id_in_path(import_id))))


@router.post(
    "/imports/{import_id}/cancel",
    response_model=schemas.ImportShape,
    responses=errors(404, 409),
    dependencies=MAY_WRITE,
    summary="Cancel an import",
)
def cancel_import(request: Request, import_id: ImportId, tx: InTx, parts: Services) -> Response:
    """While it waits or runs: nobody of the file comes onto the list."""
    return answer(shape(request, import_service.cancel(tx, id_in_path(import_id), clock=parts.clock)))


@router.get(
    "/imports/{import_id}/rejected.csv",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A line of names, then a line for each rejected row.",
            "content": {
                "text/csv": {
                    "schema": {"type": "string"},
                    "example": "line,reason,Zip\n7,postal_code: A ZIP code has 5 digits or 5-4.,787\n",
                }
            },
        },
        **errors(400, 404),
    },
    summary="Read the rejected rows of an import as CSV",
)
def read_rejected_rows(
    import_id: ImportId, who: Annotated[Caller, Depends(may("lists:read"))], parts: Services
) -> Response:
    """Each with its line in the file, the reason and all its cells; so the file can be mended and imported
    again. A value that a spreadsheet would take for a formula has a ' before it."""
    with parts.db.transaction(tenant(who)) as tx:
        work = import_queries.read_import(tx, id_in_path(import_id))
    pieces: Iterator[bytes] = report.rejected_rows(parts.db, parts.shelf.store, work)
    return StreamingResponse(
        pieces,
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="import-{work.id}-rejected.csv"'},
    )
