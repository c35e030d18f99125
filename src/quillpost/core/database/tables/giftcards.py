"""The tables of gift cards. Brands and stock are the operator's; a piece's card is its sender's."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, UUID

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

giftcard_brands = sa.Table(
    "giftcard_brands",
    metadata,
    sa.Column("code", Text, primary_key=True),
    column("title", Text),
    column("section", Text),
    column("amounts", ARRAY(sa.Integer())),
    column("accent", Text),
    *maybe("issuer_code"),
    column("position", Int),
    column("is_offered", Flag),
    column("updated_at", Moment),
)

giftcards = sa.Table(
    "giftcards",
    metadata,
    sa.Column("item_id", Big, primary_key=True),
    *owner(),
    column("mode", Text),
    column("order_id", Big),
    column("brand", Text),
    column("cents", Int),
    column("status", Text),
    column("reference", UUID(as_uuid=True)),
    *maybe("issuer"),
    *maybe("claim_digest", "claim_sealed", "card_sealed", kind=BYTEA()),
    column("asked_at", Moment),
    *maybe("issued_at", "opened_at", "visited_at", "claimed_at", "reported_at", kind=Moment),
    *maybe("report"),
    *maybe("voided_at", kind=Moment),
    *maybe("void_reason"),
    *maybe("given_back_at", kind=Moment),
    *maybe("reissued_as", kind=Big),
)

giftcard_stock = sa.Table(
    "giftcard_stock",
    metadata,
    key(),
    column("mode", Text),
    column("brand", Text),
    column("cents", Int),
    column("card_sealed", BYTEA()),
    *maybe("expires_on", kind=sa.Date()),
    column("source", Text),
    column("loaded_at", Moment),
    *maybe("taken_by", kind=UUID(as_uuid=True)),
    *maybe("taken_at", "set_aside_at", kind=Moment),
)
