"""Changing the key from the command line: at each moment it says what to do next."""

import base64
import json
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.app.runtime import warn_if_key_file_exposed
from quillpost.cli.doctor.installation import DoctorFinding
from quillpost.cli.doctor.operations import check_key
from quillpost.cli.privacy import KeyUsage
from quillpost.core.database import encrypted_columns
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.encryption import Encryptor, KeyFile, key_fingerprint
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.files import batch_file_key
from quillpost.notifications.webhooks.service import decrypt_secret, secret_context
from support.cli_results import CommandResult, Quillpost
from support.encrypted_data import encrypted_file
from support.factories import Account, make_operator
from support.rows import execute, run, scalar

Keys = Callable[..., CommandResult]


@pytest.fixture
def keys(conninfo: str, beside: Quillpost) -> Keys:
    """`quillpost keys` with these words, beside a service of the test's own."""
    return lambda *words, **settings: beside("keys", *words, **settings)


@pytest.fixture
def file(keys: Keys, home: Path) -> KeyFile:
    return KeyFile(home / "secret.key")


@pytest.fixture
def hook(owner: Account) -> int:
    return int(owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).json()["id"])


def given(*keys: bytes) -> str:
    """As `QUILLPOST_SECRET_KEY` has them."""
    return " ".join(base64.b64encode(key).decode() for key in keys)


def secret_of(container: Container, hook: int, encryptor: Encryptor) -> str:
    sealed = scalar(container, sa.select(webhooks.c.secret_sealed).where(webhooks.c.id == hook))
    return decrypt_secret(encryptor, hook, bytes(sealed))


def test_a_key_in_the_file_is_changed_and_the_former_one_forgotten(
    container: Container, owner: Account, hook: int, keys: Keys, file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make_operator(container, owner.http)
    [old] = file.read_keys()
    secret = secret_of(container, hook, container.encryptor)
    first = key_fingerprint(old)
    shown = keys("list")
    assert (shown.code, "`quillpost keys new`" in shown.out, f"{first} (current)" in shown.out) == (0, True, True)

    assert keys("new").code == 0
    new, kept = file.read_keys()
    second = key_fingerprint(new)
    assert kept == old
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    listing = json.loads(keys("list", "--json").out)
    assert (listing["keys"], listing["current"]) == ([second, first], second)
    assert listing["sealed"] == {"webhooks.secret_sealed": {first: 1}}
    assert "keys reseal" in listing["next"]

    def refuses(word: str, why: str) -> None:
        assert keys("forget", word, "--yes").is_one_sentence(why)

    refuses(second, "is the current key")
    refuses("0123", "There is no key")
    refuses(first, "less than an hour ago")
    let_an_hour_pass(file)
    refuses(first, "may still need")

    done = keys("reseal")
    assert (done.code, done.out.startswith(f"1 value sealed anew under {second}")) == (0, True), done
    assert f"keys forget {first}" in done.out
    assert secret_of(container, hook, Encryptor.from_keys([new])) == secret

    monkeypatch.setattr(encrypted_columns, "LOCK_TIMEOUT", "50ms")
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("lock table batch_files in row exclusive mode"))
        refuses(first, "writes to batch_files")
    declined = keys("forget", first, stdin=b"n\n")
    assert (declined.code, len(file.read_keys())) == (1, 2)
    for what in ("unsubscribe", "links to files", "pages", "browsers", "receiver", "FILE.key"):
        assert what in declined.out
    assert keys("forget", first, "--yes").code == 0
    assert file.read_keys() == [new]
    assert [(entry.act, entry.about) for entry in run(container, list_audit_entries, operator.id)] == [
        ("key.forgotten", {"name": first}),
        ("key.resealed", {"name": second, "how_many": 1}),
        ("key.new", {"name": second}),
    ]
    assert not any(key.hex() in step.out + step.err for key in (old, new) for step in (shown, done, declined))


def let_an_hour_pass(file: KeyFile) -> None:
    """Since the keys were changed."""
    then = file.changed_at - timedelta(hours=1)
    os.utime(file.path, (then.timestamp(), then.timestamp()))


