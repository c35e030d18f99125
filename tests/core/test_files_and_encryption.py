"""Files, whose they are and what a link opens; secrets that only open where they belong, and the file of keys."""

import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.encryption import DecryptionFailed, Encryptor, KeyFile, key_fingerprint, read_key_id
from quillpost.core.errors import NotReady
from quillpost.core.files import PendingFile, delete_expired_files, delete_orphaned_files
from quillpost.core.filesystem import FileLock
from quillpost.core.ports import FileMissing
from quillpost.core.tokens import LinkSigner
from support.factories import Clock
from support.orders import open_account

PICTURE = b"not really a picture"


def put(container: Container, *, days: int | None = None, purpose: str = "creative") -> PendingFile:
    """Bytes in the store, no row yet."""
    expires = None if days is None else container.clock() + timedelta(days=days)
    return container.storage.put(
        PICTURE, purpose=purpose, content_type="image/png", expires_at=expires, now=container.clock()
    )


def keep(container: Container, account: int, *, days: int | None = None) -> PendingFile:
    kept = put(container, days=days)
    with container.db.transaction(Tenant(account)) as tx:
        container.storage.record_file(tx, kept, account_id=account, sub_account_id=None, now=container.clock())
    return kept


def key_of(tx: Tx, file_id: UUID) -> str | None:
    """Where the file lies, for whoever may see it."""
    key: str | None = tx.execute(sa.select(files.c.key).where(files.c.id == file_id)).scalar()
    return key


def test_a_file_comes_back_as_it_was_but_not_to_a_stranger(container: Container, account: int) -> None:
    kept = keep(container, account)
    with container.db.transaction(Tenant(account)) as tx:
        assert key_of(tx, kept.id) == kept.key
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {PICTURE: kept.id}
        row = tx.execute(sa.select(files)).one()
    assert (row.size, row.content_type, row.purpose) == (len(PICTURE), "image/png", "creative")
    assert bytes(row.sha256) == kept.sha256
    assert container.storage.store.get(kept.key) == PICTURE
    with container.db.transaction(Tenant(open_account(container, "stranger@example.com").account_id)) as tx:
        assert key_of(tx, kept.id) is None
        assert container.storage.find_by_content(tx, [PICTURE], purpose="creative") == {}


@pytest.mark.usefixtures("clean_database")
def test_a_file_past_its_time_is_gone_with_its_row(container: Container, clock: Clock, account: int) -> None:
    short, long, for_good = (keep(container, account, days=days) for days in (1, 3, None))
    clock.advance(days=2)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 1
    with container.db.transaction(Tenant(account)) as tx:
        assert (key_of(tx, short.id), key_of(tx, long.id)) == (None, long.key)
        found = container.storage.find_by_content(tx, [PICTURE, b"other"], purpose="creative")
        assert found == {PICTURE: for_good.id}, "the others will go"
    with pytest.raises(FileMissing):
        container.storage.store.get(short.key)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 0


@pytest.mark.usefixtures("clean_database")
def test_a_file_without_a_row_is_swept_up_the_day_after(container: Container, clock: Clock, account: int) -> None:
    kept, *orphans = keep(container, account), put(container), put(container, purpose="preview")
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 0, "they may get their row"
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 2
    assert [container.storage.store.exists(file.key) for file in (kept, *orphans)] == [True, False, False]


def test_whoever_takes_a_lock_waits_until_the_first_has_released_it(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "new" / "lock"), FileLock(tmp_path / "new" / "lock")
    order: list[str] = []
    first.acquire()

    def take_second() -> None:
        second.acquire()
        order.append("second")

    waiting = threading.Thread(target=take_second)
    waiting.start()
    order.append("first ends")
    first.release()
    waiting.join(timeout=30)
    second.release()
    assert order == ["first ends", "second"]
    second.release()
    second.acquire()
    second.release()


OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CONTEXT = "webhooks:7:secret"


def encryptor() -> Encryptor:
    return Encryptor({"2026": NEW}, "2026")


