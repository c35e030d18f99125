"""Alive, ready, and counted."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from direct import TestClient
from makers import Account, Build
from quillpost import wiring
from quillpost.database.tables import accounts
from quillpost.kit.key_files import KeyFile
from quillpost.parts import Parts
from quillpost.web import create_app


def test_health_needs_nothing(tmp_path: Path) -> None:
    settings = wiring.Settings.model_validate({"home": tmp_path / "home"})
    KeyFile(wiring.key_path(settings.home)).make()  # without a database nobody can tell whether one is lost
    with TestClient(create_app(wiring.build(settings, "host=/nowhere dbname=quillpost"))) as http:
        alive, ready = http.get("/health"), http.get("/ready")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
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
def test_ready_counts_a_worker_by_its_heartbeat(
    http: TestClient, parts: Parts, age: str, status: int
) -> None:
    with parts.db.work() as tx:
        tx.execute(
            sa.text(f"insert into procrastinate_workers (last_heartbeat) values (now() - interval '{age}')")
        )
    assert http.get("/ready").status_code == status


def test_metrics_are_for_operators(owner: Account, parts: Parts, build: Build) -> None:
    def metrics(http: TestClient, token: str | None) -> int:
        headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
        return http.get("/metrics", headers=headers).status_code

    with TestClient(create_app(build(metrics_token="scrape-me"))) as http:
        assert [metrics(http, token) for token in (None, "", "wrong", "é", owner.token)] == [401] * 5
        assert metrics(http, "scrape-me") == 200
        with parts.db.work() as tx:
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
