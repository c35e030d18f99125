"""Where every token comes from, whoever uses it: a person's program, a connected app, or a page of ours."""

import secrets
from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa

from quillpost.core import tokens as token_format
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import tokens

TOKEN_BYTES = 24


def insert_token(
    tx: Tx,
    account_id: int,
    *,
    name: str,
    mode: str,
    scopes: Iterable[str] | None,
    sub_account_id: int | None = None,
    person_id: int | None = None,
    grant_id: int | None = None,
    session_id: int | None = None,
    expires_at: datetime | None = None,
    now: datetime,
) -> tuple[int, str]:
    """A new token's id and the token itself, readable here and never again: only its digest is kept, and the
    last letters by which its owner tells it. Everything is taken as good: whoever calls has looked at it."""
    token = token_format.mint_secret("live" if mode == "live" else "test", secrets.token_bytes(TOKEN_BYTES))
    result = tx.execute(
        sa.insert(tokens)
        .values(
            account_id=account_id,
            sub_account_id=sub_account_id,
            name=name,
            mode=mode,
            digest=token_format.hash_token(token),
            hint=token_format.secret_hint(token),
            scopes=None if scopes is None else list(scopes),
            person_id=person_id,
            grant_id=grant_id,
            session_id=session_id,
            created_at=now,
            expires_at=expires_at,
        )
        .returning(tokens.c.id)
    )
    return int(result.scalar_one()), token
