"""Tables of users, apps, the audit log and erasures."""

from quillpost.core.database.tables.base import (
    BigInt,
    Boolean,
    Bytes,
    Json,
    Text,
    TextArray,
    Timestamp,
    columns,
    define_table,
    define_tenant_table,
    id_column,
    key_columns,
    timestamp_columns,
)

people = define_table(
    "people",
    id_column(),
    *columns(Text, "email", "name", "password_hash?"),
    *columns(Timestamp, "password_changed_at?", "totp_begun_at?", "totp_since?"),
    *columns(Bytes, "totp_sealed?"),
    *columns(BigInt, "totp_step?"),
    *timestamp_columns(),
)

memberships = define_tenant_table(
    "memberships", *columns(BigInt, "person_id"), *columns(Text, "role"), *columns(Timestamp, "created_at")
)

sessions = define_table(
    "sessions",
    id_column(),
    *columns(Bytes, "digest"),
    *columns(BigInt, "person_id", "membership_id?"),
    *columns(Text, "mode", "network?", "browser?"),
    *columns(Boolean, "awaits_code"),
    *columns(Timestamp, "created_at", "confirmed_at", "seen_at", "expires_at"),
)

recovery_codes = define_table(
    "recovery_codes", *key_columns(BigInt, "person_id"), *key_columns(Bytes, "digest"), *columns(Timestamp, "used_at?")
)

password_resets = define_table(
    "password_resets",
    *key_columns(Bytes, "digest"),
    *columns(BigInt, "person_id"),
    *columns(Timestamp, "created_at", "expires_at", "used_at?"),
)

invitations = define_tenant_table(
    "invitations",
    *columns(Text, "email", "role"),
    *columns(Bytes, "digest"),
    *columns(BigInt, "person_id?"),
    *columns(Timestamp, "created_at", "expires_at", "accepted_at?", "revoked_at?"),
)

oauth_clients = define_table(
    "oauth_clients",
    id_column(),
    *columns(BigInt, "account_id", "person_id?"),
    *columns(Text, "client_id", "name", "website?", "secret_hint?"),
    *columns(Boolean, "is_public"),
    *columns(Bytes, "secret_digest?"),
    *columns(TextArray, "redirect_uris", "scopes?"),
    *timestamp_columns(),
)

oauth_grants = define_tenant_table(
    "oauth_grants",
    *columns(Text, "mode", "ended_by?"),
    *columns(BigInt, "client_id", "person_id"),
    *columns(TextArray, "scopes?"),
    *columns(Timestamp, "created_at", "connected_at?", "refreshed_at?", "lapses_at?", "ended_at?"),
)

oauth_codes = define_table(
    "oauth_codes",
    *key_columns(Bytes, "digest"),
    *columns(BigInt, "grant_id"),
    *columns(Text, "redirect_uri", "challenge?"),
    *columns(TextArray, "asked?"),
    *columns(Timestamp, "created_at", "expires_at", "used_at?"),
)

refresh_tokens = define_table(
    "refresh_tokens",
    *key_columns(Bytes, "digest"),
    *columns(BigInt, "grant_id"),
    *columns(Timestamp, "created_at", "expires_at", "used_at?"),
)

audit_log = define_tenant_table(
    "audit_log",
    *columns(Text, "act", "actor", "network?"),
    *columns(BigInt, "person_id?", "token_id?"),
    *columns(Json, "about"),
    *columns(Timestamp, "at"),
)

erasures = define_tenant_table(
    "erasures",
    *columns(Text, "mode?"),
    *columns(Timestamp, "asked_at", "again_at", "done_at?"),
    *columns(Bytes, "whom_sealed?"),
    *columns(Json, "erased"),
)

erasing_pieces = define_table("erasing_pieces", *key_columns(BigInt, "item_id"), *columns(BigInt, "erasure_id"))

erasing_files = define_table("erasing_files", *key_columns(Text, "key"), *columns(Timestamp, "since"))
