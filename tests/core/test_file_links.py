"""Files: whose they are, how long they are kept, and what a link opens."""

from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import files
from quillpost.core.files import PendingFile, delete_expired_files, delete_orphaned_files
from quillpost.core.ports import FileMissing
from support.factories import Clock
from support.orders import open_account

PICTURE = b"not really a picture"


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def put(container: Container, *, days: int | None = None, purpose: str = "creative") -> PendingFile:
    """Bytes in the store, no row yet."""
    expires = None if days is None else container.clock() + timedelta(days=days)
    return container.storage.put(
        PICTURE, purpose=purpose, content_type="image/png", expires_at=expires, now=container.clock()
    )


def keep(container: Container, caller: Caller, *, days: int | None = None) -> PendingFile:
    kept = put(container, days=days)
    with container.db.transaction(build_tenant(caller)) as tx:
        container.storage.record_file(
            tx, kept, account_id=caller.account_id, sub_account_id=None, now=container.clock()
        )
    return kept


def key_of(tx: Tx, file_id: UUID) -> str | None:
    """Where the file lies, for whoever may see it."""
    key: str | None = tx.execute(sa.select(files.c.key).where(files.c.id == file_id)).scalar()
    return key


def test_a_file_comes_back_as_it_was(container: Container, owner: Caller) -> None:
    kept = keep(container, owner)
    with container.db.transaction(build_tenant(owner)) as tx:
        key = key_of(tx, kept.id)
        assert key == kept.key
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {PICTURE: kept.id}
        row = tx.execute(sa.select(files)).one()
    assert (row.size, row.content_type, row.purpose) == (len(PICTURE), "image/png", "creative")
    assert bytes(row.sha256) == kept.sha256
    assert container.storage.store.get(key) == PICTURE


def test_a_stranger_s_file_is_not_there(container: Container, owner: Caller) -> None:
    kept = keep(container, owner)
    stranger = open_account(container, "stranger@example.com")
    with container.db.transaction(build_tenant(stranger)) as tx:
        assert key_of(tx, kept.id) is None
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {}


def test_a_file_past_its_time_is_gone_with_its_row(container: Container, clock: Clock, owner: Caller) -> None:
    short, long, for_good = (keep(container, owner, days=1), keep(container, owner, days=3), keep(container, owner))
    clock.advance(days=2)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 1
    with container.db.transaction(build_tenant(owner)) as tx:
        assert key_of(tx, short.id) is None
        assert key_of(tx, long.id) == long.key
        found = container.storage.find_by_content(tx, [PICTURE, b"other"], purpose="creative")
        assert found == {PICTURE: for_good.id}, "the others will go"
    with pytest.raises(FileMissing):
        container.storage.store.get(short.key)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 0


@pytest.mark.parametrize("purpose", ["creative", "preview"])
def test_a_file_without_a_row_is_swept_up_the_day_after(container: Container, clock: Clock, purpose: str) -> None:
    orphan = put(container, purpose=purpose)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 0, (
        "it may still get its row"
    )
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 1
    assert not container.storage.store.exists(orphan.key)


def test_a_file_with_a_row_is_not_an_orphan(container: Container, clock: Clock, owner: Caller) -> None:
    kept = keep(container, owner)
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 0
    assert container.storage.store.exists(kept.key)


def test_a_link_opens_its_file_until_it_expires(container: Container, clock: Clock) -> None:
    kept = put(container)
    path = container.storage.signed_path(kept.id, expires_at=container.clock() + timedelta(days=7))
    token = path.removeprefix("/files/")
    assert container.storage.verify_token(token, now=container.clock()) == str(kept.id)
    assert container.storage.verify_token(token[:-1] + "!", now=container.clock()) is None
    clock.advance(days=7)
    assert container.storage.verify_token(token, now=container.clock()) is None
