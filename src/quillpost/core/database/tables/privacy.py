"""The tables of what is being forgotten: the service's own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, JSONB

from quillpost.core.database.tables.base import Big, Moment, Text, column, key, maybe, metadata, owner

erasures = sa.Table(
    "erasures",
    metadata,
    key(),
    *owner(),
    *maybe("mode"),
    column("asked_at", Moment),
    column("again_at", Moment),
    *maybe("whom_sealed", kind=BYTEA()),
    *maybe("done_at", kind=Moment),
    column("erased", JSONB()),
)

erasing_pieces = sa.Table(
    "erasing_pieces",
    metadata,
    sa.Column("item_id", Big, primary_key=True),
    column("erasure_id", Big),
)

erasing_files = sa.Table(
    "erasing_files",
    metadata,
    sa.Column("key", Text, primary_key=True),
    column("since", Moment),
)
