"""Tables of users, apps, the audit log and erasures."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Text,
    Timestamp,
    id_column,
    metadata,
    nullable_columns,
    owner_columns,
    required_column,
    timestamp_columns,
)

people = sa.Table(
    "people",
    metadata,
    id_column(),
    required_column("email", Text),
    required_column("name", Text),
    *nullable_columns("password_hash"),
    *nullable_columns("password_changed_at", type_=Timestamp),
    *nullable_columns("totp_sealed", type_=BYTEA()),
    *nullable_columns("totp_begun_at", "totp_since", type_=Timestamp),
    *nullable_columns("totp_step", type_=BigInt),
    *timestamp_columns(),
)

memberships = sa.Table(
    "memberships",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("person_id", BigInt),
    required_column("role", Text),
    required_column("created_at", Timestamp),
)

sessions = sa.Table(
    "sessions",
    metadata,
    id_column(),
    required_column("digest", BYTEA()),
    required_column("person_id", BigInt),
    *nullable_columns("membership_id", type_=BigInt),
    required_column("mode", Text),
    required_column("awaits_code", Boolean),
    *nullable_columns("network", "browser"),
    *(required_column(name, Timestamp) for name in ("created_at", "confirmed_at", "seen_at", "expires_at")),
)

recovery_codes = sa.Table(
    "recovery_codes",
    metadata,
    sa.Column("person_id", BigInt, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    *nullable_columns("used_at", type_=Timestamp),
)

password_resets = sa.Table(
    "password_resets",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("person_id", BigInt),
    required_column("created_at", Timestamp),
    required_column("expires_at", Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

invitations = sa.Table(
    "invitations",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("email", Text),
    required_column("role", Text),
    required_column("digest", BYTEA()),
    *nullable_columns("person_id", type_=BigInt),
    required_column("created_at", Timestamp),
    required_column("expires_at", Timestamp),
    *nullable_columns("accepted_at", "revoked_at", type_=Timestamp),
)

oauth_clients = sa.Table(
    "oauth_clients",
    metadata,
    id_column(),
    required_column("account_id", BigInt),
    required_column("client_id", Text),
    required_column("name", Text),
    *nullable_columns("website"),
    required_column("is_public", Boolean),
    *nullable_columns("secret_digest", type_=BYTEA()),
    *nullable_columns("secret_hint"),
    required_column("redirect_uris", ARRAY(sa.Text())),
    *nullable_columns("scopes", type_=ARRAY(sa.Text())),
    *nullable_columns("person_id", type_=BigInt),
    *timestamp_columns(),
)

oauth_grants = sa.Table(
    "oauth_grants",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    required_column("client_id", BigInt),
    required_column("person_id", BigInt),
    *nullable_columns("scopes", type_=ARRAY(sa.Text())),
    required_column("created_at", Timestamp),
    *nullable_columns("connected_at", "refreshed_at", "lapses_at", "ended_at", type_=Timestamp),
    *nullable_columns("ended_by"),
)

oauth_codes = sa.Table(
    "oauth_codes",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("grant_id", BigInt),
    required_column("redirect_uri", Text),
    *nullable_columns("challenge"),
    *nullable_columns("asked", type_=ARRAY(sa.Text())),
    required_column("created_at", Timestamp),
    required_column("expires_at", Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

refresh_tokens = sa.Table(
    "refresh_tokens",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("grant_id", BigInt),
    required_column("created_at", Timestamp),
    required_column("expires_at", Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    id_column(),
    *owner_columns(),
    required_column("act", Text),
    required_column("actor", Text),
    *nullable_columns("person_id", "token_id", type_=BigInt),
    required_column("about", JSONB()),
    *nullable_columns("network"),
    required_column("at", Timestamp),
)


erasures = sa.Table(
    "erasures",
    metadata,
    id_column(),
    *owner_columns(),
    *nullable_columns("mode"),
    required_column("asked_at", Timestamp),
    required_column("again_at", Timestamp),
    *nullable_columns("whom_sealed", type_=BYTEA()),
    *nullable_columns("done_at", type_=Timestamp),
    required_column("erased", JSONB()),
)

erasing_pieces = sa.Table(
    "erasing_pieces", metadata, sa.Column("item_id", BigInt, primary_key=True), required_column("erasure_id", BigInt)
)

erasing_files = sa.Table(
    "erasing_files", metadata, sa.Column("key", Text, primary_key=True), required_column("since", Timestamp)
)
