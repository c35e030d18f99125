"""Personal access tokens: what is refused, what is kept of them, and that a revoked one is worth nothing."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from signed_in import make_person

from makers import Account, Clock, make_sub_account
from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import SCOPES
from quillpost.accounts.tokens import service as personal
from quillpost.accounts.tokens.queries import insert_token
from quillpost.app.container import Parts
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.database.tables.users import sessions
from quillpost.core.errors import Invalid, NotFound, Unauthenticated

DANA, FINN = "dana@example.com", "finn@example.com"


def create(parts: Parts, account: Account, actor: Actor | None = None, **changes: Any) -> str:
    wish: dict[str, Any] = {
        "name": "Zapier", "mode": "test", "scopes": None, "sub_account_id": None, "expires_at": None,
    }  # fmt: skip
    with parts.db.transaction(Tenant(account.id)) as tx:
        return personal.create_token(
            tx, account.id, **wish | changes, actor=actor or Actor(DANA), now=parts.clock()
        )


def listed(parts: Parts, account: Account) -> list[personal.PersonalToken]:
    with parts.db.transaction(Tenant(account.id)) as tx:
        return [each for each in personal.list_tokens(tx, account.id) if each.name != "test"]


def revoke(parts: Parts, account: Account, token_id: int) -> None:
    with parts.db.transaction(Tenant(account.id)) as tx:
        personal.revoke_token(tx, account.id, token_id, Actor(DANA), now=parts.clock())


def is_good(parts: Parts, token: str) -> bool:
    try:
        service.authenticate(parts.db, token, limit=1_000, now=parts.clock())
    except Unauthenticated:
        return False
    return True


def log_of(parts: Parts, account: Account) -> list[audit_service.Entry]:
    with parts.db.work() as tx:
        return list(audit_service.read_log(tx, account.id))


def test_a_token_opens_the_account_in_its_mode_and_only_its_digest_is_kept(
    parts: Parts, owner: Account
) -> None:
    token = create(parts, owner, mode="live")
    assert token_format.mode_of(token) == "live"
    who, _ = service.authenticate(parts.db, token, limit=10, now=parts.clock())
    assert (who.account_id, who.mode, who.scopes, who.sub_account_id) == (owner.id, "live", None, None)
    with parts.db.work() as tx:
        rows = tx.execute(sa.select(tokens).where(tokens.c.name == "Zapier")).mappings().all()
    assert [row["digest"] for row in rows] == [token_format.digest(token)]
    assert token not in str(rows)


def test_the_list_tells_all_of_a_token_but_the_token(parts: Parts, owner: Account, clock: Clock) -> None:
    branch = make_sub_account(parts, owner, "Austin")
    person = make_person(parts, owner.id, DANA, password=None)
    until = clock.now() + timedelta(days=30)
    token = create(
        parts,
        owner,
        Actor(DANA, person_id=person),
        scopes=["orders:read", "send:write", "orders:read"],
        sub_account_id=branch,
        expires_at=until,
    )
    clock.advance(minutes=5)
    service.authenticate(parts.db, token, limit=10, now=parts.clock())
    (seen,) = listed(parts, owner)
    assert (seen.name, seen.mode, seen.hint) == ("Zapier", "test", token[-4:])
    assert seen.scopes == ["send:write", "orders:read"]
    assert (seen.sub_account_id, seen.sub_account_title, seen.maker) == (branch, "Austin", DANA)
    assert (seen.expires_at, seen.last_used_at) == (until, clock.now())


def test_one_made_at_the_command_line_is_listed_too_and_nobody_made_it(parts: Parts, owner: Account) -> None:
    with parts.db.transaction(Tenant(owner.id)) as tx:
        (seen,) = personal.list_tokens(tx, owner.id)
    assert (seen.name, seen.hint, seen.maker) == ("test", owner.token[-4:], None)


def test_a_token_expires_by_the_clock_and_is_still_listed(parts: Parts, owner: Account, clock: Clock) -> None:
    token = create(parts, owner, expires_at=clock.now() + timedelta(days=30))
    clock.advance(days=29, hours=23)
    assert is_good(parts, token)
    clock.advance(hours=1)
    assert not is_good(parts, token)
    assert [each.name for each in listed(parts, owner)] == ["Zapier"]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", "", "Give the token a name that says what it is for."),
        ("name", "x" * 101, "The name has at most 100 characters."),
        ("name", "two\nlines", "The name is one line of plain text."),
        (
            "name",
            "qp_live_" + "x" * 39,
            "This name holds a token: choose another, and revoke that token if others may have seen it.",
        ),
        ("mode", "production", "Choose test or live."),
        ("scopes", [], "Choose at least one thing that it may do."),
        ("scopes", ["send"], f"Unknown scope send. Known scopes: {', '.join(SCOPES)}."),
        ("sub_account_id", 999_999, "There is no such sub account."),
    ],
)
def test_a_wish_that_cannot_be_is_refused_by_its_field(
    parts: Parts, owner: Account, field: str, value: Any, sentence: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create(parts, owner, **{field: value})
    assert refused.value.fields == {field: [sentence]}
    assert listed(parts, owner) == []
    assert log_of(parts, owner) == []


def test_all_faults_are_told_at_once(parts: Parts, owner: Account, clock: Clock) -> None:
    with pytest.raises(Invalid) as refused:
        create(parts, owner, name="", mode="", scopes=[], sub_account_id=0, expires_at=clock.now())
    assert set(refused.value.fields) == {"name", "mode", "scopes", "sub_account_id", "expires_at"}


def test_a_sub_account_of_a_stranger_or_one_that_has_gone_is_none(
    parts: Parts, owner: Account, stranger: Account
) -> None:
    gone = make_sub_account(parts, owner, "Closed")
    with parts.db.work() as tx:
        tx.execute(sa.update(sub_accounts).where(sub_accounts.c.id == gone).values(deleted_at=parts.clock()))
    for branch in (gone, make_sub_account(parts, stranger, "Theirs")):
        with pytest.raises(Invalid, match="no such sub account"):
            create(parts, owner, sub_account_id=branch)


def test_a_strangers_sub_account_is_none_at_the_command_line_either(
    parts: Parts, owner: Account, stranger: Account
) -> None:
    theirs = make_sub_account(parts, stranger, "Theirs")
    with parts.db.work() as tx, pytest.raises(Invalid, match="no such sub account"):  # which sees them all
        personal.create_token(
            tx, owner.id, name="Zapier", mode="test", scopes=None, sub_account_id=theirs, expires_at=None,
            actor=Actor(DANA), now=parts.clock(),
        )  # fmt: skip


def test_an_account_has_only_so_many(
    parts: Parts, owner: Account, stranger: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal, "MOST_TOKENS", 2)
    create(parts, owner)
    with pytest.raises(Invalid, match="at most 2 tokens: revoke those that nobody uses"):
        create(parts, owner)
    create(parts, stranger)


def test_a_revoked_token_is_unknown_at_once_and_off_the_list(parts: Parts, owner: Account) -> None:
    first, second = create(parts, owner), create(parts, owner, name="Other")
    _, zapier = listed(parts, owner)
    revoke(parts, owner, zapier.id)
    assert not is_good(parts, first)
    assert is_good(parts, second)
    assert [each.name for each in listed(parts, owner)] == ["Other"]


def test_only_a_token_of_ones_own_that_is_in_force_can_be_revoked(
    parts: Parts, owner: Account, stranger: Account
) -> None:
    token = create(parts, owner)
    (seen,) = listed(parts, owner)
    with pytest.raises(NotFound):
        revoke(parts, stranger, seen.id)
    with parts.db.work() as tx, pytest.raises(NotFound):  # not for want of sight
        personal.revoke_token(tx, stranger.id, seen.id, Actor(DANA), now=parts.clock())
    assert is_good(parts, token)
    revoke(parts, owner, seen.id)
    with pytest.raises(NotFound):
        revoke(parts, owner, seen.id)
    with pytest.raises(NotFound):
        revoke(parts, owner, 999_999)
    assert [entry.act for entry in log_of(parts, owner)] == ["token.revoked", "token.created"]
    assert log_of(parts, stranger) == []


def test_a_pages_own_token_is_on_no_list_and_not_for_revoking(parts: Parts, owner: Account) -> None:
    person = make_person(parts, owner.id, DANA, password=None)
    now = parts.clock()
    with parts.db.work() as tx:
        session = tx.execute(
            sa.insert(sessions)
            .values(
                digest=b"1" * 32, person_id=person, mode="test", awaits_code=False,
                created_at=now, confirmed_at=now, seen_at=now, expires_at=now,
            )
            .returning(sessions.c.id)
        ).scalar_one()  # fmt: skip
        made, token = insert_token(
            tx, owner.id, name="page", mode="test", scopes=None, person_id=person, session_id=session, now=now
        )
    assert listed(parts, owner) == []
    with pytest.raises(NotFound):
        revoke(parts, owner, made)
    with parts.db.work() as tx:
        assert personal.revoke_of_person(tx, owner.id, person, now=now) == 0
    assert is_good(parts, token)


def test_making_and_revoking_are_noted_without_the_token(parts: Parts, owner: Account) -> None:
    branch = make_sub_account(parts, owner, "Austin")
    token = create(parts, owner, Actor(DANA, address="192.0.2.7"), sub_account_id=branch)
    (seen,) = listed(parts, owner)
    revoke(parts, owner, seen.id)
    revoked, created = log_of(parts, owner)
    assert (created.act, created.actor, created.network) == ("token.created", DANA, "192.0.2.7")
    assert (revoked.act, revoked.actor) == ("token.revoked", DANA)
    assert created.about == revoked.about == {"id": seen.id, "name": "Zapier", "mode": "test"}
    assert {created.sub_account_id, revoked.sub_account_id} == {branch}
    assert token not in f"{created}{revoked}"


def test_all_tokens_that_a_person_made_in_an_account_go_and_no_others(
    parts: Parts, owner: Account, stranger: Account, clock: Clock
) -> None:
    dana, finn = (
        make_person(parts, owner.id, DANA, password=None),
        make_person(parts, owner.id, FINN, password=None),
    )
    make_person(parts, stranger.id, DANA, password=None)
    of_dana = Actor(DANA, person_id=dana)
    gone = [create(parts, owner, of_dana), create(parts, owner, of_dana, mode="live")]
    create(parts, owner, of_dana, expires_at=clock.now() + timedelta(seconds=1))
    kept = [
        create(parts, owner, Actor(FINN, person_id=finn)),
        create(parts, stranger, of_dana),
        owner.token,
    ]
    clock.advance(seconds=1)
    with parts.db.work() as tx:
        assert personal.revoke_of_person(tx, owner.id, dana, now=parts.clock()) == 2
    assert [is_good(parts, token) for token in gone] == [False, False]
    assert [is_good(parts, token) for token in kept] == [True, True, True]
