"""Settings, database, file store and keys: what the shortest command needs too."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from quillpost.accounts.billing.service import load_default_prices
from quillpost.core.database import Database
from quillpost.core.database.embedded.server import EmbeddedPostgres, PostgresSupervisor
from quillpost.core.database.encrypted_columns import has_encrypted_values
from quillpost.core.database.engine import create_admin_engine, require_reachable
from quillpost.core.database.schema import SchemaState, migrate, read_schema_state, require_current
from quillpost.core.encryption import KEY_BYTES, Encryptor, KeyFile
from quillpost.core.errors import NotReady
from quillpost.core.filesystem import FileLock
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings, reveal
from quillpost.core.text import Clock
from quillpost.integrations.storage.objects import build_folder_store, build_s3_store
from quillpost.orders.giftcards.queries import load_default_brands

log = structlog.get_logger(__name__)
now = partial(datetime.now, UTC)


def load_settings() -> Settings:
    """Raises `NotReady`, which names the first wrong setting."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "QUILLPOST_" + str(first["loc"][0]).upper()
        raise NotReady(f"{name} is not usable: {first['msg']}.") from None


@dataclass(frozen=True, slots=True)
class Runtime:
    conninfo: str
    server: EmbeddedPostgres | None = None
    lock: FileLock | None = None
    supervisor: PostgresSupervisor | None = None

    def disable_restart(self) -> None:
        """The service stops: a database server that ends now is not restarted."""
        if self.supervisor is not None:
            self.supervisor.disable_restarts()

    def close(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()
        elif self.server is not None:
            self.server.stop()
        if self.lock is not None:
            self.lock.release()


def open_runtime(settings: Settings, *, keep_running: bool = False, supervise: bool = False) -> Runtime:
    """Start or find PostgreSQL. Call it from the main thread: the server ends with the thread that starts it. With
    `supervise` it is restarted when it ends. A command that had to start the server holds the lock until it has stopped
    it, so that a service that starts meanwhile waits."""
    if settings.database_url is not None:
        require_reachable(settings.database_url)
        return Runtime(settings.database_url)
    home = settings.home.absolute()
    server = EmbeddedPostgres(home, bin_folder=settings.postgres_bin)
    lock = FileLock(home / "starting.lock")
    try:
        lock.acquire()
    except OSError as error:
        raise NotReady(f"The home folder {home} cannot be used: {error.strerror}.") from None
    try:
        server.start()
    except BaseException:
        lock.release()
        raise
    if keep_running or server.is_adopted:
        lock.release()
    supervisor = PostgresSupervisor(server) if supervise else None
    if supervisor is not None:
        supervisor.start()
    return Runtime(server.conninfo(), server, lock, supervisor)


@dataclass(frozen=True, slots=True)
class CoreServices:
    """What every command has."""

    settings: Settings
    db: Database
    store: FileStore
    encryptor: Encryptor
    clock: Clock


def build_core_services(settings: Settings, conninfo: str, *, clock: Clock = now) -> CoreServices:
    # The embedded server knows us by our socket, whichever role we come as.
    db = Database(conninfo, has_own_logins=settings.database_url is None)
    if settings.secret_key is None:
        _ensure_key_file(KeyFile(key_path(settings.home)), db)
    return CoreServices(settings, db, build_file_store(settings), build_encryptor(settings), clock)


def _ensure_key_file(file: KeyFile, db: Database) -> None:
    """The first start creates it. Later a missing file is lost, and a new one would hide that."""
    if file.path.exists():
        return
    try:
        with db.system_transaction() as tx:
            is_key_lost = has_encrypted_values(tx)
    finally:
        db.close()  # it opens again when it is used: what is set wrongly may still stop the start
    if is_key_lost:
        raise NotReady(
            f"The key file {file.path} is gone, and this database has secrets that only its keys open: bring"
            " it back, from FILE.key of the last backup, or set QUILLPOST_SECRET_KEY as it was."
        )
    file.create_if_missing()


def warn_if_key_file_exposed(settings: Settings) -> None:
    file = KeyFile(key_path(settings.home))
    if settings.secret_key is None and file.is_accessible_to_others:
        log.warning("keys.file_exposed", file=str(file.path), advice=f"chmod 600 {file.path}")


def build_file_store(settings: Settings) -> FileStore:
    if settings.files_bucket is None:
        return build_folder_store(settings.home.absolute() / "files")
    return build_s3_store(
        settings.files_bucket,
        region=settings.files_region,
        endpoint=settings.files_endpoint,
        access_key_id=settings.files_access_key_id,
        secret_access_key=reveal(settings.files_secret_access_key),
    )


def build_encryptor(settings: Settings) -> Encryptor:
    """Keys from the environment, or from the key file, which may change while we run."""
    if settings.secret_key is None:
        file = KeyFile(key_path(settings.home))
        return Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    try:
        encoded_keys = settings.secret_key.get_secret_value().split()
        keys = [base64.b64decode(key, validate=True) for key in encoded_keys]
    except binascii.Error:
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise NotReady("QUILLPOST_SECRET_KEY must be 32 bytes as base64, or several such keys with spaces.")
    return Encryptor.from_keys(keys)


def key_path(home: Path) -> Path:
    return home.absolute() / "secret.key"


def read_base_url(settings: Settings) -> str:
    return (settings.base_url or f"http://{_get_reachable_host(settings.host)}:{settings.port}").rstrip("/")


def get_own_address(settings: Settings) -> tuple[str, int]:
    """The host and port under which this machine reaches us."""
    return _get_reachable_host(settings.host), settings.port


def _get_reachable_host(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104


def read_schema(conninfo: str) -> SchemaState:
    with create_admin_engine(conninfo).connect() as connection:
        return read_schema_state(connection)


def prepare_database(conninfo: str) -> None:
    """Fill an empty database; any other must be at this release's schema."""
    schema = read_schema(conninfo)
    if schema.status == "empty":
        upgrade_database(conninfo)
    else:
        require_current(schema)


def upgrade_database(conninfo: str) -> SchemaState:
    """Upgrade the schema and load the shipped prices and brands; the state before."""
    before = migrate(conninfo)
    with create_admin_engine(conninfo).begin() as tx:
        tx.execute(sa.text("set local role quillpost_worker"))
        load_default_prices(tx)
        load_default_brands(tx)
    return before


@contextmanager
def open_core_services() -> Iterator[CoreServices]:
    """For a command, with or without a running server."""
    settings = load_settings()
    with closing(open_runtime(settings)) as runtime:
        prepare_database(runtime.conninfo)
        services = build_core_services(settings, runtime.conninfo)
        with closing(services.db):
            yield services
