"""How personal access tokens and short codes look."""

import hashlib
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import tokens
from quillpost.core.tokens import Mode
from quillpost.orders.service import new_short_code

modes = st.sampled_from(["test", "live"])
randomness = st.binary(min_size=24, max_size=64)


@given(modes, randomness)
def test_a_minted_token_tells_its_mode(mode: Mode, random_bytes: bytes) -> None:
    token = tokens.mint_secret(mode, random_bytes)
    assert tokens.is_wellformed_token(token)
    assert tokens.token_mode(token) == mode
    assert token.startswith(f"qp_{mode}_")


@pytest.mark.parametrize("random_bytes", [bytes(24), b"\xff" * 24, b"\0" * 23 + b"\1"])
def test_every_token_has_the_same_length(random_bytes: bytes) -> None:
    assert re.fullmatch(r"qp_live_[0-9A-Za-z]{39}", tokens.mint_secret("live", random_bytes))


@given(st.binary(min_size=24, max_size=24), st.binary(min_size=24, max_size=24))
def test_different_randomness_gives_different_tokens(one: bytes, other: bytes) -> None:
    assert (tokens.mint_secret("test", one) == tokens.mint_secret("test", other)) == (one == other)


def test_a_mistyped_letter_is_noticed() -> None:
    token = tokens.mint_secret("test", random.Random(7).randbytes(24))
    for position, letter in enumerate(token):
        other = "a" if letter != "a" else "b"
        assert not tokens.is_wellformed_token(token[:position] + other + token[position + 1 :])


def test_a_test_token_cannot_be_relabelled_live() -> None:
    token = tokens.mint_secret("test", random.Random(7).randbytes(24))
    assert tokens.token_mode(token.replace("test", "live")) is None


@pytest.mark.parametrize("token", ["", "qp_test_", "Bearer x", "qp_live_" + "é" * 39, "a" * 10_000])
def test_garbage_is_no_token(token: str) -> None:
    assert not tokens.is_wellformed_token(token)


def test_a_token_with_a_line_end_is_no_token() -> None:
    assert not tokens.is_wellformed_token(tokens.mint_secret("test", bytes(24)) + "\n")


@pytest.mark.parametrize("size", [0, 23, 65])
def test_too_little_or_too_much_randomness_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="24 to 64"):
        tokens.mint_secret("test", bytes(size))


def test_the_stored_form_is_a_sha256() -> None:
    token = tokens.mint_secret("test", bytes(24))
    assert tokens.hash_token(token) == hashlib.sha256(token.encode()).digest()


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
