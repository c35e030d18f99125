"""The file with the keys that seal secrets."""

import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from structlog.testing import capture_logs

from quillpost.core.encryption import Encryptor, KeyFile, key_fingerprint
from quillpost.core.errors import NotReady

CONTEXT = "webhooks:7:secret"

PRINTS_ITS_KEY = """
import sys
from pathlib import Path
from quillpost.core.encryption import KeyFile
sys.stdin.readline()
file = KeyFile(Path(sys.argv[1]))
file.create_if_missing()
print(file.read_keys()[0].hex())
"""


def made(path: Path) -> KeyFile:
    file = KeyFile(path)
    file.create_if_missing()
    return file


def test_a_key_file_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret.key"
    [key] = made(path).read_keys()
    assert len(key) == 32
    assert made(path).read_keys() == [key]
    assert made(tmp_path / "other.key").read_keys() != [key]


def test_whoever_reads_or_changes_makes_no_key_file(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "secret.key")
    for use in (file.read_keys, file.add_key, lambda: file.delete_key("0123")):
        with pytest.raises(NotReady, match="No such file"):
            use()
    assert not file.path.exists()


def test_a_key_file_is_for_its_owner_alone_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "var" / "secret.key"
    file = made(path)
    assert not file.is_accessible_to_others
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    path.chmod(0o644)
    assert file.is_accessible_to_others


def test_processes_that_start_at_once_agree_on_the_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", PRINTS_ITS_KEY, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    keys = {starter.communicate()[0].strip() for starter in starters}
    assert keys == {KeyFile(path).read_keys()[0].hex()}


def test_the_first_of_two_makers_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.key"
    monkeypatch.setattr(Path, "exists", lambda _: False)
    first = made(path).read_keys()
    assert made(path).read_keys() == first
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "\n", "abcd", "no hexadecimal digits", "é" * 64, "00" * 32 + "\nabcd"])
def test_a_damaged_key_file_is_reported_and_not_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(NotReady, match="must hold 32 bytes"):
        KeyFile(path).read_keys()
    assert path.read_text(encoding="utf-8") == content


def test_a_key_file_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotReady, match=r"cannot be used: .+\.$"):
        KeyFile(tmp_path / "file" / "secret.key").create_if_missing()


def test_a_new_key_is_the_first_and_the_others_stay(tmp_path: Path) -> None:
    file = made(tmp_path / "secret.key")
    [first] = file.read_keys()
    new = file.add_key()
    second, kept = file.read_keys()
    assert (key_fingerprint(second), kept) == (new, first)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"secret.key", "secret.key.lock"}


def test_a_former_key_is_forgotten_and_the_current_one_never(tmp_path: Path) -> None:
    file = made(tmp_path / "secret.key")
    [first] = file.read_keys()
    new = file.add_key()
    file.delete_key(new)
    assert len(file.read_keys()) == 2
    file.delete_key(key_fingerprint(first))
    assert [key_fingerprint(key) for key in file.read_keys()] == [new]


def test_of_keys_that_are_made_at_once_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    made(path)
    makers = [Thread(target=lambda: KeyFile(path).add_key()) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(KeyFile(path).read_keys()) == 9


def test_a_running_encryptor_reloads_the_file_only_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    running = Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    former = running.encrypt(b"secret", context=CONTEXT)
    new = KeyFile(path).add_key()
    assert (running.current_key_id, len(running.key_ids)) == (new, 2)
    assert running.decrypt(former, context=CONTEXT) == b"secret"
    monkeypatch.setattr(Path, "read_text", None)
    for forged in (b"\x01\x03abc" + bytes(40), b"\x01\xff", b""):
        with pytest.raises(Exception, match="not configured"):
            running.decrypt(forged, context=CONTEXT)


@pytest.mark.parametrize("content", [None, "spoiled"])
def test_a_running_encryptor_keeps_its_keys_when_the_file_is_lost(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    running = Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    sealed = running.encrypt(b"secret", context=CONTEXT)
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert running.decrypt(running.encrypt(b"more", context=CONTEXT), context=CONTEXT) == b"more"
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"


def test_a_running_encryptor_never_drops_the_last_copy_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    running = Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    sealed = running.encrypt(b"secret", context=CONTEXT)
    path.write_text("00" * 32)
    with capture_logs() as logs:
        more = running.encrypt(b"more", context=CONTEXT)
    assert [line["event"] for line in logs] == ["keys.replaced"]
    assert Encryptor.from_keys([bytes(32)]).decrypt(more, context=CONTEXT) == b"more", "sealed with a key that is lost"
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"
    KeyFile(path).add_key()
    assert len(running.key_ids) == 3
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"


def test_a_running_encryptor_that_missed_a_change_learns_the_new_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    [first] = file.read_keys()
    running = Encryptor.from_keys([first], reload_keys=file.reload_if_changed)
    new = KeyFile(path).add_key()
    KeyFile(path).delete_key(key_fingerprint(first))
    assert running.current_key_id == new


def test_a_file_that_could_not_be_read_once_is_read_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    running = Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    former, new = running.current_key_id, KeyFile(path).add_key()

    def fail(*_: object, **__: object) -> str:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fail)
        assert running.current_key_id == former
    assert running.current_key_id == new


def test_threads_that_meet_a_new_key_at_once_all_know_it(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    file = made(path)
    running = Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)
    KeyFile(path).add_key()
    other = KeyFile(path)
    elsewhere = Encryptor.from_keys(other.read_keys()).encrypt(b"new", context=CONTEXT)
    opened: list[bytes] = []
    readers = [Thread(target=lambda: opened.append(running.decrypt(elsewhere, context=CONTEXT))) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert opened == [b"new"] * 8
