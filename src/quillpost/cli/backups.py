"""Backup and restore: the database and the files in one file, the key that opens the secrets beside it."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from quillpost import __version__
from quillpost.app.runtime import Footing, file_store, key_path, load_settings, open_ground, sealer_of, stand
from quillpost.cli.print_files import counted
from quillpost.cli.runtime import schema_of
from quillpost.core.database import archive, dump
from quillpost.core.database.embedded.binaries import Binaries, find_binaries
from quillpost.core.database.schema import require_current, state_of
from quillpost.core.encryption import Sealer
from quillpost.core.errors import NotReady
from quillpost.core.files import drafted, sync_file
from quillpost.core.key_files import KeyFile, written_keys
from quillpost.core.ports import FileMissing, FileStore
from quillpost.core.settings import Settings

BATCH_IN_KEY = re.compile(r"(?:^batches/|[/-]batch-)(\d+)")
"""How the keys of a production batch and of its print job name the batch."""

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, such as monday.qpb.")]
CountFile = Callable[[str], None]


def add_to(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)


def backup(file: BackupFile) -> None:
    """Write everything into FILE, while the service runs or not.

    FILE holds the database and all files. The secret key goes to FILE.key: together they are the whole
    service, so keep them in two places. A key from QUILLPOST_SECRET_KEY is yours to keep, and not written.
    """
    key_file = _key_file(file)
    for path in (file, key_file):
        if path.exists():
            raise NotReady(f"{path} is there already: choose another name.")
    settings = load_settings()
    binaries = find_binaries(settings.postgres_bin)
    ground = open_ground(settings)
    try:
        if schema_of(ground.conninfo).verdict == "empty":
            raise NotReady("There is nothing to back up: the database is empty.")
        footing = stand(settings, ground.conninfo)
        keys_then = _keys_in_file(settings)
        with _written_whole(file) as out, _counting("Saved") as count:
            manifest = _write(out, footing, binaries, count)
        footing.db.close()
    finally:
        ground.close()
    if settings.secret_key is None:
        with _written_whole(key_file) as out:
            # One that was forgotten meanwhile has sealed what is in the snapshot; a new one, files.
            out.write(written_keys([*_keys_in_file(settings), *keys_then]).encode("ascii"))
    _say(f"{file} holds everything: {_contents(manifest)}.")
    if settings.secret_key is None:
        _say(f"The key that opens its secrets is in {key_file}: keep it elsewhere, and safe.")
    else:
        _say("The key that opens its secrets is your QUILLPOST_SECRET_KEY, which is not in it.")


def restore(file: BackupFile) -> None:
    """Bring a backup back, into an empty home and an empty database.

    The secret key is read from FILE.key, or from QUILLPOST_SECRET_KEY. The whole backup is checked before
    anything is written, and whatever fails leaves all as empty as it was.
    """
    settings = load_settings()
    if not file.is_file():
        raise NotReady(f"There is no backup {file}.")
    key_file = None if settings.secret_key else _key_file(file)
    if key_file is not None and not key_file.is_file():
        raise NotReady(
            f"The backup's secret key is missing: put it beside the backup as {key_file}, "
            "or set QUILLPOST_SECRET_KEY."
        )
    manifest = archive.verified(file)
    found = state_of(manifest.schema)
    if found.verdict == "newer":
        require_current(found)
    with _left_empty_on_failure(settings.home.absolute()):
        cards_set_aside = _restore(settings, file, key_file, manifest)
    _say(f"Everything is as it was at {manifest.taken_at}: {_contents(manifest)}.")
    _say("What was handed to the printer since is not known any more: see Backups in docs/operate.md.")
    if cards_set_aside:
        _say(
            f"{counted(cards_set_aside, 'gift card')} in stock may have been mailed since, and none is given "
            "before `quillpost giftcards release-stock`: see there."
        )
    _say("Everyone signs in anew. Tokens that were revoked since, and people who were removed, are back.")
    if not set(manifest.key_check.split()) <= set(_key_checks(sealer_of(settings))):
        _say(
            "A former key of this backup is not among yours: `quillpost keys list` says whether it is needed."
        )
    if found.verdict == "older":
        _say("It was written by an older release: run `quillpost migrate` next.")


def _write(out: BinaryIO, footing: Footing, binaries: Binaries, count: CountFile) -> archive.Manifest:
    """Files first: what the snapshot knows was in the store before it, and stays there."""
    with dump.held_snapshot(footing.db.conninfo) as snapshot:
        manifest = archive.Manifest(
            release=__version__,
            schema=snapshot.schema,
            taken_at=footing.clock().isoformat(timespec="seconds"),
            key_check=" ".join(_key_checks(footing.sealer)),
            counts=snapshot.counts,
        )
        with archive.ArchiveWriter(out, manifest) as writer:
            for key, data in _known_files(footing.store, snapshot.last_batch):
                writer.add_file(key, data)
                count("files")
            for piece in dump.dumped(binaries, footing.db.conninfo, snapshot):
                writer.add_database_piece(piece)
                count("pieces of the database")
            writer.finish()
    return manifest


def _known_files(store: FileStore, last_batch: int) -> Iterator[tuple[str, bytes]]:
    """All files but those of later batches, of which a restored service knows nothing."""
    for key in store.keys(""):
        batch = BATCH_IN_KEY.search(key)
        if batch is not None and int(batch[1]) > last_batch:
            continue
        try:
            yield key, store.get(key)
        except FileMissing:  # past its time, and tidied away since the listing
            continue


def _restore(settings: Settings, file: Path, key_file: Path | None, manifest: archive.Manifest) -> int:
    """How many gift cards in stock were set aside."""
    binaries = find_binaries(settings.postgres_bin)
    installed_key = key_path(settings.home)
    ground = open_ground(settings)
    try:
        # Before the file store makes it, which would leave it open.
        installed_key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = file_store(settings)
        _require_empty(ground.conninfo, store, installed_key)
        if key_file is not None:
            with _written_whole(installed_key) as out:
                out.write(key_file.read_bytes())
        try:
            if _current_check(manifest) not in _key_checks(sealer_of(settings)):
                raise NotReady("The secret key is not the one of this backup.")
            with _counting("Restored") as count:
                _put_files(store, file, count)
                # Last, and in one transaction: once the database is there, everything is.
                dump.load(binaries, ground.conninfo, archive.database_in(file))
                cards_set_aside = dump.pass_by_given_out(ground.conninfo)
                dump.end_sessions(ground.conninfo)
                return cards_set_aside
        except BaseException:
            for key in list(store.keys("")):
                store.delete(key)
            if key_file is not None:
                installed_key.unlink()
            raise
    finally:
        ground.close()


def _put_files(store: FileStore, file: Path, count: CountFile) -> None:
    for key, data in archive.files_in(file):
        try:
            store.put(key, data)
        except ValueError as strange:
            raise NotReady(f"The backup {file} holds a file that is not ours: {strange}") from None
        count("files")


def _require_empty(conninfo: str, store: FileStore, installed_key: Path) -> None:
    if not dump.is_blank(conninfo):
        raise NotReady("The database is not empty: restore into an empty one, so that nothing is lost.")
    if next(store.keys(""), None) is not None:
        raise NotReady("The file store is not empty: restore into an empty one, so that nothing is lost.")
    if installed_key.exists():
        raise NotReady(f"There is a secret key already, {installed_key}: restore into an empty home.")


@contextmanager
def _left_empty_on_failure(home: Path) -> Iterator[None]:
    """A home in which there was nothing has nothing in it again; any other was not touched."""
    is_new = not home.exists() or next(home.iterdir(), None) is None
    try:
        yield
    except BaseException:
        for child in home.iterdir() if is_new and home.exists() else ():
            if child.is_symlink():  # the database, where the home is closed to its server
                shutil.rmtree(child.resolve())
                child.unlink()
            elif child.is_dir():
                shutil.rmtree(child)
            else:
                child.unlink()
        raise


@contextmanager
def _written_whole(file: Path) -> Iterator[BinaryIO]:
    """A file for its owner's eyes that is there when it is complete, and not before."""
    try:
        with drafted(file) as (draft, out):
            yield out
            sync_file(out)
            draft.rename(file)
    except OSError as fault:
        raise NotReady(f"{file} cannot be written: {fault.strerror}.") from None


@contextmanager
def _counting(verb: str) -> Iterator[CountFile]:
    """A line that shows that the work goes on, on a terminal."""
    done: dict[str, int] = {}
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        line = progress.add_task(f"{verb} nothing yet", total=None)

        def count(what: str) -> None:
            done[what] = done.get(what, 0) + 1
            shown = ", ".join(f"{number:,} {kind}" for kind, number in done.items())
            progress.update(line, description=f"{verb} {shown}")

        yield count


def _key_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.key")


def _key_checks(sealer: Sealer) -> list[str]:
    """Of the current key, and of the former ones."""
    return [key.hex()[:16] for key in sealer.derive_all("backup")]


def _current_check(manifest: archive.Manifest) -> str:
    return manifest.key_check.partition(" ")[0]


def _keys_in_file(settings: Settings) -> Sequence[bytes]:
    return KeyFile(key_path(settings.home)).read() if settings.secret_key is None else ()


def _contents(manifest: archive.Manifest) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in manifest.counts.items())


def _say(sentence: str) -> None:
    Console(soft_wrap=True, highlight=False).print(sentence, markup=False)
