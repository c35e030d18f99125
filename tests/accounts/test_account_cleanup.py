"""What nobody can use any more is forgotten, a bit at a time, and nothing else."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import tasks as user_tasks
from quillpost.app.container import Container
from quillpost.app.tasks import build_tasks
from quillpost.core.database.tables.accounts import (
    invitations,
    memberships,
    oauth_codes,
    oauth_grants,
    password_resets,
    people,
    refresh_tokens,
    sessions,
)
from quillpost.core.database.tables.base import tokens
from support.factories import Clock
from support.oauth_app import insert_grant
from support.rows import execute, scalar, scalars
from support.sign_in import make_user, sign_in_as

pytestmark = pytest.mark.usefixtures("clean_database")


def insert(container: Container, table: sa.Table, **values: Any) -> None:
    execute(container, sa.insert(table).values(created_at=container.clock(), **values))


def count(container: Container, *tables: sa.Table) -> list[int]:
    return [scalar(container, sa.select(sa.func.count()).select_from(table)) for table in tables]


def delete_expired(container: Container) -> None:
    user_tasks.delete_expired_access(container.db, now=container.clock())


def test_sessions_go_when_they_have_ended_bit_by_bit_and_every_hour(
    container: Container, clock: Clock, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tasks, "BATCH_SIZE", 3)
    sign_in_as(container)
    clock.advance(days=6)
    for _ in range(8):
        sign_in_as(container)
    clock.advance(days=1, minutes=1)
    delete_expired(container)
    assert count(container, sessions) == [8]
    clock.advance(days=30)
    sign_in_as(container)
    delete_expired(container)
    assert count(container, sessions) == [1]
    clock.advance(days=40)
    (task,) = (task for task in build_tasks(container) if task.name == "users.delete_expired_access")
    assert task.cron == "19 * * * *"
    task.run()
    assert count(container, sessions) == [0]


def test_links_codes_and_tokens_go_a_month_after_their_end(
    container: Container, clock: Clock, account: int, dana: int
) -> None:
    now, connected = container.clock(), insert_grant(container, account, dana)
    end = {"expires_at": now + timedelta(hours=1)}
    insert(container, password_resets, digest=b"r", person_id=dana, **end)
    insert(container, invitations, digest=b"i", account_id=account, email="x@example.com", role="member", **end)
    insert(container, oauth_codes, digest=b"c", grant_id=connected, redirect_uri="x", **end)
    insert(container, refresh_tokens, digest=b"f", grant_id=connected, **end)
    with container.db.system_transaction() as tx:
        for expires_at in (end["expires_at"], None):
            insert_token(tx, account, name="x", mode="test", scopes=None, expires_at=expires_at, now=now)
    tables = (password_resets, invitations, oauth_codes, refresh_tokens, tokens)
    clock.advance(days=30, hours=1)
    delete_expired(container)
    assert count(container, *tables) == [1, 1, 1, 1, 2]
    clock.advance(seconds=1)
    delete_expired(container)
    assert count(container, *tables) == [0, 0, 0, 0, 1], "a token without an end stays"
    assert count(container, oauth_grants) == [1]


def test_an_accepted_invitation_goes_a_month_after_that_and_a_leave_that_was_never_used_after_a_day(
    container: Container, clock: Clock, account: int, dana: int
) -> None:
    usual = {"account_id": account, "role": "member", "expires_at": clock.now() + timedelta(days=7)}
    for number, how in enumerate(({"accepted_at": clock.now()}, {"revoked_at": clock.now()}, {})):
        insert(container, invitations, digest=bytes([number]), email=f"{number}@example.com", **usual, **how)
    insert_grant(container, account, dana, is_connected=False)
    clock.advance(hours=12)
    insert_grant(container, account, dana)
    delete_expired(container)
    assert count(container, invitations, oauth_grants) == [3, 2]
    clock.advance(hours=13)
    delete_expired(container)
    assert count(container, invitations, oauth_grants) == [3, 1]
    clock.advance(days=30)
    delete_expired(container)
    assert count(container, invitations, oauth_grants) == [1, 1]


def test_whoever_is_in_no_account_is_forgotten(container: Container, account: int, dana: int) -> None:
    lee = make_user(container, account, "lee@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == lee))
    delete_expired(container)
    assert scalars(container, sa.select(people.c.id)) == [dana]
