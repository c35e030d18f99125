"""Tables of webhooks, scans, notifications and automations."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, UUID

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Date,
    Integer,
    Text,
    Timestamp,
    define_table,
    id_column,
    nullable_columns,
    owner_columns,
    required_column,
    required_columns,
    timestamp_columns,
)

webhooks = define_table(
    "webhooks",
    id_column(),
    *owner_columns(),
    *nullable_columns("mailing_list_id", type_=BigInt),
    *required_columns("mode", "url", "type", "verb"),
    *nullable_columns("description"),
    required_column("secret_sealed", BYTEA()),
    required_column("status", Text),
    required_column("invoke_count", BigInt),
    *timestamp_columns(),
    *nullable_columns("previous_secret_sealed", type_=BYTEA()),
    *nullable_columns("previous_until", "failing_since", type_=Timestamp),
    *nullable_columns("last_error"),
)

deliveries = define_table(
    "deliveries",
    sa.Column("id", BigInt, server_default=sa.text("nextval('delivery_ids')"), primary_key=True),
    *owner_columns(),
    required_column("mode", Text),
    *required_columns("webhook_id", "fact_id", type_=BigInt),
    required_column("event_id", UUID(as_uuid=True)),
    *required_columns("event_type", "stream"),
    sa.Column("status", Text, primary_key=True),
    *nullable_columns("body"),
    required_column("attempts", Integer),
    sa.Column("extra_tries", Integer, server_default=sa.text("0"), nullable=False),
    *nullable_columns("next_at", type_=Timestamp),
    *nullable_columns("response_status", type_=Integer),
    *nullable_columns("response_body", "error"),
    sa.Column("created_at", Timestamp, primary_key=True),
    *nullable_columns("delivered_at", type_=Timestamp),
)

webhooks_gone = define_table(
    "webhooks_gone",
    sa.Column("webhook_id", BigInt, primary_key=True),
    sa.Column("gone_at", Timestamp, server_default=sa.func.now(), nullable=False),
)

webhook_lanes = define_table(
    "webhook_lanes",
    sa.Column("webhook_id", BigInt, primary_key=True),
    *nullable_columns("due_at", type_=Timestamp),
    required_column("woken", BigInt),
    *nullable_columns("leased_by", type_=UUID(as_uuid=True)),
    *nullable_columns("leased_until", type_=Timestamp),
    required_column("failures", Integer),
    *nullable_columns("troubled_since", "resting_until", type_=Timestamp),
)

webhook_replays = define_table(
    "webhook_replays",
    id_column(),
    required_column("webhook_id", BigInt),
    *owner_columns(),
    required_column("mode", Text),
    *required_columns("since", "until", "reached_at", type_=Timestamp),
    *required_columns("reached_id", "told", type_=BigInt),
)

visit_inbox = define_table(
    "visit_inbox",
    id_column(),
    required_column("item_id", BigInt),
    required_column("at", Timestamp),
    *required_columns("kind", "agent"),
)

merged_lists = define_table(
    "merged_lists", sa.Column("from_id", BigInt, primary_key=True), required_column("into_id", BigInt)
)

visits = define_table(
    "visits",
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    *required_columns("order_id", "item_id", type_=BigInt),
    *nullable_columns("mailing_list_id", type_=BigInt),
    required_column("at", Timestamp),
    *required_columns("kind", "agent"),
)

notices = define_table(
    "notices",
    id_column(),
    *owner_columns(),
    *required_columns("mode", "key", "kind", "channel", "address", "subject", "words", "status"),
    required_column("attempts", Integer),
    *nullable_columns("next_at", type_=Timestamp),
    *nullable_columns("error"),
    required_column("created_at", Timestamp),
    *nullable_columns("sent_at", type_=Timestamp),
    *nullable_columns("secret_sealed", type_=BYTEA()),
    *nullable_columns("ends_at", type_=Timestamp),
)

scan_news = define_table(
    "scan_news", id_column(), *required_columns("order_id", "item_id", type_=BigInt), required_column("at", Timestamp)
)

news_threads = define_table(
    "news_threads",
    sa.Column("order_id", BigInt, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    *nullable_columns("since", type_=BigInt),
    *nullable_columns("due_at", "quiet_until", type_=Timestamp),
)

notice_refusals = define_table(
    "notice_refusals",
    sa.Column("account_id", BigInt, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    required_column("at", Timestamp),
)

automations = define_table(
    "automations",
    id_column(),
    *owner_columns(),
    *required_columns("mode", "name", "trigger"),
    *nullable_columns("mailing_list_id", type_=BigInt),
    *nullable_columns("date_field"),
    required_column("days_offset", Integer),
    *required_columns("piece", "send"),
    *nullable_columns("message_template_id", "image_template_id", type_=BigInt),
    required_column("daily_limit", Integer),
    required_column("enabled", Boolean),
    *nullable_columns("enabled_at", type_=Timestamp),
    *nullable_columns("enabled_on", type_=Date),
    required_column("next_at", Timestamp),
    required_column("tries", Integer),
    *nullable_columns("failing_since", type_=Timestamp),
    required_column("sent_count", BigInt),
    *nullable_columns("last_sent_at", type_=Timestamp),
    *nullable_columns("last_order_id", type_=BigInt),
    *nullable_columns("held_until", type_=Timestamp),
    *nullable_columns("last_error"),
    *nullable_columns("last_error_at", type_=Timestamp),
    *timestamp_columns(),
)

automation_due = define_table(
    "automation_due",
    id_column(),
    required_column("automation_id", BigInt),
    *nullable_columns("recipient_id", "item_id", type_=BigInt),
    required_column("since", Timestamp),
    *nullable_columns("year", type_=Integer),
)

automation_sent = define_table(
    "automation_sent",
    sa.Column("automation_id", BigInt, primary_key=True),
    sa.Column("person_key", Text, primary_key=True),
    sa.Column("year", Integer, primary_key=True),
    *nullable_columns("recipient_id", type_=BigInt),
    required_column("order_id", BigInt),
    required_column("at", Timestamp),
)

received_events = define_table(
    "received_events",
    id_column(),
    required_column("received_at", Timestamp),
    *required_columns("event_id", "event_type"),
    required_column("verified", Boolean),
    required_column("body", Text),
)
