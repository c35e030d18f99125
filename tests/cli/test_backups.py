"""A backup brings everything back but who is signed in, and nothing but a whole backup is let in."""

import base64
import gzip
import io
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import passwords
from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.app.runtime import read_schema
from quillpost.core.database import archive
from quillpost.core.database.embedded.binaries import find_binaries
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.accounts import people, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.encryption import KeyFile, key_fingerprint
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.service import lock_serials
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.web.application import create_app
from support.cli_results import Quillpost
from support.factories import CONTENTS, Account, Clock, run_jobs_for, snapshot_rows
from support.restored_giftcards import assert_no_card_is_given_before_it_is_released, have_two_cards_and_give_one
from support.rows import execute, run, scalar
from support.sign_in import make_user, sign_in_browser
from support.test_client import TestClient
from support.webhooks import claim_deliveries, complete_deliveries, fan_out

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("conninfo")]

DANA = "dana@example.com"
CHANGED_BY_A_RESTORE = ("mailers", "giftcard_stock", "sessions", "password_resets")
"""Barcodes that were given out since are passed by, cards in stock set aside, and everyone signs in anew."""
PLACES = "select tableoid::regclass::text, status, count(*) from deliveries group by 1, 2 order by 1, 2"

Places = list[tuple[str, str, int]]


@dataclass(frozen=True)
class Saved:
    """A service with one order delivered and one under way, and its backup."""

    file: Path
    orders: list[dict[str, object]]
    items: list[dict[str, object]]
    files: dict[str, bytes]
    rows: dict[str, tuple[int, int]]
    places: Places
    secret: str

    @property
    def key(self) -> Path:
        return self.file.with_name(f"{self.file.name}.key")


@pytest.fixture
def saved(owner: Account, container: Container, clock: Clock, tmp_path: Path, beside: Quillpost) -> Saved:
    hook = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    assert hook.status_code == 201, hook.text
    deliveries.maintain_partitions(container.db, now=clock.now())
    owner.send()
    run_jobs_for(container, clock, seconds=40)
    owner.send(size="6x9")
    places = _settle_two_deliveries(container, clock)
    have_two_cards_and_give_one(container)
    user, browser = make_user(container, owner.id, DANA), sign_in_browser(owner.http)
    browser.sign_in(DANA)
    assert browser.get("/settings", follow=False).status_code == 200
    with container.db.system_transaction() as tx:
        [session] = tx.execute(sa.select(sessions.c.id)).scalars()
        passwords.create_reset_link(tx, user, base_url="http://quillpost.test", now=container.clock())
        insert_token(tx, owner.id, name="a page's", mode="test", scopes=None, session_id=session, now=container.clock())
    outcome = beside("backup", tmp_path / "monday.qpb")
    assert outcome.code == 0, outcome.err
    return Saved(
        tmp_path / "monday.qpb", orders=_orders(owner), items=_items(owner), files=_files(container),
        rows=_kept(snapshot_rows(container, CONTENTS)), places=places, secret=hook.json()["secret"],
    )  # fmt: skip


def _settle_two_deliveries(container: Container, clock: Clock) -> Places:
    """They lie in the day's table, and the others wait."""
    fan_out(container)
    first, second = claim_deliveries(container)[:2]
    complete_deliveries(container, [first])
    others = [due for due in claim_deliveries(container) if due.id == second.id]
    complete_deliveries(container, others, "failed", response_status=500)
    day, found = f"deliveries_{clock.now():%Y%m%d}", _places(container)
    settled = {(day, "delivered"), (day, "failed")}
    assert {(table, status) for table, status, _ in found} == settled | {("deliveries_pending", "pending")}
    return found


def _places(container: Container) -> Places:
    return [(table, status, count) for table, status, count in execute(container, PLACES)]


def _orders(account: Account) -> list[dict[str, object]]:
    orders = account.get("/orders/list").json()["data"]
    return [{name: order[name] for name in ("id", "message", "status", "order_total")} for order in orders]


def _items(account: Account) -> list[dict[str, object]]:
    return [item for order in _orders(account) for item in account.get(f"/orders/{order['id']}/items").json()["data"]]


def _files(container: Container) -> dict[str, bytes]:
    return {key: container.storage.store.get(key) for key in container.storage.store.keys("")}


