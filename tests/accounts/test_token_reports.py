"""Tokens that somebody has found: whoever can show one ends it, wherever it came from."""

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.service import revoke_leaked_tokens
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import tokens
from quillpost.core.errors import Unauthenticated
from quillpost.core.tokens import hash_token, mint_secret
from support.browser_sessions import make_user
from support.factories import Account, Clock

pytestmark = pytest.mark.usefixtures("clean_database")


def is_good(container: Container, token: str) -> bool:
    try:
        service.authenticate(container.db, token, limit=1_000, now=container.clock())
    except Unauthenticated:
        return False
    return True


def report(container: Container, *shown: str, address: str | None = "192.0.2.9") -> list[int]:
    with container.db.system_transaction() as tx:
        return revoke_leaked_tokens(tx, shown, address=address, now=container.clock())


def lines(container: Container, account: Account) -> list[str]:
    with container.db.system_transaction() as tx:
        return [describe_entry(entry) for entry in audit_service.list_audit_entries(tx, account.id)]


def connect(container: Container, account: Account, *, seed: int = 1, is_used: bool = False) -> tuple[str, str, int]:
    """An app's access token, its refresh token and the connection's number."""
    now = container.clock()
    refresh = mint_secret("refresh", bytes([seed]) * 24)
    person = make_user(container, account.id, f"person{seed}@example.com", password=None)
    with container.db.system_transaction() as tx:
        client = tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=account.id, client_id=f"client-{seed}", name="Zapier", is_public=True,
                redirect_uris=["https://example.com/back"], created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        grant = tx.execute(
            sa.insert(oauth_grants)
            .values(
                account_id=account.id, mode="live", client_id=client, person_id=person, created_at=now,
                connected_at=now,
            )
            .returning(oauth_grants.c.id)
        ).scalar_one()  # fmt: skip
        _, access = insert_token(tx, account.id, name="Zapier", mode="live", scopes=None, grant_id=grant, now=now)
        tx.execute(
            sa.insert(refresh_tokens).values(
                digest=hash_token(refresh), grant_id=grant, created_at=now, expires_at=now + timedelta(days=365),
                used_at=now if is_used else None,
            )
        )  # fmt: skip
    return access, refresh, grant


def ended_by(container: Container, grant: int) -> str | None:
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant))
        ended: str | None = found.scalar_one()
        return ended


def test_tokens_of_several_accounts_are_revoked_together_and_each_account_sees_it(
    container: Container, owner: Account, stranger: Account
) -> None:
    with container.db.system_transaction() as tx:
        kept = insert_token(tx, owner.id, mode="live", name="Kept", now=container.clock())[1]
    assert report(container, stranger.token, owner.token) == [owner.id, stranger.id]
    assert not is_good(container, owner.token)
    assert not is_good(container, stranger.token)
    assert is_good(container, kept)
    for account in (owner, stranger):
        assert lines(container, account) == ["somebody who found it reported a token as leaked: test (test)"]


def test_a_report_is_audited_by_network_and_never_with_the_token(container: Container, owner: Account) -> None:
    report(container, owner.token, address="2001:db8:1:2:3:4:5:6")
    with container.db.system_transaction() as tx:
        (entry,) = audit_service.list_audit_entries(tx, owner.id)
    assert entry.act == "token.leaked"
    assert entry.network == "2001:db8:1:2::/64"
    assert owner.token not in str(entry)


def test_without_an_address_it_was_the_command_line(container: Container, owner: Account) -> None:
    report(container, owner.token, address=None)
    assert lines(container, owner) == [f"{audit_service.COMMAND_LINE_NAME} reported a token as leaked: test (test)"]


