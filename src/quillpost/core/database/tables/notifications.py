"""The tables of what is told: events to subscribers, scans, notices, and sends that start by themselves."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, UUID

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Date,
    Integer,
    Text,
    Timestamp,
    id_column,
    metadata,
    nullable_columns,
    owner_columns,
    required_column,
    timestamp_columns,
)

webhooks = sa.Table(
    "webhooks",
    metadata,
    id_column(),
    *owner_columns(),
    *nullable_columns("mailing_list_id", type_=BigInt),
    *(required_column(n, Text) for n in ("mode", "url", "type", "verb")),
    *nullable_columns("description"),
    required_column("secret_sealed", BYTEA()),
    required_column("status", Text),
    required_column("invoke_count", BigInt),
    *timestamp_columns(),
    *nullable_columns("previous_secret_sealed", type_=BYTEA()),
    *nullable_columns("previous_until", "failing_since", type_=Timestamp),
    *nullable_columns("last_error"),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", BigInt, server_default=sa.text("nextval('delivery_ids')"), primary_key=True),
    *owner_columns(),
    required_column("mode", Text),
    required_column("webhook_id", BigInt),
    required_column("fact_id", BigInt),
    required_column("event_id", UUID(as_uuid=True)),
    *(required_column(n, Text) for n in ("event_type", "stream")),
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

webhooks_gone = sa.Table(
    "webhooks_gone",
    metadata,
    sa.Column("webhook_id", BigInt, primary_key=True),
    sa.Column("gone_at", Timestamp, server_default=sa.func.now(), nullable=False),
)

webhook_lanes = sa.Table(
    "webhook_lanes",
    metadata,
    sa.Column("webhook_id", BigInt, primary_key=True),
    *nullable_columns("due_at", type_=Timestamp),
    required_column("woken", BigInt),
    *nullable_columns("leased_by", type_=UUID(as_uuid=True)),
    *nullable_columns("leased_until", type_=Timestamp),
    required_column("failures", Integer),
    *nullable_columns("troubled_since", "resting_until", type_=Timestamp),
)

webhook_replays = sa.Table(
    "webhook_replays",
    metadata,
    id_column(),
    required_column("webhook_id", BigInt),
    *owner_columns(),
    required_column("mode", Text),
    *(required_column(n, Timestamp) for n in ("since", "until", "reached_at")),
    required_column("reached_id", BigInt),
    required_column("told", BigInt),
)

visit_inbox = sa.Table(
    "visit_inbox",
    metadata,
    id_column(),
    required_column("item_id", BigInt),
    required_column("at", Timestamp),
    required_column("kind", Text),
    required_column("agent", Text),
)

merged_lists = sa.Table(
    "merged_lists", metadata, sa.Column("from_id", BigInt, primary_key=True), required_column("into_id", BigInt)
)

visits = sa.Table(
    "visits",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    required_column("order_id", BigInt),
    required_column("item_id", BigInt),
    *nullable_columns("mailing_list_id", type_=BigInt),
    required_column("at", Timestamp),
    required_column("kind", Text),
    required_column("agent", Text),
)

notices = sa.Table(
    "notices",
    metadata,
    id_column(),
    *owner_columns(),
    *(required_column(n, Text) for n in ("mode", "key", "kind", "channel", "address", "subject", "words", "status")),
    required_column("attempts", Integer),
    *nullable_columns("next_at", type_=Timestamp),
    *nullable_columns("error"),
    required_column("created_at", Timestamp),
    *nullable_columns("sent_at", type_=Timestamp),
    *nullable_columns("secret_sealed", type_=BYTEA()),
    *nullable_columns("ends_at", type_=Timestamp),
)

scan_news = sa.Table(
    "scan_news",
    metadata,
    id_column(),
    required_column("order_id", BigInt),
    required_column("item_id", BigInt),
    required_column("at", Timestamp),
)

news_threads = sa.Table(
    "news_threads",
    metadata,
    sa.Column("order_id", BigInt, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    *nullable_columns("since", type_=BigInt),
    *nullable_columns("due_at", "quiet_until", type_=Timestamp),
)

notice_refusals = sa.Table(
    "notice_refusals",
    metadata,
    sa.Column("account_id", BigInt, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    required_column("at", Timestamp),
)

automations = sa.Table(
    "automations",
    metadata,
    id_column(),
    *owner_columns(),
    *(required_column(n, Text) for n in ("mode", "name", "trigger")),
    *nullable_columns("mailing_list_id", type_=BigInt),
    *nullable_columns("date_field"),
    required_column("days_offset", Integer),
    required_column("piece", Text),
    required_column("send", Text),
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

automation_due = sa.Table(
    "automation_due",
    metadata,
    id_column(),
    required_column("automation_id", BigInt),
    *nullable_columns("recipient_id", "item_id", type_=BigInt),
    required_column("since", Timestamp),
    *nullable_columns("year", type_=Integer),
)

automation_sent = sa.Table(
    "automation_sent",
    metadata,
    sa.Column("automation_id", BigInt, primary_key=True),
    sa.Column("person_key", Text, primary_key=True),
    sa.Column("year", Integer, primary_key=True),
    *nullable_columns("recipient_id", type_=BigInt),
    required_column("order_id", BigInt),
    required_column("at", Timestamp),
)

received_events = sa.Table(
    "received_events",
    metadata,
    id_column(),
    required_column("received_at", Timestamp),
    required_column("event_id", Text),
    required_column("event_type", Text),
    required_column("verified", Boolean),
    required_column("body", Text),
)
