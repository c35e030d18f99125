"""Whoever watches a service learns how it is: /health, /ready and /metrics."""

import asyncio
import socket
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.database import engine
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.database.tables.base import accounts
from quillpost.core.encryption import KeyFile
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Build
from support.rows import execute
from support.test_client import TestClient

NOWHERE = "host=/nowhere dbname=quillpost"


def test_health_tells_of_a_database_that_is_away(tmp_path: Path, http: TestClient, subtests: pytest.Subtests) -> None:
    alive = http.get("/health")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "database": "ok"})
    for name, url, silent_for, status, word in (
        ("just now", None, 0, 200, "degraded"), ("while it restarts", None, 60, 200, "degraded"),
        ("beyond that", None, 61, 503, "failing"), ("another's database", NOWHERE, 3_600, 200, "degraded"),
    ):  # fmt: skip
        with subtests.test(name):
            settings = Settings.model_validate({"home": tmp_path / name, "database_url": url})
            # Without a database nobody can tell whether a key is lost.
            KeyFile(runtime.key_path(settings.home)).create_if_missing()
            app = create_app(bootstrap.build_container(settings, NOWHERE))
            times = iter([0.0, *[float(silent_for)] * 10])
            app.state.database_monitor = DatabaseMonitor(NOWHERE, lambda times=times: next(times))  # type: ignore[misc]
            with TestClient(app) as away:
                alive, ready = away.get("/health"), away.get("/ready")
            shown = {"status": word, "database": "unreachable", "database_unreachable_seconds": silent_for}
            assert (alive.status_code, alive.json()) == (status, shown)
            assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "unreachable")


def test_a_database_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_TIMEOUT_SECONDS", 0.05)
    times = iter([0.0, *[9.0] * 3])
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the machine takes the connection, and no program does
        monitor = DatabaseMonitor(f"host=127.0.0.1 port={silent.getsockname()[1]}", lambda: next(times))
        assert asyncio.run(monitor.check_downtime()) == 9


@pytest.mark.usefixtures("clean_database")
def test_ready_names_the_workers_until_one_has_a_heartbeat(http: TestClient, container: Container) -> None:
    answer = http.get("/ready")
    checks = {"database": "ok", "migrations": "ok", "workers": "none alive"}
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "checks": checks})
    assert int(answer.headers["Retry-After"]) > 0
    for age, status in (("1 hour", 503), ("1 second", 200)):
        execute(container, f"insert into procrastinate_workers (last_heartbeat) values (now() - interval '{age}')")
        assert http.get("/ready").status_code == status


def test_operators_see_metrics_by_route_and_not_by_path(owner: Account, container: Container, build: Build) -> None:
    owner.get("/orders/4711")

    def metrics(http: TestClient, token: str | None) -> tuple[int, str]:
        headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
        answer = http.get("/metrics", headers=headers)
        return answer.status_code, answer.text

    with TestClient(create_app(build(metrics_token="scrape-me"))) as http:
        assert [metrics(http, token)[0] for token in (None, "", "wrong", "é", owner.token)] == [401] * 5
        status, text = metrics(http, "scrape-me")
        execute(container, sa.update(accounts).where(accounts.c.id == owner.id).values(is_operator=True))
        assert (status, metrics(http, owner.token)[0]) == (200, 200)
    assert metrics(owner.http, "scrape-me")[0] == 401
    assert 'route="/orders/{order_id}"' in text or 'route="/api/v2/orders/{order_id}"' in text
    assert "/orders/4711" not in text
    assert "quillpost_jobs_waiting" in text
