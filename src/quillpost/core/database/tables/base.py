"""The tables as queries see them. The migrations are the master; a test holds the two together."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TSVECTOR, UUID

from quillpost.core.errors import Message

metadata = sa.MetaData()

Text, BigInt, Integer, Boolean = sa.Text(), sa.BigInteger(), sa.Integer(), sa.Boolean()
Timestamp, Date = sa.DateTime(timezone=True), sa.Date()


class MessageList(sa.types.TypeDecorator[list[Message]]):
    """Sentences with their codes, each an object with `code`, `text` and `params`."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: list[Message] | None, _dialect: sa.Dialect) -> Any:
        return None if value is None else [message.to_json() for message in value]

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> list[Message] | None:
        return None if value is None else [Message.from_json(each) for each in value]


def required_column(name: str, type_: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False)


def required_columns(*names: str, type_: sa.types.TypeEngine[Any] = Text) -> list[sa.Column[Any]]:
    return [required_column(name, type_) for name in names]


def nullable_columns(*names: str, type_: sa.types.TypeEngine[Any] = Text) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_) for name in names]


def define_table(name: str, *columns: sa.Column[Any]) -> sa.Table:
    return sa.Table(name, metadata, *columns)


def id_column() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True)


def owner_columns() -> list[sa.Column[Any]]:
    """Row-level security reads these."""
    return [required_column("account_id", BigInt), *nullable_columns("sub_account_id", type_=BigInt)]


def timestamp_columns() -> list[sa.Column[Any]]:
    return [required_column("created_at", Timestamp), required_column("updated_at", Timestamp)]


def address_check_columns() -> list[sa.Column[Any]]:
    return [
        *nullable_columns("surname", "deliverability"),
        *nullable_columns("standard", "reasons", type_=ARRAY(sa.Text())),
    ]


CUSTOM_COLUMNS = tuple(f"custom{n}" for n in range(1, 11))
PERSON_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code",
)  # fmt: skip

accounts = define_table(
    "accounts",
    id_column(),
    *required_columns("email", "name"),
    *nullable_columns("company"),
    *required_columns("is_operator", "test_mode", type_=Boolean),
    *nullable_columns("return_name", "return_address", "return_address2"),
    *nullable_columns("return_city", "return_state", "return_postal_code"),
    *timestamp_columns(),
    sa.Column("embed_origins", ARRAY(sa.Text()), nullable=False, server_default="{}"),
)

sub_accounts = define_table(
    "sub_accounts",
    id_column(),
    required_column("account_id", BigInt),
    required_column("title", Text),
    *nullable_columns("return_name", "return_address", "return_address2"),
    *nullable_columns("return_city", "return_state", "return_postal_code"),
    *required_columns("branding", "backgrounds", type_=JSONB()),
    *timestamp_columns(),
    *nullable_columns("deleted_at", type_=Timestamp),
)

tokens = define_table(
    "tokens",
    id_column(),
    *owner_columns(),
    *required_columns("name", "mode"),
    required_column("digest", BYTEA()),
    *nullable_columns("scopes", type_=ARRAY(sa.Text())),
    required_column("created_at", Timestamp),
    *nullable_columns("last_used_at", "expires_at", "revoked_at", type_=Timestamp),
    *nullable_columns("person_id", "grant_id", "session_id", type_=BigInt),
    *nullable_columns("hint"),
)

mailing_lists = define_table(
    "mailing_lists",
    id_column(),
    *owner_columns(),
    *required_columns("type", "description"),
    *nullable_columns("qrcode_url"),
    *required_columns("is_suppression_list", "processed", type_=Boolean),
    *required_columns("total_recipients", "total_sends", "total_scans", "unique_scans", type_=Integer),
    *nullable_columns("last_send", "last_scan", type_=Timestamp),
    *nullable_columns("key_digest", "key_sealed", type_=BYTEA()),
    *timestamp_columns(),
    *nullable_columns("kept_for"),
    required_column("suppress_by", Text),
)

recipients = define_table(
    "recipients",
    id_column(),
    *owner_columns(),
    required_column("mailing_list_id", BigInt),
    *nullable_columns(*PERSON_COLUMNS, "country", "email", "phone"),
    *nullable_columns("dob", "anniversary", type_=Date),
    *nullable_columns(*CUSTOM_COLUMNS, "address_key"),
    *timestamp_columns(),
    sa.Column("email_key", Text, sa.Computed("lower(email)", persisted=True)),
    *address_check_columns(),
    required_column("told_apart", Text),
    *nullable_columns("moved_key"),
    *nullable_columns("absentee_address"),
    sa.Column("is_sample", Boolean, nullable=False, server_default=sa.false()),
)

