"""Health, readiness and metrics."""

import secrets
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Header, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

from quillpost.accounts.service import is_operator_token
from quillpost.app.container import Container
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.database.schema import read_schema_state
from quillpost.core.errors import Unauthenticated, Unavailable
from quillpost.core.telemetry import REGISTRY
from quillpost.fulfillment.review.service import find_service_gaps
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services

router = APIRouter(tags=["Service"])

LIVE_WORKERS = sa.text(
    "select count(*) from procrastinate_workers where last_heartbeat > now() - make_interval(secs => :s)"
)
BACKLOG_COUNTS = sa.text(
    """select (select count(*) from procrastinate_jobs where status = 'todo' and
                      coalesce(scheduled_at, now()) <= now()) as jobs_waiting,
              (select count(*) from procrastinate_jobs where status = 'failed') as jobs_failed,
              (select count(*) from deliveries where status = 'pending' and next_at <= now())
                  as webhook_deliveries_waiting,
              (select count(*) from webhook_lanes where due_at <= now() and leased_by is null)
                  as webhooks_waiting,
              (select count(*) from webhook_lanes where resting_until > now()) as webhooks_backing_off,
              (select count(*) from orders where status = 'paused') as orders_paused,
              (select count(*) from batches where status <> 'mailed') as batches_open"""
)
BACKLOG_GAUGES = {
    name: Gauge(f"quillpost_{name}", help_, registry=REGISTRY)
    for name, help_ in {
        "jobs_waiting": "Jobs whose time has come and that no worker has taken.",
        "jobs_failed": "Jobs that were given up.",
        "webhook_deliveries_waiting": "Webhook deliveries whose time has come.",
        "webhooks_waiting": "Webhooks to which something is due and that no worker has taken.",
        "webhooks_backing_off": "Webhooks that are left alone for a while, as they fail.",
        "orders_paused": "Orders that wait for an operator.",
        "batches_open": "Production batches that are not in the mail yet.",
    }.items()
}

MAX_SILENCE_SECONDS = 60.0
"""Our own database is restarted after a crash in this time: a restart of ours would only delay it. A database that is
not ours comes back without us."""


@router.get("/health", summary="Alive", include_in_schema=False)
async def health(request: Request, container: Services) -> Response:
    """For supervisors: 503 only for what a restart may help. The database's state is always given."""
    watch: DatabaseMonitor = request.app.state.database_monitor
    silent_seconds = await watch.check_downtime()
    if silent_seconds is None:
        return json_response({"status": "ok", "database": "ok"})
    is_failing = container.has_embedded_database and silent_seconds > MAX_SILENCE_SECONDS
    return json_response(
        {
            "status": "failing" if is_failing else "degraded",
            "database": "unreachable",
            "database_unreachable_seconds": int(silent_seconds),
        },
        status=503 if is_failing else 200,
    )


@router.get("/ready", summary="Ready for work", include_in_schema=False)
def ready(container: Services) -> Response:
    """Database, workers and migrations; 503 names what is missing."""
    checks = {"database": "unreachable", "migrations": "unknown", "workers": "unknown"}
    try:
        with container.db.system_transaction() as tx:
            checks["database"] = "ok"
            schema_status = read_schema_state(tx).status
            checks["migrations"] = "ok" if schema_status == "current" else schema_status
            live_workers = tx.execute(LIVE_WORKERS, {"s": container.job_stall_seconds}).scalar_one()
            checks["workers"] = "ok" if live_workers else "none alive"
    except Unavailable:
        pass
    is_ready = set(checks.values()) == {"ok"}
    return json_response(
        {"status": "ready" if is_ready else "not ready", "checks": checks},
        status=200 if is_ready else 503,
        headers={} if is_ready else {"Retry-After": "5"},
    )


@router.get("/metrics", summary="Prometheus metrics", include_in_schema=False)
def metrics(container: Services, authorization: Annotated[str, Header()] = "") -> Response:
    """For the metrics token, or an operator account's own token (no app's, no sub account's)."""
    token = authorization.removeprefix("Bearer ").strip()
    if not _is_metrics_token(container, token) and not is_operator_token(container.db, token, now=container.clock()):
        raise Unauthenticated
    with container.db.system_transaction() as tx:
        for name, value in tx.execute(BACKLOG_COUNTS).one()._mapping.items():
            BACKLOG_GAUGES[name].set(value)
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)


def _is_metrics_token(container: Container, token: str) -> bool:
    expected = container.metrics_token
    return expected is not None and secrets.compare_digest(token.encode(), expected.encode())


@router.get("/ready/live", summary="Ready for live mail", include_in_schema=False)
def ready_live(container: Services, authorization: Annotated[str, Header()] = "") -> Response:
    """200 or 503, and nothing else that an outsider could use. An operator's token gets what is missing, and the
    settings to change."""
    now = container.clock()
    with container.db.system_transaction() as tx:
        gaps = find_service_gaps(tx, container.environments["live"], on=now.date())
    content: dict[str, Any] = {"status": "not ready" if gaps else "ready", "live_ready": not gaps}
    token = authorization.removeprefix("Bearer ").strip()
    if token and is_operator_token(container.db, token, now=now):
        content["missing"] = [{"name": gap.code, "message": gap} for gap in gaps]
    return json_response(content, status=503 if gaps else 200)
