"""Tables of webhooks, scans, notifications and automations."""

import sqlalchemy as sa

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Bytes,
    Date,
    Integer,
    Text,
    Timestamp,
    Uuid,
    columns,
    define_table,
    define_tenant_table,
    id_column,
    key_columns,
    owner_columns,
    timestamp_columns,
)

webhooks = define_tenant_table(
    "webhooks",
    *columns(BigInt, "mailing_list_id?", "invoke_count"),
    *columns(Text, "mode", "url", "type", "verb", "description?", "status", "last_error?"),
    *columns(Bytes, "secret_sealed", "previous_secret_sealed?"),
    *columns(Timestamp, "previous_until?", "failing_since?"),
    *timestamp_columns(),
)

deliveries = define_table(
    "deliveries",
    sa.Column("id", BigInt, server_default=sa.text("nextval('delivery_ids')"), primary_key=True),
    *owner_columns(),
    *key_columns(Text, "status"),
    *key_columns(Timestamp, "created_at"),
    *columns(Text, "mode", "event_type", "stream", "body?", "response_body?", "error?"),
    *columns(BigInt, "webhook_id", "fact_id"),
    *columns(Uuid, "event_id"),
    *columns(Integer, "attempts", "response_status?"),
    sa.Column("extra_tries", Integer, server_default=sa.text("0"), nullable=False),
    *columns(Timestamp, "next_at?", "delivered_at?"),
)

webhooks_gone = define_table(
    "webhooks_gone",
    *key_columns(BigInt, "webhook_id"),
    sa.Column("gone_at", Timestamp, server_default=sa.func.now(), nullable=False),
)

webhook_lanes = define_table(
    "webhook_lanes",
    *key_columns(BigInt, "webhook_id"),
    *columns(Timestamp, "due_at?", "leased_until?", "troubled_since?", "resting_until?"),
    *columns(BigInt, "woken"),
    *columns(Uuid, "leased_by?"),
    *columns(Integer, "failures"),
)

webhook_replays = define_tenant_table(
    "webhook_replays",
    *columns(BigInt, "webhook_id", "reached_id", "told"),
    *columns(Text, "mode"),
    *columns(Timestamp, "since", "until", "reached_at"),
)

visit_inbox = define_table(
    "visit_inbox", id_column(), *columns(BigInt, "item_id"), *columns(Timestamp, "at"), *columns(Text, "kind", "agent")
)

merged_lists = define_table("merged_lists", *key_columns(BigInt, "from_id"), *columns(BigInt, "into_id"))

visits = define_tenant_table(
    "visits",
    *columns(Text, "mode", "kind", "agent"),
    *columns(BigInt, "order_id", "item_id", "mailing_list_id?"),
    *columns(Timestamp, "at"),
)

notices = define_tenant_table(
    "notices",
    *columns(Text, "mode", "key", "kind", "channel", "address", "subject", "words", "status", "error?"),
    *columns(Integer, "attempts"),
    *columns(Timestamp, "next_at?", "created_at", "sent_at?", "ends_at?"),
    *columns(Bytes, "secret_sealed?"),
)

scan_news = define_table("scan_news", id_column(), *columns(BigInt, "order_id", "item_id"), *columns(Timestamp, "at"))

news_threads = define_table(
    "news_threads",
    *key_columns(BigInt, "order_id"),
    *key_columns(Text, "address"),
    *columns(BigInt, "since?"),
    *columns(Timestamp, "due_at?", "quiet_until?"),
)

notice_refusals = define_table(
    "notice_refusals", *key_columns(BigInt, "account_id"), *key_columns(Text, "address"), *columns(Timestamp, "at")
)

automations = define_tenant_table(
    "automations",
    *columns(Text, "mode", "name", "trigger", "date_field?", "piece", "send"),
    *columns(BigInt, "mailing_list_id?", "message_template_id?", "image_template_id?", "sent_count", "last_order_id?"),
    *columns(Integer, "days_offset", "daily_limit", "tries"),
    *columns(Boolean, "enabled"),
    *columns(Timestamp, "enabled_at?", "next_at", "last_sent_at?", "held_until?"),
    *columns(Date, "enabled_on?"),
    *columns(Text, "last_error?"),
    *columns(Timestamp, "last_error_at?", "failing_since?"),
    *timestamp_columns(),
)

automation_due = define_table(
    "automation_due",
    id_column(),
    *columns(BigInt, "automation_id", "recipient_id?", "item_id?"),
    *columns(Timestamp, "since"),
    *columns(Integer, "year?"),
)

automation_sent = define_table(
    "automation_sent",
    *key_columns(BigInt, "automation_id"),
    *key_columns(Text, "person_key"),
    *key_columns(Integer, "year"),
    *columns(BigInt, "recipient_id?", "order_id"),
    *columns(Timestamp, "at"),
)

received_events = define_table(
    "received_events",
    id_column(),
    *columns(Timestamp, "received_at"),
    *columns(Text, "event_id", "event_type", "body"),
    *columns(Boolean, "verified"),
)
