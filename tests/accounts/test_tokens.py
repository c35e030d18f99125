"""Tokens: their format and scopes, those that people make, and what happens to one that is reported as leaked."""

import hashlib
import random
import re
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens import rules
from quillpost.accounts.tokens import service as personal
from quillpost.accounts.tokens.service import revoke_leaked_tokens
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.accounts import oauth_grants, refresh_tokens, sessions
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.tokens import Mode, hash_token, mint_secret
from quillpost.orders.service import new_short_code
from quillpost.web.oauth.forms import quote_scopes
from support.factories import Account, Clock, make_sub_account
from support.oauth_app import insert_grant
from support.rows import execute, run, scalar
from support.sign_in import is_good, make_user, run_twice_at_once

modes = st.sampled_from(["test", "live"])
randomness = st.binary(min_size=24, max_size=64)
TOKEN = mint_secret("test", random.Random(7).randbytes(24))
SECRET = mint_secret("live", bytes(range(24)))


@given(modes, randomness)
def test_a_minted_token_tells_its_mode(mode: Mode, random_bytes: bytes) -> None:
    token = mint_secret(mode, random_bytes)
    assert token_format.is_wellformed_token(token)
    assert token_format.token_mode(token) == mode
    assert token.startswith(f"qp_{mode}_")


@given(st.binary(min_size=24, max_size=24), st.binary(min_size=24, max_size=24))
def test_different_randomness_gives_different_tokens(one: bytes, other: bytes) -> None:
    assert (mint_secret("test", one) == mint_secret("test", other)) == (one == other)


def test_every_token_has_the_same_length_and_mistyped_ones_are_none() -> None:
    for random_bytes in (bytes(24), b"\xff" * 24, b"\0" * 23 + b"\1"):
        assert re.fullmatch(r"qp_live_[0-9A-Za-z]{39}", mint_secret("live", random_bytes))
    for size in (0, 23, 65):
        with pytest.raises(ValueError, match="24 to 64"):
            mint_secret("test", bytes(size))
    assert hash_token(TOKEN) == hashlib.sha256(TOKEN.encode()).digest()
    for position, letter in enumerate(TOKEN):
        other = "a" if letter != "a" else "b"
        assert not token_format.is_wellformed_token(TOKEN[:position] + other + TOKEN[position + 1 :])
    assert token_format.token_mode(TOKEN.replace("test", "live")) is None
    for garbage in ("", "qp_test_", "Bearer x", "qp_live_" + "é" * 39, "a" * 10_000, TOKEN + "\n"):
        assert not token_format.is_wellformed_token(garbage), garbage


