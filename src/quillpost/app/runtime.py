"""Settings, database, file store and keys: what the shortest command needs too.

It knows adapters as the wiring does, but only those: commands that need no more start in half the time.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import ValidationError

from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.embedded.supervisor import PostgresSupervisor
from quillpost.core.database.encrypted_columns import is_anything_sealed
from quillpost.core.database.engine import require_reachable
from quillpost.core.encryption import KEY_BYTES, Sealer
from quillpost.core.errors import NotReady
from quillpost.core.key_files import KeyFile
from quillpost.core.locks import Turn
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings
from quillpost.integrations.storage.objects import folder_store, s3_store

log = structlog.get_logger(__name__)


def now() -> datetime:
    return datetime.now(UTC)


def load_settings() -> Settings:
    """The environment's settings, or one sentence that names the one that is wrong."""
    try:
        return Settings()
    except ValidationError as wrong:
        first = wrong.errors()[0]
        name = "QUILLPOST_" + str(first["loc"][0]).upper()
        raise NotReady(f"{name} is not usable: {first['msg']}.") from None


@dataclass(frozen=True, slots=True)
class Ground:
    """The database, and the server that was started for it, if any."""

    conninfo: str
    server: EmbeddedPostgres | None = None
    turn: Turn | None = None
    supervisor: PostgresSupervisor | None = None

    def retire(self) -> None:
        """The service stops: a database server that ends now is not started again."""
        if self.supervisor is not None:
            self.supervisor.retire()

    def close(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()
        elif self.server is not None:
            self.server.stop()
        if self.turn is not None:
            self.turn.end()


def open_ground(settings: Settings, *, stays: bool = False, supervises: bool = False) -> Ground:
    """Start or find PostgreSQL. Call from the main thread: the server dies with the thread's process. Who
    `supervises` starts it again when it ends.

    A command that comes and goes, and had to start the server, keeps its turn until it has stopped it: a
    service that starts meanwhile waits, instead of settling on ground that is about to go.
    """
    if settings.database_url is not None:
        require_reachable(settings.database_url)
        return Ground(settings.database_url)
    home = settings.home.absolute()
    server = EmbeddedPostgres(home, bin_folder=settings.postgres_bin)
    turn = Turn(home / "starting.lock")
    try:
        turn.take()
    except OSError as refused:
        raise NotReady(f"The home folder {home} cannot be used: {refused.strerror}.") from None
    try:
        server.start()
    except BaseException:
        turn.end()
        raise
    if stays or server.is_adopted:
        turn.end()
    supervisor = PostgresSupervisor(server) if supervises else None
    if supervisor is not None:
        supervisor.start()
    return Ground(server.conninfo(), server, turn, supervisor)


@dataclass(frozen=True, slots=True)
class Footing:
    """The parts that every command has, over a database that is ready."""

    settings: Settings
    db: Database
    store: FileStore
    sealer: Sealer
    clock: Clock


def stand(settings: Settings, conninfo: str, *, clock: Clock = now) -> Footing:
    # The embedded server knows us by our socket, whichever role we come as.
    db = Database(conninfo, own_logins=settings.database_url is None)
    if settings.secret_key is None:
        _have_key_file(KeyFile(key_path(settings.home)), db)
    return Footing(settings, db, file_store(settings), sealer_of(settings), clock)


def _have_key_file(file: KeyFile, db: Database) -> None:
    """The first start makes it. Later, one that is not there is lost, and another would hide that."""
    if file.path.exists():
        return
    try:
        with db.work() as tx:
            is_lost = is_anything_sealed(tx)
    finally:
        db.close()  # it opens again when it is used: what is set wrongly may still stop the start
    if is_lost:
        raise NotReady(
            f"The key file {file.path} is gone, and this database has secrets that only its keys open: bring"
            " it back, from FILE.key of the last backup, or set QUILLPOST_SECRET_KEY as it was."
        )
    file.make()


def warn_of_open_key(settings: Settings) -> None:
    """A key file that others may use still works: for whoever looks at the log of a start."""
    file = KeyFile(key_path(settings.home))
    if settings.secret_key is None and file.is_open_to_others:
        log.warning("keys.open_to_others", file=str(file.path), advice=f"chmod 600 {file.path}")


def file_store(settings: Settings) -> FileStore:
    if settings.files_bucket is None:
        return folder_store(settings.home.absolute() / "files")
    secret = settings.files_secret_access_key
    return s3_store(
        settings.files_bucket,
        region=settings.files_region,
        endpoint=settings.files_endpoint,
        access_key_id=settings.files_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        path_style=settings.files_endpoint is not None,
        allow_http=(settings.files_endpoint or "").startswith("http://"),
    )


def sealer_of(settings: Settings) -> Sealer:
    """The keys of the environment, or those of the key file, which may change while we run."""
    if settings.secret_key is None:
        file = KeyFile(key_path(settings.home))
        return Sealer.of(file.read(), renewed=file.renewed)
    try:
        given = settings.secret_key.get_secret_value().split()
        keys = [base64.b64decode(key, validate=True) for key in given]
    except binascii.Error:
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise NotReady("QUILLPOST_SECRET_KEY must be 32 bytes as base64, or several such keys with spaces.")
    return Sealer.of(keys)


def key_path(home: Path) -> Path:
    return home.absolute() / "secret.key"


def public_base(settings: Settings) -> str:
    return (settings.base_url or f"http://{_shown(settings.host)}:{settings.port}").rstrip("/")


def own_place(settings: Settings) -> tuple[str, int]:
    """The host and the port under which this machine reaches us."""
    return _shown(settings.host), settings.port


def _shown(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104
