"""Secrets that only open where they belong."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.kit.errors import NotReady
from quillpost.kit.sealing import SealBroken, Sealer, load_or_create_key

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CONTEXT = "webhooks:7:secret"

PRINTS_ITS_KEY = """
import sys
from pathlib import Path
from quillpost.kit.sealing import load_or_create_key
sys.stdin.readline()
print(load_or_create_key(Path(sys.argv[1])).hex())
"""


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
    links = sealer().derive("links")
    assert links == sealer().derive("links")
    assert len({links, sealer().derive("other"), Sealer({"2026": OLD}, "2026").derive("links")}) == 3
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


def test_a_key_file_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret.key"
    key = load_or_create_key(path)
    assert len(key) == 32
    assert load_or_create_key(path) == key
    assert load_or_create_key(tmp_path / "other.key") != key


def test_a_key_file_is_for_its_owner_alone_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret.key"
    load_or_create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_start_at_once_agree_on_the_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", PRINTS_ITS_KEY, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    keys = {starter.communicate()[0].strip() for starter in starters}
    assert keys == {load_or_create_key(path).hex()}


def test_the_first_of_two_makers_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.key"
    monkeypatch.setattr(Path, "exists", lambda _: False)
    first = load_or_create_key(path)
    assert load_or_create_key(path) == first
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "abcd", "no hexadecimal digits", "é" * 64])
def test_a_spoiled_key_file_is_told_and_not_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(NotReady, match="must hold 32 bytes"):
        load_or_create_key(path)
    assert path.read_text(encoding="utf-8") == content


def test_a_key_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotReady, match=r"cannot be used: .+\.$"):
        load_or_create_key(tmp_path / "file" / "secret.key")
