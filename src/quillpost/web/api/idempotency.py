"""`Idempotency-Key`: the same call made twice happens once and is answered twice.

The answer is kept in the very transaction that has the effect, under a key that is there once: of two calls
that run at the same time all the same, one has an effect. So that they do not, a call holds its key by a lock
of the process's database session while it runs. A process that dies, or loses its database, holds nothing.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import answer_context, tenant
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import idempotency_keys as keys
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Conflict, Invalid

KEPT = timedelta(hours=24)
KEPT_SECRET = timedelta(minutes=10)
LONGEST_KEY = 255
LONGEST_PATH = 500
NOT_KEPT = frozenset({401, 402, 409, 429})
HEADERS_KEPT = ("x-ignored-fields", "x-warnings")
HOLDS_SECRET = "x-holds-secret"  # noqa: S105
"""An answer marks itself with this header, which never leaves the house, when it must be kept sealed."""

STILL_RUNS_SECONDS = 1

KEEP = sa.text(
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
class Claim:
    who: Caller
    path: str
    key: str
    digest: bytes

    @property
    def context(self) -> str:
        return answer_context(self.who.account_id, self.path, self.key)

    @property
    def where(self) -> sa.ColumnElement[bool]:
        return sa.and_(
            keys.c.account_id == self.who.account_id,
            keys.c.mode == self.who.mode,
            keys.c.path == self.path,
            keys.c.key == self.key,
        )


def make_claim(who: Caller, path: str, key: str, body: bytes) -> Claim:
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise Invalid({"Idempotency-Key": [f"1 to {LONGEST_KEY} printable characters, please."]})
    # Only a caller who may see and do the same is given an earlier answer.
    scopes = "*" if who.scopes is None else ",".join(sorted(who.scopes))
    place = f"{who.sub_account_id or '*'} {scopes} {_storable(path)}"
    return Claim(who, place, key, hashlib.sha256(body).digest())


def _storable(path: str) -> str:
    """A path may be as long and as odd as its sender likes; what is kept of it may not."""
    spelled = quote(path)
    return spelled if len(spelled) <= LONGEST_PATH else hashlib.sha256(spelled.encode()).hexdigest()


class Hold:
    """One call's hold on its key, from before it runs until after it has had its effect."""

    def __init__(self, db: Database, claim: Claim) -> None:
        self._db = db
        self._claim = claim
        self.name = f"{claim.context}:{claim.who.mode}"
        self.is_held = False

    def take(self, sealer: Sealer, *, now: datetime) -> Response | None:
        """The first call's answer, or None when this is the first call; `Conflict` in between."""
        self.is_held = self._db.locks.acquire(self.name)
        if not self.is_held:
            raise Conflict(
                "The first call with this Idempotency-Key still runs.", retry_after=STILL_RUNS_SECONDS
            )
        return find_answer(self._db, sealer, self._claim, now=now)

    def end(self) -> None:
        """The key is free again, or answered."""
        if self.is_held:
            self.is_held = False
            self._db.locks.release(self.name)


def find_answer(db: Database, sealer: Sealer, claim: Claim, *, now: datetime) -> Response | None:
    """What was answered to an earlier call with this key and body."""
    with db.transaction(tenant(claim.who)) as tx:
        row = tx.execute(sa.select(keys).where(claim.where, keys.c.expires_at >= now)).first()
    if row is None:
        return None
    if bytes(row.request_digest) != claim.digest:
        raise Conflict("This Idempotency-Key was used with another body.")
    body, headers = bytes(row.answer_body), dict(row.answer_headers)
    if row.sealed:
        body, headers = sealer.open(body, context=claim.context), headers | {HOLDS_SECRET: "yes"}
    return Response(body, row.answer_status, headers=headers, media_type=row.answer_type)


def keep(tx: Tx, sealer: Sealer, claim: Claim, response: Response, *, now: datetime) -> None:
    """Keep the answer; one that holds a secret is sealed and soon forgotten.

    Whoever finds that another call has answered meanwhile must not have an effect too.
    """
    secret = response.headers.get(HOLDS_SECRET) is not None
    body = bytes(response.body)
    kept = tx.execute(
        KEEP,
        {
            "account": claim.who.account_id,
            "mode": claim.who.mode,
            "path": claim.path,
            "key": claim.key,
            "digest": claim.digest,
            "status": response.status_code,
            "type": response.media_type,
            "headers": json.dumps({n: response.headers[n] for n in HEADERS_KEPT if n in response.headers}),
            "body": sealer.seal(body, context=claim.context) if secret else body,
            "sealed": secret,
            "expires": now + (KEPT_SECRET if secret else KEPT),
            "now": now,
        },
    )
    if kept.rowcount == 0:
        raise Conflict("Another call with this Idempotency-Key was faster.", retry_after=1)


def is_kept(status: int) -> bool:
    return status < 500 and status not in NOT_KEPT