barred_digests = define_table(
    "barred_digests",
    id_column(),
    *owner_columns(),
    required_column("kind", Text),
    required_column("digest", BYTEA()),
    required_column("at", Timestamp),
)

do_not_mail_inbox = define_table(
    "do_not_mail_inbox", id_column(), required_column("code", Text), required_column("at", Timestamp)
)

files = define_table(
    "files",
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    *owner_columns(),
    *required_columns("purpose", "key", "content_type"),
    required_column("size", BigInt),
    required_column("sha256", BYTEA()),
    required_column("created_at", Timestamp),
    *nullable_columns("expires_at", type_=Timestamp),
)

image_templates = define_table(
    "image_templates",
    id_column(),
    *owner_columns(),
    *required_columns("type", "name"),
    *nullable_columns("image_file_id", type_=UUID(as_uuid=True)),
    *nullable_columns("design_tool_id"),
    *timestamp_columns(),
)

message_templates = define_table(
    "message_templates",
    id_column(),
    *owner_columns(),
    *required_columns("type", "name", "content"),
    required_column("settings", JSONB()),
    required_column("share_uuid", UUID(as_uuid=True)),
    *timestamp_columns(),
)

STATUS_COUNT_COLUMNS = (
    "n_processing", "n_printed", "n_in_transit", "n_in_local_area", "n_processed_for_delivery",
    "n_delivered", "n_re_routed", "n_returned_to_sender", "n_failed",
)  # fmt: skip
"""How many of an order's items stand in each status, in the order of their statuses."""

CHANGEABLE_ORDER_STATUSES = ("reviewing", "paused")  # orders in these states are not made yet, and may still be changed

orders = define_table(
    "orders",
    id_column(),
    *owner_columns(),
    *required_columns("mode", "type"),
    *nullable_columns("size"),
    *required_columns("piece", "mail_class", "status", "method", "message"),
    *nullable_columns("message_template_id", "image_template_id", type_=BigInt),
    required_column("style", Integer),
    required_column("handwriting_color", Text),
    required_column("handwriting_realism", Boolean),
    required_column("font_size", Text),
    *nullable_columns("front_image_url", "background_url", "qrcode_url"),
    *nullable_columns("front_file_id", "background_file_id", type_=UUID(as_uuid=True)),
    *nullable_columns("return_name", "return_address", "return_address2"),
    *nullable_columns("return_city", "return_province", "return_postal_code"),
    *nullable_columns("sender_name", "sender_company"),
    *required_columns("append_or_current_resident", "allow_duplicates", type_=Boolean),
    required_column("mailing_list_ids", ARRAY(sa.BigInteger())),
    required_column("notification_emails", ARRAY(sa.Text())),
    *nullable_columns("metadata"),
    sa.Column("metadata_index", JSONB(), sa.Computed("jsonb_or_null(metadata)", persisted=True)),
    *required_columns("total_estimated_recipients", "recipient_count", type_=Integer),
    *required_columns("authorization_total", "order_total", "leads_fee", type_=BigInt),
    *(required_column(n, Integer) for n in (*STATUS_COUNT_COLUMNS, "total_scans", "multi_scans")),
    required_column("warnings", MessageList()),
    *nullable_columns("schedule_for", type_=Timestamp),
    required_column("due_at", Timestamp),
    *timestamp_columns(),
    *nullable_columns("pages_url"),
    *nullable_columns("pages_file_id", "logo_file_id", "creative_key", type_=UUID(as_uuid=True)),
    *nullable_columns("branding", type_=JSONB()),
    *required_columns("pdf_only", "audience_pending", type_=Boolean),
    required_column("hold_reasons", MessageList()),
    *nullable_columns("lowest_dpi", type_=Integer),
    *nullable_columns("lowest_contrast", type_=sa.Double()),
    required_column("rush", Boolean),
    *nullable_columns("pool_at", type_=Timestamp),
    *required_columns("n_over", "n_lost", type_=Integer),
    *nullable_columns("pictures_gone_at", type_=Timestamp),
    *nullable_columns("verified_at", type_=Timestamp),
    *nullable_columns("giftcard_brand", "giftcard_title", "giftcard_accent"),
    *nullable_columns("giftcard_amount", type_=Integer),
    *nullable_columns("landing_page_url"),
    required_column("gift_total", BigInt),
    required_column("n_mailed", Integer),
)

