"""Signing in: a password, perhaps a code, and what can go wrong."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from quillpost.accounts.rate_limits.service import delete_expired_rate_limits
from quillpost.accounts.users import passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.sign_in import SignInResult, confirm_password, sign_in
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Throttled
from quillpost.core.tokens import mint_secret
from support.browser_sessions import PASSWORD, make_user
from support.factories import Clock
from support.orders import open_account
from support.sign_in import (
    DANA,
    ELSEWHERE,
    HOME,
    audit_log,
    audited_acts,
    count_hashes,
    count_statements,
    find_user,
    shift_rate_windows,
    sign_in_as,
)

WRONG = "not the password at all"


@pytest.mark.parametrize("email", [DANA, "  Dana@Example.COM\n"])
def test_whoever_has_the_password_is_let_in(container: Container, account: int, dana: int, email: str) -> None:
    came = sign_in_as(container, email)
    assert came.outcome == "in"
    user = find_user(container, came.cookie)
    assert user is not None
    assert (user.person_id, user.email, user.here.account_id, user.mode) == (dana, DANA, account, "test")


def test_every_sign_in_begins_another_session(container: Container, dana: int) -> None:
    first, second = sign_in_as(container), sign_in_as(container)
    assert first.cookie != second.cookie
    assert find_user(container, first.cookie) is not None
    assert find_user(container, second.cookie) is not None


def test_a_cookie_that_somebody_planted_is_nobodys(container: Container, dana: int) -> None:
    planted = mint_secret("session", b"\x07" * 32)
    sign_in_as(container)
    assert find_user(container, planted) is None


@pytest.fixture
def others(container: Container, account: int, dana: int) -> dict[str, str]:
    """Who cannot sign in, and why."""
    make_user(container, account, "invited@example.com", password=None)
    gone = make_user(container, account, "gone@example.com")
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.person_id == gone))
    return {
        "nobody": "nobody@example.com",
        "without a password": "invited@example.com",
        "in no account": "gone@example.com",
        "another password": DANA,
    }


def test_nobody_can_tell_an_unknown_e_mail_from_a_wrong_password(container: Container, others: dict[str, str]) -> None:
    seen: dict[str, tuple[SignInResult, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        password = PASSWORD if why in ("without a password", "in no account") else WRONG
        with count_hashes() as hashes, count_statements(container) as statements:
            came = sign_in_as(container, email, password)
        seen[why] = (came, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == (SignInResult("wrong"), ("verified",))
    assert len(seen["nobody"][2]) == 3
    assert set(seen.values()) == {seen["nobody"]}


def test_nor_when_both_are_tried_too_often(container: Container, others: dict[str, str]) -> None:
    seen: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        for _ in range(11):
            sign_in_as(container, email, WRONG, replace(HOME, address=f"203.0.113.{len(seen)}"))
        with count_hashes() as hashes, count_statements(container) as statements:
            came = sign_in_as(container, email, WRONG, replace(HOME, address=f"203.0.113.{len(seen)}"))
        assert 890 <= came.retry_after <= 900
        seen[why] = (came.outcome, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == ("throttled", ())
    assert set(seen.values()) == {seen["nobody"]}


@pytest.mark.parametrize("email", ["", "\x00", "dana\x00@example.com", "\ud800@example.com", "d" * 40_000, "ß@ÉX"])
def test_an_odd_e_mail_is_just_wrong(container: Container, dana: int, email: str) -> None:
    assert sign_in_as(container, email).outcome == "wrong"


@pytest.mark.parametrize("password", ["", "\x00", "\ud800" * 20, "x" * 20_000])
def test_so_is_an_odd_password(container: Container, dana: int, password: str) -> None:
    assert sign_in_as(container, DANA, password).outcome == "wrong"


def test_the_right_password_is_refused_after_ten_wrong_ones(container: Container, dana: int) -> None:
    assert [sign_in_as(container, DANA, WRONG).outcome for _ in range(10)] == ["wrong"] * 10
    came = sign_in_as(container)
    assert (came.outcome, came.cookie, came.browser_token) == ("throttled", None, None)
    shift_rate_windows(container, minutes=15)
    assert sign_in_as(container).outcome == "in"


def test_a_good_sign_in_clears_what_was_counted(container: Container, dana: int) -> None:
    for _ in range(3):
        assert {sign_in_as(container, DANA, WRONG).outcome for _ in range(9)} == {"wrong"}
        assert sign_in_as(container).outcome == "in"


def test_fifty_a_day_are_all(container: Container, dana: int) -> None:
    tried = 0
    for hour in range(5):
        for _ in range(10):
            assert sign_in_as(container, DANA, WRONG, replace(HOME, address=f"203.0.113.{hour}")).outcome == "wrong"
            tried += 1
        shift_rate_windows(container, minutes=15)
    assert tried == 50
    came = sign_in_as(container)
    assert came.outcome == "throttled"
    assert came.retry_after > 22 * 3_600


def test_the_counts_of_a_day_outlive_the_hourly_clearing(container: Container, dana: int) -> None:
    for _ in range(5):
        for _ in range(10):
            sign_in_as(container, DANA, WRONG)
        shift_rate_windows(container, minutes=15)
    shift_rate_windows(container, hours=2)
    delete_expired_rate_limits(container.db)
    assert sign_in_as(container).outcome == "throttled"
    shift_rate_windows(container, hours=22)
    delete_expired_rate_limits(container.db)
    assert sign_in_as(container).outcome == "in"


def test_a_network_may_fail_sixty_times_an_hour(container: Container, dana: int) -> None:
    for number in range(60):
        assert sign_in_as(container, f"{number}@example.com", WRONG).outcome == "wrong"
    assert sign_in_as(container).outcome == "throttled"
    assert sign_in_as(container, visitor=ELSEWHERE).outcome == "in"
    shift_rate_windows(container, hours=1)
    assert sign_in_as(container).outcome == "in"


def test_only_failures_count_against_a_network(container: Container, dana: int) -> None:
    assert {sign_in_as(container).outcome for _ in range(65)} == {"in"}


def test_a_known_browser_is_let_in_while_strangers_guess(container: Container, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)
    for _ in range(12):
        sign_in_as(container, DANA, WRONG, ELSEWHERE)
    assert sign_in_as(container, visitor=ELSEWHERE).outcome == "throttled"
    assert sign_in_as(container, visitor=known).outcome == "in"


def test_a_known_browser_does_not_unlock_sign_in_elsewhere(container: Container, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)
    for _ in range(12):
        sign_in_as(container, DANA, WRONG, ELSEWHERE)
    sign_in_as(container, visitor=known)
    assert sign_in_as(container, visitor=ELSEWHERE).outcome == "throttled"


def test_nor_does_a_network_full_of_guessers_shut_it_out(container: Container, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)
    for number in range(61):
        sign_in_as(container, f"{number}@example.com", WRONG)
    assert sign_in_as(container).outcome == "throttled"
    assert sign_in_as(container, visitor=known).outcome == "in"


def test_a_known_browser_guesses_only_so_often_itself(container: Container, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)
    assert [sign_in_as(container, DANA, WRONG, known).outcome for _ in range(11)] == ["wrong"] * 10 + ["throttled"]
    assert sign_in_as(container, visitor=ELSEWHERE).outcome == "in", "others are counted by themselves"


def shut_out_strangers(container: Container) -> None:
    for _ in range(12):
        sign_in_as(container, DANA, WRONG, ELSEWHERE)


def test_a_browser_is_known_for_one_person_alone(container: Container, account: int, dana: int) -> None:
    make_user(container, account, "lee@example.com")
    lees = sign_in_as(container, "lee@example.com").browser_token
    shut_out_strangers(container)
    assert sign_in_as(container, visitor=replace(HOME, browser_token=lees)).outcome == "throttled"


def test_what_it_keeps_cannot_be_made_up(container: Container, dana: int) -> None:
    known = sign_in_as(container).browser_token
    assert known is not None
    shut_out_strangers(container)
    for forged in (
        mint_secret("known", b"\x00" * 56),
        mint_secret("known", b"\xff" * 64),
        known[:-1],
        "",
        mint_secret("session", b"x" * 32),
    ):
        assert sign_in_as(container, visitor=replace(HOME, browser_token=forged)).outcome == "throttled"


def test_it_is_worth_nothing_after_a_year(container: Container, clock: Clock, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)
    clock.advance(days=365)
    shut_out_strangers(container)
    assert sign_in_as(container, visitor=known).outcome == "in"
    clock.advance(days=1)
    assert sign_in_as(container, visitor=known).outcome == "throttled"


def test_nor_with_another_password(container: Container, dana: int) -> None:
    came = sign_in_as(container)
    user = find_user(container, came.cookie)
    assert user is not None
    other = "seven plums in autumn rain"
    passwords.change_password(
        container.sign_in_context, dana, other, user.actor, session_id=user.session_id, now=container.clock()
    )
    shut_out_strangers(container)
    assert sign_in_as(container, DANA, other, replace(HOME, browser_token=came.browser_token)).outcome == "throttled"


def test_signing_in_is_noted_in_every_account(container: Container, account: int, dana: int) -> None:
    other = open_account(container, "branch@example.com").account_id
    make_user(container, other, DANA, role="member")
    sign_in_as(container)
    for each in (account, other):
        line = audit_log(container, each)[-1]
        assert (line.act, line.actor, line.network) == ("sign_in", DANA, "192.0.2.7")


def test_a_refusal_is_noted_once_a_minute(container: Container, account: int, dana: int) -> None:
    for _ in range(5):
        sign_in_as(container, DANA, WRONG)
    assert audited_acts(container, account) == ["sign_in.refused"]
    assert audit_log(container, account)[0].about == {"why": "wrong password"}
    shift_rate_windows(container, minutes=1)
    sign_in_as(container, DANA, WRONG)
    assert audited_acts(container, account) == ["sign_in.refused"] * 2


def test_that_there_were_too_many_is_noted_too(container: Container, account: int, dana: int) -> None:
    for _ in range(10):
        sign_in_as(container, DANA, WRONG)
    shift_rate_windows(container, minutes=1)
    for _ in range(10):
        sign_in_as(container, DANA, WRONG)
    assert [line.about["why"] for line in audit_log(container, account)] == ["wrong password", "too many attempts"]


def test_guesses_at_nobody_leave_nothing_in_the_log(container: Container, account: int, dana: int) -> None:
    for _ in range(12):
        sign_in_as(container, "nobody@example.com", WRONG)
    assert audited_acts(container, account) == []


def test_an_outdated_hash_is_replaced_at_sign_in(
    container: Container, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stronger = replace(passwords.ARGON2_PARAMETERS, time_cost=2)
    monkeypatch.setattr(passwords, "ARGON2_PARAMETERS", stronger)
    context = replace(container.sign_in_context, hasher=Hasher())
    assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()).outcome == "in"
    with container.db.system_transaction() as tx:
        kept = tx.execute(sa.select(people.c.password_hash).where(people.c.id == dana)).scalar_one()
    assert "t=2" in kept
    with count_hashes() as hashes:
        assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()).outcome == "in"
    assert hashes == ["verified"]


class Crowded(Hasher):
    def matches(self, kept: str | None, password: str) -> bool:
        raise Throttled(retry_after=5)


def test_sign_ins_are_throttled_when_too_many_passwords_are_being_hashed(container: Container, dana: int) -> None:
    context = replace(container.sign_in_context, hasher=Crowded())
    assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()) == SignInResult("throttled", retry_after=5)
    assert confirm_password(context, dana, PASSWORD, HOME) == "throttled"


def test_whoever_is_signed_in_gives_the_password_again(container: Container, dana: int) -> None:
    assert confirm_password(container.sign_in_context, dana, PASSWORD, HOME) == "in"
    assert confirm_password(container.sign_in_context, dana, WRONG, HOME) == "wrong"
    for _ in range(9):
        confirm_password(container.sign_in_context, dana, WRONG, HOME)
    assert confirm_password(container.sign_in_context, dana, PASSWORD, HOME) == "throttled"
    assert confirm_password(container.sign_in_context, 10_000, PASSWORD, ELSEWHERE) == "wrong"
