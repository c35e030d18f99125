"""The tables of imports, as queries see them."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.core.database.tables.base import Big, Moment, Text, column, dated, key, maybe, metadata, owner


def _counted(name: str) -> sa.Column[int]:
    return sa.Column(name, Big, nullable=False, server_default="0")


imports = sa.Table(
    "imports",
    metadata,
    key(),
    *owner(),
    column("mailing_list_id", Big),
    column("status", Text),
    column("file_name", Text),
    *maybe("file_key"),
    column("file_bytes", Big),
    column("layout", JSONB()),
    column("columns", JSONB()),
    *maybe("rows_total", kind=Big),
    *(_counted(n) for n in ("rows_read", "bytes_read", "rows_imported", "rows_rejected", "duplicates")),
    *maybe("error"),
    *dated(),
    *maybe("finished_at", kind=Moment),
)

import_rejects = sa.Table(
    "import_rejects",
    metadata,
    sa.Column("import_id", Big, primary_key=True),
    sa.Column("place", Big, primary_key=True),
    column("line", Big),
    column("reason", Text),
)
