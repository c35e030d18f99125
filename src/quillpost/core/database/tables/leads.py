"""The tables of addresses that can be bought: the operator's own, but for what tenants have paid."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, DOUBLE_PRECISION, JSONB, UUID

from quillpost.core.database.tables.base import (
    Big,
    Flag,
    Int,
    Moment,
    Text,
    column,
    key,
    maybe,
    metadata,
    owner,
)

lead_sources = sa.Table(
    "lead_sources",
    metadata,
    sa.Column("id", Int, sa.Identity(always=True), primary_key=True),
    column("name", Text),
    column("is_sample", Flag),
    column("records", Big),
    column("updated_at", Moment),
)

lead_files = sa.Table(
    "lead_files",
    metadata,
    sa.Column("source_id", Int, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    column("name", Text),
    *(column(name, Big) for name in ("records", "refused")),
    column("imported_at", Moment),
)

leads = sa.Table(
    "leads",
    metadata,
    key(),
    column("source_id", Int),
    column("grid", Int),
    *(column(name, DOUBLE_PRECISION()) for name in ("latitude", "longitude")),
    column("tags", Int),
    column("address_key", Text),
    *maybe("name", "company"),
    column("address", Text),
    *maybe("address2", "city", "province", "postal_code"),
    column("country", Text),
    *maybe("standard", kind=ARRAY(sa.Text())),
    column("deliverability", Text),
    column("reasons", ARRAY(sa.Text())),
    *maybe("owner", kind=JSONB()),
)

lead_density = sa.Table(
    "lead_density",
    metadata,
    sa.Column("cell", Int, primary_key=True),
    column("records", Big),
)

lead_purchases = sa.Table(
    "lead_purchases",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    *maybe("mailing_list_id", "order_id", kind=Big),
    column("records", Int),
    column("cents", Big),
    column("reference", UUID(as_uuid=True)),
    *maybe("lead_ids", kind=ARRAY(sa.Text())),
    *maybe("told_at", kind=Moment),
    column("created_at", Moment),
)
