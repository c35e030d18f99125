"""Tokens: their format and scopes, and what happens to one that is reported as leaked."""

import hashlib
import random
import re
import threading
from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.rules import (
    ALL_SCOPES_LABEL,
    SCOPE_LABELS,
    SCOPES,
    describe_scopes,
    format_scopes,
    sort_scopes,
)
from quillpost.accounts.tokens.service import revoke_leaked_tokens
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import tokens
from quillpost.core.errors import Unauthenticated
from quillpost.core.tokens import Mode, hash_token, mint_secret
from quillpost.orders.service import new_short_code
from quillpost.web.oauth.forms import quote_scopes
from support.browser_sessions import make_user
from support.factories import Account, Clock

pytestmark = pytest.mark.usefixtures("clean_database")

modes = st.sampled_from(["test", "live"])
randomness = st.binary(min_size=24, max_size=64)


@given(modes, randomness)
def test_a_minted_token_tells_its_mode(mode: Mode, random_bytes: bytes) -> None:
    token = token_format.mint_secret(mode, random_bytes)
    assert token_format.is_wellformed_token(token)
    assert token_format.token_mode(token) == mode
    assert token.startswith(f"qp_{mode}_")


@pytest.mark.parametrize("random_bytes", [bytes(24), b"\xff" * 24, b"\0" * 23 + b"\1"])
def test_every_token_has_the_same_length(random_bytes: bytes) -> None:
    assert re.fullmatch(r"qp_live_[0-9A-Za-z]{39}", token_format.mint_secret("live", random_bytes))


@given(st.binary(min_size=24, max_size=24), st.binary(min_size=24, max_size=24))
def test_different_randomness_gives_different_tokens(one: bytes, other: bytes) -> None:
    assert (token_format.mint_secret("test", one) == token_format.mint_secret("test", other)) == (one == other)


def test_a_mistyped_letter_is_noticed() -> None:
    token = token_format.mint_secret("test", random.Random(7).randbytes(24))
    for position, letter in enumerate(token):
        other = "a" if letter != "a" else "b"
        assert not token_format.is_wellformed_token(token[:position] + other + token[position + 1 :])


def test_a_test_token_cannot_be_relabelled_live() -> None:
    token = token_format.mint_secret("test", random.Random(7).randbytes(24))
    assert token_format.token_mode(token.replace("test", "live")) is None


@pytest.mark.parametrize("token", ["", "qp_test_", "Bearer x", "qp_live_" + "é" * 39, "a" * 10_000])
def test_garbage_is_no_token(token: str) -> None:
    assert not token_format.is_wellformed_token(token)


def test_a_token_with_a_line_end_is_no_token() -> None:
    assert not token_format.is_wellformed_token(token_format.mint_secret("test", bytes(24)) + "\n")


@pytest.mark.parametrize("size", [0, 23, 65])
def test_too_little_or_too_much_randomness_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="24 to 64"):
        token_format.mint_secret("test", bytes(size))


def test_the_stored_form_is_a_sha256() -> None:
    token = token_format.mint_secret("test", bytes(24))
    assert token_format.hash_token(token) == hashlib.sha256(token.encode()).digest()


def test_a_short_code_has_eight_letters_that_are_not_mistaken() -> None:
    codes = {new_short_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert all(re.fullmatch(r"[2-9A-HJ-NP-Za-km-z]{8}", code) for code in codes)


def test_every_letter_is_as_likely_at_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.orders.service.secrets.token_bytes", random.Random(7).randbytes)
    codes = [new_short_code() for _ in range(57 * 200)]
    for place in range(8):
        counts = Counter(code[place] for code in codes)
        assert len(counts) == 57
        unevenness = sum((count - 200) ** 2 / 200 for count in counts.values())
        assert unevenness < 110  # chi-squared, 56 degrees of freedom: above in 1 of 40,000


def test_every_scope_has_a_sentence_of_its_own() -> None:
    assert tuple(SCOPE_LABELS) == SCOPES
    assert len(set(SCOPE_LABELS.values())) == len(SCOPES)


def test_a_sentence_is_short_and_ends_where_a_list_goes_on() -> None:
    for words in (*SCOPE_LABELS.values(), ALL_SCOPES_LABEL):
        assert words[0].isupper()
        assert words[-1].isalpha()
        assert len(words) < 80


def test_only_labels_of_read_scopes_begin_with_see() -> None:
    for scope, words in SCOPE_LABELS.items():
        assert words.startswith("See ") == scope.endswith(":read")


def test_scopes_are_listed_in_one_order_whatever_the_input() -> None:
    assert describe_scopes(["orders:read", "send:write"]) == [SCOPE_LABELS["send:write"], SCOPE_LABELS["orders:read"]]
    assert sort_scopes({"account:write", "send:read", "nonsense"}) == ["send:read", "account:write"]
    assert format_scopes(["orders:read", "send:write"]) == "send:write, orders:read"


def test_no_limit_is_described_as_everything_and_no_scopes_as_nothing() -> None:
    assert describe_scopes(None) == [ALL_SCOPES_LABEL]
    assert describe_scopes([]) == []
    assert format_scopes(None) == "everything"


SECRET = mint_secret("live", bytes(range(24)))


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        ({"nope"}, "nope"),
        ({"orders:delete", "all"}, "all, orders:delete"),
        ({"a", "b", "c", "d", "e"}, "a, b, c, 2 more"),
        ({SECRET}, "what is no plain word"),
        ({"qp_live_mistyped0123"}, "what is no plain word"),
        ({SECRET, "all"}, "all, 1 more"),
        ({"snow\u2603"}, "what is no plain word"),
        ({"a" * 41}, "what is no plain word"),
        ({'quo"te'}, "what is no plain word"),
    ],
)
def test_a_scope_is_named_if_it_is_a_short_plain_word_and_no_secret(scopes: set[str], words: str) -> None:
    assert quote_scopes(scopes) == words


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
