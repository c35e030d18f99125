"""What of a send is recognising its caller: our gate, against one that knows the caller already, in turns."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from authlib.oauth2 import ResourceProtector
from authlib.oauth2.rfc6750 import BearerTokenValidator
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from benchmarks.harness import machine
from benchmarks.send.bodies import Bodies
from benchmarks.send.contest import interleaved_medians, milliseconds
from benchmarks.send.meter import Meter
from benchmarks.send.service import Service
from quillpost.accounts.models import Caller, RateLimitStatus
from quillpost.core import tokens
from quillpost.core.database import Database
from quillpost.web.middleware.auth import AuthMiddleware

OURS = "our gate"
AUTHLIB = "Authlib's ResourceProtector, a look-up and a count"
LIMIT = "a gate that knows the caller"
MOST = 0.15

_ROUNDS, _CALLS_A_ROUND, _WARM_UP = 60, 10, 30
_WINDOW = 60

_FIND = sa.text(
    """
    select t.id, t.account_id, t.sub_account_id, t.mode, t.scopes, t.expires_at, t.revoked_at,
           t.person_id, t.grant_id, a.is_operator
      from tokens t join accounts a on a.id = t.account_id where t.digest = :digest
    """
)
_USED = sa.text(
    """
    update tokens set last_used_at = :now
     where id = :id and (last_used_at is null or last_used_at < :now - interval '1 minute')
    """
)
_COUNT = sa.text("select * from count_call(:key, :seconds)")

Admit = Callable[[AuthMiddleware, Scope], Awaitable[RateLimitStatus]]


def run() -> dict[str, Any]:
    service = Service()
    ours = AuthMiddleware._authenticate
    try:
        meter, bodies = Meter(service.conninfo), Bodies(service)
        contenders: dict[str, Callable[[], object]] = {
            name: _sending(service, bodies, admit)
            for name, admit in {OURS: ours, AUTHLIB: _by_authlib(service), LIMIT: _known(service)}.items()
        }
        for call in contenders.values():
            for _ in range(_WARM_UP):
                call()
        spent = interleaved_medians(meter, contenders, rounds=_ROUNDS, calls=_CALLS_A_ROUND)
    finally:
        AuthMiddleware._authenticate = ours  # type: ignore[method-assign]
        service.close()
    return _summarized(spent)


def show(result: dict[str, Any]) -> None:
    print(f"\n{result['name']}: {result['unit']}. {result['machine']}\n")
    print(f"  {'POST /send/postcard behind':56}{'ms':>8}{'python':>10}{'postgres':>10}{'of it':>8}")
    for name, spent in result["spent"].items():
        share = result["shares"].get(name)
        share_text = "" if share is None else f"{share:.1%}"
        total = milliseconds(spent)
        print(f"  {name:56}{total:>8.2f}{spent['python']:>10.2f}{spent['postgres']:>10.2f}{share_text:>8}")
    claim = result["claims"][0]
    print(f"\n  {'yes' if claim['holds'] else 'NO':>3}  {claim['claim']}: {claim['measured']}")


def _summarized(spent: dict[str, Any]) -> dict[str, Any]:
    total = {name: milliseconds(each) for name, each in spent.items()}
    shares = {name: round(1 - total[LIMIT] / total[name], 4) for name in (OURS, AUTHLIB)}
    return {
        "name": "admission",
        "unit": "milliseconds of processor time a send: this process (all threads) and PostgreSQL",
        "machine": machine(),
        "spent": spent,
        "shares": shares,
        "ratios": {
            "of a send whose caller is known": round(total[OURS] / total[LIMIT], 3),
            "of recognising by Authlib": round(
                (total[OURS] - total[LIMIT]) / max(total[AUTHLIB] - total[LIMIT], 0.001), 2
            ),
        },
        "claims": [
            {
                "claim": f"recognising the caller, revoked at once, costs at most {MOST:.0%} of a send",
                "measured": f"{shares[OURS]:.1%}",
                "holds": shares[OURS] <= MOST,
            }
        ],
    }


def _sending(service: Service, bodies: Bodies, admit: Admit) -> Callable[[], object]:
    def send() -> bytes:
        AuthMiddleware._authenticate = admit  # type: ignore[method-assign,assignment]
        return service.post("/send/postcard", bodies.to(1))

    return send


def _known(service: Service) -> Admit:
    """The least that a gate can do: it has looked before, and would not notice that a token is revoked."""
    with service.parts.db.system_transaction() as tx:
        row = tx.execute(sa.text("select id, account_id from tokens")).one()
    caller, allowance = Caller(row.account_id, "test", token_id=row.id), RateLimitStatus(10**9, 1, _WINDOW)

    async def admit(_gate: AuthMiddleware, scope: Scope) -> RateLimitStatus:
        scope["state"]["caller"], scope["state"]["allowance"] = caller, allowance
        return allowance

    return admit


@dataclass
class _Token:
    """As Authlib wants one."""

    row: Any
    now: datetime

    def is_expired(self) -> bool:
        return self.row.expires_at is not None and self.row.expires_at <= self.now

    def is_revoked(self) -> bool:
        return self.row.revoked_at is not None

    def get_scope(self) -> str:
        return " ".join(self.row.scopes or ())


@dataclass
class _Request:
    headers: Headers


class _Validator(BearerTokenValidator):  # type: ignore[misc]
    def __init__(self, db: Database, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._db, self._now = db, now

    def authenticate_token(self, token_string: str) -> _Token | None:
        with self._db.system_transaction() as tx:
            row = tx.execute(_FIND, {"digest": tokens.hash_token(token_string)}).first()
        return None if row is None else _Token(row, self._now())


def _by_authlib(service: Service) -> Admit:
    """As its documents have it: a validator that looks the token up; then the call is counted, and noted."""
    db, clock = service.parts.db, service.parts.clock
    protector = ResourceProtector()
    protector.register_token_validator(_Validator(db, clock))

    def recognise(headers: Headers) -> tuple[Caller, RateLimitStatus]:
        row = protector.validate_request(None, _Request(headers)).row
        with db.system_transaction() as tx:
            tx.execute(_USED, {"id": row.id, "now": clock()})
            used = tx.execute(_COUNT, {"key": f"token:{row.id}", "seconds": _WINDOW}).one()
        caller = Caller(row.account_id, row.mode, row.sub_account_id, row.id)
        return caller, RateLimitStatus(10**9, used.used, used.resets_in)

    async def admit(_gate: AuthMiddleware, scope: Scope) -> RateLimitStatus:
        caller, allowance = await run_in_threadpool(recognise, Headers(scope=scope))
        scope["state"]["caller"], scope["state"]["allowance"] = caller, allowance
        return allowance

    return admit
