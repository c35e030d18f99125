"""The service that the tests of a process share: one container, application and client on one database.

A test gets fresh accounts in it. What is unique in a whole database, such as an email address, the accounts of
earlier tests have given up by then.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.encryption import KeyFile
from quillpost.core.settings import Settings
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.web.application import create_app
from support.databases import Databases, KeptDatabase, SharedDatabase
from support.factories import Clock
from support.test_client import TestClient

# What is unique across accounts, and what counts the calls of everybody from one network.
RETIREMENT = sa.text(
    """
    with retired as (update accounts set email = 'retired-' || id || '@example.com'
                      where email not like 'retired-%' returning 1),
         users as (update people set email = 'retired-' || id || '@example.com'
                    where email not like 'retired-%' returning 1),
         counts as (delete from rate_windows returning 1)
    select (select count(*) from retired) + (select count(*) from users) + (select count(*) from counts)
    """
)


@dataclass
class SharedService:
    container: Container
    app: FastAPI
    portal: BlockingPortal | None
    clock: Clock
    database: SharedDatabase

    @property
    def rows(self) -> KeptDatabase:
        assert isinstance(self.container.db, KeptDatabase)
        return self.container.db

    def empty(self) -> None:
        """No rows but those that a new database has, and no files."""
        self.database.empty()
        self.rows.has_rows_of_other_tests = False
        for provider in self.container.lead_providers.values():  # it remembers that the sample is there
            assert isinstance(provider, TableLeadProvider)
            provider._has_sample, provider._cached_density = not provider._uses_samples, None
        for key in self.container.storage.store.keys(""):
            self.container.storage.store.delete(key)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """To one test: at the usual time, and with the usual parts again after it."""
        self.clock.reset()
        with self.container.db.system_transaction() as tx:
            tx.execute(RETIREMENT)
        self.container.sign_in_context.full_buckets.clear()
        usual = dict(self.app.state._state)
        yield
        self.app.state._state.clear()
        self.app.state._state.update(usual)
        self.rows.has_rows_of_other_tests = True


@contextmanager
def open_shared_service(databases: Databases, settings: Settings) -> Iterator[SharedService]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-shared-"))
    clock = Clock()
    KeyFile(runtime.key_path(home)).create_if_missing()
    with databases.shared() as database:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "Database", database.open)
            chosen = settings.model_copy(update={"home": home})
            container = bootstrap.build_container(chosen, database.conninfo, clock=clock.now)
        app = create_app(container)
        with TestClient(app) as client:
            yield SharedService(container, app, client.portal, clock, database)
    shutil.rmtree(home, ignore_errors=True)
