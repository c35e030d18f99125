"""`Idempotency-Key`: the same call made twice has one effect and the same answer. See decision 0058."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant, response_encryption_context
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import idempotency_keys
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Conflict, Invalid

RETENTION = timedelta(hours=24)
SECRET_RETENTION = timedelta(minutes=10)
MAX_KEY_LENGTH = 255
MAX_PATH_LENGTH = 500
UNSTORED_STATUSES = frozenset({401, 402, 409, 429})
STORED_HEADERS = ("x-ignored-fields", "x-warnings")
HOLDS_SECRET_HEADER = "x-holds-secret"
"""An answer marks itself with this header, which never leaves the house, when it must be kept sealed."""

RETRY_AFTER_SECONDS = 1

STORE_RESPONSE = sa.text(
    """
    insert into idempotency_keys as k (account_id, mode, path, key, request_digest, answer_status,
                                       answer_type, answer_headers, answer_body, sealed, expires_at)
    values (:account, :mode, :path, :key, :digest, :status, :type, cast(:headers as jsonb), :body, :sealed,
            :expires)
    on conflict (account_id, mode, path, key) do update
       set request_digest = excluded.request_digest, answer_status = excluded.answer_status,
           answer_type = excluded.answer_type, answer_headers = excluded.answer_headers,
           answer_body = excluded.answer_body, sealed = excluded.sealed, expires_at = excluded.expires_at
     where k.expires_at < :now
    """
)


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    caller: Caller
    path: str
    key: str
    digest: bytes

    @property
    def context(self) -> str:
        return response_encryption_context(self.caller.account_id, self.path, self.key)

    @property
    def row_filter(self) -> sa.ColumnElement[bool]:
        return sa.and_(
            idempotency_keys.c.account_id == self.caller.account_id,
            idempotency_keys.c.mode == self.caller.mode,
            idempotency_keys.c.path == self.path,
            idempotency_keys.c.key == self.key,
        )


def create_claim(caller: Caller, path: str, key: str, body: bytes) -> IdempotencyClaim:
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise Invalid({"Idempotency-Key": [f"1 to {MAX_KEY_LENGTH} printable characters, please."]})
    # Only a caller who may see and do the same is given an earlier answer.
    scopes = "*" if caller.scopes is None else ",".join(sorted(caller.scopes))
    claim_path = f"{caller.sub_account_id or '*'} {scopes} {_to_storable_path(path)}"
    return IdempotencyClaim(caller, claim_path, key, hashlib.sha256(body).digest())


def _to_storable_path(path: str) -> str:
    """A path may be as long and as odd as its sender likes; what is kept of it may not."""
    quoted = quote(path)
    return quoted if len(quoted) <= MAX_PATH_LENGTH else hashlib.sha256(quoted.encode()).hexdigest()


class IdempotencyLock:
    """One call's hold on its key, from before it runs until after it has had its effect."""

    def __init__(self, db: Database, claim: IdempotencyClaim) -> None:
        self._db = db
        self._claim = claim
        self.name = f"{claim.context}:{claim.caller.mode}"
        self.is_held = False

    def acquire(self, encryptor: Encryptor, *, now: datetime) -> Response | None:
        """The first call's answer, or None when this is the first call; `Conflict` in between."""
        self.is_held = self._db.locks.acquire(self.name)
        if not self.is_held:
            raise Conflict("The first call with this Idempotency-Key still runs.", retry_after=RETRY_AFTER_SECONDS)
        return find_stored_response(self._db, encryptor, self._claim, now=now)

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            self._db.locks.release(self.name)


def find_stored_response(
    db: Database, encryptor: Encryptor, claim: IdempotencyClaim, *, now: datetime
) -> Response | None:
    with db.transaction(build_tenant(claim.caller)) as tx:
        row = tx.execute(
            sa.select(idempotency_keys).where(claim.row_filter, idempotency_keys.c.expires_at >= now)
        ).first()
    if row is None:
        return None
    if bytes(row.request_digest) != claim.digest:
        raise Conflict("This Idempotency-Key was used with another body.")
    body, headers = bytes(row.answer_body), dict(row.answer_headers)
    if row.sealed:
        body, headers = encryptor.decrypt(body, context=claim.context), headers | {HOLDS_SECRET_HEADER: "yes"}
    return Response(body, row.answer_status, headers=headers, media_type=row.answer_type)


def store_response(tx: Tx, encryptor: Encryptor, claim: IdempotencyClaim, response: Response, *, now: datetime) -> None:
    """Store the answer; one with a secret is encrypted, and kept for minutes. `Conflict` if another call was faster."""
    has_secret = response.headers.get(HOLDS_SECRET_HEADER) is not None
    body = bytes(response.body)
    result = tx.execute(
        STORE_RESPONSE,
        {
            "account": claim.caller.account_id,
            "mode": claim.caller.mode,
            "path": claim.path,
            "key": claim.key,
            "digest": claim.digest,
            "status": response.status_code,
            "type": response.media_type,
            "headers": json.dumps({n: response.headers[n] for n in STORED_HEADERS if n in response.headers}),
            "body": encryptor.encrypt(body, context=claim.context) if has_secret else body,
            "sealed": has_secret,
            "expires": now + (SECRET_RETENTION if has_secret else RETENTION),
            "now": now,
        },
    )
    if result.rowcount == 0:
        raise Conflict("Another call with this Idempotency-Key was faster.", retry_after=1)


def is_stored(status: int) -> bool:
    return status < 500 and status not in UNSTORED_STATUSES
