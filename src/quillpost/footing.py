"""What everything stands on, the shortest command too: the settings, the database, the file store, the key.

It knows adapters as the wiring does, but only those: commands that need no more start in half the time.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from quillpost.adapters.files.objects import folder_store, s3_store
from quillpost.database import Database
from quillpost.database.embedded import EmbeddedPostgres
from quillpost.database.engine import require_reachable
from quillpost.kit.errors import NotReady
from quillpost.kit.sealing import Sealer, load_or_create_key
from quillpost.kit.times import Clock
from quillpost.kit.turns import Turn
from quillpost.ports import FileStore
from quillpost.settings import Settings as Settings


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

    def close(self) -> None:
        if self.server is not None:
            self.server.stop()
        if self.turn is not None:
            self.turn.end()


def open_ground(settings: Settings, *, stays: bool = False) -> Ground:
    """Start or find PostgreSQL. Call from the main thread: the server dies with the thread's process.

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
    return Ground(server.conninfo(), server, turn)


@dataclass(frozen=True, slots=True)
class Footing:
    """The parts that every command has, over a database that is ready."""

    settings: Settings
    db: Database
    store: FileStore
    sealer: Sealer
    clock: Clock


def stand(settings: Settings, conninfo: str, *, clock: Clock = now) -> Footing:
    sealer, store = sealer_of(settings), file_store(settings)
    # The embedded server knows us by our socket, whichever role we come as.
    db = Database(conninfo, own_logins=settings.database_url is None)
    return Footing(settings, db, store, sealer, clock)


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
    if settings.secret_key is None:
        return Sealer({"1": load_or_create_key(key_path(settings.home))}, "1")
    try:
        key = base64.b64decode(settings.secret_key.get_secret_value(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 32:
        raise NotReady("QUILLPOST_SECRET_KEY must be 32 bytes as base64.")
    return Sealer({"1": key}, "1")


def key_path(home: Path) -> Path:
    return home.absolute() / "secret.key"
