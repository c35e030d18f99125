"""The tables of the print room and the mail: operators' own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Integer,
    Text,
    Timestamp,
    define_table,
    id_column,
    nullable_columns,
    required_column,
    required_columns,
)

batches = define_table(
    "batches",
    id_column(),
    *required_columns("mode", "piece", "mail_class", "status"),
    required_column("item_count", Integer),
    required_column("created_at", Timestamp),
    *nullable_columns("composed_at", "handed_at", "printed_at", "mailed_at", type_=Timestamp),
    required_column("stock", Text),
    required_column("rush", Boolean),
    required_column("void_count", Integer),
    *nullable_columns("reprint_of", type_=BigInt),
    *nullable_columns("mailer_id"),
    *nullable_columns("first_serial", type_=BigInt),
    *nullable_columns("indicia", type_=ARRAY(sa.Text())),
    *nullable_columns("qr_base", "partner"),
    *nullable_columns("acknowledged_at", type_=Timestamp),
    *nullable_columns("trouble"),
    *nullable_columns("trouble_at", "settled_at", type_=Timestamp),
    *nullable_columns("opt_out"),
)

batch_files = define_table(
    "batch_files",
    sa.Column("batch_id", BigInt, primary_key=True),
    sa.Column("name", Text, primary_key=True),
    required_column("size", BigInt),
    required_column("sha256", BYTEA()),
    required_column("is_secret", Boolean),
)

prints = define_table(
    "prints",
    sa.Column("batch_id", BigInt, primary_key=True),
    sa.Column("position", Integer, primary_key=True),
    required_column("item_id", BigInt),
    required_column("edition", Integer),
    required_column("superseded", Boolean),
    *nullable_columns("tracking"),
)
"""What lies on paper. An item that is printed again has a further edition, and the former is superseded."""

mailers = define_table(
    "mailers", sa.Column("mailer_id", Text, primary_key=True), required_column("next_serial", BigInt)
)

order_verdicts = define_table(
    "order_verdicts",
    id_column(),
    *required_columns("account_id", "order_id", type_=BigInt),
    required_column("verdict", Text),
    required_column("reasons", ARRAY(sa.Text())),
    required_column("reason", Text),
    *nullable_columns("operator_id", type_=BigInt),
    required_column("at", Timestamp),
)

carrier_scans = define_table(
    "carrier_scans",
    id_column(),
    required_column("digest", BYTEA()),
    *required_columns("tracking", "phase"),
    required_column("scanned_at", Timestamp),
    required_column("raw", JSONB()),
    *nullable_columns("item_id", type_=BigInt),
    required_column("received_at", Timestamp),
    *nullable_columns("place"),
)
