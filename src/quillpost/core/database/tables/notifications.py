"""The tables of what is told: events to subscribers, scans, notices, and sends that start by themselves."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, UUID

from quillpost.core.database.tables.base import (
    Big,
    Day,
    Flag,
    Int,
    Moment,
    Text,
    column,
    dated,
    key,
    maybe,
    metadata,
    owner,
)

webhooks = sa.Table(
    "webhooks",
    metadata,
    key(),
    *owner(),
    *maybe("mailing_list_id", kind=Big),
    *(column(n, Text) for n in ("mode", "url", "type", "verb")),
    *maybe("description"),
    column("secret_sealed", BYTEA()),
    column("status", Text),
    column("invoke_count", Big),
    *dated(),
    *maybe("previous_secret_sealed", kind=BYTEA()),
    *maybe("previous_until", "failing_since", kind=Moment),
    *maybe("last_error"),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", Big, server_default=sa.text("nextval('delivery_ids')"), primary_key=True),
    *owner(),
    column("mode", Text),
    column("webhook_id", Big),
    column("fact_id", Big),
    column("event_id", UUID(as_uuid=True)),
    *(column(n, Text) for n in ("event_type", "stream")),
    sa.Column("status", Text, primary_key=True),
    *maybe("body"),
    column("attempts", Int),
    sa.Column("extra_tries", Int, server_default=sa.text("0"), nullable=False),
    *maybe("next_at", kind=Moment),
    *maybe("response_status", kind=Int),
    *maybe("response_body", "error"),
    sa.Column("created_at", Moment, primary_key=True),
    *maybe("delivered_at", kind=Moment),
)

webhooks_gone = sa.Table(
    "webhooks_gone",
    metadata,
    sa.Column("webhook_id", Big, primary_key=True),
    sa.Column("gone_at", Moment, server_default=sa.func.now(), nullable=False),
)

webhook_lanes = sa.Table(
    "webhook_lanes",
    metadata,
    sa.Column("webhook_id", Big, primary_key=True),
    *maybe("due_at", kind=Moment),
    column("woken", Big),
    *maybe("leased_by", kind=UUID(as_uuid=True)),
    *maybe("leased_until", kind=Moment),
    column("failures", Int),
    *maybe("troubled_since", "resting_until", kind=Moment),
)

webhook_replays = sa.Table(
    "webhook_replays",
    metadata,
    key(),
    column("webhook_id", Big),
    *owner(),
    column("mode", Text),
    *(column(n, Moment) for n in ("since", "until", "reached_at")),
    column("reached_id", Big),
    column("told", Big),
)

visit_inbox = sa.Table(
    "visit_inbox",
    metadata,
    key(),
    column("item_id", Big),
    column("at", Moment),
    column("kind", Text),
    column("agent", Text),
)

merged_lists = sa.Table(
    "merged_lists",
    metadata,
    sa.Column("from_id", Big, primary_key=True),
    column("into_id", Big),
)

visits = sa.Table(
    "visits",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    column("order_id", Big),
    column("item_id", Big),
    *maybe("mailing_list_id", kind=Big),
    column("at", Moment),
    column("kind", Text),
    column("agent", Text),
)

notices = sa.Table(
    "notices",
    metadata,
    key(),
    *owner(),
    *(column(n, Text) for n in ("mode", "key", "kind", "channel", "address", "subject", "words", "status")),
    column("attempts", Int),
    *maybe("next_at", kind=Moment),
    *maybe("error"),
    column("created_at", Moment),
    *maybe("sent_at", kind=Moment),
    *maybe("secret_sealed", kind=BYTEA()),
    *maybe("ends_at", kind=Moment),
)

scan_news = sa.Table(
    "scan_news",
    metadata,
    key(),
    column("order_id", Big),
    column("item_id", Big),
    column("at", Moment),
)

news_threads = sa.Table(
    "news_threads",
    metadata,
    sa.Column("order_id", Big, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    *maybe("since", kind=Big),
    *maybe("due_at", "quiet_until", kind=Moment),
)

notice_refusals = sa.Table(
    "notice_refusals",
    metadata,
    sa.Column("account_id", Big, primary_key=True),
    sa.Column("address", Text, primary_key=True),
    column("at", Moment),
)

automations = sa.Table(
    "automations",
    metadata,
    key(),
    *owner(),
    *(column(n, Text) for n in ("mode", "name", "trigger")),
    *maybe("mailing_list_id", kind=Big),
    *maybe("date_field"),
    column("days_offset", Int),
    column("piece", Text),
    column("send", Text),
    *maybe("message_template_id", "image_template_id", kind=Big),
    column("daily_limit", Int),
    column("enabled", Flag),
    *maybe("enabled_at", kind=Moment),
    *maybe("enabled_on", kind=Day),
    column("next_at", Moment),
    column("tries", Int),
    *maybe("failing_since", kind=Moment),
    column("sent_count", Big),
    *maybe("last_sent_at", kind=Moment),
    *maybe("last_order_id", kind=Big),
    *maybe("held_until", kind=Moment),
    *maybe("last_error"),
    *maybe("last_error_at", kind=Moment),
    *dated(),
)

automation_due = sa.Table(
    "automation_due",
    metadata,
    key(),
    column("automation_id", Big),
    *maybe("recipient_id", "item_id", kind=Big),
    column("since", Moment),
    *maybe("year", kind=Int),
)

automation_sent = sa.Table(
    "automation_sent",
    metadata,
    sa.Column("automation_id", Big, primary_key=True),
    sa.Column("person_key", Text, primary_key=True),
    sa.Column("year", Int, primary_key=True),
    *maybe("recipient_id", kind=Big),
    column("order_id", Big),
    column("at", Moment),
)

received_events = sa.Table(
    "received_events",
    metadata,
    key(),
    column("received_at", Moment),
    column("event_id", Text),
    column("event_type", Text),
    column("verified", Flag),
    column("body", Text),
)