@given(plain=st.binary(max_size=200), context=st.text(max_size=30))
def test_what_was_sealed_opens_in_its_context(plain: bytes, context: str) -> None:
    assert encryptor().decrypt(encryptor().encrypt(plain, context=context), context=context) == plain


def test_a_secret_does_not_show_and_opens_nowhere_else_nor_when_it_was_changed(subtests: pytest.Subtests) -> None:
    sealed, again = (encryptor().encrypt(b"whsec_secret", context=CONTEXT) for _ in range(2))
    assert b"whsec" not in sealed
    assert sealed != again, "the same secret is never sealed alike"
    flipped = {f"byte {n} changed": sealed[:n] + bytes([sealed[n] ^ 1]) + sealed[n + 1 :] for n in range(len(sealed))}
    cut = {f"cut after {n}": sealed[:n] for n in range(len(sealed))}
    for name, changed in (flipped | cut).items():
        with subtests.test(name), pytest.raises(DecryptionFailed):
            encryptor().decrypt(changed, context=CONTEXT)
    with pytest.raises(DecryptionFailed):
        encryptor().decrypt(sealed, context="webhooks:8:secret")
    same_key_twice = Encryptor({"a": NEW, "b": NEW}, "a")
    relabeled = b"\x01\x01b" + same_key_twice.encrypt(b"secret", context=CONTEXT)[3:]
    with pytest.raises(DecryptionFailed):
        same_key_twice.decrypt(relabeled, context=CONTEXT)
    # Letters cannot move between the key's id and the context.
    moved = b"\x01\x02ab" + Encryptor({"a": NEW}, "a").encrypt(b"secret", context="bc")[3:]
    with pytest.raises(DecryptionFailed):
        Encryptor({"ab": NEW}, "ab").decrypt(moved, context="c")


def test_an_older_key_still_opens_the_current_one_seals_and_each_has_a_fingerprint() -> None:
    sealed = Encryptor({"2025": OLD}, "2025").encrypt(b"secret", context=CONTEXT)
    rotated = Encryptor({"2025": OLD, "2026": NEW}, "2026")
    assert rotated.decrypt(sealed, context=CONTEXT) == b"secret"
    assert encryptor().decrypt(rotated.encrypt(b"secret", context=CONTEXT), context=CONTEXT) == b"secret"
    with pytest.raises(DecryptionFailed, match="not configured"):
        encryptor().decrypt(sealed, context=CONTEXT)
    sealed = Encryptor.from_keys([NEW, OLD]).encrypt(b"secret", context=CONTEXT)
    assert read_key_id(sealed) == key_fingerprint(NEW) == Encryptor.from_keys([NEW]).current_key_id
    assert key_fingerprint(NEW) != key_fingerprint(OLD)
    assert NEW.hex() not in key_fingerprint(NEW)
    assert Encryptor.from_keys([OLD, NEW]).key_ids == (key_fingerprint(OLD), key_fingerprint(NEW))
    new, old = (Encryptor.from_keys([key]).derive_keys("links")[0] for key in (NEW, OLD))
    assert Encryptor.from_keys([NEW, OLD]).derive_keys("links") == (new, old), "the current one first"
    assert len({new, old, Encryptor.from_keys([NEW]).derive_keys("other")[0]}) == 3
    assert (len(new), encryptor().derive_keys("links")[0]) == (32, new)


@pytest.mark.parametrize(
    ("keys", "current"),
    [({}, "a"), ({"a": NEW}, "b"), ({"a": b"short"}, "a"), ({"": NEW}, ""), ({"a" * 256: NEW}, "a" * 256)],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, bytes], current: str) -> None:
    with pytest.raises(ValueError, match=r"[Kk]ey"):
        Encryptor(keys, current)


