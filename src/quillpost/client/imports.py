"""Files of people on their way into a mailing list."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, operation
from quillpost.client.types import Doc, Files, Id, Timestamp

People = str | bytes | Path
"""A file of people: what is in it, or its path."""

ImportStatus = Literal["waiting", "running", "done", "failed", "cancelled"]


class ImportColumn(TypedDict):
    column: Annotated[str, Doc("Its name in the file, or its number in words.")]
    sample: Annotated[str, Doc("The first that is in it.")]
    field: Annotated[str, Doc("What it is read as; empty: it is left out.")]


class Import(TypedDict):
    id: int
    mailing_list_id: int
    status: ImportStatus
    file_name: str
    columns: list[ImportColumn]
    warnings: Annotated[list[str], Doc("Columns that are not read, though there is something in them, and what to do.")]
    rows_total: Annotated[int | None, Doc("Rows below the header; known in the end.")]
    rows_read: int
    rows_imported: Annotated[int, Doc("People that were put on the list; none before all are.")]
    rows_rejected: Annotated[int, Doc("Rows that were not taken, duplicates among them.")]
    duplicates: Annotated[int, Doc("Rows whose address, or e-mail where they have none, came before.")]
    progress: Annotated[float, Doc("From 0 to 1.", minimum=0, maximum=1)]
    error: Annotated[str | None, Doc("Why it failed.")]
    rejected_url: Annotated[str | None, Doc("The rejected rows as CSV, once it is done; it needs the token.")]
    created_at: Timestamp
    finished_at: Timestamp | None


class StartedImport(Import):
    """The same, before its work has begun."""


class ImportList(TypedDict):
    data: list[Import]


class ImportPreview(TypedDict):
    file_name: str
    header: Annotated[bool, Doc("Whether the first row names the columns.")]
    encoding: Annotated[str | None, Doc("Null for a workbook.")]
    delimiter: Annotated[
        str | None, Doc("What divides the cells; empty where there is one column, null for a workbook.")
    ]
    columns: list[ImportColumn]
    warnings: Annotated[list[str], Doc("Columns that are not read, though there is something in them, and what to do.")]
    rows: Annotated[list[list[str]], Doc("The first rows below the header.")]
    fields: Annotated[list[str], Doc("All that a column can be mapped to.")]
    error: Annotated[str | None, Doc("Why it could not be imported so: map a column.")]


class ImportOptions(TypedDict, total=False):
    mapping: Mapping[str, str] | None
    header: bool | None
    file_name: str | None


class Imports(Resource[Kind]):
    @operation("POST /mailing-lists/{mailing_list_id}/import")
    def create(
        self, mailing_list_id: Id, file: People, *, idempotency_key: str | None = None, **options: Unpack[ImportOptions]
    ) -> Request[StartedImport]:
        """Fill a list from a CSV, TSV or .xlsx file: from its path (Path), or from memory. `mapping` says
        what a column holds, by its name or its number from 0; the others are guessed."""
        body, files = _form(file, options)
        return Request(mailing_list_id, body=body, files=files, idempotency_key=idempotency_key)

    @operation("POST /imports/preview")
    def preview(
        self, file: People, *, idempotency_key: str | None = None, **options: Unpack[ImportOptions]
    ) -> Request[ImportPreview]:
        """What would be read of the file; nothing is kept."""
        body, files = _form(file, options)
        return Request(body=body, files=files, idempotency_key=idempotency_key)

    @operation("GET /imports/{import_id}")
    def read(self, import_id: Id) -> Request[Import]:
        """How far it is, and in the end how many were taken."""
        return Request(import_id)

    @operation("GET /mailing-lists/{mailing_list_id}/imports")
    def of_list(self, mailing_list_id: Id) -> Request[ImportList]:
        """The last imports into a list, newest first."""
        return Request(mailing_list_id)

    @operation("POST /imports/{import_id}/cancel")
    def cancel(self, import_id: Id, *, idempotency_key: str | None = None) -> Request[Import]:
        """Cancel it while it waits or runs: no one in the file is added to the list."""
        return Request(import_id, idempotency_key=idempotency_key)

    @operation("GET /imports/{import_id}/rejected.csv", is_file=True)
    def rejected(self, import_id: Id) -> Request[bytes]:
        """The rows that were not taken, with the reasons, as a CSV file."""
        return Request(import_id)


def _form(file: People, options: ImportOptions) -> tuple[dict[str, Any], Files]:
    body: dict[str, Any] = {}
    if (mapping := options.get("mapping")) is not None:
        body["mapping"] = json.dumps(dict(mapping))
    if (header := options.get("header")) is not None:
        body["header"] = header
    file_name = options.get("file_name")
    if isinstance(file, Path):
        return body, {"file": (file_name or file.name, file.read_bytes())}
    return body, {"file": (file_name or "people.csv", file.encode() if isinstance(file, str) else file)}