stored_sends = define_table(
    "stored_sends",
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    *owner_columns(),
    *required_columns("mode", "piece", "body"),
    *nullable_columns("answer_headers", type_=JSONB()),
    *nullable_columns("answer_body", type_=BYTEA()),
    required_column("created_at", Timestamp),
    *nullable_columns("sent_at", type_=Timestamp),
    required_column("expires_at", Timestamp),
)

items = define_table(
    "items",
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    required_column("order_id", BigInt),
    required_column("status", Text),
    *nullable_columns("delivery_date", type_=Date),
    *nullable_columns("failure"),
    *required_columns("scans", "price_cents", type_=Integer),
    *nullable_columns(*PERSON_COLUMNS),
    required_column("country", Text),
    *nullable_columns("absentee_address", "email", "phone"),
    *nullable_columns("dob", "anniversary", type_=Date),
    *nullable_columns(*CUSTOM_COLUMNS, "address_key", "code"),
    *timestamp_columns(),
    *nullable_columns("front_file_id", "background_file_id", "creative_key", type_=UUID(as_uuid=True)),
    *nullable_columns("mailing_list_id", type_=BigInt),
    *required_columns("delivery_inferred", "is_over", type_=Boolean),
    *address_check_columns(),
    *nullable_columns("moved_key"),
    *nullable_columns("person_gone_at", type_=Timestamp),
    *nullable_columns("door_digest", type_=BYTEA()),
    required_column("gift_cents", Integer),
    *nullable_columns("giftcard_brand"),
    required_column("is_mailed", Boolean),
)

recipient_search = define_table(
    "recipient_search", sa.Column("recipient_id", BigInt, primary_key=True), required_column("words", TSVECTOR())
)

search_backlog = define_table(
    "search_backlog",
    id_column(),
    required_column("kind", Text),
    *required_columns("account_id", "first_id", "last_id", type_=BigInt),
    required_column("ids", ARRAY(BigInt)),
)

item_search = define_table(
    "item_search",
    sa.Column("item_id", BigInt, primary_key=True),
    required_column("order_id", BigInt),
    required_column("words", TSVECTOR()),
)

facts = define_table(
    "facts",
    id_column(),
    *owner_columns(),
    *required_columns("mode", "kind"),
    required_column("order_id", BigInt),
    *nullable_columns("item_id", type_=BigInt),
    required_column("order_status", Text),
    *nullable_columns("previous"),
    required_column("current", Text),
    required_column("event_id", UUID(as_uuid=True)),
    required_column("at", Timestamp),
    *nullable_columns("seen_at", type_=Timestamp),
    *nullable_columns("place", "reason"),
    required_column("inferred", Boolean),
    required_column("scans", Integer),
)

fact_queue = define_table("fact_queue", sa.Column("fact_id", BigInt, primary_key=True))

prices = define_table(
    "prices",
    id_column(),
    *required_columns("type", "size", "mail_class", "country"),
    required_column("unit_cents", Integer),
    required_column("valid_from", Date),
)

ledger_moves = define_table(
    "ledger_moves",
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    *nullable_columns("order_id", type_=BigInt),
    *required_columns("kind", "source", "target"),
    required_column("cents", BigInt),
    required_column("key", Text),
    required_column("at", Timestamp),
    *nullable_columns("note"),
)

idempotency_keys = define_table(
    "idempotency_keys",
    sa.Column("account_id", BigInt, primary_key=True),
    *(sa.Column(n, Text, primary_key=True) for n in ("mode", "path", "key")),
    required_column("request_digest", BYTEA()),
    required_column("answer_status", Integer),
    *nullable_columns("answer_type"),
    required_column("answer_headers", JSONB()),
    required_column("answer_body", BYTEA()),
    required_column("sealed", Boolean),
    required_column("expires_at", Timestamp),
)

rate_windows = define_table(
    "rate_windows",
    sa.Column("key", Text, primary_key=True),
    required_column("started_at", Timestamp),
    required_column("used", Integer),
)
