"""Secrets that only open where they belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.encryption import NAMELESS, SealBroken, Sealer, fingerprint, key_named_in

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CONTEXT = "webhooks:7:secret"


def sealer() -> Sealer:
    return Sealer({"2026": NEW}, "2026")


@given(plain=st.binary(max_size=200), context=st.text(max_size=30))
def test_what_was_sealed_opens_in_its_context(plain: bytes, context: str) -> None:
    assert sealer().open(sealer().seal(plain, context=context), context=context) == plain


def test_the_plain_bytes_do_not_show() -> None:
    assert b"whsec" not in sealer().seal(b"whsec_secret", context=CONTEXT)


def test_the_same_secret_is_never_sealed_alike() -> None:
    assert sealer().seal(b"s", context=CONTEXT) != sealer().seal(b"s", context=CONTEXT)


def test_a_secret_moved_to_another_row_does_not_open() -> None:
    sealed = sealer().seal(b"secret", context=CONTEXT)
    with pytest.raises(SealBroken):
        sealer().open(sealed, context="webhooks:8:secret")


def test_any_changed_byte_breaks_the_seal() -> None:
    sealed = sealer().seal(b"secret", context=CONTEXT)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(SealBroken):
            sealer().open(bytes(changed), context=CONTEXT)


def test_any_cut_breaks_the_seal() -> None:
    sealed = sealer().seal(b"secret", context=CONTEXT)
    for length in range(len(sealed)):
        with pytest.raises(SealBroken):
            sealer().open(sealed[:length], context=CONTEXT)


def test_a_secret_relabelled_with_another_key_id_does_not_open() -> None:
    same_key_twice = Sealer({"a": NEW, "b": NEW}, "a")
    sealed = same_key_twice.seal(b"secret", context=CONTEXT)
    with pytest.raises(SealBroken):
        same_key_twice.open(b"\x01\x01b" + sealed[3:], context=CONTEXT)


def test_letters_cannot_move_between_key_id_and_context() -> None:
    key_a, key_ab = Sealer({"a": NEW}, "a"), Sealer({"ab": NEW}, "ab")
    sealed = key_a.seal(b"secret", context="bc")
    relabelled = b"\x01\x02ab" + sealed[3:]
    with pytest.raises(SealBroken):
        key_ab.open(relabelled, context="c")


def test_an_older_key_still_opens_and_the_current_one_seals() -> None:
    sealed = Sealer({"2025": OLD}, "2025").seal(b"secret", context=CONTEXT)
    rotated = Sealer({"2025": OLD, "2026": NEW}, "2026")
    assert rotated.open(sealed, context=CONTEXT) == b"secret"
    renewed = rotated.seal(b"secret", context=CONTEXT)
    assert sealer().open(renewed, context=CONTEXT) == b"secret"


def test_a_key_that_was_taken_away_opens_nothing() -> None:
    sealed = Sealer({"2025": OLD}, "2025").seal(b"secret", context=CONTEXT)
    with pytest.raises(SealBroken, match="not configured"):
        sealer().open(sealed, context=CONTEXT)


def test_a_derived_key_depends_on_purpose_and_key() -> None:
    links = sealer().derive_all("links")[0]
    assert links == sealer().derive_all("links")[0]
    assert (
        len({links, sealer().derive_all("other")[0], Sealer({"2026": OLD}, "2026").derive_all("links")[0]})
        == 3
    )
    assert len(links) == 32


@pytest.mark.parametrize(
    ("keys", "current"),
    [
        ({}, "a"),
        ({"a": NEW}, "b"),
        ({"a": b"short"}, "a"),
        ({"": NEW}, ""),
        ({"a" * 256: NEW}, "a" * 256),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, bytes], current: str) -> None:
    with pytest.raises(ValueError, match=r"[Kk]ey"):
        Sealer(keys, current)


def test_a_key_is_known_by_a_fingerprint_that_others_do_not_share() -> None:
    sealed = Sealer.of([NEW, OLD]).seal(b"secret", context=CONTEXT)
    assert key_named_in(sealed) == fingerprint(NEW) == Sealer.of([NEW]).current
    assert fingerprint(NEW) != fingerprint(OLD)
    assert NEW.hex() not in fingerprint(NEW)
    assert Sealer.of([OLD, NEW]).ids == (fingerprint(OLD), fingerprint(NEW))


def test_what_was_sealed_while_keys_had_no_names_is_opened_by_trying_each() -> None:
    nameless = Sealer({NAMELESS: OLD}, NAMELESS).seal(b"secret", context=CONTEXT)
    assert Sealer.of([NEW, OLD]).open(nameless, context=CONTEXT) == b"secret"
    with pytest.raises(SealBroken):
        Sealer.of([NEW]).open(nameless, context=CONTEXT)
    with pytest.raises(SealBroken):
        Sealer.of([NEW, OLD]).open(nameless, context="webhooks:8:secret")


def test_keys_that_were_changed_meanwhile_are_asked_for() -> None:
    changes: list[list[bytes]] = []
    running = Sealer.of([OLD], renewed=lambda: changes.pop() if changes else None)
    former = running.seal(b"secret", context=CONTEXT)
    elsewhere = Sealer.of([NEW, OLD]).seal(b"new", context=CONTEXT)
    with pytest.raises(SealBroken, match="not configured"):
        running.open(elsewhere, context=CONTEXT)
    changes.append([NEW, OLD])
    assert running.open(elsewhere, context=CONTEXT) == b"new"
    assert running.open(former, context=CONTEXT) == b"secret"
    assert running.current == fingerprint(NEW)


def test_nothing_is_sealed_with_a_former_key_once_there_is_a_new_one() -> None:
    changes = [[NEW, OLD]]
    running = Sealer.of([OLD], renewed=lambda: changes.pop() if changes else None)
    assert running.seal(b"secret", context=CONTEXT).startswith(Sealer.of([NEW]).mark)


def test_a_key_is_derived_from_every_key_the_current_one_first() -> None:
    both = Sealer.of([NEW, OLD]).derive_all("links")
    assert both == (Sealer.of([NEW]).derive_all("links")[0], Sealer.of([OLD]).derive_all("links")[0])