def test_keys_changed_meanwhile_are_reloaded_when_needed() -> None:
    changes: list[list[bytes]] = []

    def started() -> Encryptor:
        return Encryptor.from_keys([OLD], reload_keys=lambda: changes.pop() if changes else None)

    running = started()
    former = running.encrypt(b"secret", context=CONTEXT)
    elsewhere = Encryptor.from_keys([NEW, OLD]).encrypt(b"new", context=CONTEXT)
    with pytest.raises(DecryptionFailed, match="not configured"):
        running.decrypt(elsewhere, context=CONTEXT)
    changes.append([NEW, OLD])
    assert running.decrypt(elsewhere, context=CONTEXT) == b"new"
    assert running.decrypt(former, context=CONTEXT) == b"secret"
    assert running.current_key_id == key_fingerprint(NEW)
    other = started()
    changes.append([NEW, OLD])
    assert other.encrypt(b"secret", context=CONTEXT).startswith(Encryptor.from_keys([NEW]).current_header)


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    file = KeyFile(tmp_path / "secret.key")
    file.create_if_missing()
    return file


def start(file: KeyFile) -> Encryptor:
    """As a service runs with it."""
    return Encryptor.from_keys(file.read_keys(), reload_keys=file.reload_if_changed)


def at_once(count: int, run: Callable[[], object]) -> None:
    threads = [Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, file = KeyFile(tmp_path / "secret.key"), KeyFile(tmp_path / "var" / "secret.key")
    for use in (missing.read_keys, missing.add_key, lambda: missing.delete_key("0123")):
        with pytest.raises(NotReady, match="No such file"):
            use()
    assert not missing.path.exists(), "whoever reads or changes makes none"
    file.create_if_missing()
    [key] = file.read_keys()
    assert len(key) == 32
    file.create_if_missing()
    assert file.read_keys() == [key]
    assert not file.is_accessible_to_others
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.path, file.path.parent)] == [0o600, 0o700]
    monkeypatch.setattr(Path, "exists", lambda _: False)
    file.create_if_missing()
    assert file.read_keys() == [key], "the first of two makers wins"
    assert list(file.path.parent.iterdir()) == [file.path]
    file.path.chmod(0o644)
    assert KeyFile(file.path).is_accessible_to_others
    missing.create_if_missing()
    assert missing.read_keys() != [key]


PRINTS_ITS_KEY = """
import sys
from pathlib import Path
from quillpost.core.encryption import KeyFile
sys.stdin.readline()
file = KeyFile(Path(sys.argv[1]))
file.create_if_missing()
print(file.read_keys()[0].hex())
"""


def test_processes_that_start_at_once_agree_on_the_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    command = [sys.executable, "-c", PRINTS_ITS_KEY, str(path)]
    starters = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    keys = {starter.communicate()[0].strip() for starter in starters}
    assert keys == {KeyFile(path).read_keys()[0].hex()}


@pytest.mark.parametrize("content", ["", "\n", "abcd", "no hexadecimal digits", "é" * 64, "00" * 32 + "\nabcd"])
def test_a_damaged_key_file_is_reported_and_not_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(NotReady, match="must hold 32 bytes"):
        KeyFile(path).read_keys()
    assert path.read_text(encoding="utf-8") == content
    with pytest.raises(NotReady, match=r"cannot be used: .+\.$"):
        KeyFile(path / "secret.key").create_if_missing()


def test_a_new_key_is_the_first_and_a_former_one_is_forgotten(file: KeyFile) -> None:
    [first] = file.read_keys()
    new = file.add_key()
    second, kept = file.read_keys()
    assert (key_fingerprint(second), kept) == (new, first)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert {path.name for path in file.path.parent.iterdir()} == {"secret.key", "secret.key.lock"}
    file.delete_key(new)
    assert len(file.read_keys()) == 2, "the current one is never forgotten"
    file.delete_key(key_fingerprint(first))
    assert file.read_keys() == [second]
    at_once(8, lambda: KeyFile(file.path).add_key())
    assert len(file.read_keys()) == 9, "of keys that are made at once none is lost"


