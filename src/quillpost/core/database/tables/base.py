"""The tables as queries see them. The migrations are the master; a test holds the two together."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TSVECTOR, UUID

metadata = sa.MetaData()

Text, Big, Int, Flag = sa.Text(), sa.BigInteger(), sa.Integer(), sa.Boolean()
Moment, Day = sa.DateTime(timezone=True), sa.Date()


def column(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    """A column that must be filled."""
    return sa.Column(name, kind, nullable=False)


def maybe(*names: str, kind: sa.types.TypeEngine[Any] = Text) -> list[sa.Column[Any]]:
    """Columns that may be null."""
    return [sa.Column(name, kind) for name in names]


def key() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True)


def owner() -> list[sa.Column[Any]]:
    """Whose row it is; row-level security reads these."""
    return [column("account_id", Big), *maybe("sub_account_id", kind=Big)]


def dated() -> list[sa.Column[Any]]:
    return [column("created_at", Moment), column("updated_at", Moment)]


def judged() -> list[sa.Column[Any]]:
    """What was found out about a person's address beside its key."""
    return [*maybe("surname", "deliverability"), *maybe("standard", "reasons", kind=ARRAY(sa.Text()))]


CUSTOM = tuple(f"custom{n}" for n in range(1, 11))
PERSON = (
    "name", "company", "address", "address2", "city", "province", "postal_code",
)  # fmt: skip

accounts = sa.Table(
    "accounts",
    metadata,
    key(),
    column("email", Text),
    column("name", Text),
    *maybe("company"),
    column("is_operator", Flag),
    column("test_mode", Flag),
    *maybe("return_name", "return_address", "return_address2"),
    *maybe("return_city", "return_state", "return_postal_code"),
    *dated(),
    sa.Column("embed_origins", ARRAY(sa.Text()), nullable=False, server_default="{}"),
)

sub_accounts = sa.Table(
    "sub_accounts",
    metadata,
    key(),
    column("account_id", Big),
    column("title", Text),
    *maybe("return_name", "return_address", "return_address2"),
    *maybe("return_city", "return_state", "return_postal_code"),
    column("branding", JSONB()),
    column("backgrounds", JSONB()),
    *dated(),
    *maybe("deleted_at", kind=Moment),
)

tokens = sa.Table(
    "tokens",
    metadata,
    key(),
    *owner(),
    column("name", Text),
    column("mode", Text),
    column("digest", BYTEA()),
    *maybe("scopes", kind=ARRAY(sa.Text())),
    column("created_at", Moment),
    *maybe("last_used_at", "expires_at", "revoked_at", kind=Moment),
    *maybe("person_id", "grant_id", "session_id", kind=Big),
    *maybe("hint"),
)

mailing_lists = sa.Table(
    "mailing_lists",
    metadata,
    key(),
    *owner(),
    column("type", Text),
    column("description", Text),
    *maybe("qrcode_url"),
    column("is_suppression_list", Flag),
    column("processed", Flag),
    *(column(n, Int) for n in ("total_recipients", "total_sends", "total_scans", "unique_scans")),
    *maybe("last_send", "last_scan", kind=Moment),
    *maybe("key_digest", "key_sealed", kind=BYTEA()),
    *dated(),
    *maybe("kept_for"),
    column("suppress_by", Text),
)

recipients = sa.Table(
    "recipients",
    metadata,
    key(),
    *owner(),
    column("mailing_list_id", Big),
    *maybe(*PERSON, "country", "email", "phone"),
    *maybe("dob", "anniversary", kind=Day),
    *maybe(*CUSTOM, "address_key"),
    *dated(),
    sa.Column("email_key", Text, sa.Computed("lower(email)", persisted=True)),
    *judged(),
    column("told_apart", Text),
    *maybe("moved_key"),
    *maybe("absentee_address"),
    sa.Column("is_sample", Flag, nullable=False, server_default=sa.false()),
    *maybe("address_rules", kind=Int),
)

barred_digests = sa.Table(
    "barred_digests",
    metadata,
    key(),
    *owner(),
    column("kind", Text),
    column("digest", BYTEA()),
    column("at", Moment),
)

do_not_mail_inbox = sa.Table(
    "do_not_mail_inbox",
    metadata,
    key(),
    column("code", Text),
    column("at", Moment),
)

files = sa.Table(
    "files",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    *owner(),
    column("purpose", Text),
    column("key", Text),
    column("content_type", Text),
    column("size", Big),
    column("sha256", BYTEA()),
    column("created_at", Moment),
    *maybe("expires_at", kind=Moment),
)

image_templates = sa.Table(
    "image_templates",
    metadata,
    key(),
    *owner(),
    column("type", Text),
    column("name", Text),
    *maybe("image_file_id", kind=UUID(as_uuid=True)),
    *maybe("design_tool_id"),
    *dated(),
)

message_templates = sa.Table(
    "message_templates",
    metadata,
    key(),
    *owner(),
    column("type", Text),
    column("name", Text),
    column("content", Text),
    column("settings", JSONB()),
    column("share_uuid", UUID(as_uuid=True)),
    *dated(),
)

TALLY = (
    "n_processing", "n_printed", "n_in_transit", "n_in_local_area", "n_processed_for_delivery",
    "n_delivered", "n_re_routed", "n_returned_to_sender", "n_failed",
)  # fmt: skip
"""How many of an order's items stand in each status, in the order of their statuses."""

HELD_BACK = ("reviewing", "paused")
"""Orders in these states are not made yet, and may still be changed."""

