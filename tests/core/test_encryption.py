"""Secrets that only open where they belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.encryption import DecryptionFailed, Encryptor, key_fingerprint, read_key_id

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CONTEXT = "webhooks:7:secret"


def encryptor() -> Encryptor:
    return Encryptor({"2026": NEW}, "2026")


@given(plain=st.binary(max_size=200), context=st.text(max_size=30))
def test_what_was_sealed_opens_in_its_context(plain: bytes, context: str) -> None:
    assert encryptor().decrypt(encryptor().encrypt(plain, context=context), context=context) == plain


def test_the_plain_bytes_do_not_show() -> None:
    assert b"whsec" not in encryptor().encrypt(b"whsec_secret", context=CONTEXT)


def test_the_same_secret_is_never_sealed_alike() -> None:
    assert encryptor().encrypt(b"s", context=CONTEXT) != encryptor().encrypt(b"s", context=CONTEXT)


def test_a_secret_moved_to_another_row_does_not_open() -> None:
    sealed = encryptor().encrypt(b"secret", context=CONTEXT)
    with pytest.raises(DecryptionFailed):
        encryptor().decrypt(sealed, context="webhooks:8:secret")


def test_any_changed_byte_breaks_the_seal() -> None:
    sealed = encryptor().encrypt(b"secret", context=CONTEXT)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(DecryptionFailed):
            encryptor().decrypt(bytes(changed), context=CONTEXT)


def test_any_cut_breaks_the_seal() -> None:
    sealed = encryptor().encrypt(b"secret", context=CONTEXT)
    for length in range(len(sealed)):
        with pytest.raises(DecryptionFailed):
            encryptor().decrypt(sealed[:length], context=CONTEXT)


def test_a_secret_relabelled_with_another_key_id_does_not_open() -> None:
    same_key_twice = Encryptor({"a": NEW, "b": NEW}, "a")
    sealed = same_key_twice.encrypt(b"secret", context=CONTEXT)
    with pytest.raises(DecryptionFailed):
        same_key_twice.decrypt(b"\x01\x01b" + sealed[3:], context=CONTEXT)


def test_letters_cannot_move_between_key_id_and_context() -> None:
    key_a, key_ab = Encryptor({"a": NEW}, "a"), Encryptor({"ab": NEW}, "ab")
    sealed = key_a.encrypt(b"secret", context="bc")
    relabelled = b"\x01\x02ab" + sealed[3:]
    with pytest.raises(DecryptionFailed):
        key_ab.decrypt(relabelled, context="c")


def test_an_older_key_still_opens_and_the_current_one_seals() -> None:
    sealed = Encryptor({"2025": OLD}, "2025").encrypt(b"secret", context=CONTEXT)
    rotated = Encryptor({"2025": OLD, "2026": NEW}, "2026")
    assert rotated.decrypt(sealed, context=CONTEXT) == b"secret"
    renewed = rotated.encrypt(b"secret", context=CONTEXT)
    assert encryptor().decrypt(renewed, context=CONTEXT) == b"secret"


def test_a_key_that_was_taken_away_opens_nothing() -> None:
    sealed = Encryptor({"2025": OLD}, "2025").encrypt(b"secret", context=CONTEXT)
    with pytest.raises(DecryptionFailed, match="not configured"):
        encryptor().decrypt(sealed, context=CONTEXT)


def test_a_derived_key_depends_on_purpose_and_key() -> None:
    links = encryptor().derive_keys("links")[0]
    assert links == encryptor().derive_keys("links")[0]
    assert (
        len({links, encryptor().derive_keys("other")[0], Encryptor({"2026": OLD}, "2026").derive_keys("links")[0]}) == 3
    )
    assert len(links) == 32


@pytest.mark.parametrize(
    ("keys", "current"),
    [({}, "a"), ({"a": NEW}, "b"), ({"a": b"short"}, "a"), ({"": NEW}, ""), ({"a" * 256: NEW}, "a" * 256)],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, bytes], current: str) -> None:
    with pytest.raises(ValueError, match=r"[Kk]ey"):
        Encryptor(keys, current)


def test_a_key_is_known_by_a_fingerprint_that_others_do_not_share() -> None:
    sealed = Encryptor.from_keys([NEW, OLD]).encrypt(b"secret", context=CONTEXT)
    assert read_key_id(sealed) == key_fingerprint(NEW) == Encryptor.from_keys([NEW]).current_key_id
    assert key_fingerprint(NEW) != key_fingerprint(OLD)
    assert NEW.hex() not in key_fingerprint(NEW)
    assert Encryptor.from_keys([OLD, NEW]).key_ids == (key_fingerprint(OLD), key_fingerprint(NEW))


def test_keys_changed_meanwhile_are_reloaded_when_needed() -> None:
    changes: list[list[bytes]] = []
    running = Encryptor.from_keys([OLD], reload_keys=lambda: changes.pop() if changes else None)
    former = running.encrypt(b"secret", context=CONTEXT)
    elsewhere = Encryptor.from_keys([NEW, OLD]).encrypt(b"new", context=CONTEXT)
    with pytest.raises(DecryptionFailed, match="not configured"):
        running.decrypt(elsewhere, context=CONTEXT)
    changes.append([NEW, OLD])
    assert running.decrypt(elsewhere, context=CONTEXT) == b"new"
    assert running.decrypt(former, context=CONTEXT) == b"secret"
    assert running.current_key_id == key_fingerprint(NEW)


def test_nothing_is_sealed_with_a_former_key_once_there_is_a_new_one() -> None:
    changes = [[NEW, OLD]]
    running = Encryptor.from_keys([OLD], reload_keys=lambda: changes.pop() if changes else None)
    assert running.encrypt(b"secret", context=CONTEXT).startswith(Encryptor.from_keys([NEW]).current_header)


def test_a_key_is_derived_from_every_key_the_current_one_first() -> None:
    both = Encryptor.from_keys([NEW, OLD]).derive_keys("links")
    assert both == (
        Encryptor.from_keys([NEW]).derive_keys("links")[0],
        Encryptor.from_keys([OLD]).derive_keys("links")[0],
    )
