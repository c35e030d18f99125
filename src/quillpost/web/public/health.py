"""Is it alive, is it ready, can live mail be printed, what does it count."""

import secrets
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from quillpost.accounts.service import is_operator_token
from quillpost.app.container import Parts
from quillpost.core.database.engine import DatabaseWatch
from quillpost.core.database.schema import state
from quillpost.core.errors import Unauthenticated, Unavailable
from quillpost.core.metrics import REGISTRY
from quillpost.fulfillment.readiness import service_gaps
from quillpost.web.api.dependencies import parts_of
from quillpost.web.api.responses import answer

router = APIRouter(tags=["Service"])

LIVE_WORKERS = sa.text(
    "select count(*) from procrastinate_workers where last_heartbeat > now() - make_interval(secs => :s)"
)
BACKLOG = sa.text(
    """select (select count(*) from procrastinate_jobs where status = 'todo' and
                      coalesce(scheduled_at, now()) <= now()) as jobs_waiting,
              (select count(*) from procrastinate_jobs where status = 'failed') as jobs_failed,
              (select count(*) from deliveries where status = 'pending' and next_at <= now())
                  as deliveries_waiting,
              (select count(*) from webhook_lanes where due_at <= now() and leased_by is null)
                  as lanes_waiting,
              (select count(*) from webhook_lanes where resting_until > now()) as lanes_resting,
              (select count(*) from orders where status = 'paused') as orders_paused,
              (select count(*) from batches where status <> 'mailed') as batches_open"""
)
BACKLOG_GAUGES = {
    name: Gauge(f"quillpost_{name}", help_, registry=REGISTRY)
    for name, help_ in {
        "jobs_waiting": "Jobs whose time has come and that no worker has taken.",
        "jobs_failed": "Jobs that were given up.",
        "deliveries_waiting": "Webhook deliveries whose time has come.",
        "lanes_waiting": "Webhooks to which something is due and that no worker has taken.",
        "lanes_resting": "Webhooks that are left alone for a while, as they fail.",
        "orders_paused": "Orders that wait for an operator.",
        "batches_open": "Production batches that are not in the mail yet.",
    }.items()
}

LONGEST_SILENCE = 60.0
"""Seconds in which our own database comes back after a crash: it is being restarted meanwhile, and to start
us again would only begin that anew. A database that is not ours comes back without us."""

OurParts = Annotated[Parts, Depends(parts_of)]


@router.get("/health", summary="Alive", include_in_schema=False)
async def health(request: Request, parts: OurParts) -> Response:
    """For whoever starts us again when we fail: 503 is for what a restart may help. The database is told of
    in any case."""
    watch: DatabaseWatch = request.app.state.database_watch
    silent = await watch.look()
    if silent is None:
        return answer({"status": "ok", "database": "ok"})
    is_failing = parts.has_own_database and silent > LONGEST_SILENCE
    return answer(
        {
            "status": "failing" if is_failing else "degraded",
            "database": "unreachable",
            "database_unreachable_seconds": int(silent),
        },
        status=503 if is_failing else 200,
    )


@router.get("/ready", summary="Ready for work", include_in_schema=False)
def ready(parts: OurParts) -> Response:
    """Database, workers and migrations; 503 names what is missing."""
    checks = {"database": "unreachable", "migrations": "unknown", "workers": "unknown"}
    try:
        with parts.db.work() as tx:
            checks["database"] = "ok"
            verdict = state(tx).verdict
            checks["migrations"] = "ok" if verdict == "current" else verdict
            alive = tx.execute(LIVE_WORKERS, {"s": parts.stall_seconds}).scalar_one()
            checks["workers"] = "ok" if alive else "none alive"
    except Unavailable:
        pass
    is_ready = set(checks.values()) == {"ok"}
    return answer(
        {"status": "ready" if is_ready else "not ready", "checks": checks},
        status=200 if is_ready else 503,
        headers={} if is_ready else {"Retry-After": "5"},
    )


@router.get("/metrics", summary="Prometheus metrics", include_in_schema=False)
def metrics(parts: OurParts, authorization: Annotated[str, Header()] = "") -> Response:
    """For an operator: the metrics token, or an operator account's own (no app's, none of a sub account)."""
    token = authorization.removeprefix("Bearer ").strip()
    if not _is_metrics_token(parts, token) and not is_operator_token(parts.db, token, now=parts.clock()):
        raise Unauthenticated
    with parts.db.work() as tx:
        for name, value in tx.execute(BACKLOG).one()._mapping.items():
            BACKLOG_GAUGES[name].set(value)
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)


def _is_metrics_token(parts: Parts, token: str) -> bool:
    expected = parts.metrics_token
    return expected is not None and secrets.compare_digest(token.encode(), expected.encode())


@router.get("/ready/live", summary="Ready for live mail", include_in_schema=False)
def ready_live(parts: OurParts, authorization: Annotated[str, Header()] = "") -> Response:
    """200 or 503, and nothing else that an outsider could use. An operator account's token is told what is
    missing, with the settings to change."""
    now = parts.clock()
    with parts.db.work() as tx:
        gaps = service_gaps(tx, parts.worlds["live"], on=now.date())
    told: dict[str, Any] = {"status": "not ready" if gaps else "ready", "live_ready": not gaps}
    token = authorization.removeprefix("Bearer ").strip()
    if token and is_operator_token(parts.db, token, now=now):
        told["missing"] = [{"name": gap.name, "message": gap.for_operator} for gap in gaps]
    return answer(told, status=503 if gaps else 200)
