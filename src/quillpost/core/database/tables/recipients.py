"""Tables of address verification, leads and imports."""

import sqlalchemy as sa

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Bytes,
    Double,
    Integer,
    Json,
    Text,
    TextArray,
    Timestamp,
    Uuid,
    columns,
    define_table,
    define_tenant_table,
    id_column,
    key_columns,
    timestamp_columns,
)

address_passes = define_table(
    "address_passes",
    *key_columns(Text, "name"),
    *columns(BigInt, "last_id"),
    *columns(Timestamp, "begun_at?", "done_at?", "leased_until?", "trouble_at?"),
    *columns(Text, "trouble?"),
)

address_verdicts = define_table(
    "address_verdicts",
    *key_columns(Text, "address_key"),
    *key_columns(Bytes, "mover"),
    *columns(Text, "dpv?", "deliverability?", "moved_key?"),
    *columns(TextArray, "standard?", "reasons"),
    *columns(Timestamp, "answered_at", "expires_at"),
)

recipients_to_verify = define_table("recipients_to_verify", *key_columns(BigInt, "recipient_id"))

lead_sources = define_table(
    "lead_sources",
    sa.Column("id", Integer, sa.Identity(always=True), primary_key=True),
    *columns(Text, "name"),
    *columns(Boolean, "is_sample"),
    *columns(BigInt, "records"),
    *columns(Timestamp, "updated_at"),
)

lead_files = define_table(
    "lead_files",
    *key_columns(Integer, "source_id"),
    *key_columns(Bytes, "digest"),
    *columns(Text, "name"),
    *columns(BigInt, "records", "refused"),
    *columns(Timestamp, "imported_at"),
)

leads = define_table(
    "leads",
    id_column(),
    *columns(Integer, "source_id", "grid", "tags"),
    *columns(Double, "latitude", "longitude"),
    *columns(Text, "address_key", "name?", "company?", "address", "address2?", "city?", "province?", "postal_code?"),
    *columns(Text, "country", "deliverability"),
    *columns(TextArray, "standard?", "reasons"),
    *columns(Json, "owner?"),
)

lead_density = define_table("lead_density", *key_columns(Integer, "cell"), *columns(BigInt, "records"))

lead_purchases = define_tenant_table(
    "lead_purchases",
    *columns(Text, "mode"),
    *columns(BigInt, "mailing_list_id?", "order_id?", "cents"),
    *columns(Integer, "records"),
    *columns(Uuid, "reference"),
    *columns(TextArray, "lead_ids?"),
    *columns(Timestamp, "told_at?", "created_at"),
)

imports = define_tenant_table(
    "imports",
    *columns(BigInt, "mailing_list_id", "file_bytes", "rows_total?"),
    *columns(Text, "status", "file_name", "file_key?", "error?"),
    *columns(Json, "layout", "columns"),
    *(
        sa.Column(name, BigInt, nullable=False, server_default="0")
        for name in ("rows_read", "bytes_read", "rows_imported", "rows_rejected", "duplicates")
    ),
    *columns(Timestamp, "finished_at?"),
    *timestamp_columns(),
)

import_rejects = define_table(
    "import_rejects", *key_columns(BigInt, "import_id", "place"), *columns(BigInt, "line"), *columns(Text, "reason")
)
