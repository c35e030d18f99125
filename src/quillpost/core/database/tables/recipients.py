"""Tables of address verification, leads and imports."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, DOUBLE_PRECISION, JSONB, UUID

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Integer,
    Text,
    Timestamp,
    define_table,
    id_column,
    nullable_columns,
    owner_columns,
    required_column,
    required_columns,
    timestamp_columns,
)

address_passes = define_table(
    "address_passes",
    sa.Column("name", Text, primary_key=True),
    required_column("last_id", BigInt),
    *nullable_columns("begun_at", "done_at", "leased_until", type_=Timestamp),
    *nullable_columns("trouble"),
    *nullable_columns("trouble_at", type_=Timestamp),
)

address_verdicts = define_table(
    "address_verdicts",
    sa.Column("address_key", Text, primary_key=True),
    sa.Column("mover", BYTEA(), primary_key=True),
    *nullable_columns("dpv", "deliverability"),
    *nullable_columns("standard", type_=ARRAY(sa.Text())),
    required_column("reasons", ARRAY(sa.Text())),
    *nullable_columns("moved_key"),
    *required_columns("answered_at", "expires_at", type_=Timestamp),
)

recipients_to_verify = define_table("recipients_to_verify", sa.Column("recipient_id", BigInt, primary_key=True))


lead_sources = define_table(
    "lead_sources",
    sa.Column("id", Integer, sa.Identity(always=True), primary_key=True),
    required_column("name", Text),
    required_column("is_sample", Boolean),
    required_column("records", BigInt),
    required_column("updated_at", Timestamp),
)

lead_files = define_table(
    "lead_files",
    sa.Column("source_id", Integer, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("name", Text),
    *required_columns("records", "refused", type_=BigInt),
    required_column("imported_at", Timestamp),
)

leads = define_table(
    "leads",
    id_column(),
    *required_columns("source_id", "grid", type_=Integer),
    *required_columns("latitude", "longitude", type_=DOUBLE_PRECISION()),
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

lead_density = define_table(
    "lead_density", sa.Column("cell", Integer, primary_key=True), required_column("records", BigInt)
)

lead_purchases = define_table(
    "lead_purchases",
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


imports = define_table(
    "imports",
    id_column(),
    *owner_columns(),
    required_column("mailing_list_id", BigInt),
    *required_columns("status", "file_name"),
    *nullable_columns("file_key"),
    required_column("file_bytes", BigInt),
    *required_columns("layout", "columns", type_=JSONB()),
    *nullable_columns("rows_total", type_=BigInt),
    *(
        sa.Column(name, BigInt, nullable=False, server_default="0")
        for name in ("rows_read", "bytes_read", "rows_imported", "rows_rejected", "duplicates")
    ),
    *nullable_columns("error"),
    *timestamp_columns(),
    *nullable_columns("finished_at", type_=Timestamp),
)

import_rejects = define_table(
    "import_rejects",
    sa.Column("import_id", BigInt, primary_key=True),
    sa.Column("place", BigInt, primary_key=True),
    required_column("line", BigInt),
    required_column("reason", Text),
)
