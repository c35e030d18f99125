"""Files of people on their way into a mailing list."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from quillpost.client.requests import Files, Id, Kind, Request, Resource, operation

People = str | bytes | Path
"""A file of people: what is in it, or its path."""


class ImportColumn(TypedDict):
    column: str
    sample: str
    field: str


class Import(TypedDict):
    id: int
    mailing_list_id: int
    status: Literal["waiting", "running", "done", "failed", "cancelled"]
    file_name: str
    columns: list[ImportColumn]
    warnings: list[str]
    rows_total: int | None
    rows_read: int
    rows_imported: int
    rows_rejected: int
    duplicates: int
    progress: float
    error: str | None
    rejected_url: str | None
    created_at: str
    finished_at: str | None


class ImportList(TypedDict):
    data: list[Import]


class ImportPreview(TypedDict):
    file_name: str
    header: bool
    encoding: str | None
    delimiter: str | None
    columns: list[ImportColumn]
    warnings: list[str]
    rows: list[list[str]]
    fields: list[str]
    error: str | None


class Imports(Resource[Kind]):
    @operation("POST /mailing-lists/{mailing_list_id}/import")
    def create(
        self,
        mailing_list_id: Id,
        file: People,
        *,
        mapping: Mapping[str, str] | None = None,
        header: bool | None = None,
        file_name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Request[Import]:
        """Fill a list from a CSV, TSV or .xlsx file: from its path (Path), or from memory. `mapping` says
        what a column holds, by its name or its number from 0; the others are guessed."""
        body, files = _form(file, mapping, header, file_name)
        return Request(mailing_list_id, body=body, files=files, idempotency_key=idempotency_key)

    @operation("POST /imports/preview")
    def preview(
        self,
        file: People,
        *,
        mapping: Mapping[str, str] | None = None,
        header: bool | None = None,
        file_name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Request[ImportPreview]:
        """What would be read of the file; nothing is kept."""
        body, files = _form(file, mapping, header, file_name)
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
        """Nobody of the file comes onto the list, while it waits or runs."""
        return Request(import_id, idempotency_key=idempotency_key)

    @operation("GET /imports/{import_id}/rejected.csv", is_file=True)
    def rejected(self, import_id: Id) -> Request[bytes]:
        """The rows that were not taken, with the reasons, as a CSV file."""
        return Request(import_id)


def _form(
    file: People, mapping: Mapping[str, str] | None, header: bool | None, file_name: str | None
) -> tuple[dict[str, Any], Files]:
    body: dict[str, Any] = {}
    if mapping is not None:
        body["mapping"] = json.dumps(dict(mapping))
    if header is not None:
        body["header"] = header
    if isinstance(file, Path):
        return body, {"file": (file_name or file.name, file.read_bytes())}
    return body, {"file": (file_name or "people.csv", file.encode() if isinstance(file, str) else file)}
