"""Alive, ready, and counted."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.database.tables.base import accounts
from quillpost.core.encryption import KeyFile
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Build
from support.test_client import TestClient

NOWHERE = "host=/nowhere dbname=quillpost"


def test_health_tells_that_the_database_answers(http: TestClient) -> None:
    alive = http.get("/health")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "database": "ok"})


@pytest.mark.parametrize(
    ("url", "silent_for", "status", "word"),
    [
        (None, 0, 200, "degraded"),
        (None, 60, 200, "degraded"),
        (None, 61, 503, "failing"),
        (NOWHERE, 3_600, 200, "degraded"),
    ],
    ids=["just now", "while it restarts", "beyond that", "another's database"],
)
def test_health_tells_of_a_database_that_is_away(
    tmp_path: Path, url: str | None, silent_for: int, status: int, word: str
) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home", "database_url": url})
    KeyFile(
        runtime.key_path(settings.home)
    ).create_if_missing()  # without a database nobody can tell whether one is lost
    app = create_app(bootstrap.build_container(settings, NOWHERE))
    times = iter([0.0, *[float(silent_for)] * 10])
    app.state.database_monitor = DatabaseMonitor(NOWHERE, lambda: next(times))
    with TestClient(app) as http:
        alive, ready = http.get("/health"), http.get("/ready")
    assert (alive.status_code, alive.json()) == (
        status,
        {"status": word, "database": "unreachable", "database_unreachable_seconds": silent_for},
    )
    assert ready.status_code == 503
    assert ready.json()["checks"]["database"] == "unreachable"


def test_ready_names_the_workers_when_none_is_alive(http: TestClient) -> None:
    answer = http.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "not ready",
        "checks": {"database": "ok", "migrations": "ok", "workers": "none alive"},
    }
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize(("age", "status"), [("1 second", 200), ("1 hour", 503)])
def test_ready_counts_a_worker_by_its_heartbeat(http: TestClient, container: Container, age: str, status: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text(f"insert into procrastinate_workers (last_heartbeat) values (now() - interval '{age}')"))
    assert http.get("/ready").status_code == status


def test_metrics_are_for_operators(owner: Account, container: Container, build: Build) -> None:
    def metrics(http: TestClient, token: str | None) -> int:
        headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
        return http.get("/metrics", headers=headers).status_code

    with TestClient(create_app(build(metrics_token="scrape-me"))) as http:
        assert [metrics(http, token) for token in (None, "", "wrong", "é", owner.token)] == [401] * 5
        assert metrics(http, "scrape-me") == 200
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(is_operator=True))
        assert metrics(http, owner.token) == 200
    assert metrics(owner.http, "scrape-me") == 401


def test_metrics_count_requests_by_route_and_never_by_path(owner: Account, build: Build) -> None:
    owner.get("/orders/4711")
    with TestClient(create_app(build(metrics_token="scrape-me"))) as http:
        text = http.get("/metrics", headers={"Authorization": "Bearer scrape-me"}).text
    assert 'route="/orders/{order_id}"' in text or 'route="/api/v2/orders/{order_id}"' in text
    assert "/orders/4711" not in text
    assert "quillpost_jobs_waiting" in text
