"""Imports as the API description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.web.api.orders.schemas import Timestamp

ImportStatus = Literal["waiting", "running", "done", "failed", "cancelled"]

COLUMN_EXAMPLE: dict[str, Any] = {"column": "Street", "sample": "12 Main St", "field": "address"}
EXAMPLE: dict[str, Any] = {
    "id": 5,
    "mailing_list_id": 12,
    "status": "done",
    "file_name": "visitors.csv",
    "columns": [{"column": "Full name", "sample": "Jane Doe", "field": "name"}, COLUMN_EXAMPLE],
    "warnings": ["1 column is left out: Notes. Map it if you need it."],
    "rows_total": 240,
    "rows_read": 240,
    "rows_imported": 236,
    "rows_rejected": 4,
    "duplicates": 1,
    "progress": 1.0,
    "error": None,
    "rejected_url": "https://mail.example.com/api/v2/imports/5/rejected.csv",
    "created_at": "2026-05-01T09:30:00Z",
    "finished_at": "2026-05-01T09:30:04Z",
}
WAITING_EXAMPLE = EXAMPLE | {
    "status": "waiting",
    "rows_total": None,
    **dict.fromkeys(("rows_read", "rows_imported", "rows_rejected", "duplicates"), 0),
    "progress": 0.0,
    **dict.fromkeys(("rejected_url", "finished_at")),
}
PREVIEW_EXAMPLE: dict[str, Any] = {
    "file_name": "visitors.csv",
    "header": True,
    "encoding": "utf-8",
    "delimiter": ",",
    "columns": EXAMPLE["columns"],
    "warnings": [],
    "rows": [["Jane Doe", "12 Main St"]],
    "fields": ["name", "address"],
    "error": None,
}


class ColumnShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [COLUMN_EXAMPLE]})

    column: str = Field(description="Its name in the file, or its number in words.")
    sample: str = Field(description="The first that is in it.")
    field: str = Field(description="What it is read as; empty: it is left out.")


class ImportShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    mailing_list_id: int
    status: ImportStatus
    file_name: str
    columns: list[ColumnShape]
    warnings: list[str] = Field(
        description="Columns that are not read, though there is something in them, and what to do."
    )
    rows_total: int | None = Field(description="Rows below the header; known in the end.")
    rows_read: int
    rows_imported: int = Field(description="People that were put on the list; none before all are.")
    rows_rejected: int = Field(description="Rows that were not taken, duplicates among them.")
    duplicates: int = Field(description="Rows whose address, or e-mail where they have none, came before.")
    progress: float = Field(ge=0, le=1, description="From 0 to 1.")
    error: str | None = Field(description="Why it failed.")
    rejected_url: str | None = Field(description="The rejected rows as CSV, once it is done; it needs the token.")
    created_at: Timestamp
    finished_at: Timestamp | None


class ImportBegun(ImportShape):
    """The same, before its work has begun."""

    model_config = ConfigDict(json_schema_extra={"examples": [WAITING_EXAMPLE]})


class ImportList(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"data": [EXAMPLE]}]})

    data: list[ImportShape]


class ImportPreview(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [PREVIEW_EXAMPLE]})

    file_name: str
    header: bool = Field(description="Whether the first row names the columns.")
    encoding: str | None = Field(description="Null for a workbook.")
    delimiter: str | None = Field(
        description="What divides the cells; empty where there is one column, null for a workbook."
    )
    columns: list[ColumnShape]
    warnings: list[str] = Field(
        description="Columns that are not read, though there is something in them, and what to do."
    )
    rows: list[list[str]] = Field(description="The first rows below the header.")
    fields: list[str] = Field(description="All that a column can be mapped to.")
    error: str | None = Field(description="Why it could not be imported so: map a column.")
