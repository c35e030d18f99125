"""One service for many tests of calls that leave nothing behind: each proves that by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_account
from support.test_client import TestClient


@contextmanager
def shared_service(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[Container]:
    name = f"shared_{home.parent.name}_{home.name}".replace("-", "_").lower()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        settings = Settings.model_validate({"home": home, "calls_a_minute": 1_000_000})
        container = bootstrap.build_container(settings, postgres.conninfo(name), clock=Clock().now)
        yield container
        container.db.close()
        admin.execute(f'drop database "{name}" with (force)')


@contextmanager
def shared_account(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[tuple[Account, Container]]:
    """Someone who calls such a service, and its parts."""
    with (
        shared_service(postgres, template, home) as parts,
        TestClient(create_app(parts), base_url="http://quillpost.test", raise_server_exceptions=False) as http,
    ):
        yield make_account(parts, http, "owner@example.com"), parts
