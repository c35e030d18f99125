"""One service with one account and its sub account, for tables whose rows write."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from quillpost.app import bootstrap
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_account, make_sub_account
from support.test_client import TestClient


@dataclass(frozen=True)
class Writer:
    owner: Account
    branch: int


@contextmanager
def writing_service(postgres: EmbeddedPostgres, template: str, home: Path, **unusual: Any) -> Iterator[Writer]:
    name = f"writing_{home.parent.name}_{home.name}".replace("-", "_").lower()
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template {template} strategy file_copy')
        usual = {"home": home, "calls_a_minute": 1_000_000}
        settings = Settings.model_validate(usual | unusual)
        container = bootstrap.build_container(settings, postgres.conninfo(name), clock=Clock().now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            owner = make_account(container, http, "owner@example.com")
            yield Writer(owner, make_sub_account(container, owner))
        container.db.close()
        admin.execute(f'drop database "{name}" with (force)')
