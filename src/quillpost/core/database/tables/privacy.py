"""The tables of what is being forgotten: the service's own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, JSONB

from quillpost.core.database.tables.base import (
    BigInt,
    Text,
    Timestamp,
    id_column,
    metadata,
    nullable_columns,
    owner_columns,
    required_column,
)

erasures = sa.Table(
    "erasures",
    metadata,
    id_column(),
    *owner_columns(),
    *nullable_columns("mode"),
    required_column("asked_at", Timestamp),
    required_column("again_at", Timestamp),
    *nullable_columns("whom_sealed", type_=BYTEA()),
    *nullable_columns("done_at", type_=Timestamp),
    required_column("erased", JSONB()),
)

erasing_pieces = sa.Table(
    "erasing_pieces", metadata, sa.Column("item_id", BigInt, primary_key=True), required_column("erasure_id", BigInt)
)

erasing_files = sa.Table(
    "erasing_files", metadata, sa.Column("key", Text, primary_key=True), required_column("since", Timestamp)
)
