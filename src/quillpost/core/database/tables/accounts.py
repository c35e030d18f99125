"""Tables of users, apps, the audit log and erasures."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
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

people = define_table(
    "people",
    id_column(),
    *required_columns("email", "name"),
    *nullable_columns("password_hash"),
    *nullable_columns("password_changed_at", type_=Timestamp),
    *nullable_columns("totp_sealed", type_=BYTEA()),
    *nullable_columns("totp_begun_at", "totp_since", type_=Timestamp),
    *nullable_columns("totp_step", type_=BigInt),
    *timestamp_columns(),
)

memberships = define_table(
    "memberships",
    id_column(),
    *owner_columns(),
    required_column("person_id", BigInt),
    required_column("role", Text),
    required_column("created_at", Timestamp),
)

sessions = define_table(
    "sessions",
    id_column(),
    required_column("digest", BYTEA()),
    required_column("person_id", BigInt),
    *nullable_columns("membership_id", type_=BigInt),
    required_column("mode", Text),
    required_column("awaits_code", Boolean),
    *nullable_columns("network", "browser"),
    *required_columns("created_at", "confirmed_at", "seen_at", "expires_at", type_=Timestamp),
)

recovery_codes = define_table(
    "recovery_codes",
    sa.Column("person_id", BigInt, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    *nullable_columns("used_at", type_=Timestamp),
)

password_resets = define_table(
    "password_resets",
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("person_id", BigInt),
    *required_columns("created_at", "expires_at", type_=Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

invitations = define_table(
    "invitations",
    id_column(),
    *owner_columns(),
    *required_columns("email", "role"),
    required_column("digest", BYTEA()),
    *nullable_columns("person_id", type_=BigInt),
    *required_columns("created_at", "expires_at", type_=Timestamp),
    *nullable_columns("accepted_at", "revoked_at", type_=Timestamp),
)

oauth_clients = define_table(
    "oauth_clients",
    id_column(),
    required_column("account_id", BigInt),
    *required_columns("client_id", "name"),
    *nullable_columns("website"),
    required_column("is_public", Boolean),
    *nullable_columns("secret_digest", type_=BYTEA()),
    *nullable_columns("secret_hint"),
    required_column("redirect_uris", ARRAY(sa.Text())),
    *nullable_columns("scopes", type_=ARRAY(sa.Text())),
    *nullable_columns("person_id", type_=BigInt),
    *timestamp_columns(),
)

oauth_grants = define_table(
    "oauth_grants",
    id_column(),
    *owner_columns(),
    required_column("mode", Text),
    *required_columns("client_id", "person_id", type_=BigInt),
    *nullable_columns("scopes", type_=ARRAY(sa.Text())),
    required_column("created_at", Timestamp),
    *nullable_columns("connected_at", "refreshed_at", "lapses_at", "ended_at", type_=Timestamp),
    *nullable_columns("ended_by"),
)

oauth_codes = define_table(
    "oauth_codes",
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("grant_id", BigInt),
    required_column("redirect_uri", Text),
    *nullable_columns("challenge"),
    *nullable_columns("asked", type_=ARRAY(sa.Text())),
    *required_columns("created_at", "expires_at", type_=Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

refresh_tokens = define_table(
    "refresh_tokens",
    sa.Column("digest", BYTEA(), primary_key=True),
    required_column("grant_id", BigInt),
    *required_columns("created_at", "expires_at", type_=Timestamp),
    *nullable_columns("used_at", type_=Timestamp),
)

audit_log = define_table(
    "audit_log",
    id_column(),
    *owner_columns(),
    *required_columns("act", "actor"),
    *nullable_columns("person_id", "token_id", type_=BigInt),
    required_column("about", JSONB()),
    *nullable_columns("network"),
    required_column("at", Timestamp),
)


erasures = define_table(
    "erasures",
    id_column(),
    *owner_columns(),
    *nullable_columns("mode"),
    *required_columns("asked_at", "again_at", type_=Timestamp),
    *nullable_columns("whom_sealed", type_=BYTEA()),
    *nullable_columns("done_at", type_=Timestamp),
    required_column("erased", JSONB()),
)

erasing_pieces = define_table(
    "erasing_pieces", sa.Column("item_id", BigInt, primary_key=True), required_column("erasure_id", BigInt)
)

erasing_files = define_table(
    "erasing_files", sa.Column("key", Text, primary_key=True), required_column("since", Timestamp)
)
