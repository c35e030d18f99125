"""The tables of the print room and the mail: operators' own, closed to tenants."""

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Bytes,
    Integer,
    Json,
    Text,
    TextArray,
    Timestamp,
    columns,
    define_table,
    id_column,
    key_columns,
)

batches = define_table(
    "batches",
    id_column(),
    *columns(Text, "mode", "piece", "mail_class", "status", "stock"),
    *columns(Text, "mailer_id?", "qr_base?", "opt_out?", "partner?", "trouble?"),
    *columns(TextArray, "indicia?"),
    *columns(Integer, "item_count", "void_count"),
    *columns(Boolean, "rush"),
    *columns(BigInt, "reprint_of?", "first_serial?"),
    *columns(Timestamp, "created_at", "composed_at?", "handed_at?", "acknowledged_at?"),
    *columns(Timestamp, "printed_at?", "mailed_at?", "trouble_at?", "settled_at?"),
)

batch_files = define_table(
    "batch_files",
    *key_columns(BigInt, "batch_id"),
    *key_columns(Text, "name"),
    *columns(BigInt, "size"),
    *columns(Bytes, "sha256"),
    *columns(Boolean, "is_secret"),
)

prints = define_table(
    "prints",
    *key_columns(BigInt, "batch_id"),
    *key_columns(Integer, "position"),
    *columns(BigInt, "item_id"),
    *columns(Integer, "edition"),
    *columns(Boolean, "superseded"),
    *columns(Text, "tracking?"),
)
"""What lies on paper. An item that is printed again has a further edition, and the former is superseded."""

mailers = define_table("mailers", *key_columns(Text, "mailer_id"), *columns(BigInt, "next_serial"))

order_verdicts = define_table(
    "order_verdicts",
    id_column(),
    *columns(BigInt, "account_id", "order_id", "operator_id?"),
    *columns(Text, "verdict", "reason"),
    *columns(TextArray, "reasons"),
    *columns(Timestamp, "at"),
)

carrier_scans = define_table(
    "carrier_scans",
    id_column(),
    *columns(Bytes, "digest"),
    *columns(Text, "tracking", "phase", "place?"),
    *columns(Timestamp, "scanned_at", "received_at"),
    *columns(Json, "raw"),
    *columns(BigInt, "item_id?"),
)
