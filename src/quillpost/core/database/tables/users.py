"""The tables of people who sign in, of the apps that act for accounts, and of what was done."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from quillpost.core.database.tables.base import (
    Big,
    Flag,
    Moment,
    Text,
    column,
    dated,
    key,
    maybe,
    metadata,
    owner,
)

people = sa.Table(
    "people",
    metadata,
    key(),
    column("email", Text),
    column("name", Text),
    *maybe("password_hash"),
    *maybe("password_changed_at", kind=Moment),
    *maybe("totp_sealed", kind=BYTEA()),
    *maybe("totp_begun_at", "totp_since", kind=Moment),
    *maybe("totp_step", kind=Big),
    *dated(),
)

memberships = sa.Table(
    "memberships",
    metadata,
    key(),
    *owner(),
    column("person_id", Big),
    column("role", Text),
    column("created_at", Moment),
)

sessions = sa.Table(
    "sessions",
    metadata,
    key(),
    column("digest", BYTEA()),
    column("person_id", Big),
    *maybe("membership_id", kind=Big),
    column("mode", Text),
    column("awaits_code", Flag),
    *maybe("network", "browser"),
    *(column(name, Moment) for name in ("created_at", "confirmed_at", "seen_at", "expires_at")),
)

recovery_codes = sa.Table(
    "recovery_codes",
    metadata,
    sa.Column("person_id", Big, primary_key=True),
    sa.Column("digest", BYTEA(), primary_key=True),
    *maybe("used_at", kind=Moment),
)

password_resets = sa.Table(
    "password_resets",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    column("person_id", Big),
    column("created_at", Moment),
    column("expires_at", Moment),
    *maybe("used_at", kind=Moment),
)

invitations = sa.Table(
    "invitations",
    metadata,
    key(),
    *owner(),
    column("email", Text),
    column("role", Text),
    column("digest", BYTEA()),
    *maybe("person_id", kind=Big),
    column("created_at", Moment),
    column("expires_at", Moment),
    *maybe("accepted_at", "revoked_at", kind=Moment),
)

oauth_clients = sa.Table(
    "oauth_clients",
    metadata,
    key(),
    column("account_id", Big),
    column("client_id", Text),
    column("name", Text),
    *maybe("website"),
    column("is_public", Flag),
    *maybe("secret_digest", kind=BYTEA()),
    *maybe("secret_hint"),
    column("redirect_uris", ARRAY(sa.Text())),
    *maybe("scopes", kind=ARRAY(sa.Text())),
    *maybe("person_id", kind=Big),
    *dated(),
)

oauth_grants = sa.Table(
    "oauth_grants",
    metadata,
    key(),
    *owner(),
    column("mode", Text),
    column("client_id", Big),
    column("person_id", Big),
    *maybe("scopes", kind=ARRAY(sa.Text())),
    column("created_at", Moment),
    *maybe("connected_at", "refreshed_at", "lapses_at", "ended_at", kind=Moment),
    *maybe("ended_by"),
)

oauth_codes = sa.Table(
    "oauth_codes",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    column("grant_id", Big),
    column("redirect_uri", Text),
    *maybe("challenge"),
    *maybe("asked", kind=ARRAY(sa.Text())),
    column("created_at", Moment),
    column("expires_at", Moment),
    *maybe("used_at", kind=Moment),
)

refresh_tokens = sa.Table(
    "refresh_tokens",
    metadata,
    sa.Column("digest", BYTEA(), primary_key=True),
    column("grant_id", Big),
    column("created_at", Moment),
    column("expires_at", Moment),
    *maybe("used_at", kind=Moment),
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    key(),
    *owner(),
    column("act", Text),
    column("actor", Text),
    *maybe("person_id", "token_id", kind=Big),
    column("about", JSONB()),
    *maybe("network"),
    column("at", Moment),
)
