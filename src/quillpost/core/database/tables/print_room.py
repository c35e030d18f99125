"""The tables of the print room and the mail: operators' own, closed to tenants."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from quillpost.core.database.tables.base import Big, Flag, Int, Moment, Text, column, key, maybe, metadata

batches = sa.Table(
    "batches",
    metadata,
    key(),
    column("mode", Text),
    column("piece", Text),
    column("mail_class", Text),
    column("status", Text),
    column("item_count", Int),
    column("created_at", Moment),
    *maybe("composed_at", "handed_at", "printed_at", "mailed_at", kind=Moment),
    column("stock", Text),
    column("rush", Flag),
    column("void_count", Int),
    *maybe("reprint_of", kind=Big),
    *maybe("mailer_id"),
    *maybe("first_serial", kind=Big),
    *maybe("indicia", kind=ARRAY(sa.Text())),
    *maybe("qr_base", "partner"),
    *maybe("acknowledged_at", kind=Moment),
    *maybe("trouble"),
    *maybe("trouble_at", "settled_at", kind=Moment),
    *maybe("opt_out"),
)

batch_files = sa.Table(
    "batch_files",
    metadata,
    sa.Column("batch_id", Big, primary_key=True),
    sa.Column("name", Text, primary_key=True),
    column("size", Big),
    column("sha256", BYTEA()),
    column("is_secret", Flag),
)

prints = sa.Table(
    "prints",
    metadata,
    sa.Column("batch_id", Big, primary_key=True),
    sa.Column("position", Int, primary_key=True),
    column("item_id", Big),
    column("edition", Int),
    column("superseded", Flag),
    *maybe("tracking"),
)
"""What lies on paper. An item that is printed again has a further edition, and the former is superseded."""

mailers = sa.Table(
    "mailers",
    metadata,
    sa.Column("mailer_id", Text, primary_key=True),
    column("next_serial", Big),
)

order_verdicts = sa.Table(
    "order_verdicts",
    metadata,
    key(),
    column("account_id", Big),
    column("order_id", Big),
    column("verdict", Text),
    column("reasons", ARRAY(sa.Text())),
    column("reason", Text),
    *maybe("operator_id", kind=Big),
    column("at", Moment),
)

carrier_scans = sa.Table(
    "carrier_scans",
    metadata,
    key(),
    column("digest", BYTEA()),
    column("tracking", Text),
    column("phase", Text),
    column("scanned_at", Moment),
    column("raw", JSONB()),
    *maybe("item_id", kind=Big),
    column("received_at", Moment),
    *maybe("place"),
)