def test_keys_of_the_environment_change_by_hand(container: Container, hook: int, keys: Keys, file: KeyFile) -> None:
    [old], new = file.read_keys(), b"n" * 32
    assert keys("new", secret_key=given(old)).is_one_sentence("as the last")
    done = keys("reseal", secret_key=given(new, old))
    assert (done.code, "remove it there" in done.out) == (0, True)
    assert secret_of(container, hook, Encryptor.from_keys([new]))
    may = keys("forget", key_fingerprint(old), secret_key=given(new, old))
    assert (may.code, "remove it from QUILLPOST_SECRET_KEY" in may.out) == (0, True)


STEPS: tuple[tuple[str, str, str], ...] = (
    ("old", "old", "as the last"), ("old new", "old", "make it the first"),
    ("new old", "old", "once every machine has been started anew"), ("new old", "new", "remove it there"),
    ("new", "new", "All is well"), ("new", "old", "bring the key old back"),
)  # fmt: skip


def test_each_next_step_with_environment_keys_is_shown() -> None:
    for ids, key, step in STEPS:
        usage = KeyUsage(tuple(ids.split()), {"webhooks.secret_sealed": {key: 1}}, is_key_file=False)
        assert step in usage.describe_next_step(), (ids, key)


@pytest.mark.usefixtures("hook")
def test_a_key_file_that_others_may_read_or_that_is_missing_is_reported(keys: Keys, file: KeyFile) -> None:
    settings = Settings(home=file.path.parent)
    with capture_logs() as logs:
        warn_if_key_file_exposed(settings)
        assert logs == []
        file.path.chmod(0o644)
        warn_if_key_file_exposed(settings)
    assert [(line["event"], line["log_level"]) for line in logs] == [("keys.file_exposed", "warning")]
    file.path.unlink()
    assert keys("list").is_one_sentence("FILE.key")
    assert not file.path.exists(), "it is not replaced"


def test_a_secret_that_no_key_opens_stays_as_it_is(
    container: Container, owner: Account, hook: int, keys: Keys, file: KeyFile
) -> None:
    other = int(owner.post("/webhooks", {"url": "https://example.com/2", "type": "*"}).json()["id"])
    [key] = file.read_keys()
    wrong = Encryptor({key_fingerprint(key): b"?" * 32}, key_fingerprint(key))
    strange = wrong.encrypt(b"x", context=secret_context(other))
    execute(container, sa.update(webhooks).where(webhooks.c.id == other).values(secret_sealed=strange))
    assert keys("new").code == 0
    done = keys("reseal")
    assert (done.code, "1 value could not be opened" in done.err) == (1, True)
    assert secret_of(container, hook, Encryptor.from_keys(file.read_keys()[:1]))
    let_an_hour_pass(file)
    assert "may still need" in keys("forget", key_fingerprint(key), "--yes").err


def test_the_doctor_sees_former_keys_in_use(container: Container, owner: Account, keys: Keys, file: KeyFile) -> None:
    assert owner.post("/mailing-lists", {"name": "Neighbors"}).status_code in (200, 201)
    batch = encrypted_file(container)

    def finding() -> DoctorFinding:
        with container.db.system_transaction() as tx:
            [found] = check_key(Settings(home=file.path.parent), tx)
        return found

    assert finding().status == "ok"
    assert keys("new").code == 0
    found = finding()
    assert (found.status, "mailing_lists.key_sealed, print files" in found.message) == ("warning", True)
    former = container.storage.store.get(batch_file_key(batch, "print.pdf"))
    assert keys("reseal").code == 0
    now = container.storage.store.get(batch_file_key(batch, "print.pdf"))
    container.storage.store.put(batch_file_key(batch, "print.pdf"), former)
    assert (finding().status, "and print files still need" in finding().message) == ("warning", True)
    container.storage.store.put(batch_file_key(batch, "print.pdf"), now)
    assert (finding().status, "2 keys" in finding().message) == ("ok", True)
    file.path.write_text("00" * 32)
    assert (finding().status, "does not open" in finding().message) == ("broken", True)
