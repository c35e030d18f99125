"""What tests ask for by name: a real PostgreSQL for the session, the service that all tests of a process share, a
fresh database for a test that needs one, a clock that tests turn by hand."""

import copy
import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import structlog
from argon2.profiles import CHEAPEST
from fastapi import FastAPI
from starlette.routing import BaseRoute

from quillpost.accounts.models import Caller
from quillpost.accounts.users import passwords
from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.encryption import KeyFile
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.integrations.http.client import GuardedFetcher
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.rendering.handwriting.service import Hands
from quillpost.web import application
from quillpost.web.api import openapi
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account
from support.images import ImageServer
from support.mailing_lists import ListOwner
from support.orders import open_account
from support.service import Databases, SharedService, open_shared_service
from support.sign_in import DANA, make_user
from support.test_client import TestClient

FACES = Path(os.environ["QUILLPOST_FACES_FOLDER"])
configure_logging(as_json=True, level="warning")
# A first call may load tables, and machines are busy: how long a call takes is no test's to say.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_configure() -> None:
    draw_the_description_once()


def draw_the_description_once() -> None:
    """The applications of all tests have the same routes, and to describe them takes a second."""
    draw = openapi.build_description
    drawn: dict[tuple[int, ...], dict[str, Any]] = {}

    def shared(routes: Sequence[BaseRoute]) -> dict[str, Any]:
        key = tuple(id(route) for route in routes if getattr(route, "include_in_schema", False))
        if key not in drawn:
            drawn[key] = draw(routes)
        return copy.deepcopy(drawn[key])

    pytest.MonkeyPatch().setattr(openapi, "build_description", shared)


@pytest.fixture(autouse=True)
def usual_logs() -> Iterator[None]:
    """A test that looks at logs, or runs a command that sets them up, leaves them as they were: what it had
    them written to is closed when the next one runs."""
    usual = structlog.get_config()
    yield
    structlog.configure(**usual)


@pytest.fixture(scope="session", autouse=True)
def closed_network() -> Iterator[None]:
    """Tests speak to this machine alone."""
    connect = socket.socket.connect

    def connect_at_home(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_at_home(address[0]):
            raise OSError(f"A test tried to reach {address[0]}.")
        connect(self, address)

    def is_at_home(host: str) -> bool:
        return host == "localhost" or ip_address(host).is_loopback

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_at_home)
        yield


@pytest.fixture(scope="session", autouse=True)
def hands_read_once() -> Iterator[None]:
    """All tests of a process share the usual hands, as all calls of a service do."""
    read = bootstrap.build_hands
    usual = read(Settings())

    def shared(settings: Settings) -> Hands:
        is_usual = settings.font_packages is None and bootstrap.get_faces_folder(settings) == FACES
        return usual if is_usual else read(settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "build_hands", shared)
        yield


@pytest.fixture(scope="session", autouse=True)
def unhurried() -> Iterator[None]:
    """How many requests are at work at once does not depend on how busy the machine is with other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "ProcessorLoad", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def passwords_made_cheap() -> Iterator[None]:
    """A password that costs what it should takes a tenth of a second, and most tests are not about that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "ARGON2_PARAMETERS", CHEAPEST)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    # Not pytest's own folder, which is closed to the server's unprivileged user.
    home = Path(tempfile.mkdtemp(prefix="quillpost-test-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(
        home,
        settings={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"},
    )
    server.start()
    yield server
    server.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def home() -> Iterator[Path]:
    """Of a service that is started. Not in pytest's own folder, which is closed to the server's unprivileged user."""
    home = Path(tempfile.mkdtemp(prefix="quillpost-home-"))
    home.chmod(0o755)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> str:
    """A migrated database that the tests' own are copied from."""
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute("create database template_quillpost")
    upgrade_database(postgres.conninfo("template_quillpost"))
    return "template_quillpost"


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedPostgres, template: str) -> Iterator[Databases]:
    databases = Databases(postgres, template)
    yield databases
    databases.close()


@pytest.fixture
def conninfo(databases: Databases) -> Iterator[str]:
    """An empty database of the test's own, for those that change the schema, start processes or count everything."""
    with databases.one() as conninfo:
        yield conninfo


@pytest.fixture(scope="session")
def usual_settings() -> Settings:
    """Read once: to look for every setting in the environment takes longer than all else that is built."""
    return Settings()


@pytest.fixture(scope="session")
def shared_service(databases: Databases, usual_settings: Settings) -> Iterator[SharedService]:
    with open_shared_service(databases, usual_settings) as service:
        gc.freeze()
        yield service


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Clock:
    return Clock() if has_own_database(request) else request.getfixturevalue("shared_service").clock


@pytest.fixture
def build(
    databases: Databases, conninfo: str, clock: Clock, tmp_path: Path, usual_settings: Settings
) -> Iterator[Build]:
    """Services with other settings than usual, on a database of the test's own."""

    def make(**settings: object) -> Container:
        chosen = usual_settings.model_copy(update={"home": tmp_path / "home"})
        if settings:
            chosen = Settings.model_validate({"home": tmp_path / "home", **settings})
        else:  # A start without its key looks whether the database is without secrets, too.
            KeyFile(runtime.key_path(chosen.home)).create_if_missing()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "Database", opened)
            return bootstrap.build_container(chosen, conninfo, clock=clock.now)

    with databases.opened() as opened:
        yield make


def has_own_database(request: pytest.FixtureRequest) -> bool:
    return "conninfo" in request.fixturenames


@pytest.fixture
def clean_database(shared_service: SharedService) -> None:
    """The shared database, without what other tests left: for those that run everybody's jobs or count all rows."""
    shared_service.empty()


@pytest.fixture
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    """The service that all tests of a process share, or the test's own where it has a database of its own."""
    if has_own_database(request):
        yield request.getfixturevalue("build")()
        return
    service: SharedService = request.getfixturevalue("shared_service")
    if "clean_database" in request.fixturenames:  # before accounts are made, however the test lists its fixtures
        request.getfixturevalue("clean_database")
    with service.lent():
        yield service.container


@pytest.fixture(scope="module")
def art() -> Iterator[ImageServer]:
    """Pictures and PDFs over HTTP, on loopback: for parts built with `allow_private_urls`."""
    with ImageServer() as server:
        yield server


@pytest.fixture
def app(request: pytest.FixtureRequest, container: Container) -> FastAPI:
    return create_app(container) if has_own_database(request) else request.getfixturevalue("shared_service").app


@pytest.fixture
def http(request: pytest.FixtureRequest, app: FastAPI) -> Iterator[TestClient]:
    client = TestClient(app, base_url="http://quillpost.test", raise_server_exceptions=False)
    if has_own_database(request):
        with client:
            yield client
    else:
        client.portal = request.getfixturevalue("shared_service").portal
        yield client


@pytest.fixture
def owner(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "owner@example.com")


@pytest.fixture
def stranger(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "stranger@example.com")


@pytest.fixture
def caller(container: Container) -> Caller:
    """The owner of an account, as the services know them."""
    return open_account(container)


@pytest.fixture
def account(container: Container) -> int:
    return open_account(container).account_id


@pytest.fixture
def dana(container: Container, account: int) -> int:
    """The id of a user who can sign in to the account."""
    return make_user(container, account, DANA)


@pytest.fixture
def loopback_urls(app: FastAPI, container: Container) -> None:
    """Pictures, PDFs and receivers may be on this machine."""
    guard = OutboundGuard(allow_private=True)
    app.state.container = replace(container, fetcher=GuardedFetcher(guard), check_url=guard.check_url)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)
