"""Files of people on their way into a mailing list."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import build_tenant
from quillpost.client import imports as wire
from quillpost.core.errors import Conflict, Invalid
from quillpost.core.exact_json import BodyLimits, check_json_limits
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports.models import IMPORT_FIELDS, MappedColumn
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rules import build_warnings, clean_column_name, require_address_or_email
from quillpost.recipients.imports.service import InspectedImport
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.models import MailingList
from quillpost.web.api.dependencies import ApiCaller, PathId, RequestTransaction, RequestUnitOfWork
from quillpost.web.api.errors import BODY_ERRORS, UnreadableBody
from quillpost.web.api.imports.files import UPLOAD_HINT, get_upload
from quillpost.web.api.mailing_lists.endpoints import ListId
from quillpost.web.api.responses import add_ignored_header, json_response, to_wire
from quillpost.web.api.routes import PREFIX, ApiRouter
from quillpost.web.api.schemas import MULTIPART
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Imports", resource="lists")

RECENT_IMPORTS = 50
PREVIEW_ROWS = 10
MAX_PREVIEW_CELL_LENGTH = 200
TRUE_VALUES, FALSE_VALUES = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

ImportId = Annotated[PathId, Path(description="The import's id.")]
FormFieldQuery = Annotated[str | None, Query(description="As the field of the form, where the body is the file.")]

_FORM_SCHEMA: dict[str, Any] = {
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
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": _FORM_SCHEMA,
                "example": {"file": "(the bytes of visitors.csv)", "mapping": '{"Street": "address"}'},
            },
            "text/csv": {
                "schema": {"type": "string", "minLength": 1, "pattern": r"\w"},
                "example": "Name,Street,City,State,Zip\nJane Doe,12 Main St,Austin,TX,78701\n",
            },
        },
    }
}


def _serialize_column(column: MappedColumn) -> wire.ImportColumn:
    return {"column": column.name, "sample": column.sample, "field": column.field}


def serialize_import(request: Request, file_import: Import) -> wire.Import:
    has_report = file_import.status == "done" and file_import.rows_rejected > 0 and file_import.file_key is not None
    return to_wire(
        wire.Import,
        file_import,
        columns=[_serialize_column(column) for column in file_import.columns],
        warnings=build_warnings(file_import.columns),
        rejected_url=f"{base_url(request)}{PREFIX}/imports/{file_import.id}/rejected.csv" if has_report else None,
    )


def _inspect_file(
    request: Request,
    container: Services,
    mapping: FormFieldQuery = None,
    header: FormFieldQuery = None,
    file_name: FormFieldQuery = None,
) -> Iterator[InspectedImport]:
    upload = get_upload(request)
    if upload is None:
        raise UnreadableBody(415, UPLOAD_HINT)
    content = upload.get_content()
    options = {"mapping": mapping, "header": header, "file_name": file_name} | dict(content.fields)
    inspected = import_service.inspect_file(
        content.file,
        name=options["file_name"] or content.name or "import.csv",
        mapping=_parse_mapping(options["mapping"], container.limits.bounds),
        has_header=_parse_flag("header", options["header"]),
    )
    try:
        yield inspected
    finally:
        if inspected.file is not content.file:  # a workbook's rows
            inspected.file.close()


InspectedFile = Annotated[InspectedImport, Depends(_inspect_file, scope="function")]


def _find_list(mailing_list_id: ListId, caller: ApiCaller, container: Services) -> MailingList:
    """The list, before the file is looked at."""
    with container.db.transaction(build_tenant(caller)) as tx:
        return list_queries.read_list(tx, mailing_list_id)


TargetList = Annotated[MailingList, Depends(_find_list, scope="function")]


@router.post(
    "/mailing-lists/{mailing_list_id}/import",
    wire.StartedImport,
    status_code=202,
    errors=BODY_ERRORS,
    openapi_extra=_REQUEST_BODY,
    summary="Fill a mailing list from a file",
)
def import_into_mailing_list(
    request: Request,
    mailing_list: TargetList,
    inspected: InspectedFile,
    container: Services,
    unit_of_work: RequestUnitOfWork,
) -> Response:
    """CSV (with commas, tabs, semicolons or bars; UTF-8, UTF-16 or Windows-1252) or the first sheet of an
    .xlsx workbook, up to `QUILLPOST_IMPORT_BYTES`. The answer comes at once. All of its people come onto the
    list at the same moment, when the list's `processed` is true again. A row that cannot be taken is
    reported with its reason and keeps no other out; whoever is on the list already stays as they are."""
    import_service.require_own_list(mailing_list)
    if not mailing_list.processed:
        raise Conflict(import_service.LIST_BUSY)
    key = import_service.store_file(container.storage.store, inspected, now=container.clock())
    try:
        file_import = import_service.create_import(
            unit_of_work.tx, mailing_list.id, inspected, key, clock=container.clock
        )
    except BaseException:
        container.storage.store.delete(key)
        raise
    return add_ignored_header(
        json_response(serialize_import(request, file_import), status=202), _find_ignored_fields(request)
    )


@router.post(
    "/imports/preview",
    wire.ImportPreview,
    errors=BODY_ERRORS,
    openapi_extra=_REQUEST_BODY,
    summary="See how a file would be read",
)
def preview_import(request: Request, inspected: InspectedFile) -> Response:
    """Its columns, what they seem to hold, and its first rows; nothing is kept of it. Of a long CSV file the
    beginning is enough."""
    return add_ignored_header(json_response(_serialize_preview(inspected)), _find_ignored_fields(request))


def _find_ignored_fields(request: Request) -> set[str]:
    upload = get_upload(request)
    return set() if upload is None else set(upload.get_content().fields) - _FORM_SCHEMA["properties"].keys()


def _parse_mapping(text: str | None, bounds: BodyLimits) -> dict[str, Any] | None:
    if text is None or not text.strip():
        return None
    message = 'This must be a JSON object of columns and fields, such as {"Street": "address"}.'
    check_json_limits(text.encode(errors="surrogatepass"), bounds)
    try:
        mapping = json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        raise Invalid({"mapping": [message]}) from None
    if not isinstance(mapping, dict):
        raise Invalid({"mapping": [message]})
    return mapping


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        first = next(name for name, count in counts.items() if count > 1)
        raise Invalid({f"mapping.{clean_column_name(first)}": ["This column is mapped twice: say once what it holds."]})
    return mapping


def _parse_flag(name: str, text: str | None) -> bool | None:
    if text is None or not text.strip():
        return None
    if text.strip().lower() not in (*TRUE_VALUES, *FALSE_VALUES):
        raise Invalid({name: ["This must be true or false."]})
    return text.strip().lower() in TRUE_VALUES


def _serialize_preview(inspected: InspectedImport) -> wire.ImportPreview:
    error = None
    try:
        require_address_or_email(inspected.columns)
    except Invalid as invalid:
        error = invalid.message
    width = inspected.layout.width
    return {
        "file_name": inspected.name,
        "header": inspected.layout.has_header,
        "encoding": None if inspected.layout.is_workbook else inspected.layout.encoding,
        "delimiter": None if inspected.layout.is_workbook else inspected.layout.delimiter,
        "columns": [_serialize_column(column) for column in inspected.columns],
        "warnings": build_warnings(inspected.columns),
        "rows": [
            [cell[:MAX_PREVIEW_CELL_LENGTH] for cell in row[:width]] + [""] * (width - len(row))
            for row in inspected.rows[:PREVIEW_ROWS]
        ],
        "fields": list(IMPORT_FIELDS),
        "error": error,
    }


@router.get(
    "/mailing-lists/{mailing_list_id}/imports",
    wire.ImportList,
    summary="List the imports into a mailing list, newest first",
)
def list_imports(request: Request, mailing_list_id: ListId, tx: RequestTransaction) -> Response:
    """The last 50."""
    mailing_list = list_queries.read_list(tx, mailing_list_id)
    return json_response(
        {
            "data": [
                serialize_import(request, file_import)
                for file_import in import_queries.list_recent_imports(tx, mailing_list.id, limit=RECENT_IMPORTS)
            ]
        }
    )


@router.get("/imports/{import_id}", wire.Import, summary="Read an import")
def read_import(request: Request, import_id: ImportId, tx: RequestTransaction) -> Response:
    """How far it is, and in the end how many were taken."""
    return json_response(serialize_import(request, import_queries.read_import(tx, import_id)))


@router.post("/imports/{import_id}/cancel", wire.Import, errors=[409], summary="Cancel an import")
def cancel_import(request: Request, import_id: ImportId, tx: RequestTransaction, container: Services) -> Response:
    """While it waits or runs: nobody of the file comes onto the list."""
    return json_response(serialize_import(request, import_service.cancel_import(tx, import_id, clock=container.clock)))


@router.get_file(
    "/imports/{import_id}/rejected.csv",
    "A line of names, then a line for each rejected row.",
    {
        "text/csv": {
            "schema": {"type": "string"},
            "example": "line,reason,Zip\n7,postal_code: A ZIP code has 5 digits or 5-4.,787\n",
        }
    },
    errors=[400],
    summary="Read the rejected rows of an import as CSV",
)
def read_rejected_rows(import_id: ImportId, caller: ApiCaller, container: Services) -> Response:
    """Each with its line in the file, the reason and all its cells; so the file can be mended and imported
    again. A value that a spreadsheet would take for a formula has a ' before it."""
    with container.db.transaction(build_tenant(caller)) as tx:
        file_import = import_queries.read_import(tx, import_id)
    chunks: Iterator[bytes] = import_service.stream_rejected_rows(container.db, container.storage.store, file_import)
    return StreamingResponse(
        chunks,
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="import-{file_import.id}-rejected.csv"'},
    )