def test_a_short_code_has_eight_letters_that_are_not_mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {new_short_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert all(re.fullmatch(r"[2-9A-HJ-NP-Za-km-z]{8}", code) for code in codes)
    monkeypatch.setattr("quillpost.orders.service.secrets.token_bytes", random.Random(7).randbytes)
    drawn = [new_short_code() for _ in range(57 * 200)]
    for place in range(8):
        counts = Counter(code[place] for code in drawn)
        assert len(counts) == 57
        unevenness = sum((count - 200) ** 2 / 200 for count in counts.values())
        assert unevenness < 110  # chi-squared, 56 degrees of freedom: above in 1 of 40,000


def test_scopes_have_a_short_sentence_each_and_one_order() -> None:
    assert (tuple(rules.SCOPE_LABELS), len(set(rules.SCOPE_LABELS.values()))) == (rules.SCOPES, len(rules.SCOPES))
    for words in (*rules.SCOPE_LABELS.values(), rules.ALL_SCOPES_LABEL):
        assert words[0].isupper()
        assert words[-1].isalpha(), "a list goes on after it"
        assert len(words) < 80
    for scope, words in rules.SCOPE_LABELS.items():
        assert words.startswith("See ") == scope.endswith(":read")
    assert rules.describe_scopes(["orders:read", "send:write"]) == [
        rules.SCOPE_LABELS["send:write"],
        rules.SCOPE_LABELS["orders:read"],
    ]
    assert rules.sort_scopes({"account:write", "send:read", "nonsense"}) == ["send:read", "account:write"]
    assert rules.format_scopes(["orders:read", "send:write"]) == "send:write, orders:read"
    assert (rules.describe_scopes(None), rules.format_scopes(None)) == ([rules.ALL_SCOPES_LABEL], "everything")
    assert rules.describe_scopes([]) == []


def test_a_scope_is_named_if_it_is_a_short_plain_word_and_no_secret(subtests: pytest.Subtests) -> None:
    unspeakable = [SECRET, "qp_live_mistyped0123", "snow\u2603", "a" * 41, 'quo"te']
    cases = [
        ({"nope"}, "nope"), ({"orders:delete", "all"}, "all, orders:delete"), (set("abcde"), "a, b, c, 2 more"),
        ({SECRET, "all"}, "all, 1 more"), *(({each}, "what is no plain word") for each in unspeakable),
    ]  # fmt: skip
    for scopes, words in cases:
        with subtests.test(str(scopes)):
            assert quote_scopes(scopes) == words


def report(container: Container, *shown: str, address: str | None = "192.0.2.9") -> list[int]:
    return run(container, revoke_leaked_tokens, shown, address=address, now=container.clock())


def lines(container: Container, account: Account) -> list[str]:
    return [describe_entry(entry) for entry in run(container, audit_service.list_audit_entries, account.id)]


def connect(container: Container, account: Account, *, is_used: bool = False) -> tuple[str, str, int]:
    """An app's access token, its refresh token and the connection's number."""
    now, person = container.clock(), make_user(container, account.id, f"{uuid4()}@example.com", password=None)
    grant, refresh = (
        insert_grant(container, account.id, person, app="Zapier", mode="live"),
        mint_secret("refresh", uuid4().bytes * 2),
    )
    with container.db.system_transaction() as tx:
        _, access = insert_token(tx, account.id, name="Zapier", mode="live", scopes=None, grant_id=grant, now=now)
        times = {"created_at": now, "expires_at": now + timedelta(days=365), "used_at": now if is_used else None}
        tx.execute(sa.insert(refresh_tokens).values(digest=hash_token(refresh), grant_id=grant, **times))
    return access, refresh, grant


def ended_by(container: Container, grant: int) -> str | None:
    reason: str | None = scalar(container, sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant))
    return reason


def reported(name: str, actor: str = "somebody who found it") -> str:
    return f"{actor} reported a token as leaked: {name}"


def test_a_report_is_audited_without_person_or_token(container: Container, owner: Account, stranger: Account) -> None:
    report(container, owner.token, address="2001:db8:1:2:3:4:5:6")
    (entry,) = run(container, audit_service.list_audit_entries, owner.id)
    assert (entry.act, entry.network) == ("token.leaked", "2001:db8:1:2::/64")
    assert owner.token not in str(entry)
    entries = execute(container, "select actor, person_id, token_id from audit_log where account_id = :id", id=owner.id)
    assert entries == [("somebody who found it", None, None)]
    report(container, stranger.token, address=None)
    assert lines(container, stranger) == [reported("test (test)", audit_service.COMMAND_LINE_NAME)]


def test_a_refresh_token_ends_its_family_and_an_access_token_goes_alone(container: Container, owner: Account) -> None:
    fresh, used, both, alone = (connect(container, owner, is_used=is_used) for is_used in (False, True, False, False))
    for shown in ([fresh[1]], [used[1]], [both[0], both[1], both[0]], [alone[0]]):
        assert report(container, *shown) == [owner.id]
        assert lines(container, owner)[0] == reported("Zapier (live)")
    assert len(lines(container, owner)) == 4, "both of a family in one report are one act"
    assert [is_good(container, access) for access, _, _ in (fresh, used, both, alone)] == [False] * 4
    assert [ended_by(container, grant) for _, _, grant in (fresh, used, both, alone)] == ["leak"] * 3 + [None]


def test_what_is_worth_nothing_any_more_changes_nothing(container: Container, owner: Account, clock: Clock) -> None:
    now, hour = clock.now(), timedelta(hours=1)
    with container.db.system_transaction() as tx:
        _, short = insert_token(tx, owner.id, name="Short", mode="test", scopes=None, now=now, expires_at=now + hour)
    _, refresh, _ = connect(container, owner)
    report(container, owner.token, refresh)
    clock.advance(hours=1)
    assert (report(container, owner.token, refresh, short), len(lines(container, owner))) == ([], 2)
    assert scalar(container, sa.select(tokens.c.revoked_at).where(tokens.c.digest == hash_token(owner.token))) == now


def test_of_two_reports_at_once_both_are_answered(container: Container, owner: Account, stranger: Account) -> None:
    _, refresh, _ = connect(container, owner)
    shown = [owner.token, stranger.token, refresh]
    orders = [shown, shown[::-1]]
    assert len(run_twice_at_once(lambda: report(container, *orders.pop()))) == 2
    assert sorted(lines(container, owner)) == [reported("Zapier (live)"), reported("test (test)")]
    assert len(lines(container, stranger)) == 1


