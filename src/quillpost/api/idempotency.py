"""`Idempotency-Key`: the same call made twice happens once and is answered twice.

The claim is committed first; the answer is kept in the very transaction that has the effect. A crash in
between leaves a claim whose lease runs out, and no effect: the next call starts anew.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.database import Database, Tx
from quillpost.database.tables import idempotency_keys as keys
from quillpost.kit.errors import Conflict, Invalid
from quillpost.kit.sealing import Sealer

KEPT = timedelta(hours=24)
KEPT_SECRET = timedelta(minutes=10)
LEASE = timedelta(seconds=90)
LONGEST_KEY = 255
LONGEST_PATH = 500
NOT_KEPT = frozenset({401, 402, 409, 429})
HEADERS_KEPT = ("x-ignored-fields", "x-warnings")
HOLDS_SECRET = "x-holds-secret"  # noqa: S105
"""An answer marks itself with this header, which never leaves the house, when it must be kept sealed."""

CLAIM = sa.text(
    """
    insert into idempotency_keys as k (account_id, mode, path, key, request_digest, leased_until, expires_at)
    values (:account, :mode, :path, :key, :digest, :lease, :expires)
    on conflict (account_id, mode, path, key) do update
       set request_digest = excluded.request_digest, leased_until = excluded.leased_until,
           expires_at = excluded.expires_at, answer_status = null
     where k.expires_at < :now
        or (k.answer_status is null and k.leased_until < :now and k.request_digest = excluded.request_digest)
    returning 1
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


def answer_context(account_id: int, path: str, key: str) -> str:
    """What a secret answer is sealed for."""
    return f"idempotency:{account_id}:{path}:{key}"


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


def take(db: Database, sealer: Sealer, claim: Claim, *, now: datetime) -> Response | None:
    """The first call's answer, or None when this is the first call; `Conflict` in between."""
    with db.transaction(tenant(claim.who)) as tx:
        won = tx.execute(
            CLAIM,
            {
                "account": claim.who.account_id,
                "mode": claim.who.mode,
                "path": claim.path,
                "key": claim.key,
                "digest": claim.digest,
                "lease": now + LEASE,
                "expires": now + KEPT,
                "now": now,
            },
        ).first()
        if won is not None:
            return None
        row = tx.execute(sa.select(keys).where(claim.where)).one()
    if bytes(row.request_digest) != claim.digest:
        raise Conflict("This Idempotency-Key was used with another body.")
    if row.answer_status is None:
        wait = max(1, int((row.leased_until - now).total_seconds()))
        raise Conflict("The first call with this Idempotency-Key still runs.", retry_after=min(wait, 5))
    body, headers = bytes(row.answer_body), dict(row.answer_headers)
    if row.sealed:
        body, headers = sealer.open(body, context=claim.context), headers | {HOLDS_SECRET: "yes"}
    return Response(body, row.answer_status, headers=headers, media_type=row.answer_type)


def keep(tx: Tx, sealer: Sealer, claim: Claim, response: Response, *, now: datetime) -> None:
    """Keep the answer; one that holds a secret is sealed and soon forgotten.

    A call that outlived its lease finds that another has answered: it must not have an effect too.
    """
    secret = response.headers.get(HOLDS_SECRET) is not None
    body = bytes(response.body)
    kept = tx.execute(
        sa.update(keys)
        .where(claim.where, keys.c.answer_status.is_(None))
        .values(
            answer_status=response.status_code,
            answer_type=response.media_type,
            answer_headers={n: response.headers[n] for n in HEADERS_KEPT if n in response.headers},
            answer_body=sealer.seal(body, context=claim.context) if secret else body,
            sealed=secret,
            expires_at=now + (KEPT_SECRET if secret else KEPT),
        )
    )
    if kept.rowcount == 0:
        raise Conflict("Another call with this Idempotency-Key was faster.", retry_after=1)


def give_back(tx: Tx, claim: Claim) -> None:
    """The call came to nothing that should be kept: the key is free again."""
    tx.execute(sa.delete(keys).where(claim.where, keys.c.answer_status.is_(None)))


def is_kept(status: int) -> bool:
    return status < 500 and status not in NOT_KEPT
