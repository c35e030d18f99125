"""Signing in: a password, perhaps a code, and what can go wrong."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from quillpost.accounts.rate_limits.service import delete_expired_rate_limits
from quillpost.accounts.users import passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.sign_in import SignInResult, SignInVisitor, confirm_password, sign_in
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Throttled
from quillpost.core.tokens import mint_secret
from support.factories import Clock
from support.orders import open_account
from support.rows import execute, scalar
from support.sign_in import (
    DANA,
    ELSEWHERE,
    HOME,
    PASSWORD,
    audit_log,
    audited_acts,
    count_hashes,
    count_statements,
    find_user,
    make_user,
    shift_rate_windows,
    sign_in_as,
    sign_in_user,
)

WRONG = "not the password at all"


def known_browser(container: Container, email: str = DANA) -> SignInVisitor:
    """The browser at home, from which somebody has signed in before."""
    return replace(HOME, browser_token=sign_in_as(container, email).browser_token)


def guess(container: Container, times: int, email: str = DANA, visitor: SignInVisitor = HOME) -> list[str]:
    return [sign_in_as(container, email, WRONG, visitor).outcome for _ in range(times)]


def outcome(container: Container, visitor: SignInVisitor = HOME) -> str:
    """Of a sign-in with the right password."""
    return sign_in_as(container, visitor=visitor).outcome


def test_whoever_has_the_password_is_let_in(container: Container, account: int, dana: int) -> None:
    cookies = []
    for email in (DANA, "  Dana@Example.COM\n"):
        came = sign_in_as(container, email)
        user = find_user(container, came.cookie)
        assert came.outcome == "in"
        assert user is not None
        assert (user.person_id, user.email, user.here.account_id, user.mode) == (dana, DANA, account, "test")
        cookies.append(came.cookie)
    assert cookies[0] != cookies[1], "every sign-in begins another session"
    assert find_user(container, cookies[0]) is not None
    assert find_user(container, mint_secret("session", b"\x07" * 32)) is None, "one that somebody planted"


@pytest.fixture
def others(container: Container, account: int, dana: int) -> dict[str, str]:
    """Who cannot sign in, and why."""
    make_user(container, account, "invited@example.com", password=None)
    gone = make_user(container, account, "gone@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == gone))
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
    assert (len(seen["nobody"][2]), set(seen.values())) == (3, {seen["nobody"]})


def test_nor_when_both_are_tried_too_often(container: Container, others: dict[str, str]) -> None:
    seen: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        visitor = replace(HOME, address=f"203.0.113.{len(seen)}")
        guess(container, 11, email, visitor)
        with count_hashes() as hashes, count_statements(container) as statements:
            came = sign_in_as(container, email, WRONG, visitor)
        assert 890 <= came.retry_after <= 900
        seen[why] = (came.outcome, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == ("throttled", ())
    assert set(seen.values()) == {seen["nobody"]}


def test_an_odd_e_mail_or_password_is_just_wrong(container: Container, dana: int, subtests: pytest.Subtests) -> None:
    emails = ("", "\x00", "dana\x00@example.com", "\ud800@example.com", "d" * 40_000, "ß@ÉX")
    passwords = ("", "\x00", "\ud800" * 20, "x" * 20_000)
    for email, password in [*((email, PASSWORD) for email in emails), *((DANA, password) for password in passwords)]:
        with subtests.test(f"{email[:20]!r} {password[:20]!r}"):
            assert sign_in_as(container, email, password).outcome == "wrong"


def test_the_right_password_is_refused_after_ten_wrong_ones(container: Container, dana: int) -> None:
    for _ in range(3):
        assert set(guess(container, 9)) == {"wrong"}
        assert outcome(container) == "in", "which clears what was counted"
    assert guess(container, 10) == ["wrong"] * 10
    came = sign_in_as(container)
    assert (came.outcome, came.cookie, came.browser_token) == ("throttled", None, None)
    shift_rate_windows(container, minutes=15)
    assert outcome(container) == "in"


def test_fifty_a_day_are_all_which_outlive_the_hourly_clearing(container: Container, dana: int) -> None:
    for hour in range(5):
        assert set(guess(container, 10, visitor=replace(HOME, address=f"203.0.113.{hour}"))) == {"wrong"}
        shift_rate_windows(container, minutes=15)
    came = sign_in_as(container)
    assert came.outcome == "throttled"
    assert came.retry_after > 22 * 3_600
    for hours, expected in ((2, "throttled"), (22, "in")):
        shift_rate_windows(container, hours=hours)
        delete_expired_rate_limits(container.db)
        assert outcome(container) == expected


def test_a_network_may_fail_sixty_times_an_hour(container: Container, dana: int) -> None:
    known = known_browser(container)
    assert {outcome(container) for _ in range(65)} == {"in"}, "only failures count"
    for number in range(60):
        assert guess(container, 1, f"{number}@example.com") == ["wrong"]
    assert [outcome(container, visitor) for visitor in (HOME, ELSEWHERE, known)] == ["throttled", "in", "in"]
    shift_rate_windows(container, hours=1)
    assert outcome(container) == "in"


def test_a_known_browser_is_let_in_while_strangers_guess(container: Container, account: int, dana: int) -> None:
    make_user(container, account, "lee@example.com")
    known, lees = known_browser(container), known_browser(container, "lee@example.com")
    guess(container, 12, visitor=ELSEWHERE)
    assert [outcome(container, visitor) for visitor in (ELSEWHERE, known)] == ["throttled", "in"]
    assert outcome(container, ELSEWHERE) == "throttled", "nor does it unlock sign-in elsewhere"
    assert outcome(container, lees) == "throttled", "it is known for one person alone"
    token = known.browser_token
    assert token is not None
    forged = [mint_secret("known", b"\x00" * 56), mint_secret("known", b"\xff" * 64), mint_secret("session", b"x" * 32)]
    for made_up in (*forged, token[:-1], ""):
        assert outcome(container, replace(HOME, browser_token=made_up)) == "throttled", made_up


def test_a_known_browser_guesses_only_so_often_itself(container: Container, dana: int) -> None:
    assert guess(container, 11, visitor=known_browser(container)) == ["wrong"] * 10 + ["throttled"]
    assert outcome(container, ELSEWHERE) == "in", "others are counted by themselves"


def test_a_known_browser_is_forgotten_with_a_year_or_a_password(container: Container, clock: Clock, dana: int) -> None:
    known = known_browser(container)
    clock.advance(days=365)
    guess(container, 12, visitor=ELSEWHERE)
    assert outcome(container, known) == "in"
    clock.advance(days=1)
    assert outcome(container, known) == "throttled"

    shift_rate_windows(container, hours=25)
    known, other = known_browser(container), "seven plums in autumn rain"
    user = sign_in_user(container)
    how = {"session_id": user.session_id, "now": clock.now()}
    passwords.change_password(container.sign_in_context, dana, other, user.actor, **how)  # type: ignore[arg-type]
    guess(container, 12, visitor=ELSEWHERE)
    assert sign_in_as(container, DANA, other, known).outcome == "throttled"


def test_signing_in_is_noted_in_every_account(container: Container, account: int, dana: int) -> None:
    other = open_account(container, "branch@example.com").account_id
    make_user(container, other, DANA, role="member")
    sign_in_as(container)
    for each in (account, other):
        line = audit_log(container, each)[-1]
        assert (line.act, line.actor, line.network) == ("sign_in", DANA, "192.0.2.7")


def test_a_refusal_is_noted_once_a_minute(container: Container, account: int, dana: int) -> None:
    guess(container, 12, "nobody@example.com")
    assert audited_acts(container, account) == [], "guesses at nobody leave nothing"
    guess(container, 5)
    assert audited_acts(container, account) == ["sign_in.refused"]
    shift_rate_windows(container, minutes=1)
    guess(container, 5)
    shift_rate_windows(container, minutes=1)
    guess(container, 5)
    assert audited_acts(container, account) == ["sign_in.refused"] * 3
    reasons = [line.about["why"] for line in audit_log(container, account)]
    assert reasons == ["wrong password", "wrong password", "too many attempts"]


def test_an_old_hash_is_replaced_at_sign_in(container: Container, dana: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "ARGON2_PARAMETERS", replace(passwords.ARGON2_PARAMETERS, time_cost=2))
    context = replace(container.sign_in_context, hasher=Hasher())
    assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()).outcome == "in"
    assert "t=2" in scalar(container, sa.select(people.c.password_hash).where(people.c.id == dana))
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
    context = container.sign_in_context
    assert confirm_password(context, dana, PASSWORD, HOME) == "in"
    assert {confirm_password(context, dana, WRONG, HOME) for _ in range(10)} == {"wrong"}
    assert confirm_password(context, dana, PASSWORD, HOME) == "throttled"
    assert confirm_password(context, 10**9, PASSWORD, ELSEWHERE) == "wrong"
