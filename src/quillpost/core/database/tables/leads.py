"""The tables of addresses that can be bought: the operator's own, but for what tenants have paid."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, DOUBLE_PRECISION, JSONB, UUID

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Integer,
    Text,
    Timestamp,
    id_column,
    metadata,
    nullable_columns,
    owner_columns,
    required_column,
)

lead_sources = sa.Table(
    "lead_sources",
    metadata,
    sa.Column("id", Integer, sa.Identity(always=True), primary_key=True),
    required_column("name", Text),
    required_column("is_sample", Boolean),
    required_column("records", BigInt),
    required_column("updated_at", Timestamp),
)

lead_files = sa.Table(
    "lead_files",
    metadata,
    sa.Column("source_id", Integer, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("name", Text),
    *(required_column(name, BigInt) for name in ("records", "refused")),
    required_column("imported_at", Timestamp),
)

leads = sa.Table(
    "leads",
    metadata,
    id_column(),
    required_column("source_id", Integer),
    required_column("grid", Integer),
    *(required_column(name, DOUBLE_PRECISION()) for name in ("latitude", "longitude")),
    required_column("tags", Integer),
    required_column("address_key", Text),
    *nullable_columns("name", "company"),
    required_column("address", Text),
    *nullable_columns("address2", "city", "province", "postal_code"),
    required_column("country", Text),
    *nullable_columns("standard", type_=ARRAY(sa.Text())),
    required_column("deliverability", Text),
    required_column("reasons", ARRAY(sa.Text())),
    *nullable_columns("owner", type_=JSONB()),
)

lead_density = sa.Table(
    "lead_density", metadata, sa.Column("cell", Integer, primary_key=True), required_column("records", BigInt)
)

lead_purchases = sa.Table(
    "lead_purchases",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    *nullable_columns("mailing_list_id", "order_id", type_=BigInt),
    required_column("records", Integer),
    required_column("cents", BigInt),
    required_column("reference", UUID(as_uuid=True)),
    *nullable_columns("lead_ids", type_=ARRAY(sa.Text())),
    *nullable_columns("told_at", type_=Timestamp),
    required_column("created_at", Timestamp),
)