def test_a_running_encryptor_reloads_the_file_once_changed(file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(file)
    former = running.encrypt(b"secret", context=CONTEXT)
    new = KeyFile(file.path).add_key()
    assert (running.current_key_id, len(running.key_ids)) == (new, 2)
    assert running.decrypt(former, context=CONTEXT) == b"secret"
    monkeypatch.setattr(Path, "read_text", None)
    for forged in (b"\x01\x03abc" + bytes(40), b"\x01\xff", b""):
        with pytest.raises(Exception, match="not configured"):
            running.decrypt(forged, context=CONTEXT)


@pytest.mark.parametrize("content", [None, "spoiled"])
def test_a_running_encryptor_keeps_its_keys_when_the_file_is_lost(file: KeyFile, content: str | None) -> None:
    running = start(file)
    sealed = running.encrypt(b"secret", context=CONTEXT)
    file.path.unlink()
    if content is not None:
        file.path.write_text(content)
    assert running.decrypt(running.encrypt(b"more", context=CONTEXT), context=CONTEXT) == b"more"
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"


def test_a_running_encryptor_never_drops_the_last_copy_of_a_key(file: KeyFile) -> None:
    running = start(file)
    sealed = running.encrypt(b"secret", context=CONTEXT)
    file.path.write_text("00" * 32)
    with capture_logs() as logs:
        more = running.encrypt(b"more", context=CONTEXT)
    assert [line["event"] for line in logs] == ["keys.replaced"]
    assert Encryptor.from_keys([bytes(32)]).decrypt(more, context=CONTEXT) == b"more", "sealed with a key that is lost"
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"
    KeyFile(file.path).add_key()
    assert len(running.key_ids) == 3
    assert running.decrypt(sealed, context=CONTEXT) == b"secret"


def test_a_running_encryptor_learns_a_key_that_it_has_missed_or_could_not_read_as_do_threads_at_once(
    file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = file.read_keys()
    running = start(file)
    new = KeyFile(file.path).add_key()

    def fail(*_: object, **__: object) -> str:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fail)
        assert running.current_key_id == key_fingerprint(first)
    KeyFile(file.path).delete_key(key_fingerprint(first))
    assert running.current_key_id == new
    running = start(file)
    KeyFile(file.path).add_key()
    elsewhere = Encryptor.from_keys(KeyFile(file.path).read_keys()).encrypt(b"new", context=CONTEXT)
    opened: list[bytes] = []
    at_once(8, lambda: opened.append(running.decrypt(elsewhere, context=CONTEXT)))
    assert opened == [b"new"] * 8


SIGNER, OTHER = LinkSigner(lambda: [b"k" * 32]), LinkSigner(lambda: [b"x" * 32])
EXPIRES = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BEFORE = EXPIRES - timedelta(seconds=1)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_genuine_link_tells_its_file(file_id: str) -> None:
    assert SIGNER.read_file_id(SIGNER.sign_file_id(file_id, expires_at=EXPIRES), now=BEFORE) == file_id


def test_a_link_is_compact_and_ends_when_it_expires_even_if_its_key_has_changed() -> None:
    token = SIGNER.sign_file_id("0f8fad5b-d9cb-469f-a165-70867728950e", expires_at=EXPIRES)
    assert re.fullmatch(r"[A-Za-z0-9_-]{76}", token), "it needs no escaping"
    for now in (EXPIRES, EXPIRES + timedelta(days=365)):
        assert SIGNER.read_file_id(token, now=now) is None
    token = SIGNER.sign_file_id("7", expires_at=EXPIRES)
    changed = LinkSigner(lambda: [b"x" * 32, b"k" * 32])
    assert (changed.read_file_id(token, now=BEFORE), changed.read_file_id(token, now=EXPIRES)) == ("7", None)
    assert OTHER.read_file_id(changed.sign_file_id("7", expires_at=EXPIRES), now=BEFORE) == "7"


def test_what_we_have_not_signed_to_the_letter_is_a_forgery() -> None:
    token = SIGNER.sign_file_id("78", expires_at=EXPIRES)
    changed = [
        token[:n] + other + token[n + 1 :] for n in range(len(token)) for other in "AQgw_-=.é" if other != token[n]
    ]
    spelled = [token + ending for ending in ("=", "A", "\n", " ", ".", "é")]
    garbage = ["", "A", "not a token", "é", "A" * 22, "A" * 5_000]
    for forged in (*changed, *spelled, *garbage, OTHER.sign_file_id("78", expires_at=EXPIRES)):
        assert SIGNER.read_file_id(forged, now=BEFORE) is None, forged