def _kept(rows: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {name: content for name, content in rows.items() if name not in CHANGED_BY_A_RESTORE}


def test_a_restored_backup_brings_everything_back(
    saved: Saved, owner: Account, clock: Clock, folder: Path, quillpost: Quillpost
) -> None:
    outcome = quillpost("restore", saved.file, home=folder / "home")
    assert (outcome.code, "Everyone signs in anew." in outcome.out) == (0, True), outcome.err
    settings = Settings(home=folder / "home")
    with closing(runtime.open_runtime(settings)) as service_runtime:
        container = bootstrap.build_container(settings, service_runtime.conninfo, clock=clock.now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            rows = snapshot_rows(container, CONTENTS)
            assert (_kept(rows), _files(container)) == (saved.rows, saved.files)
            assert rows["sessions"] == rows["password_resets"] == (0, 0)
            same = replace(owner, http=http)  # the same token
            assert (_orders(same), _items(same)) == (saved.orders, saved.items)
            with container.db.system_transaction() as tx:
                hook = tx.execute(webhooks.select()).one()
                assert tx.execute(sa.select(people.c.email)).scalars().all() == [DANA]
                assert tx.execute(sa.select(tokens.c.name)).scalars().all() == ["test"], "a page's ended with it"
            assert decrypt_secret(container.encryptor, hook.id, bytes(hook.secret_sealed)) == saved.secret
            browser = sign_in_browser(http)
            browser.sign_in(DANA)
            assert browser.get("/settings", follow=False).status_code == 200
            run_jobs_for(container, clock, seconds=40)
            assert {item["status"] for item in _items(same)} == {"Delivered"}, "the work does not go on"
        container.db.close()


def _given_out(container: Container) -> set[tuple[str, str]]:
    query = """select 'batch', id::text from batches
               union all select 'barcode', tracking from prints where tracking is not null"""
    return {(kind, what) for kind, what in execute(container, query)}


def test_what_was_given_out_since_the_backup_is_not_given_out_again_and_deliveries_go_on(
    saved: Saved, container: Container, clock: Clock, blank: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    known = _given_out(container)
    run_jobs_for(container, clock, seconds=40)  # the second order is mailed, of which the backup does not know
    since = _given_out(container) - known
    assert {kind for kind, _ in since} == {"batch", "barcode"}

    key = base64.b64encode(bytes.fromhex(saved.key.read_text())).decode()
    saved.key.unlink()  # it comes from the environment
    home = tmp_path / "new-home"
    outcome = quillpost("restore", saved.file, home=home, database_url=blank, secret_key=key)
    assert (outcome.code, "1 gift card in stock may have been mailed" in outcome.out) == (0, True), outcome.err
    assert key not in outcome.out
    assert not (home / "secret.key").exists()
    settings = Settings.model_validate({"home": home, "secret_key": key})
    restored = bootstrap.build_container(settings, blank, clock=clock.now)
    assert_no_card_is_given_before_it_is_released(restored)
    assert _given_out(restored) == known
    run_jobs_for(restored, clock, seconds=40)
    again = _given_out(restored) - known
    assert {kind for kind, _ in again} == {"batch", "barcode"}
    assert not again & since

    assert _places(restored) == saved.places
    while dues := claim_deliveries(restored):
        complete_deliveries(restored, dues)
    assert {status for _, status, _ in _places(restored)} == {"delivered", "failed"}
    clock.advance(days=31)
    deliveries.maintain_partitions(restored.db, now=clock.now())
    assert _places(restored) == []
    restored.db.close()


def test_a_day_that_is_too_old_while_a_backup_runs_is_in_it_and_dropped_afterwards(
    saved: Saved, owner: Account, container: Container, clock: Clock, conninfo: str, blank: str
) -> None:
    """The hourly job comes after the snapshot, and before `pg_dump` has looked at anything."""
    later = clock.now() + timedelta(days=31)
    with archive.hold_snapshot(conninfo) as snapshot:
        deliveries.maintain_partitions(container.db, now=later)
        owner.send()
        archive.restore_database(find_binaries(), blank, archive.dump_database(find_binaries(), conninfo, snapshot))
    with psycopg.connect(blank) as connection:
        assert connection.execute(PLACES).fetchall() == saved.places
        assert connection.execute("select count(*) from orders").fetchone() == (2,), "as at the snapshot's moment"
    deliveries.maintain_partitions(container.db, now=later)
    assert _places(container) == []
    assert scalar(container, "select to_regclass(:name)", name=saved.places[0][0]) is None


def test_every_mailers_count_goes_on_as_far_as_it_may_have_come(container: Container, conninfo: str) -> None:
    known, unknown = ["123456", "901234567"], ["234567", "902345678"]

    def counts(mailers: list[str]) -> list[int]:
        return [run(container, lock_serials, mailer, count=1, now=container.clock()).next for mailer in mailers]

    before = counts(known)
    archive.skip_issued_numbers(conninfo)
    assert [now - then for now, then in zip(counts(known), before, strict=True)] == [10_000_000, 100_000]
    # Mailers that came after the backup: as far, in the six or the nine digits that they have for it.
    assert [count % serials - then for count, serials, then in zip(
        counts(unknown), [10**9, 10**6], before, strict=True)] == [10_100_000, 100_000]  # fmt: skip


def test_a_backup_and_its_key_are_two_files_for_their_owner_alone_and_replace_none(
    saved: Saved, container: Container, conninfo: str, blank: str, home: Path, tmp_path: Path, beside: Quillpost
) -> None:
    assert [stat.S_IMODE(file.stat().st_mode) for file in (saved.file, saved.key)] == [0o600, 0o600]
    before, key = saved.file.read_bytes(), (home / "secret.key").read_bytes().strip()
    assert saved.key.read_bytes().strip() == key
    everything = gzip.decompress(before)
    assert not any(spelling in everything for spelling in (key, bytes.fromhex(key.decode())))
    assert beside("backup", saved.file).is_one_sentence()
    assert saved.file.read_bytes() == before
    assert beside("backup", tmp_path / "no" / "file").is_one_sentence("No such file")
    assert beside("backup", tmp_path / "empty.qpb", database_url=blank).is_one_sentence(), "there is nothing to save"
    assert list(tmp_path.glob("empty.qpb*")) == []

    # Files of batches after the snapshot stay out: the restored service must find the place free for its own.
    mailbox = "sandbox/mailbox/20260504T120000.000000-batch-000009-3.json"
    for later in ("batches/9/print.pdf", "print-jobs/test/batch-000009/ticket.json", mailbox):
        container.storage.store.put(later, b"later")
    assert beside("backup", tmp_path / "second.qpb").code == 0
    assert dict(archive.read_files(tmp_path / "second.qpb")) == saved.files
    with archive.hold_snapshot(conninfo) as snapshot:
        assert {"giftcards", "giftcard_stock"} < snapshot.counts.keys()
    with psycopg.connect(conninfo) as connection:  # an older schema, which is saved before it is migrated
        connection.execute("drop table giftcard_stock")
    with archive.hold_snapshot(conninfo) as snapshot:
        assert set(archive.COUNTED_TABLES) - snapshot.counts.keys() == {"giftcard_stock"}


def _changed(file: Path) -> None:
    plain = bytearray(gzip.decompress(file.read_bytes()))
    plain[plain.index(b"%PDF") + 40] ^= 1
    file.write_bytes(gzip.compress(bytes(plain), 1))


def _useless(file: Path) -> None:
    """It is whole, but its dump is of no use."""
    manifest = archive.verify_backup(file)
    with file.open("wb") as out, closing(archive.ArchiveWriter(out, manifest)) as writer:
        writer.add_file("creative/one", b"picture")
        writer.add_database_chunk(b"PGDMP, or so it says")
        writer.finish()


def _newer(file: Path) -> None:
    manifest = replace(archive.verify_backup(file), schema="9999")
    with file.open("wb") as out, closing(archive.ArchiveWriter(out, manifest)) as writer:
        writer.finish()


def _tar(file: Path) -> None:
    with tarfile.open(file, "w:gz") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = 2
        tar.addfile(entry, io.BytesIO(b"{}"))


def key_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.key")


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte short": (lambda file: file.write_bytes(file.read_bytes()[:-1]), ""),
    "half": (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), ""),
    "cut short": (lambda file: file.write_bytes(file.read_bytes()[:100]), ""),
    "nothing": (lambda file: file.write_bytes(b""), ""),
    "changed": (_changed, "damaged"),
    "text": (lambda file: file.write_bytes(b"hello"), "not a backup"),
    "gzip": (lambda file: file.write_bytes(gzip.compress(b"hello")), "not a backup"),
    "tar": (_tar, "not a backup"),
    "without its key": (lambda file: key_of(file).unlink(), "QUILLPOST_SECRET_KEY"),
    "another key": (lambda file: key_of(file).write_text("00" * 32), "not the one of this backup"),
    "a useless dump": (_useless, "could not be copied"),
    "a newer release": (_newer, "newer"),
}


def test_no_other_file_is_let_in_and_nothing_is_overwritten(
    saved: Saved, blank: str, conninfo: str, tmp_path: Path, home: Path, quillpost: Quillpost, subtests: pytest.Subtests
) -> None:
    new_home = tmp_path / "new-home"

    def assert_is_refused(file: Path, error: str, home: Path = new_home, database_url: str = blank) -> None:
        assert quillpost("restore", file, home=home, database_url=database_url).is_one_sentence(error)
        assert list(new_home.glob("**/*")) == []
        assert archive.is_database_empty(blank)

    for name, (spoil, error) in SPOILED.items():
        with subtests.test(name):
            file = tmp_path / f"{name}.qpb"
            shutil.copy(saved.file, file)
            shutil.copy(saved.key, key_of(file))
            spoil(file)
            assert_is_refused(file, error)
    assert_is_refused(saved.file, "The database is not empty", database_url=conninfo)
    assert_is_refused(saved.file, "The file store is not empty", home=home)


def test_a_backup_in_the_middle_of_a_change_of_keys_brings_everything_back(
    owner: Account, conninfo: str, blank: str, home: Path, tmp_path: Path, beside: Quillpost, quillpost: Quillpost
) -> None:
    assert owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).status_code == 201
    assert beside("keys", "new").code == 0
    file, planted = tmp_path / "b.qpb", tmp_path / "b.qpb.key.part"
    planted.touch()
    planted.chmod(0o666)
    assert beside("backup", file).code == 0
    assert key_of(file).read_bytes() == (home / "secret.key").read_bytes()
    assert (stat.S_IMODE(key_of(file).stat().st_mode), planted.read_bytes()) == (0o600, b"")
    new, old = KeyFile(key_of(file)).read_keys()
    everything = gzip.decompress(file.read_bytes())
    assert not any(spelling in everything for key in (new, old) for spelling in (key, key.hex().encode()))

    current = {"secret_key": base64.b64encode(new).decode(), "home": tmp_path / "one-home", "database_url": blank}
    restored = quillpost("restore", file, **current)
    assert (restored.code, "A former key" in restored.out) == (0, True), restored
    assert f"bring the key {key_fingerprint(old)}" in quillpost("keys", "list", **current).out

    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("drop database blank with (force)")
        admin.execute("create database blank")
    both = {"home": tmp_path / "other-home", "database_url": blank}
    restored = quillpost("restore", file, **both)
    assert (restored.code, "A former key" in restored.out) == (0, False), restored
    assert (tmp_path / "other-home" / "secret.key").read_bytes() == key_of(file).read_bytes()
    assert stat.S_IMODE((tmp_path / "other-home").stat().st_mode) == 0o700
    found = quillpost("keys", "reseal", **both)
    assert (found.code, "1 value sealed anew" in found.out) == (0, True)


@pytest.fixture
def others_server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """Someone else's server: we may make roles and databases there, but are not its superuser."""
    server = EmbeddedPostgres(folder, settings={"fsync": "off"})
    server.start()
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as admin:
        admin.execute("create role guest login")
        admin.execute("create role tenant login createrole createdb")
        for name in ("tenant_old", "tenant_new"):
            admin.execute(f"create database {name} owner tenant")
    yield server
    server.stop()


def test_any_login_moves_its_database(others_server: EmbeddedPostgres, tmp_path: Path, quillpost: Quillpost) -> None:
    old, new = (others_server.conninfo(name, "tenant") for name in ("tenant_old", "tenant_new"))
    refused = quillpost("migrate", home=tmp_path, database_url=others_server.conninfo("tenant_old", "guest"))
    assert refused.is_one_sentence()
    assert quillpost("migrate", home=tmp_path / "old", database_url=old).code == 0
    for command, home, database in (("backup", tmp_path / "old", old), ("restore", tmp_path / "new", new)):
        outcome = quillpost(command, tmp_path / "b.qpb", home=home, database_url=database)
        assert outcome.code == 0, outcome.err
    assert read_schema(new).status == "current"