orders = sa.Table(
    "orders",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    column("type", Text),
    *maybe("size"),
    column("piece", Text),
    column("mail_class", Text),
    column("status", Text),
    column("method", Text),
    column("message", Text),
    *maybe("message_template_id", "image_template_id", kind=Big),
    column("style", Int),
    column("handwriting_color", Text),
    column("handwriting_realism", Flag),
    column("font_size", Text),
    *maybe("front_image_url", "background_url", "qrcode_url"),
    *maybe("front_file_id", "background_file_id", kind=UUID(as_uuid=True)),
    *maybe("return_name", "return_address", "return_address2"),
    *maybe("return_city", "return_province", "return_postal_code"),
    *maybe("sender_name", "sender_company"),
    column("append_or_current_resident", Flag),
    column("allow_duplicates", Flag),
    column("mailing_list_ids", ARRAY(sa.BigInteger())),
    column("notification_emails", ARRAY(sa.Text())),
    *maybe("metadata"),
    sa.Column("metadata_index", JSONB(), sa.Computed("jsonb_or_null(metadata)", persisted=True)),
    column("total_estimated_recipients", Int),
    column("recipient_count", Int),
    *(column(n, Big) for n in ("authorization_total", "order_total", "leads_fee")),
    *(column(n, Int) for n in (*TALLY, "total_scans", "multi_scans")),
    column("warnings", ARRAY(sa.Text())),
    *maybe("schedule_for", kind=Moment),
    column("due_at", Moment),
    *dated(),
    *maybe("pages_url"),
    *maybe("pages_file_id", "logo_file_id", "creative_key", kind=UUID(as_uuid=True)),
    *maybe("branding", kind=JSONB()),
    column("pdf_only", Flag),
    column("audience_pending", Flag),
    column("hold_reasons", ARRAY(sa.Text())),
    *maybe("lowest_dpi", kind=Int),
    *maybe("lowest_contrast", kind=sa.Double()),
    column("rush", Flag),
    *maybe("pool_at", kind=Moment),
    *(column(n, Int) for n in ("n_over", "n_lost")),
    *maybe("pictures_gone_at", kind=Moment),
    *maybe("verified_at", kind=Moment),
    *maybe("giftcard_brand", "giftcard_title", "giftcard_accent"),
    *maybe("giftcard_amount", kind=Int),
    *maybe("landing_page_url"),
    column("gift_total", Big),
    column("n_mailed", Int),
)

stored_sends = sa.Table(
    "stored_sends",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    *owner(),
    column("mode", Text),
    column("piece", Text),
    column("body", Text),
    *maybe("answer_headers", kind=JSONB()),
    *maybe("answer_body", kind=BYTEA()),
    column("created_at", Moment),
    *maybe("sent_at", kind=Moment),
    column("expires_at", Moment),
)

items = sa.Table(
    "items",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    column("order_id", Big),
    column("status", Text),
    *maybe("delivery_date", kind=Day),
    *maybe("failure"),
    column("scans", Int),
    column("price_cents", Int),
    *maybe(*PERSON),
    column("country", Text),
    *maybe("absentee_address", "email", "phone"),
    *maybe("dob", "anniversary", kind=Day),
    *maybe(*CUSTOM, "address_key", "code"),
    *dated(),
    *maybe("front_file_id", "background_file_id", "creative_key", kind=UUID(as_uuid=True)),
    *maybe("mailing_list_id", kind=Big),
    column("delivery_inferred", Flag),
    column("is_over", Flag),
    *judged(),
    *maybe("moved_key"),
    *maybe("person_gone_at", kind=Moment),
    *maybe("door_digest", kind=BYTEA()),
    *maybe("address_rules", kind=Int),
    column("gift_cents", Int),
    *maybe("giftcard_brand"),
    column("is_mailed", Flag),
)

recipient_search = sa.Table(
    "recipient_search",
    metadata,
    sa.Column("recipient_id", Big, primary_key=True),
    column("words", TSVECTOR()),
)

search_backlog = sa.Table(
    "search_backlog",
    metadata,
    key(),
    column("kind", Text),
    column("account_id", Big),
    column("first_id", Big),
    column("last_id", Big),
    column("ids", ARRAY(Big)),
)

item_search = sa.Table(
    "item_search",
    metadata,
    sa.Column("item_id", Big, primary_key=True),
    column("order_id", Big),
    column("words", TSVECTOR()),
)

facts = sa.Table(
    "facts",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    column("kind", Text),
    column("order_id", Big),
    *maybe("item_id", kind=Big),
    column("order_status", Text),
    *maybe("previous"),
    column("current", Text),
    column("event_id", UUID(as_uuid=True)),
    column("at", Moment),
    *maybe("seen_at", kind=Moment),
    *maybe("place", "reason"),
    column("inferred", Flag),
    column("scans", Int),
)

fact_queue = sa.Table("fact_queue", metadata, sa.Column("fact_id", Big, primary_key=True))

prices = sa.Table(
    "prices",
    metadata,
    key(),
    *(column(n, Text) for n in ("type", "size", "mail_class", "country")),
    column("unit_cents", Int),
    column("valid_from", Day),
)

ledger_moves = sa.Table(
    "ledger_moves",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    *maybe("order_id", kind=Big),
    *(column(n, Text) for n in ("kind", "source", "target")),
    column("cents", Big),
    column("key", Text),
    column("at", Moment),
    *maybe("note"),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("account_id", Big, primary_key=True),
    *(sa.Column(n, Text, primary_key=True) for n in ("mode", "path", "key")),
    column("request_digest", BYTEA()),
    column("answer_status", Int),
    *maybe("answer_type"),
    column("answer_headers", JSONB()),
    column("answer_body", BYTEA()),
    column("sealed", Flag),
    column("expires_at", Moment),
)

rate_windows = sa.Table(
    "rate_windows",
    metadata,
    sa.Column("key", Text, primary_key=True),
    column("started_at", Moment),
    column("used", Int),
)
