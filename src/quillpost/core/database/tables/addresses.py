"""The tables of those who look after addresses: operators' own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from quillpost.core.database.tables.base import Big, Int, Moment, Text, column, maybe, metadata

address_passes = sa.Table(
    "address_passes",
    metadata,
    sa.Column("name", Text, primary_key=True),
    column("rules", Int),
    column("last_id", Big),
    column("until_id", Big),
    *maybe("begun_at", "done_at", "leased_until", kind=Moment),
    *maybe("trouble"),
    *maybe("trouble_at", kind=Moment),
)

address_verdicts = sa.Table(
    "address_verdicts",
    metadata,
    sa.Column("address_key", Text, primary_key=True),
    sa.Column("mover", BYTEA(), primary_key=True),
    *maybe("dpv", "deliverability"),
    *maybe("standard", kind=ARRAY(sa.Text())),
    column("reasons", ARRAY(sa.Text())),
    *maybe("moved_key"),
    column("answered_at", Moment),
    column("expires_at", Moment),
)

recipients_to_verify = sa.Table(
    "recipients_to_verify", metadata, sa.Column("recipient_id", Big, primary_key=True)
)