def test_a_thousand_tokens_take_a_handful_of_statements(container: Container, owner: Account) -> None:
    shown = [mint_secret("live", number.to_bytes(24)) for number in range(999)]
    statements: list[str] = []
    with container.db.system_transaction() as tx:
        sa.event.listen(tx, "before_cursor_execute", lambda *seen: statements.append(str(seen[2])))
        assert revoke_leaked_tokens(tx, [*shown, owner.token], address=None, now=container.clock()) == [owner.id]
    assert len(statements) <= 3


DANA, FINN = "dana@example.com", "finn@example.com"


def create_in(tx: Tx, container: Container, account: Account, actor: Actor | None = None, **changes: Any) -> str:
    usual = {"name": "Zapier", "mode": "test", "scopes": None, "sub_account_id": None, "expires_at": None}
    how: dict[str, Any] = usual | {"actor": actor or Actor(DANA)} | changes
    return personal.create_token(tx, account.id, **how, now=container.clock())


def create(container: Container, account: Account, actor: Actor | None = None, **changes: Any) -> str:
    with container.db.transaction(Tenant(account.id)) as tx:
        return create_in(tx, container, account, actor, **changes)


def listed(container: Container, account: Account) -> list[personal.PersonalToken]:
    with container.db.transaction(Tenant(account.id)) as tx:
        return [each for each in personal.list_tokens(tx, account.id) if each.name != "test"]


def revoke(container: Container, account: Account, token_id: int) -> None:
    with container.db.transaction(Tenant(account.id)) as tx:
        personal.revoke_token(tx, account.id, token_id, Actor(DANA), now=container.clock())


def log_of(container: Container, account: Account) -> list[audit_service.AuditEntry]:
    return list(run(container, audit_service.list_audit_entries, account.id))


def test_a_token_opens_the_account_in_its_mode_and_its_digest_is_kept(container: Container, owner: Account) -> None:
    token = create(container, owner, mode="live")
    assert token_format.token_mode(token) == "live"
    caller, _ = service.authenticate(container.db, token, limit=10, now=container.clock())
    assert (caller.account_id, caller.mode, caller.scopes, caller.sub_account_id) == (owner.id, "live", None, None)
    its = (tokens.c.account_id == owner.id, tokens.c.name == "Zapier")
    [row] = execute(container, sa.select(tokens).where(*its))
    assert row.digest == token_format.hash_token(token)
    assert token not in str(row)


def test_the_list_tells_all_of_a_token_but_the_token(container: Container, owner: Account, clock: Clock) -> None:
    branch = make_sub_account(container, owner, "Austin")
    maker = Actor(DANA, person_id=make_user(container, owner.id, DANA, password=None), address="192.0.2.7")
    scopes, until = ["orders:read", "send:write", "orders:read"], clock.now() + timedelta(days=30)
    token = create(container, owner, maker, scopes=scopes, sub_account_id=branch, expires_at=until)
    clock.advance(minutes=5)
    assert is_good(container, token)
    (seen,) = listed(container, owner)
    assert (seen.name, seen.mode, seen.hint) == ("Zapier", "test", token[-4:])
    assert seen.scopes == ["send:write", "orders:read"]
    assert (seen.sub_account_id, seen.sub_account_title, seen.maker) == (branch, "Austin", DANA)
    assert (seen.expires_at, seen.last_used_at) == (until, clock.now())
    with container.db.transaction(Tenant(owner.id)) as tx:
        (test,) = (each for each in personal.list_tokens(tx, owner.id) if each.name == "test")
    assert (test.hint, test.maker) == (owner.token[-4:], None), "nobody made what the command line made"

    revoke(container, owner, seen.id)
    revoked, created = log_of(container, owner)
    assert (created.act, created.actor, created.network) == ("token.created", DANA, "192.0.2.7")
    assert (revoked.act, revoked.actor) == ("token.revoked", DANA)
    assert created.about == revoked.about == {"id": seen.id, "name": "Zapier", "mode": "test"}
    assert {created.sub_account_id, revoked.sub_account_id} == {branch}
    assert token not in f"{created}{revoked}"


def test_a_token_expires_by_the_clock_and_is_still_listed(container: Container, owner: Account, clock: Clock) -> None:
    token = create(container, owner, expires_at=clock.now() + timedelta(days=30))
    clock.advance(days=29, hours=23)
    assert is_good(container, token)
    clock.advance(hours=1)
    assert not is_good(container, token)
    assert [each.name for each in listed(container, owner)] == ["Zapier"]


