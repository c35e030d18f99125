"""The tables of those who look after addresses: operators' own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from quillpost.core.database.tables.base import BigInt, Text, Timestamp, metadata, nullable_columns, required_column

address_passes = sa.Table(
    "address_passes",
    metadata,
    sa.Column("name", Text, primary_key=True),
    required_column("last_id", BigInt),
    *nullable_columns("begun_at", "done_at", "leased_until", type_=Timestamp),
    *nullable_columns("trouble"),
    *nullable_columns("trouble_at", type_=Timestamp),
)

address_verdicts = sa.Table(
    "address_verdicts",
    metadata,
    sa.Column("address_key", Text, primary_key=True),
    sa.Column("mover", BYTEA(), primary_key=True),
    *nullable_columns("dpv", "deliverability"),
    *nullable_columns("standard", type_=ARRAY(sa.Text())),
    required_column("reasons", ARRAY(sa.Text())),
    *nullable_columns("moved_key"),
    required_column("answered_at", Timestamp),
    required_column("expires_at", Timestamp),
)

recipients_to_verify = sa.Table("recipients_to_verify", metadata, sa.Column("recipient_id", BigInt, primary_key=True))
