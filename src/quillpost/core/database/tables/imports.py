"""The tables of imports, as queries see them."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.core.database.tables.base import (
    BigInt,
    Text,
    Timestamp,
    id_column,
    metadata,
    nullable_columns,
    owner_columns,
    required_column,
    timestamp_columns,
)


def _counter_column(name: str) -> sa.Column[int]:
    return sa.Column(name, BigInt, nullable=False, server_default="0")


imports = sa.Table(
    "imports",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("mailing_list_id", BigInt),
    required_column("status", Text),
    required_column("file_name", Text),
    *nullable_columns("file_key"),
    required_column("file_bytes", BigInt),
    required_column("layout", JSONB()),
    required_column("columns", JSONB()),
    *nullable_columns("rows_total", type_=BigInt),
    *(_counter_column(n) for n in ("rows_read", "bytes_read", "rows_imported", "rows_rejected", "duplicates")),
    *nullable_columns("error"),
    *timestamp_columns(),
    *nullable_columns("finished_at", type_=Timestamp),
)

import_rejects = sa.Table(
    "import_rejects",
    metadata,
    sa.Column("import_id", BigInt, primary_key=True),
    sa.Column("place", BigInt, primary_key=True),
    required_column("line", BigInt),
    required_column("reason", Text),
)
