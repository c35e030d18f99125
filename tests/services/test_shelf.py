"""Files: whose they are, how long they are kept, and what a link opens."""

from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa
from placing import open_account

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import files
from quillpost.core.ports import FileMissing
from quillpost.core.stored_files import Kept, forget_expired, forget_orphans

PICTURE = b"not really a picture"


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def put(parts: Parts, *, days: int | None = None, purpose: str = "creative") -> Kept:
    """Bytes in the store, no row yet."""
    expires = None if days is None else parts.clock() + timedelta(days=days)
    return parts.shelf.put(
        PICTURE, purpose=purpose, content_type="image/png", expires_at=expires, now=parts.clock()
    )


def keep(parts: Parts, who: Caller, *, days: int | None = None) -> Kept:
    kept = put(parts, days=days)
    with parts.db.transaction(tenant(who)) as tx:
        parts.shelf.record(tx, kept, account_id=who.account_id, sub_account_id=None, now=parts.clock())
    return kept


def key_of(tx: Tx, file_id: UUID) -> str | None:
    """Where the file lies, for whoever may see it."""
    key: str | None = tx.execute(sa.select(files.c.key).where(files.c.id == file_id)).scalar()
    return key


def test_a_file_comes_back_as_it_was(parts: Parts, owner: Caller) -> None:
    kept = keep(parts, owner)
    with parts.db.transaction(tenant(owner)) as tx:
        key = key_of(tx, kept.id)
        assert key == kept.key
        assert parts.shelf.find(tx, [PICTURE], purpose="creative") == {PICTURE: kept.id}
        row = tx.execute(sa.select(files)).one()
    assert (row.size, row.content_type, row.purpose) == (len(PICTURE), "image/png", "creative")
    assert bytes(row.sha256) == kept.sha256
    assert parts.shelf.store.get(key) == PICTURE


def test_a_stranger_s_file_is_not_there(parts: Parts, owner: Caller) -> None:
    kept = keep(parts, owner)
    stranger = open_account(parts, "stranger@example.com")
    with parts.db.transaction(tenant(stranger)) as tx:
        assert key_of(tx, kept.id) is None
        assert parts.shelf.find(tx, [PICTURE], purpose="creative") == {}


def test_a_file_past_its_time_is_gone_with_its_row(parts: Parts, clock: Clock, owner: Caller) -> None:
    short, long, for_good = keep(parts, owner, days=1), keep(parts, owner, days=3), keep(parts, owner)
    clock.advance(days=2)
    assert forget_expired(parts.db, parts.shelf, now=parts.clock()) == 1
    with parts.db.transaction(tenant(owner)) as tx:
        assert key_of(tx, short.id) is None
        assert key_of(tx, long.id) == long.key
        found = parts.shelf.find(tx, [PICTURE, b"other"], purpose="creative")
        assert found == {PICTURE: for_good.id}, "the others will go"
    with pytest.raises(FileMissing):
        parts.shelf.store.get(short.key)
    assert forget_expired(parts.db, parts.shelf, now=parts.clock()) == 0


@pytest.mark.parametrize("purpose", ["creative", "preview"])
def test_a_file_without_a_row_is_swept_up_the_day_after(parts: Parts, clock: Clock, purpose: str) -> None:
    orphan = put(parts, purpose=purpose)
    assert forget_orphans(parts.db, parts.shelf, now=parts.clock()) == 0, "it may still get its row"
    clock.advance(days=1)
    assert forget_orphans(parts.db, parts.shelf, now=parts.clock()) == 1
    assert not parts.shelf.store.exists(orphan.key)


def test_a_file_with_a_row_is_not_an_orphan(parts: Parts, clock: Clock, owner: Caller) -> None:
    kept = keep(parts, owner)
    clock.advance(days=1)
    assert forget_orphans(parts.db, parts.shelf, now=parts.clock()) == 0
    assert parts.shelf.store.exists(kept.key)


def test_a_link_opens_its_file_until_it_expires(parts: Parts, clock: Clock) -> None:
    kept = put(parts)
    path = parts.shelf.path(kept.id, expires=parts.clock() + timedelta(days=7))
    token = path.removeprefix("/files/")
    assert parts.shelf.subject(token, now=parts.clock()) == str(kept.id)
    assert parts.shelf.subject(token[:-1] + "!", now=parts.clock()) is None
    clock.advance(days=7)
    assert parts.shelf.subject(token, now=parts.clock()) is None
