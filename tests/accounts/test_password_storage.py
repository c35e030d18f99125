"""How passwords are kept: at a price, a few at a time, and away from whoever asks."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST

from quillpost.accounts.users import passwords
from quillpost.accounts.users.passwords import Hasher
from quillpost.core.errors import Throttled
from support.sign_in import count_hashes

PASSWORD = "plum orchard weather vane"


def as_shipped() -> ModuleType:
    """The module as it is without what the tests have made cheap."""
    spec = spec_from_file_location("passwords_as_shipped", passwords.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_password_costs_64_mebibytes_and_three_passes() -> None:
    hasher = as_shipped().Hasher()
    kept = hasher.hash(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert hasher.matches(kept, PASSWORD)
    assert hasher._dummy_hash.startswith("$argon2id$v=19$m=65536,t=3,p=4$"), "nobody's costs the same"
    assert len(hasher._dummy_hash) == len(kept)


def test_only_the_password_fits() -> None:
    hasher = Hasher()
    kept = hasher.hash(PASSWORD)
    assert hasher.matches(kept, PASSWORD)
    assert not hasher.matches(kept, PASSWORD + " ")
    assert not hasher.matches(kept, PASSWORD.upper())
    assert kept != hasher.hash(PASSWORD)


def test_keyboards_may_put_letters_together_differently() -> None:
    hasher = Hasher()
    assert hasher.matches(hasher.hash("caf\u00e9 au lait"), "cafe\u0301 au lait")
    assert hasher.matches(hasher.hash("ﬁsh and chips"), "fish and chips")


def test_dummy_hash_password_takes_as_much_work() -> None:
    hasher = Hasher()
    with count_hashes() as hashes:
        assert not hasher.matches(None, PASSWORD)
    assert hashes == ["verified"]


@pytest.mark.parametrize("kept", ["", "plain", "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$", "$2b$12$abcdefghijklmnopqrstuu"])
def test_a_damaged_hash_fits_no_password(kept: str) -> None:
    assert not Hasher().matches(kept, PASSWORD)


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
