"""Links that open a file without a token."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.tokens import LinkSigner

SIGNER = LinkSigner(lambda: [b"k" * 32])
EXPIRES = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BEFORE = EXPIRES - timedelta(seconds=1)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_genuine_link_tells_its_file(file_id: str) -> None:
    assert SIGNER.read_file_id(SIGNER.sign_file_id(file_id, expires_at=EXPIRES), now=BEFORE) == file_id


def test_a_token_is_compact_and_needs_no_escaping() -> None:
    token = SIGNER.sign_file_id("0f8fad5b-d9cb-469f-a165-70867728950e", expires_at=EXPIRES)
    assert re.fullmatch(r"[A-Za-z0-9_-]{76}", token)


def test_a_link_ends_when_it_expires() -> None:
    token = SIGNER.sign_file_id("7", expires_at=EXPIRES)
    assert SIGNER.read_file_id(token, now=EXPIRES) is None
    assert SIGNER.read_file_id(token, now=EXPIRES + timedelta(days=365)) is None


def test_any_changed_character_makes_it_a_forgery() -> None:
    token = SIGNER.sign_file_id("78", expires_at=EXPIRES)
    for position, letter in enumerate(token):
        for other in "AQgw_-=.é":
            if other != letter:
                changed = token[:position] + other + token[position + 1 :]
                assert SIGNER.read_file_id(changed, now=BEFORE) is None


@pytest.mark.parametrize("ending", ["=", "A", "\n", " ", ".", "é"])
def test_another_spelling_of_a_genuine_token_is_a_forgery(ending: str) -> None:
    token = SIGNER.sign_file_id("7", expires_at=EXPIRES)
    assert SIGNER.read_file_id(token + ending, now=BEFORE) is None


@pytest.mark.parametrize("token", ["", "A", "not a token", "é", "A" * 22, "A" * 5_000])
def test_garbage_is_a_forgery(token: str) -> None:
    assert SIGNER.read_file_id(token, now=BEFORE) is None


def test_another_key_signs_other_links() -> None:
    assert (
        LinkSigner(lambda: [b"x" * 32]).read_file_id(SIGNER.sign_file_id("7", expires_at=EXPIRES), now=BEFORE) is None
    )


def test_a_link_that_a_former_key_has_signed_is_good_until_it_ends() -> None:
    token = SIGNER.sign_file_id("7", expires_at=EXPIRES)
    changed = LinkSigner(lambda: [b"x" * 32, b"k" * 32])
    assert (changed.read_file_id(token, now=BEFORE), changed.read_file_id(token, now=EXPIRES)) == ("7", None)
    renewed = changed.sign_file_id("7", expires_at=EXPIRES)
    assert LinkSigner(lambda: [b"x" * 32]).read_file_id(renewed, now=BEFORE) == "7"
