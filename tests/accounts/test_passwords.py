"""Passwords: which will do, how they are stored, and what guesses at them cost."""

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.rate_limits.service import FullBucketCache, RateLimitBucket
from quillpost.accounts.users import passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.rules import check_password, find_email_error, normalize_email, normalize_password
from quillpost.accounts.users.sign_in import SignInVisitor, sign_in
from quillpost.app.container import Container
from quillpost.core.errors import Throttled
from support.sign_in import DANA, HOME, audited_acts, count_hashes, sign_in_as

COMMON = "among the first that others would try"
OWN = "your name or e-mail"


def errors_of(password: str) -> str:
    return " ".join(check_password(password, email="dana.whitfield@oakandpine.example", name="Dana Whitfield"))


GOOD = [
    "plum orchard weather vane", "gravel-under-the-wheel", "Xk7#pQ9!mz", "дождь на крыше дома",
    "一二三四五六七八九十木水", "    spaces    count    ", "purple dolphins juggle teacups", "tr0ubadour&3 hats",
    "dog 4829 cat 3187", "summer 93 of 4871 to 2",
]  # fmt: skip
GUESSED_FIRST = [
    "correct horse battery staple", "password12", "Password1234", "P@ssw0rd2026", "pa55word!!!!",
    "passwordpassword", "p.a.s.s.w.o.r.d", "letmein1234", "LetMeIn!!!!", "welcome2026!", "Welcome2Quillpost",
    "qwertyuiop", "1234567890", "0987654321", "abcdefghij", "1q2w3e4r5t", "1qaz2wsx3edc", "asdfghjkl1234",
    "zyxwvutsrq", "aaaaaaaaaa", "ababababab", "abc123abc123", "1111122222", "iloveyou123", "Sunshine#2026",
    "summer2026!!", "monkeydragon", "administrator1", "quillpost2026", "qwerty12345678", "test1234test",
    "changeme!!!",
]  # fmt: skip
ONES_OWN_NAME = [
    "dana.whitfield@oakandpine.example", "DanaWhitfield", "whitfield2026", "dana whitfield 1", "oakandpine!!",
    "WhitfieldWhitfield", "wh1tf1eld99", "danawhitfielddana",
]  # fmt: skip


def test_a_password_has_a_length_and_is_none_that_others_guess_first(subtests: pytest.Subtests) -> None:
    for why, those in (("", GOOD), (COMMON, GUESSED_FIRST), (OWN, ONES_OWN_NAME)):
        for password in those:
            with subtests.test(password):
                found = errors_of(password)
                assert why in found if why else found == ""
    assert (errors_of("nine char"), errors_of("ten chars ")) == ("A password has at least 10 characters.", "")
    assert errors_of("x" * 500 + "plum orchard" * 100) == "A password has at most 1,000 characters."
    assert errors_of("plum trees " * 90 + "plum trees") == ""
    decomposed = unicodedata.normalize("NFD", "éàèùâêîô")
    assert len(decomposed) == 16
    assert "at least 10" in errors_of(decomposed), "letters are counted as they are read"
    assert normalize_password(decomposed) == normalize_password("éàèùâêîô")


@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_no_text_upsets_the_rules(password: str, email: str, name: str) -> None:
    assert all(error.endswith(".") for error in check_password(password, email=email, name=name))


NO_ADDRESSES = [
    "", "dana", "dana@", "@example.com", "dana@example", "+15125550100@sms", "a b@example.com", "a@b@example.com",
    "Dana <dana@example.com>", "dana@example..com", "dana@.example.com", "d" * 65 + "@example.com",
    "dana@" + "x" * 320 + ".com", "dana@exa\x00mple.com", "dana@example.com\r\nBcc: x@example.com", "a,b@example.com",
]  # fmt: skip


def test_what_is_no_e_mail_address_is_refused(subtests: pytest.Subtests) -> None:
    for email in ("dana@example.com", "d+x@mail.example.co.uk", "jürgen@münchen.example"):
        with subtests.test(email):
            assert find_email_error(email) is None
    for email in NO_ADDRESSES:
        with subtests.test(email[:30]):
            assert None not in (find_email_error(email), find_email_error(normalize_email(email)))


@given(st.text(max_size=60))
def test_an_address_as_it_is_kept_stays_as_it_is(email: str) -> None:
    assert normalize_email(normalize_email(email)) == normalize_email(email)
    assert normalize_email(email).isprintable()


PASSWORD = "plum orchard weather vane"


def as_shipped() -> ModuleType:
    """The module as it is without what the tests have made cheap."""
    spec = spec_from_file_location("passwords_as_shipped", passwords.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_the_password_fits_and_costs_64_mebibytes_and_three_passes() -> None:
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
    with count_hashes() as hashes:
        assert not hasher.matches(None, PASSWORD)
    assert hashes == ["verified"], "nobody's password takes as much work"


def test_a_hash_of_other_parameters_is_outdated(monkeypatch: pytest.MonkeyPatch) -> None:
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

    with count_hashes() as hashes, ThreadPoolExecutor(4) as guessers:
        outcomes = Counter(guessers.map(guess, range(GUESSES)))
    assert (outcomes, len(hashes)) == ({"wrong": 10, "throttled": GUESSES - 10}, 10)

    right = sign_in_as(container, visitor=SignInVisitor("198.51.100.9"))
    assert right.outcome == "throttled", "and be it the right one"
    assert sign_in_as(container, visitor=known).outcome == "in"
    assert audited_acts(container, account) == ["sign_in", "sign_in.refused", "sign_in"]


def test_several_servers_count_together(container: Container, dana: int) -> None:
    servers = [replace(container.sign_in_context, full_buckets=FullBucketCache(recheck_seconds=0)) for _ in range(3)]

    def guess(number: int) -> str:
        stranger = SignInVisitor(f"10.0.0.{number}")
        return sign_in(servers[number % 3], DANA, "a guess", stranger, now=container.clock()).outcome

    with count_hashes() as hashes, ThreadPoolExecutor(6) as guessers:
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
