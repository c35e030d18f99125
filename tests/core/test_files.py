"""Files: whose they are, how long they are kept, and what a link opens; and locks that are files."""

import threading
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.files import PendingFile, delete_expired_files, delete_orphaned_files
from quillpost.core.filesystem import FileLock
from quillpost.core.ports import FileMissing
from support.factories import Clock
from support.orders import open_account

PICTURE = b"not really a picture"


def put(container: Container, *, days: int | None = None, purpose: str = "creative") -> PendingFile:
    """Bytes in the store, no row yet."""
    expires = None if days is None else container.clock() + timedelta(days=days)
    return container.storage.put(
        PICTURE, purpose=purpose, content_type="image/png", expires_at=expires, now=container.clock()
    )


def keep(container: Container, account: int, *, days: int | None = None) -> PendingFile:
    kept = put(container, days=days)
    with container.db.transaction(Tenant(account)) as tx:
        container.storage.record_file(tx, kept, account_id=account, sub_account_id=None, now=container.clock())
    return kept


def key_of(tx: Tx, file_id: UUID) -> str | None:
    """Where the file lies, for whoever may see it."""
    key: str | None = tx.execute(sa.select(files.c.key).where(files.c.id == file_id)).scalar()
    return key


def test_a_file_comes_back_as_it_was_but_not_to_a_stranger(container: Container, account: int) -> None:
    kept = keep(container, account)
    with container.db.transaction(Tenant(account)) as tx:
        assert key_of(tx, kept.id) == kept.key
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {PICTURE: kept.id}
        row = tx.execute(sa.select(files)).one()
    assert (row.size, row.content_type, row.purpose) == (len(PICTURE), "image/png", "creative")
    assert bytes(row.sha256) == kept.sha256
    assert container.storage.store.get(kept.key) == PICTURE
    with container.db.transaction(Tenant(open_account(container, "stranger@example.com").account_id)) as tx:
        assert key_of(tx, kept.id) is None
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {}


@pytest.mark.usefixtures("clean_database")
def test_a_file_past_its_time_is_gone_with_its_row(container: Container, clock: Clock, account: int) -> None:
    short, long, for_good = (keep(container, account, days=days) for days in (1, 3, None))
    clock.advance(days=2)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 1
    with container.db.transaction(Tenant(account)) as tx:
        assert (key_of(tx, short.id), key_of(tx, long.id)) == (None, long.key)
        found = container.storage.find_by_content(tx, [PICTURE, b"other"], purpose="creative")
        assert found == {PICTURE: for_good.id}, "the others will go"
    with pytest.raises(FileMissing):
        container.storage.store.get(short.key)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 0


@pytest.mark.usefixtures("clean_database")
def test_a_file_without_a_row_is_swept_up_the_day_after(container: Container, clock: Clock, account: int) -> None:
    kept, *orphans = keep(container, account), put(container), put(container, purpose="preview")
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 0, "they may get their row"
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 2
    assert [container.storage.store.exists(file.key) for file in (kept, *orphans)] == [True, False, False]


def test_whoever_takes_a_lock_waits_until_the_first_has_released_it(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "new" / "lock"), FileLock(tmp_path / "new" / "lock")
    order: list[str] = []
    first.acquire()

    def take_second() -> None:
        second.acquire()
        order.append("second")

    waiting = threading.Thread(target=take_second)
    waiting.start()
    order.append("first ends")
    first.release()
    waiting.join(timeout=30)
    second.release()
    assert order == ["first ends", "second"]
    second.release()
    second.acquire()
    second.release()
