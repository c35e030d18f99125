"""`quillpost migrate`, `backup` and `restore`."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from quillpost import __version__
from quillpost.app.runtime import (
    CoreServices,
    build_core_services,
    build_encryptor,
    build_file_store,
    key_path,
    load_settings,
    open_runtime,
    read_schema,
    upgrade_database,
)
from quillpost.cli.console import format_count, report_unwritable
from quillpost.core.database import archive
from quillpost.core.database.embedded.binaries import PostgresBinaries, find_binaries
from quillpost.core.database.schema import compare_revision, require_current
from quillpost.core.encryption import Encryptor, KeyFile, format_keys
from quillpost.core.errors import NotReady
from quillpost.core.filesystem import open_temporary_file, sync_file
from quillpost.core.ports import FileMissing, FileStore
from quillpost.core.settings import Settings

BATCH_KEY_PATTERN = re.compile(r"(?:^batches/|[/-]batch-)(\d+)")  # in keys of a batch's files and print job
BackupFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, such as monday.qpb.")]
CountCallback = Callable[[str], None]


def migrate() -> None:
    """Bring the database to this release's schema.

    Run it once after an upgrade, with the service stopped and a backup taken. It fills an empty database,
    leaves a current one as it is, and refuses one that a newer release has written.
    """
    settings = load_settings()
    with closing(open_runtime(settings)) as runtime:
        before = upgrade_database(runtime.conninfo)
        revision = read_schema(runtime.conninfo).revision
    match before.status:
        case "current":
            typer.echo(f"The database schema is {revision} already: nothing to do.")
        case "empty":
            typer.echo(f"The database was empty, and is at schema {revision} now.")
        case _:
            typer.echo(f"The database schema was {before.revision}, and is {revision} now.")


def backup(file: BackupFileArgument) -> None:
    """Write everything into FILE, while the service runs or not.

    FILE holds the database and all files. The secret key goes to FILE.key: together they are the whole
    service, so keep them in two places. A key from QUILLPOST_SECRET_KEY is yours to keep, and not written.
    """
    key_file = _key_file_path(file)
    for path in (file, key_file):
        if path.exists():
            raise NotReady(f"{path} is there already: choose another name.")
    settings = load_settings()
    binaries = find_binaries(settings.postgres_bin)
    with closing(open_runtime(settings)) as runtime:
        if read_schema(runtime.conninfo).status == "empty":
            raise NotReady("There is nothing to back up: the database is empty.")
        services = build_core_services(settings, runtime.conninfo)
        previous_keys = _read_key_file(settings)
        with _write_atomically(file) as out, _progress_counter("Saved") as count:
            manifest = _write_backup(out, services, binaries, count)
        services.db.close()
    if settings.secret_key is None:
        with _write_atomically(key_file) as out:
            # One that was forgotten meanwhile has sealed what is in the snapshot; a new one, files.
            out.write(format_keys([*_read_key_file(settings), *previous_keys]).encode("ascii"))
    _print_message(f"{file} holds everything: {_format_contents(manifest)}.")
    if settings.secret_key is None:
        _print_message(f"The key that opens its secrets is in {key_file}: keep it elsewhere, and safe.")
    else:
        _print_message("The key that opens its secrets is your QUILLPOST_SECRET_KEY, which is not in it.")


def restore(file: BackupFileArgument) -> None:
    """Bring a backup back, into an empty home and an empty database.

    The secret key is read from FILE.key, or from QUILLPOST_SECRET_KEY. The whole backup is checked before
    anything is written, and whatever fails leaves all as empty as it was.
    """
    settings = load_settings()
    if not file.is_file():
        raise NotReady(f"There is no backup {file}.")
    key_file = None if settings.secret_key else _key_file_path(file)
    if key_file is not None and not key_file.is_file():
        raise NotReady(
            f"The backup's secret key is missing: put it beside the backup as {key_file}, or set QUILLPOST_SECRET_KEY."
        )
    manifest = archive.verify_backup(file)
    schema = compare_revision(manifest.schema)
    if schema.status == "newer":
        require_current(schema)
    with _empty_home_on_failure(settings.home.absolute()):
        set_aside_count = _restore_backup(settings, file, key_file, manifest)
    _print_message(f"Everything is as it was at {manifest.taken_at}: {_format_contents(manifest)}.")
    _print_message("What was handed to the printer since is not known any more: see Backups in docs/operate.md.")
    if set_aside_count:
        _print_message(
            f"{format_count(set_aside_count, 'gift card')} in stock may have been mailed since, and none is given "
            "before `quillpost giftcards release-stock`: see there."
        )
    _print_message("Everyone signs in anew. Tokens that were revoked since, and people who were removed, are back.")
    if not set(manifest.key_check.split()) <= set(_compute_key_checks(build_encryptor(settings))):
        _print_message(
            "A former key of this backup is not among yours: `quillpost keys list` says whether it is needed."
        )
    if schema.status == "older":
        _print_message("It was written by an older release: run `quillpost migrate` next.")


def _write_backup(
    out: BinaryIO, services: CoreServices, binaries: PostgresBinaries, count: CountCallback
) -> archive.BackupManifest:
    """Files first: what the snapshot knows was in the store before it, and stays there."""
    with archive.hold_snapshot(services.db.conninfo) as snapshot:
        manifest = archive.BackupManifest(
            release=__version__,
            schema=snapshot.schema,
            taken_at=services.clock().isoformat(timespec="seconds"),
            key_check=" ".join(_compute_key_checks(services.encryptor)),
            counts=snapshot.counts,
        )
        with closing(archive.ArchiveWriter(out, manifest)) as writer:
            for key, data in _read_snapshot_files(services.store, snapshot.last_batch):
                writer.add_file(key, data)
                count("files")
            for chunk in archive.dump_database(binaries, services.db.conninfo, snapshot):
                writer.add_database_chunk(chunk)
                count("pieces of the database")
            writer.finish()
    return manifest


def _read_snapshot_files(store: FileStore, last_batch: int) -> Iterator[tuple[str, bytes]]:
    """All but those of later batches, which a restored service does not know."""
    for key in store.keys(""):
        batch = BATCH_KEY_PATTERN.search(key)
        if batch is not None and int(batch[1]) > last_batch:
            continue
        try:
            yield key, store.get(key)
        except FileMissing:  # past its time, and tidied away since the listing
            continue


def _restore_backup(settings: Settings, file: Path, key_file: Path | None, manifest: archive.BackupManifest) -> int:
    """How many gift cards in stock were set aside."""
    binaries = find_binaries(settings.postgres_bin)
    installed_key = key_path(settings.home)
    with closing(open_runtime(settings)) as runtime:
        # Before the file store makes it, which would leave it open.
        installed_key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = build_file_store(settings)
        _require_empty(runtime.conninfo, store, installed_key)
        if key_file is not None:
            with _write_atomically(installed_key) as out:
                out.write(key_file.read_bytes())
        try:
            if manifest.key_check.partition(" ")[0] not in _compute_key_checks(build_encryptor(settings)):
                raise NotReady("The secret key is not the one of this backup.")
            with _progress_counter("Restored") as count:
                _restore_files(store, file, count)
                # Last, and in one transaction: once the database is there, everything is.
                archive.restore_database(binaries, runtime.conninfo, archive.read_database_dump(file))
                set_aside_count = archive.skip_issued_numbers(runtime.conninfo)
                archive.delete_sessions(runtime.conninfo)
                return set_aside_count
        except BaseException:
            for key in list(store.keys("")):
                store.delete(key)
            if key_file is not None:
                installed_key.unlink()
            raise


def _restore_files(store: FileStore, file: Path, count: CountCallback) -> None:
    for key, data in archive.read_files(file):
        try:
            store.put(key, data)
        except ValueError as error:
            raise NotReady(f"The backup {file} holds a file that is not ours: {error}") from None
        count("files")


def _require_empty(conninfo: str, store: FileStore, installed_key: Path) -> None:
    if not archive.is_database_empty(conninfo):
        raise NotReady("The database is not empty: restore into an empty one, so that nothing is lost.")
    if next(store.keys(""), None) is not None:
        raise NotReady("The file store is not empty: restore into an empty one, so that nothing is lost.")
    if installed_key.exists():
        raise NotReady(f"There is a secret key already, {installed_key}: restore into an empty home.")


@contextmanager
def _empty_home_on_failure(home: Path) -> Iterator[None]:
    """Only if it was empty before."""
    was_empty = not home.exists() or next(home.iterdir(), None) is None
    try:
        yield
    except BaseException:
        for child in home.iterdir() if was_empty and home.exists() else ():
            if child.is_symlink():  # the database, where the home is closed to its server
                shutil.rmtree(child.resolve())
                child.unlink()
            elif child.is_dir():
                shutil.rmtree(child)
            else:
                child.unlink()
        raise


@contextmanager
def _write_atomically(file: Path) -> Iterator[BinaryIO]:
    """Readable by its owner only."""
    with report_unwritable(file), open_temporary_file(file) as (temporary_path, out):
        yield out
        sync_file(out)
        temporary_path.rename(file)


@contextmanager
def _progress_counter(verb: str) -> Iterator[CountCallback]:
    counts: dict[str, int] = {}
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(f"{verb} nothing yet", total=None)

        def count(category: str) -> None:
            counts[category] = counts.get(category, 0) + 1
            summary = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
            progress.update(task, description=f"{verb} {summary}")

        yield count


def _key_file_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.key")


def _compute_key_checks(encryptor: Encryptor) -> list[str]:
    """The current key first."""
    return [key.hex()[:16] for key in encryptor.derive_keys("backup")]


def _read_key_file(settings: Settings) -> Sequence[bytes]:
    return KeyFile(key_path(settings.home)).read_keys() if settings.secret_key is None else ()


def _format_contents(manifest: archive.BackupManifest) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in manifest.counts.items())


def _print_message(message: str) -> None:
    Console(soft_wrap=True, highlight=False).print(message, markup=False)
