"""Whether the keys that seal secrets are there, and are the right ones."""

from collections.abc import Iterator

from quillpost import wiring
from quillpost.cli.findings import Finding
from quillpost.database import Tx
from quillpost.database.resealing import any_value, is_any_left
from quillpost.fulfilment.batch_store import BatchStore, all_secret
from quillpost.kit.errors import QuillpostError
from quillpost.kit.key_files import KeyFile
from quillpost.kit.sealing import SealBroken
from quillpost.sealed_values import COLUMNS, FILES, count_files

BRING_KEY_BACK = "Bring back the key of this database: FILE.key of its last backup."


def check_key(settings: wiring.Settings, tx: Tx) -> Iterator[Finding]:
    """Present, closed to others, and those that sealed what is in the database."""
    file = KeyFile(wiring.key_path(settings.home))
    path = file.path
    sealed = [found for column in COLUMNS if (found := any_value(tx, column)) is not None]
    if settings.secret_key is None and not path.exists():
        yield _missing_key(is_needed=bool(sealed))
        return
    if settings.secret_key is None and file.is_open_to_others:
        yield Finding("secret key", "broken", f"others may use {path}", f"Run chmod 600 {path}.")
    try:
        sealer = wiring.sealer_of(settings)
        for context, value in sealed:
            sealer.open(value, context=context)
    except QuillpostError as fault:
        yield Finding("secret key", "broken", fault.message, BRING_KEY_BACK)
    except SealBroken:
        what = "it does not open the secrets in this database"
        yield Finding("secret key", "broken", what, BRING_KEY_BACK)
    else:
        place = "QUILLPOST_SECRET_KEY" if settings.secret_key else str(path)
        if len(sealer.ids) > 1:
            yield _several_keys(tx, BatchStore(wiring.file_store(settings), sealer), place)
        else:
            yield Finding("secret key", "ok", place)


def _several_keys(tx: Tx, files: BatchStore, place: str) -> Finding:
    sealer = files.sealer
    left = [str(column) for column in COLUMNS if is_any_left(tx, column, sealer.mark)]
    try:
        if count_files(files, all_secret(tx)).keys() - {sealer.current}:
            left.append(FILES)
    except QuillpostError as fault:
        what = f"nobody can tell which key the {FILES} need: {fault.message}"
        return Finding("secret key", "warning", what, "Bring the file store back.")
    if not left:
        return Finding("secret key", "ok", f"{place}, with {len(sealer.ids)} keys: all is under the first")
    what = f"there are {len(sealer.ids)} keys, and {', '.join(left)} still need a former one"
    return Finding("secret key", "warning", what, "`quillpost keys list` says what to do next.")


def _missing_key(*, is_needed: bool) -> Finding:
    if is_needed:
        what = "it is gone, and this database has secrets that only it opens"
        return Finding("secret key", "broken", what, BRING_KEY_BACK)
    return Finding("secret key", "warning", "there is none yet", "`quillpost serve` makes it.")