@pytest.mark.parametrize("is_used", [False, True])
def test_a_refresh_token_ends_its_family_even_after_it_was_used(
    container: Container, owner: Account, is_used: bool
) -> None:
    access, refresh, grant = connect(container, owner, is_used=is_used)
    other_access, _, other = connect(container, owner, seed=2)
    assert report(container, refresh) == [owner.id]
    assert not is_good(container, access)
    assert ended_by(container, grant) == "leak"
    assert is_good(container, other_access)
    assert ended_by(container, other) is None
    assert lines(container, owner) == ["somebody who found it reported a token as leaked: Zapier (live)"]


def test_an_apps_access_token_goes_alone(container: Container, owner: Account) -> None:
    access, _, grant = connect(container, owner)
    assert report(container, access) == [owner.id]
    assert not is_good(container, access)
    assert ended_by(container, grant) is None


def test_both_of_a_family_in_one_report_are_one_act(container: Container, owner: Account) -> None:
    access, refresh, _ = connect(container, owner)
    assert report(container, access, refresh, access) == [owner.id]
    assert not is_good(container, access)
    assert len(lines(container, owner)) == 1


def test_what_is_worth_nothing_any_more_changes_nothing(container: Container, owner: Account, clock: Clock) -> None:
    with container.db.system_transaction() as tx:
        _, short = insert_token(
            tx, owner.id, name="Short", mode="test", scopes=None, now=clock.now(),
            expires_at=clock.now() + timedelta(hours=1),
        )  # fmt: skip
    _, refresh, _ = connect(container, owner)
    report(container, owner.token, refresh)
    clock.advance(hours=1)
    assert report(container, owner.token, refresh, short) == []
    assert len(lines(container, owner)) == 2
    with container.db.system_transaction() as tx:
        first = tx.execute(sa.select(tokens.c.revoked_at).where(tokens.c.digest == hash_token(owner.token)))
        assert first.scalar_one() == clock.now() - timedelta(hours=1)


def test_what_is_no_token_of_ours_is_nobodys(container: Container, owner: Account) -> None:
    wrong_sum = owner.token[:-1] + ("A" if owner.token[-1] != "A" else "B")
    unknown = [mint_secret("live", b"1" * 24), mint_secret("refresh", b"1" * 24), mint_secret("session", b"1" * 24)]
    assert report(container, "", "hello", wrong_sum, owner.token + " ", *unknown) == []
    assert report(container) == []
    assert is_good(container, owner.token)
    assert lines(container, owner) == []


def test_of_two_that_report_the_same_at_once_one_is_first_and_both_are_answered(
    container: Container, owner: Account, stranger: Account
) -> None:
    _, refresh, _ = connect(container, owner)
    shown = [owner.token, stranger.token, refresh]
    answers: list[list[int]] = []
    both = threading.Barrier(2)

    def run(order: list[str]) -> None:
        both.wait(timeout=30)
        answers.append(report(container, *order))

    threads = [threading.Thread(target=run, args=[order]) for order in (shown, shown[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(answers) == 2
    assert sorted(lines(container, owner)) == [
        "somebody who found it reported a token as leaked: Zapier (live)",
        "somebody who found it reported a token as leaked: test (test)",
    ]
    assert len(lines(container, stranger)) == 1


def test_a_thousand_tokens_take_a_handful_of_statements(container: Container, owner: Account) -> None:
    shown = [mint_secret("live", number.to_bytes(24)) for number in range(999)]
    statements: list[str] = []

    def count(*seen: object) -> None:
        statements.append(str(seen[2]))

    with container.db.system_transaction() as tx:
        sa.event.listen(tx, "before_cursor_execute", count)
        assert revoke_leaked_tokens(tx, [*shown, owner.token], address=None, now=container.clock()) == [owner.id]
        sa.event.remove(tx, "before_cursor_execute", count)
    assert len(statements) <= 3


def test_a_report_is_audited_without_a_person_or_token(container: Container, owner: Account) -> None:
    report(container, owner.token)
    with container.db.system_transaction() as tx:
        (row,) = tx.execute(sa.text("select actor, person_id, token_id from audit_log")).all()
    assert tuple(row) == (Actor("somebody who found it").name, None, None)
