"""What nobody can use any more is forgotten, a bit at a time, and nothing else."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from front_door import come
from signed_in import make_person

from makers import Clock
from quillpost.accounts.tokens.queries import insert_token
from quillpost.accounts.users import tasks as user_tasks
from quillpost.app.container import Parts
from quillpost.app.tasks import tasks
from quillpost.core.database.tables.base import tokens
from quillpost.core.database.tables.users import (
    invitations,
    memberships,
    oauth_clients,
    oauth_codes,
    oauth_grants,
    password_resets,
    people,
    refresh_tokens,
    sessions,
)


def insert(parts: Parts, table: sa.Table, **values: Any) -> None:
    with parts.db.work() as tx:
        tx.execute(sa.insert(table).values(**values))


def count(parts: Parts, table: sa.Table) -> int:
    with parts.db.work() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def forget(parts: Parts) -> None:
    user_tasks.forget_ended(parts.db, now=parts.clock())


def test_sessions_go_when_they_have_ended(parts: Parts, clock: Clock, dana: int) -> None:
    come(parts)
    clock.advance(days=6)
    come(parts)
    clock.advance(days=1, minutes=1)
    forget(parts)
    assert count(parts, sessions) == 1
    clock.advance(days=30)
    forget(parts)
    assert count(parts, sessions) == 0


def grant(parts: Parts, account: int, person: int, **how: Any) -> int:
    now = parts.clock()
    with parts.db.work() as tx:
        client = tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=account, client_id=f"c{now}", name="App", is_public=True, redirect_uris=["x"],
                created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        made = sa.insert(oauth_grants).values(
            account_id=account, mode="test", client_id=client, person_id=person, created_at=now, **how
        )
        return int(tx.execute(made.returning(oauth_grants.c.id)).scalar_one())


def test_links_codes_and_tokens_go_a_month_after_their_end(
    parts: Parts, clock: Clock, account: int, dana: int
) -> None:
    now = parts.clock()
    end = {"created_at": now, "expires_at": now + timedelta(hours=1)}
    connected = grant(parts, account, dana, connected_at=now)
    insert(parts, password_resets, digest=b"r", person_id=dana, **end)
    insert(parts, invitations, digest=b"i", account_id=account, email="x@example.com", role="member", **end)
    insert(parts, oauth_codes, digest=b"c", grant_id=connected, redirect_uri="x", **end)
    insert(parts, refresh_tokens, digest=b"f", grant_id=connected, **end)
    with parts.db.work() as tx:
        for expires_at in (end["expires_at"], None):
            insert_token(tx, account, name="x", mode="test", scopes=None, expires_at=expires_at, now=now)
    tables = (password_resets, invitations, oauth_codes, refresh_tokens, tokens)
    clock.advance(days=30, hours=1)
    forget(parts)
    assert [count(parts, table) for table in tables] == [1, 1, 1, 1, 2]
    clock.advance(seconds=1)
    forget(parts)
    assert [count(parts, table) for table in tables] == [0, 0, 0, 0, 1], "a token without an end stays"
    assert count(parts, oauth_grants) == 1


def test_an_accepted_invitation_goes_a_month_after_that(parts: Parts, clock: Clock, account: int) -> None:
    now = parts.clock()
    for number, how in enumerate(({"accepted_at": now}, {"revoked_at": now}, {})):
        insert(
            parts, invitations, digest=bytes([number]), account_id=account, email=f"{number}@example.com",
            role="member", created_at=now, expires_at=now + timedelta(days=7), **how,
        )  # fmt: skip
    clock.advance(days=31)
    forget(parts)
    assert count(parts, invitations) == 1


def test_a_leave_that_was_never_used_goes_after_a_day(
    parts: Parts, clock: Clock, account: int, dana: int
) -> None:
    grant(parts, account, dana)
    clock.advance(hours=12)
    grant(parts, account, dana, connected_at=parts.clock())
    forget(parts)
    assert count(parts, oauth_grants) == 2
    clock.advance(hours=13)
    forget(parts)
    assert count(parts, oauth_grants) == 1


def test_whoever_is_in_no_account_is_forgotten(parts: Parts, account: int, dana: int) -> None:
    lee = make_person(parts, account, "lee@example.com")
    with parts.db.work() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.person_id == lee))
    forget(parts)
    with parts.db.work() as tx:
        assert tx.execute(sa.select(people.c.id)).scalars().all() == [dana]


def test_much_is_forgotten_bit_by_bit(
    parts: Parts, clock: Clock, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tasks, "STEP", 3)
    for _ in range(8):
        come(parts)
    clock.advance(days=40)
    come(parts)
    forget(parts)
    assert count(parts, sessions) == 1


def test_it_is_done_every_hour(parts: Parts, clock: Clock, dana: int) -> None:
    come(parts)
    clock.advance(days=40)
    (task,) = (task for task in tasks(parts) if task.name == "people.forget_ended")
    assert task.every == "19 * * * *"
    task.run()
    assert count(parts, sessions) == 0
