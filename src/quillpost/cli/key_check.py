"""Whether the key that seals secrets is there, and is the right one."""

import stat
from collections.abc import Iterator

import sqlalchemy as sa

from quillpost import wiring
from quillpost.cli.findings import Finding
from quillpost.database import Tx
from quillpost.database.event_tables import webhooks
from quillpost.kit.errors import QuillpostError
from quillpost.kit.sealing import SealBroken
from quillpost.webhooks.service import unseal

KEY_MODE = 0o600
BRING_KEY_BACK = "Bring back the key of this database: FILE.key of its last backup."


def check_key(settings: wiring.Settings, tx: Tx) -> Iterator[Finding]:
    """Present, closed to others, and the one that sealed what is in the database."""
    path = wiring.key_path(settings.home)
    sealed = _any_sealed(tx)
    if settings.secret_key is None and not path.exists():
        yield _missing_key(is_needed=sealed is not None)
        return
    if settings.secret_key is None and stat.S_IMODE(path.stat().st_mode) != KEY_MODE:
        yield Finding("secret key", "broken", f"others may use {path}", f"Run chmod 600 {path}.")
    try:
        sealer = wiring.sealer_of(settings)
        if sealed is not None:
            unseal(sealer, *sealed)
    except QuillpostError as fault:
        yield Finding("secret key", "broken", fault.message, BRING_KEY_BACK)
    except SealBroken:
        what = "it does not open the secrets in this database"
        yield Finding("secret key", "broken", what, BRING_KEY_BACK)
    else:
        yield Finding("secret key", "ok", "QUILLPOST_SECRET_KEY" if settings.secret_key else str(path))


def _missing_key(*, is_needed: bool) -> Finding:
    if is_needed:
        what = "it is gone, and this database has secrets that only it opens"
        return Finding("secret key", "broken", what, BRING_KEY_BACK)
    return Finding("secret key", "warning", "there is none yet", "`quillpost serve` makes it.")


def _any_sealed(tx: Tx) -> tuple[int, bytes] | None:
    """One secret to try the key on, with the number of its webhook."""
    row = tx.execute(sa.select(webhooks.c.id, webhooks.c.secret_sealed).limit(1)).first()
    return None if row is None else (row.id, bytes(row.secret_sealed))
