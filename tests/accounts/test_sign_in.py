"""Signing in: a password, perhaps a code, what can go wrong, and what guesses at passwords cost."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST

from quillpost.accounts.rate_limits.service import FullBucketCache, RateLimitBucket, delete_expired_rate_limits
from quillpost.accounts.users import passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.sign_in import SignInResult, SignInVisitor, confirm_password, sign_in
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Throttled
from quillpost.core.tokens import mint_secret
from support import sign_in as signing
from support.factories import Clock
from support.orders import open_account
from support.rows import execute, scalar
from support.sign_in import DANA, HOME, PASSWORD, sign_in_as

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
        user = signing.find_user(container, came.cookie)
        assert came.outcome == "in"
        assert user is not None
        assert (user.person_id, user.email, user.here.account_id, user.mode) == (dana, DANA, account, "test")
        cookies.append(came.cookie)
    assert cookies[0] != cookies[1], "every sign-in begins another session"
    assert signing.find_user(container, cookies[0]) is not None
    assert signing.find_user(container, mint_secret("session", b"\x07" * 32)) is None, "one that somebody planted"


@pytest.fixture
def others(container: Container, account: int, dana: int) -> dict[str, str]:
    """Who cannot sign in, and why."""
    signing.make_user(container, account, "invited@example.com", password=None)
    gone = signing.make_user(container, account, "gone@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == gone))
    return {
        "nobody": "nobody@example.com", "without a password": "invited@example.com",
        "in no account": "gone@example.com", "another password": DANA,
    }  # fmt: skip


def test_nobody_can_tell_an_unknown_e_mail_from_a_wrong_password(container: Container, others: dict[str, str]) -> None:
    seen: dict[str, tuple[SignInResult, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        password = PASSWORD if why in ("without a password", "in no account") else WRONG
        with signing.count_hashes() as hashes, signing.count_statements(container) as statements:
            came = sign_in_as(container, email, password)
        seen[why] = (came, tuple(hashes), tuple(statements))
    assert seen["nobody"][:2] == (SignInResult("wrong"), ("verified",))
    assert (len(seen["nobody"][2]), set(seen.values())) == (3, {seen["nobody"]})


def test_nor_when_both_are_tried_too_often(container: Container, others: dict[str, str]) -> None:
    seen: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
    for why, email in others.items():
        visitor = replace(HOME, address=f"203.0.113.{len(seen)}")
        guess(container, 11, email, visitor)
        with signing.count_hashes() as hashes, signing.count_statements(container) as statements:
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
    signing.shift_rate_windows(container, minutes=15)
    assert outcome(container) == "in"


def test_fifty_a_day_are_all_which_outlive_the_hourly_clearing(container: Container, dana: int) -> None:
    for hour in range(5):
        assert set(guess(container, 10, visitor=replace(HOME, address=f"203.0.113.{hour}"))) == {"wrong"}
        signing.shift_rate_windows(container, minutes=15)
    came = sign_in_as(container)
    assert came.outcome == "throttled"
    assert came.retry_after > 22 * 3_600
    for hours, expected in ((2, "throttled"), (22, "in")):
        signing.shift_rate_windows(container, hours=hours)
        delete_expired_rate_limits(container.db)
        assert outcome(container) == expected


def test_a_network_may_fail_sixty_times_an_hour(container: Container, dana: int) -> None:
    known = known_browser(container)
    assert {outcome(container) for _ in range(65)} == {"in"}, "only failures count"
    for number in range(60):
        assert guess(container, 1, f"{number}@example.com") == ["wrong"]
    assert [outcome(container, visitor) for visitor in (HOME, signing.ELSEWHERE, known)] == ["throttled", "in", "in"]
    signing.shift_rate_windows(container, hours=1)
    assert outcome(container) == "in"


def test_a_known_browser_is_let_in_while_strangers_guess(container: Container, account: int, dana: int) -> None:
    signing.make_user(container, account, "lee@example.com")
    known, lees = known_browser(container), known_browser(container, "lee@example.com")
    guess(container, 12, visitor=signing.ELSEWHERE)
    assert [outcome(container, visitor) for visitor in (signing.ELSEWHERE, known)] == ["throttled", "in"]
    assert outcome(container, signing.ELSEWHERE) == "throttled", "nor does it unlock sign-in elsewhere"
    assert outcome(container, lees) == "throttled", "it is known for one person alone"
    token = known.browser_token
    assert token is not None
    forged = [mint_secret("known", b"\x00" * 56), mint_secret("known", b"\xff" * 64), mint_secret("session", b"x" * 32)]
    for made_up in (*forged, token[:-1], ""):
        assert outcome(container, replace(HOME, browser_token=made_up)) == "throttled", made_up


def test_a_known_browser_guesses_only_so_often_itself(container: Container, dana: int) -> None:
    assert guess(container, 11, visitor=known_browser(container)) == ["wrong"] * 10 + ["throttled"]
    assert outcome(container, signing.ELSEWHERE) == "in", "others are counted by themselves"


def test_a_known_browser_is_forgotten_with_a_year_or_a_password(container: Container, clock: Clock, dana: int) -> None:
    known = known_browser(container)
    clock.advance(days=365)
    guess(container, 12, visitor=signing.ELSEWHERE)
    assert outcome(container, known) == "in"
    clock.advance(days=1)
    assert outcome(container, known) == "throttled"

    signing.shift_rate_windows(container, hours=25)
    known, other = known_browser(container), "seven plums in autumn rain"
    user = signing.sign_in_user(container)
    how = {"session_id": user.session_id, "now": clock.now()}
    passwords.change_password(container.sign_in_context, dana, other, user.actor, **how)  # type: ignore[arg-type]
    guess(container, 12, visitor=signing.ELSEWHERE)
    assert sign_in_as(container, DANA, other, known).outcome == "throttled"


def test_signing_in_is_noted_in_every_account(container: Container, account: int, dana: int) -> None:
    other = open_account(container, "branch@example.com").account_id
    signing.make_user(container, other, DANA, role="member")
    sign_in_as(container)
    for each in (account, other):
        line = signing.audit_log(container, each)[-1]
        assert (line.act, line.actor, line.network) == ("sign_in", DANA, "192.0.2.7")


def test_a_refusal_is_noted_once_a_minute(container: Container, account: int, dana: int) -> None:
    guess(container, 12, "nobody@example.com")
    assert signing.audited_acts(container, account) == [], "guesses at nobody leave nothing"
    guess(container, 5)
    assert signing.audited_acts(container, account) == ["sign_in.refused"]
    signing.shift_rate_windows(container, minutes=1)
    guess(container, 5)
    signing.shift_rate_windows(container, minutes=1)
    guess(container, 5)
    assert signing.audited_acts(container, account) == ["sign_in.refused"] * 3
    reasons = [line.about["why"] for line in signing.audit_log(container, account)]
    assert reasons == ["wrong password", "wrong password", "too many attempts"]


def test_an_old_hash_is_replaced_at_sign_in(container: Container, dana: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "ARGON2_PARAMETERS", replace(passwords.ARGON2_PARAMETERS, time_cost=2))
    context = replace(container.sign_in_context, hasher=Hasher())
    assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()).outcome == "in"
    assert "t=2" in scalar(container, sa.select(people.c.password_hash).where(people.c.id == dana))
    with signing.count_hashes() as hashes:
        assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()).outcome == "in"
    assert hashes == ["verified"]


class Crowded(Hasher):
    def matches(self, kept: str | None, password: str) -> bool:
        raise Throttled(retry_after=5)


def test_a_password_is_given_again_unless_a_crowd_of_them_is_hashed(container: Container, dana: int) -> None:
    context = replace(container.sign_in_context, hasher=Crowded())
    assert sign_in(context, DANA, PASSWORD, HOME, now=container.clock()) == SignInResult("throttled", retry_after=5)
    assert confirm_password(context, dana, PASSWORD, HOME) == "throttled"
    context = container.sign_in_context
    assert confirm_password(context, dana, PASSWORD, HOME) == "in"
    assert {confirm_password(context, dana, WRONG, HOME) for _ in range(10)} == {"wrong"}
    assert confirm_password(context, dana, PASSWORD, HOME) == "throttled"
    assert confirm_password(context, 10**9, PASSWORD, signing.ELSEWHERE) == "wrong"


def as_shipped() -> ModuleType:
    """The module as it is without what the tests have made cheap."""
    spec = spec_from_file_location("passwords_as_shipped", passwords.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_the_password_fits_a_hash_which_is_outdated_with_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = as_shipped().Hasher()
    kept = hasher.hash(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert hasher.matches(kept, PASSWORD)
    assert hasher._dummy_hash.startswith("$argon2id$v=19$m=65536,t=3,p=4$"), "nobody's costs the same"
    assert len(hasher._dummy_hash) == len(kept)
    hasher = Hasher()
    kept = hasher.hash(PASSWORD)
    fits = [hasher.matches(kept, each) for each in (PASSWORD, PASSWORD + " ", PASSWORD.upper())]
    assert fits == [True, False, False]
    assert kept != hasher.hash(PASSWORD)
    assert hasher.matches(hasher.hash("caf\u00e9 au lait"), "cafe\u0301 au lait"), "keyboards differ"
    assert hasher.matches(hasher.hash("ﬁsh and chips"), "fish and chips")
    for damaged in ("", "plain", "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$", "$2b$12$abcdefghijklmnopqrstuu"):
        assert not hasher.matches(damaged, PASSWORD), damaged
    with signing.count_hashes() as hashes:
        assert not hasher.matches(None, PASSWORD)
    assert hashes == ["verified"], "nobody's password takes as much work"
    kept = Hasher().hash(PASSWORD)
    assert not Hasher().is_outdated(kept)
    monkeypatch.setattr(passwords, "ARGON2_PARAMETERS", as_shipped().ARGON2_PARAMETERS)
    assert Hasher().is_outdated(kept)
    assert passwords.ARGON2_PARAMETERS != CHEAPEST


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], threading.Event]]:
    """Hashes that take until they are let go: in which threads they are made."""
    at_work: list[str] = []
    go_on = threading.Event()

    def slow(_self: PasswordHasher, _password: bytes) -> str:
        at_work.append(threading.current_thread().name)
        assert go_on.wait(20)
        return "kept"

    monkeypatch.setattr(PasswordHasher, "hash", slow)
    try:
        yield at_work, go_on
    finally:
        go_on.set()


def test_two_are_made_at_a_time_and_a_crowd_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = Hasher(max_threads=2, max_waiting=3)
    refused = threading.Semaphore(0)

    def make() -> str:
        try:
            return hasher.hash(PASSWORD)
        except Throttled:
            refused.release()
            return "sent away"

    with held_up(monkeypatch) as (at_work, go_on), ThreadPoolExecutor(9) as crowd:
        made = [crowd.submit(make) for _ in range(9)]
        for _ in range(4):
            assert refused.acquire(timeout=20)
        assert len(at_work) <= 2, "the others wait"
        go_on.set()
        assert sorted(each.result(20) for each in made) == ["kept"] * 5 + ["sent away"] * 4
    assert all(name.startswith("passwords") for name in at_work), "never in the thread of whoever asks"
    assert hasher.hash(PASSWORD) == "kept", "a place is free again"


GUESSES = 10_000


def test_10_000_guesses_cost_ten_hashes_and_shut_nobody_out(container: Container, account: int, dana: int) -> None:
    known = replace(HOME, browser_token=sign_in_as(container).browser_token)

    def guess(number: int) -> str:
        # From another network each time: nothing but the e-mail is the same.
        stranger = SignInVisitor(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
        return sign_in_as(container, DANA, f"guess number {number}", stranger).outcome

    with signing.count_hashes() as hashes, ThreadPoolExecutor(4) as guessers:
        outcomes = Counter(guessers.map(guess, range(GUESSES)))
    assert (outcomes, len(hashes)) == ({"wrong": 10, "throttled": GUESSES - 10}, 10)

    right = sign_in_as(container, visitor=SignInVisitor("198.51.100.9"))
    assert right.outcome == "throttled", "and be it the right one"
    assert sign_in_as(container, visitor=known).outcome == "in"
    assert signing.audited_acts(container, account) == ["sign_in", "sign_in.refused", "sign_in"]


def test_several_servers_count_together(container: Container, dana: int) -> None:
    servers = [replace(container.sign_in_context, full_buckets=FullBucketCache(recheck_seconds=0)) for _ in range(3)]

    def guess(number: int) -> str:
        stranger = SignInVisitor(f"10.0.0.{number}")
        return sign_in(servers[number % 3], DANA, "a guess", stranger, now=container.clock()).outcome

    with signing.count_hashes() as hashes, ThreadPoolExecutor(6) as guessers:
        outcomes = Counter(guessers.map(guess, range(150)))
    assert (outcomes, len(hashes)) == ({"wrong": 10, "throttled": 140}, 10)


def test_cached_full_buckets_are_rechecked_after_a_while() -> None:
    bucket = [RateLimitBucket("x", 10, 900)]
    hasty, patient = FullBucketCache(recheck_seconds=0), FullBucketCache(recheck_seconds=60, max_entries=2)
    for spent in (hasty, patient):
        spent.add(bucket, 900)
    assert (hasty.get_wait_seconds(bucket), patient.get_wait_seconds(bucket)) == (0, 900)
    assert patient.get_wait_seconds([RateLimitBucket("y", 10, 900)]) == 0
    for key in "ab":
        patient.add([RateLimitBucket(key, 10, 900)], 900)
    assert patient.get_wait_seconds(bucket) == 0, "only so many are remembered"
