"""One service with one order that was sent and delivered, for tables that only read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_account, person, run_jobs_for
from support.test_client import TestClient

METADATA = {"campaign": "spring", "customer": 42}


@dataclass(frozen=True)
class Reader:
    owner: Account
    container: Container
    clock: Clock
    order_id: int


@contextmanager
def reading_service(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[Reader]:
    name = f"reading_{home.parent.name}_{home.name}".replace("-", "_").lower()
    clock = Clock()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        settings = Settings.model_validate({"home": home, "calls_a_minute": 1_000_000})
        container = bootstrap.build_container(settings, postgres.conninfo(name), clock=clock.now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            owner = make_account(container, http, "owner@example.com")
            audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
            order_id = owner.send(recipients=audience, metadata=METADATA).json()["id"]
            run_jobs_for(container, clock, seconds=45)
            yield Reader(owner, container, clock, order_id)
        container.db.close()
        admin.execute(f'drop database "{name}" with (force)')