def test_an_invalid_token_request_is_refused_by_its_fields(
    container: Container, owner: Account, stranger: Account, clock: Clock, subtests: pytest.Subtests
) -> None:
    gone, theirs = make_sub_account(container, owner, "Closed"), make_sub_account(container, stranger, "Theirs")
    execute(container, sa.update(sub_accounts).where(sub_accounts.c.id == gone).values(deleted_at=clock.now()))
    leaked = "This name holds a token: choose another, and revoke that token if others may have seen it."
    cases: list[tuple[str, Any, str]] = [
        ("name", "two\nlines", "The name is one line of plain text."),
        ("name", "qp_live_" + "x" * 39, leaked),
        ("scopes", ["send"], f"Unknown scope send. Known scopes: {', '.join(rules.SCOPES)}."),
        *(("sub_account_id", branch, "There is no such sub account.") for branch in (10**9, gone, theirs)),
    ]
    for field, value, sentence in cases:
        with subtests.test(f"{field} {value}"):
            with pytest.raises(Invalid) as refused:
                create(container, owner, **{field: value})
            assert refused.value.fields == {field: [sentence]}
    with container.db.system_transaction() as tx, pytest.raises(Invalid, match="no such sub account"):
        create_in(tx, container, owner, sub_account_id=theirs)  # at the command line, which sees them all
    everything: dict[str, Any] = {"name": "", "mode": "", "scopes": [], "sub_account_id": 0, "expires_at": clock.now()}
    with pytest.raises(Invalid) as refused:
        create(container, owner, **everything)
    assert refused.value.fields.keys() == everything.keys(), "all errors are reported at once"
    assert (listed(container, owner), log_of(container, owner)) == ([], [])


def test_only_ones_own_token_in_force_can_be_revoked(container: Container, owner: Account, stranger: Account) -> None:
    token = create(container, owner)
    (seen,) = listed(container, owner)
    with pytest.raises(NotFound):
        revoke(container, stranger, seen.id)
    with container.db.system_transaction() as tx, pytest.raises(NotFound):  # not for want of sight
        personal.revoke_token(tx, stranger.id, seen.id, Actor(DANA), now=container.clock())
    assert is_good(container, token)
    revoke(container, owner, seen.id)
    for token_id in (seen.id, 10**9):
        with pytest.raises(NotFound):
            revoke(container, owner, token_id)
    assert [entry.act for entry in log_of(container, owner)] == ["token.revoked", "token.created"]
    assert log_of(container, stranger) == []


def test_a_pages_own_token_is_on_no_list_and_not_for_revoking(container: Container, owner: Account) -> None:
    now, person = container.clock(), make_user(container, owner.id, DANA, password=None)
    times = {"created_at": now, "confirmed_at": now, "seen_at": now, "expires_at": now}
    session = sa.insert(sessions).values(digest=b"1" * 32, person_id=person, mode="test", awaits_code=False, **times)
    by: dict[str, Any] = {"person_id": person, "session_id": scalar(container, session.returning(sessions.c.id))}
    made, token = run(container, insert_token, owner.id, name="page", mode="test", scopes=None, **by, now=now)
    assert listed(container, owner) == []
    with pytest.raises(NotFound):
        revoke(container, owner, made)
    assert run(container, personal.revoke_person_tokens, owner.id, person, now=now) == 0
    assert is_good(container, token)


def test_all_tokens_that_a_person_made_in_an_account_go_and_no_others(
    container: Container, owner: Account, stranger: Account, clock: Clock
) -> None:
    dana, finn = (make_user(container, owner.id, email, password=None) for email in (DANA, FINN))
    make_user(container, stranger.id, DANA, password=None)
    of_dana = Actor(DANA, person_id=dana)
    gone = [create(container, owner, of_dana), create(container, owner, of_dana, mode="live")]
    create(container, owner, of_dana, expires_at=clock.now() + timedelta(seconds=1))
    kept = [create(container, owner, Actor(FINN, person_id=finn)), create(container, stranger, of_dana), owner.token]
    clock.advance(seconds=1)
    assert run(container, personal.revoke_person_tokens, owner.id, dana, now=container.clock()) == 2
    assert [is_good(container, token) for token in gone] == [False, False]
    assert [is_good(container, token) for token in kept] == [True, True, True]
