"""The tables as queries see them. The migrations are the master; a test holds the two together."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TSVECTOR, UUID

from quillpost.core.errors import Message

metadata = sa.MetaData()

Text, BigInt, Integer, Boolean = sa.Text(), sa.BigInteger(), sa.Integer(), sa.Boolean()
Double: sa.Double[float] = sa.Double()
Timestamp, Date = sa.DateTime(timezone=True), sa.Date()
Bytes, Json, Uuid = BYTEA(), JSONB(), UUID(as_uuid=True)
TextArray, BigIntArray, IntegerArray = ARRAY(Text), ARRAY(BigInt), ARRAY(Integer)


class MessageList(sa.types.TypeDecorator[list[Message]]):
    """Sentences with their codes, each an object with `code`, `text` and `params`."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: list[Message] | None, _dialect: sa.Dialect) -> Any:
        return None if value is None else [message.to_json() for message in value]

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> list[Message] | None:
        return None if value is None else [Message.from_json(each) for each in value]


Messages = MessageList()


def columns(type_: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    """Of one type; a name that ends in `?` may be null."""
    return [sa.Column(name.removesuffix("?"), type_, nullable=name.endswith("?")) for name in names]


def key_columns(type_: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    """Of the primary key."""
    return [sa.Column(name, type_, primary_key=True) for name in names]


def id_column() -> sa.Column[int]:
    return sa.Column("id", BigInt, sa.Identity(always=True), primary_key=True)


def owner_columns() -> list[sa.Column[Any]]:
    """Row-level security reads these."""
    return columns(BigInt, "account_id", "sub_account_id?")


def timestamp_columns() -> list[sa.Column[Any]]:
    return columns(Timestamp, "created_at", "updated_at")


def define_table(name: str, *table_columns: sa.Column[Any]) -> sa.Table:
    return sa.Table(name, metadata, *table_columns)


def define_tenant_table(name: str, *table_columns: sa.Column[Any]) -> sa.Table:
    """With an id and an owner."""
    return define_table(name, id_column(), *owner_columns(), *table_columns)


CUSTOM_COLUMNS = tuple(f"custom{n}" for n in range(1, 11))
PERSON_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code",
)  # fmt: skip


def person_columns() -> list[sa.Column[Any]]:
    """A person on a list or of an item, and what the check of the address found."""
    names = (*PERSON_COLUMNS, "absentee_address", "email", "phone", *CUSTOM_COLUMNS)
    return [
        *columns(Text, *(f"{name}?" for name in names)),
        *columns(Text, "address_key?", "moved_key?", "surname?", "deliverability?"),
        *columns(TextArray, "standard?", "reasons?"),
        *columns(Date, "dob?", "anniversary?"),
    ]


accounts = define_table(
    "accounts",
    id_column(),
    *columns(Text, "email", "name", "company?"),
    *columns(Text, "return_name?", "return_address?", "return_address2?"),
    *columns(Text, "return_city?", "return_state?", "return_postal_code?"),
    *columns(Boolean, "is_operator", "test_mode"),
    sa.Column("embed_origins", TextArray, nullable=False, server_default="{}"),
    *timestamp_columns(),
)

sub_accounts = define_table(
    "sub_accounts",
    id_column(),
    *columns(BigInt, "account_id"),
    *columns(Text, "title", "return_name?", "return_address?", "return_address2?"),
    *columns(Text, "return_city?", "return_state?", "return_postal_code?"),
    *columns(Json, "branding", "backgrounds"),
    *columns(Timestamp, "deleted_at?"),
    *timestamp_columns(),
)

tokens = define_tenant_table(
    "tokens",
    *columns(Text, "name", "mode", "hint?"),
    *columns(Bytes, "digest"),
    *columns(TextArray, "scopes?"),
    *columns(Timestamp, "created_at", "last_used_at?", "expires_at?", "revoked_at?"),
    *columns(BigInt, "person_id?", "grant_id?", "session_id?"),
)

mailing_lists = define_tenant_table(
    "mailing_lists",
    *columns(Text, "type", "description", "qrcode_url?", "kept_for?", "suppress_by"),
    *columns(Boolean, "is_suppression_list", "processed"),
    *columns(Integer, "total_recipients", "total_sends", "total_scans", "unique_scans"),
    *columns(Timestamp, "last_send?", "last_scan?"),
    *columns(Bytes, "key_digest?", "key_sealed?"),
    *timestamp_columns(),
)

recipients = define_tenant_table(
    "recipients",
    *columns(BigInt, "mailing_list_id"),
    *person_columns(),
    *columns(Text, "country?", "told_apart"),
    sa.Column("email_key", Text, sa.Computed("lower(email)", persisted=True)),
    sa.Column("is_sample", Boolean, nullable=False, server_default=sa.false()),
    *timestamp_columns(),
)

barred_digests = define_tenant_table(
    "barred_digests", *columns(Text, "kind"), *columns(Bytes, "digest"), *columns(Timestamp, "at")
)

do_not_mail_inbox = define_table("do_not_mail_inbox", id_column(), *columns(Text, "code"), *columns(Timestamp, "at"))

files = define_table(
    "files",
    *key_columns(Uuid, "id"),
    *owner_columns(),
    *columns(Text, "purpose", "key", "content_type"),
    *columns(BigInt, "size"),
    *columns(Bytes, "sha256"),
    *columns(Timestamp, "created_at", "expires_at?"),
)

image_templates = define_tenant_table(
    "image_templates",
    *columns(Text, "type", "name", "design_tool_id?"),
    *columns(Uuid, "image_file_id?"),
    *timestamp_columns(),
)

own_hands = define_tenant_table(
    "own_hands",
    *columns(Text, "name"),
    *columns(Bytes, "letters", "forms?", "sample?"),
    *timestamp_columns(),
    *columns(Timestamp, "deleted_at?"),
)

signatures = define_tenant_table(
    "signatures",
    *columns(Text, "name"),
    *columns(Bytes, "outlines"),
    *timestamp_columns(),
    *columns(Timestamp, "deleted_at?"),
)

message_templates = define_tenant_table(
    "message_templates",
    *columns(Text, "type", "name", "content"),
    *columns(Json, "settings"),
    *columns(Uuid, "share_uuid"),
    *timestamp_columns(),
)

STATUS_COUNT_COLUMNS = (
    "n_processing", "n_printed", "n_in_transit", "n_in_local_area", "n_processed_for_delivery",
    "n_delivered", "n_re_routed", "n_returned_to_sender", "n_failed",
)  # fmt: skip
"""How many of an order's items stand in each status, in the order of their statuses."""

CHANGEABLE_ORDER_STATUSES = ("reviewing", "paused")  # orders in these states are not made yet, and may still be changed

orders = define_tenant_table(
    "orders",
    *columns(Text, "mode", "type", "size?", "piece", "mail_class", "status", "method"),
    *columns(Text, "message", "handwriting_color", "handwriting_manner", "font_size", "metadata?", "landing_page_url?"),
    *columns(Integer, "style"),
    *columns(Boolean, "append_or_current_resident", "allow_duplicates"),
    *columns(BigInt, "message_template_id?", "image_template_id?", "signature_id?"),
    *columns(Text, "front_image_url?", "background_url?", "pages_url?", "qrcode_url?"),
    *columns(Uuid, "front_file_id?", "background_file_id?", "pages_file_id?", "logo_file_id?", "creative_key?"),
    *columns(Text, "return_name?", "return_address?", "return_address2?"),
    *columns(Text, "return_city?", "return_province?", "return_postal_code?"),
    *columns(Text, "sender_name?", "sender_company?"),
    *columns(Json, "branding?"),
    *columns(Text, "giftcard_brand?", "giftcard_title?", "giftcard_accent?"),
    *columns(Integer, "giftcard_amount?"),
    *columns(BigIntArray, "mailing_list_ids"),
    *columns(TextArray, "notification_emails"),
    sa.Column("metadata_index", Json, sa.Computed("jsonb_or_null(metadata)", persisted=True)),
    *columns(BigInt, "authorization_total", "order_total", "leads_fee", "gift_total"),
    *columns(Integer, "total_estimated_recipients", "recipient_count", "total_scans", "multi_scans"),
    *columns(Integer, *STATUS_COUNT_COLUMNS, "n_over", "n_lost", "n_mailed"),
    *columns(Messages, "warnings", "hold_reasons"),
    *columns(Integer, "lowest_dpi?"),
    *columns(Double, "lowest_contrast?"),
    *columns(Boolean, "pdf_only", "audience_pending", "rush"),
    *columns(Timestamp, "schedule_for?", "due_at", "pool_at?", "pictures_gone_at?", "verified_at?"),
    *timestamp_columns(),
)

stored_sends = define_table(
    "stored_sends",
    *key_columns(Uuid, "id"),
    *owner_columns(),
    *columns(Text, "mode", "piece", "body"),
    *columns(Json, "answer_headers?"),
    *columns(Bytes, "answer_body?"),
    *columns(Timestamp, "created_at", "sent_at?", "expires_at"),
)

items = define_tenant_table(
    "items",
    *columns(Text, "mode", "status", "failure?", "code?", "giftcard_brand?"),
    *columns(BigInt, "order_id", "mailing_list_id?"),
    *columns(Date, "delivery_date?"),
    *columns(Integer, "scans", "price_cents", "gift_cents"),
    *person_columns(),
    *columns(Text, "country"),
    *columns(Uuid, "front_file_id?", "background_file_id?", "creative_key?"),
    *columns(Boolean, "delivery_inferred", "is_over", "is_mailed"),
    *columns(Timestamp, "person_gone_at?"),
    *columns(Bytes, "door_digest?"),
    *timestamp_columns(),
)

recipient_search = define_table("recipient_search", *key_columns(BigInt, "recipient_id"), *columns(TSVECTOR(), "words"))

search_backlog = define_table(
    "search_backlog",
    id_column(),
    *columns(Text, "kind"),
    *columns(BigInt, "account_id", "first_id", "last_id"),
    *columns(BigIntArray, "ids"),
)

item_search = define_table(
    "item_search", *key_columns(BigInt, "item_id"), *columns(BigInt, "order_id"), *columns(TSVECTOR(), "words")
)

facts = define_tenant_table(
    "facts",
    *columns(Text, "mode", "kind", "order_status", "previous?", "current", "place?", "reason?"),
    *columns(BigInt, "order_id", "item_id?"),
    *columns(Uuid, "event_id"),
    *columns(Timestamp, "at", "seen_at?"),
    *columns(Boolean, "inferred"),
    *columns(Integer, "scans"),
)

fact_queue = define_table("fact_queue", *key_columns(BigInt, "fact_id"))

prices = define_table(
    "prices",
    id_column(),
    *columns(Text, "type", "size", "mail_class", "country"),
    *columns(Integer, "unit_cents"),
    *columns(Date, "valid_from"),
)

ledger_moves = define_tenant_table(
    "ledger_moves",
    *columns(Text, "mode", "kind", "source", "target", "key", "note?"),
    *columns(BigInt, "order_id?", "cents"),
    *columns(Timestamp, "at"),
)

idempotency_keys = define_table(
    "idempotency_keys",
    *key_columns(BigInt, "account_id"),
    *key_columns(Text, "mode", "path", "key"),
    *columns(Bytes, "request_digest", "answer_body"),
    *columns(Integer, "answer_status"),
    *columns(Text, "answer_type?"),
    *columns(Json, "answer_headers"),
    *columns(Boolean, "sealed"),
    *columns(Timestamp, "expires_at"),
)

rate_windows = define_table(
    "rate_windows", *key_columns(Text, "key"), *columns(Timestamp, "started_at"), *columns(Integer, "used")
)
