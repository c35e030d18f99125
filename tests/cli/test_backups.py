"""A backup brings everything back, and nothing but a whole backup is let in."""

import base64
import gzip
import io
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.app.runtime import read_schema
from quillpost.core.database import archive
from quillpost.core.database.embedded.binaries import find_binaries
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches.service import lock_serials
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.web.application import create_app
from support.cli_results import Quillpost
from support.factories import Account, Clock, run_jobs_for, snapshot_rows
from support.restored_giftcards import assert_no_card_is_given_before_it_is_released, have_two_cards_and_give_one
from support.test_client import TestClient

pytestmark = pytest.mark.costly


@dataclass(frozen=True)
class Saved:
    """A service with one order delivered and one under way, and its backup."""

    file: Path
    orders: list[dict[str, object]]
    items: list[dict[str, object]]
    files: dict[str, bytes]
    rows: dict[str, tuple[int, int]]
    secret: str

    @property
    def key(self) -> Path:
        return self.file.with_name(f"{self.file.name}.key")


@pytest.fixture
def saved(
    owner: Account, container: Container, clock: Clock, conninfo: str, tmp_path: Path, quillpost: Quillpost
) -> Saved:
    hook = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    assert hook.status_code == 201, hook.text
    owner.send()
    run_jobs_for(container, clock, seconds=40)
    owner.send(size="6x9")
    have_two_cards_and_give_one(container)
    file = tmp_path / "monday.qpb"
    outcome = quillpost("backup", file, home=tmp_path / "home", database_url=conninfo)
    assert outcome.code == 0, outcome.err
    return Saved(
        file,
        orders=_orders(owner),
        items=_items(owner),
        files=_files(container),
        rows=snapshot_rows(container),
        secret=hook.json()["secret"],
    )


def _orders(account: Account) -> list[dict[str, object]]:
    orders = account.get("/orders/list").json()["data"]
    return [{name: order[name] for name in ("id", "message", "status", "order_total")} for order in orders]


def _items(account: Account) -> list[dict[str, object]]:
    return [item for order in _orders(account) for item in account.get(f"/orders/{order['id']}/items").json()["data"]]


def _files(container: Container) -> dict[str, bytes]:
    return {key: container.storage.store.get(key) for key in container.storage.store.keys("")}


def test_everything_comes_back_into_an_empty_home(
    saved: Saved, owner: Account, clock: Clock, folder: Path, quillpost: Quillpost
) -> None:
    home = folder / "home"
    outcome = quillpost("restore", saved.file, home=home)
    assert outcome.code == 0, outcome.err
    settings = Settings.model_validate({"home": home})
    service_runtime = runtime.open_runtime(settings)
    try:
        container = bootstrap.build_container(settings, service_runtime.conninfo, clock=clock.now)
        with TestClient(create_app(container), base_url="http://quillpost.test") as http:
            same = replace(owner, http=http)  # the same token
            assert _orders(same) == saved.orders
            assert _items(same) == saved.items
            assert _files(container) == saved.files
            # Barcodes that were given out since are passed by, cards in stock set aside; nothing else moves.
            assert _but_given_out(snapshot_rows(container)) == _but_given_out(saved.rows)
            assert _secret(container) == saved.secret
            run_jobs_for(container, clock, seconds=40)
            assert {item["status"] for item in _items(same)} == {"Delivered"}, "the work does not go on"
        container.db.close()
    finally:
        service_runtime.close()


def _but_given_out(rows: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {name: content for name, content in rows.items() if name not in ("mailers", "giftcard_stock")}


def test_what_was_given_out_since_the_backup_is_not_given_out_again(
    saved: Saved, container: Container, clock: Clock, emptiness: "Emptiness", quillpost: Quillpost
) -> None:
    known = _given_out(container)
    run_jobs_for(container, clock, seconds=40)  # the second order is mailed, of which the backup does not know
    since = _given_out(container) - known
    assert {kind for kind, _ in since} == {"batch", "barcode"}

    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert (outcome.code, "1 gift card in stock may have been mailed" in outcome.out) == (0, True)
    restored = bootstrap.build_container(Settings(home=emptiness.home), emptiness.database_url, clock=container.clock)
    assert_no_card_is_given_before_it_is_released(restored)
    assert _given_out(restored) == known
    run_jobs_for(restored, clock, seconds=40)
    again = _given_out(restored) - known
    assert {kind for kind, _ in again} == {"batch", "barcode"}
    assert not again & since
    restored.db.close()


def test_every_mailers_count_goes_on_as_far_as_it_may_have_come(container: Container, conninfo: str) -> None:
    known, unknown = ["123456", "901234567"], ["234567", "902345678"]

    def counts(mailers: list[str]) -> list[int]:
        with container.db.system_transaction() as tx:
            return [lock_serials(tx, mailer, count=1, now=container.clock()).next for mailer in mailers]

    before = counts(known)
    archive.skip_issued_numbers(conninfo)
    after = counts(known)
    assert [now - then for now, then in zip(after, before, strict=True)] == [10_000_000, 100_000]
    # Mailers that came after the backup: as far, in the six or the nine digits that they have for it.
    assert [count % serials - then for count, serials, then in zip(
        counts(unknown), [10**9, 10**6], before, strict=True)] == [10_100_000, 100_000]  # fmt: skip


def _given_out(container: Container) -> set[tuple[str, str]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(
            sa.text(
                "select 'batch', id::text from batches"
                " union all select 'barcode', tracking from prints where tracking is not null"
            )
        )
        return {(kind, what) for kind, what in rows}


def _secret(container: Container) -> str:
    with container.db.system_transaction() as tx:
        row = tx.execute(webhooks.select()).one()
    return decrypt_secret(container.encryptor, row.id, bytes(row.secret_sealed))


def test_the_backup_and_its_key_are_two_files_for_their_owner_alone(saved: Saved, tmp_path: Path) -> None:
    assert [stat.S_IMODE(file.stat().st_mode) for file in (saved.file, saved.key)] == [0o600, 0o600]
    key = (tmp_path / "home" / "secret.key").read_bytes().strip()
    assert saved.key.read_bytes().strip() == key
    everything = gzip.decompress(saved.file.read_bytes())
    assert key not in everything
    assert bytes.fromhex(key.decode()) not in everything


def test_a_backup_never_replaces_a_file(saved: Saved, tmp_path: Path, conninfo: str, quillpost: Quillpost) -> None:
    before = saved.file.read_bytes()
    outcome = quillpost("backup", saved.file, home=tmp_path / "home", database_url=conninfo)
    assert outcome.is_one_sentence()
    assert saved.file.read_bytes() == before


def test_a_backup_that_cannot_be_written_leaves_nothing(
    container: Container, tmp_path: Path, conninfo: str, quillpost: Quillpost
) -> None:
    outcome = quillpost("backup", tmp_path / "no" / "file", home=tmp_path / "home", database_url=conninfo)
    assert outcome.is_one_sentence()
    assert "No such file" in outcome.err


def test_an_empty_database_is_nothing_to_back_up(blank: str, tmp_path: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("backup", tmp_path / "b.qpb", home=tmp_path / "home", database_url=blank)
    assert outcome.is_one_sentence()
    assert list(tmp_path.glob("b.qpb*")) == []


def test_files_of_batches_after_the_snapshot_stay_out(
    saved: Saved, container: Container, conninfo: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    """A restored service knows nothing of these batches: its own must find the place free."""
    for key in (
        "batches/9/print.pdf",
        "print-jobs/test/batch-000009/ticket.json",
        "sandbox/mailbox/20260504T120000.000000-batch-000009-3.json",
    ):
        container.storage.store.put(key, b"later")
    file = tmp_path / "second.qpb"
    assert quillpost("backup", file, home=tmp_path / "home", database_url=conninfo).code == 0
    assert dict(archive.read_files(file)) == saved.files


def test_gift_cards_are_counted_where_there_are_any(conninfo: str) -> None:
    with archive.hold_snapshot(conninfo) as snapshot:
        assert {"giftcards", "giftcard_stock"} < snapshot.counts.keys()
    with psycopg.connect(conninfo) as connection:  # an older schema, which is saved before it is migrated
        connection.execute("drop table giftcard_stock")
    with archive.hold_snapshot(conninfo) as snapshot:
        assert set(archive.COUNTED_TABLES) - snapshot.counts.keys() == {"giftcard_stock"}


def test_a_dump_shows_the_moment_of_its_snapshot(owner: Account, conninfo: str, blank: str) -> None:
    owner.send()
    with archive.hold_snapshot(conninfo) as snapshot:
        owner.send(size="6x9")
        archive.restore_database(find_binaries(), blank, archive.dump_database(find_binaries(), conninfo, snapshot))
    with psycopg.connect(blank) as connection:
        assert connection.execute("select count(*) from orders").fetchone() == (1,)


@pytest.fixture
def emptiness(blank: str, tmp_path: Path) -> "Emptiness":
    return Emptiness(tmp_path / "new-home", blank)


@dataclass(frozen=True)
class Emptiness:
    """Where a backup may go."""

    home: Path
    database_url: str

    @property
    def settings(self) -> dict[str, object]:
        return {"home": self.home, "database_url": self.database_url}

    def is_untouched(self) -> bool:
        return list(self.home.glob("**/*")) == [] and archive.is_database_empty(self.database_url)


def test_a_backup_that_is_cut_short_is_refused(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    whole = saved.file.read_bytes()
    for kept in (len(whole) - 1, len(whole) // 2, 100, 0):
        saved.file.write_bytes(whole[:kept])
        outcome = quillpost("restore", saved.file, **emptiness.settings)
        assert outcome.is_one_sentence(), outcome.err
        assert emptiness.is_untouched()


def test_a_changed_backup_is_refused(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    plain = bytearray(gzip.decompress(saved.file.read_bytes()))
    plain[plain.index(b"%PDF") + 40] ^= 1
    saved.file.write_bytes(gzip.compress(bytes(plain), 1))
    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert outcome.is_one_sentence()
    assert "damaged" in outcome.err
    assert emptiness.is_untouched()


@pytest.mark.parametrize("kind", ["text", "gzip", "tar"])
def test_a_foreign_file_is_refused(kind: str, emptiness: Emptiness, tmp_path: Path, quillpost: Quillpost) -> None:
    file = tmp_path / "foreign"
    if kind == "tar":
        with tarfile.open(file, "w:gz") as tar:
            entry = tarfile.TarInfo("manifest.json")
            entry.size = 2
            tar.addfile(entry, io.BytesIO(b"{}"))
    else:
        file.write_bytes(b"hello" if kind == "text" else gzip.compress(b"hello"))
    file.with_name("foreign.key").write_text("00" * 32)
    outcome = quillpost("restore", file, **emptiness.settings)
    assert outcome.is_one_sentence()
    assert "not a backup" in outcome.err
    assert emptiness.is_untouched()


def test_a_backup_without_its_key_is_refused(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    saved.key.unlink()
    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert outcome.is_one_sentence()
    assert "QUILLPOST_SECRET_KEY" in outcome.err
    assert emptiness.is_untouched()


def test_another_key_is_refused(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    saved.key.write_text("00" * 32)
    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert outcome.is_one_sentence()
    assert "not the one of this backup" in outcome.err
    assert emptiness.is_untouched()


def test_the_key_may_come_from_the_environment(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    key = base64.b64encode(bytes.fromhex(saved.key.read_text())).decode()
    saved.key.unlink()
    outcome = quillpost("restore", saved.file, **emptiness.settings, secret_key=key)
    assert outcome.code == 0, outcome.err
    assert key not in outcome.out
    assert not (emptiness.home / "secret.key").exists()
    assert read_schema(emptiness.database_url).status == "current"


def test_a_restore_overwrites_nothing(
    saved: Saved, emptiness: Emptiness, conninfo: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    taken = {
        "The database": {"home": emptiness.home, "database_url": conninfo},
        "The file store": {"home": tmp_path / "home", "database_url": emptiness.database_url},
    }
    for what, settings in taken.items():
        outcome = quillpost("restore", saved.file, **settings)
        assert outcome.is_one_sentence()
        assert f"{what} is not empty" in outcome.err
    assert emptiness.is_untouched()


def test_a_database_that_refuses_the_data_stays_empty(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    """A backup that is whole, but whose dump is of no use."""
    manifest = archive.verify_backup(saved.file)
    with saved.file.open("wb") as out, closing(archive.ArchiveWriter(out, manifest)) as writer:
        writer.add_file("creative/one", b"picture")
        writer.add_database_chunk(b"PGDMP, or so it says")
        writer.finish()
    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert outcome.is_one_sentence(), outcome.err
    assert "could not be copied" in outcome.err
    assert emptiness.is_untouched()


def test_a_backup_of_a_newer_release_is_refused(saved: Saved, emptiness: Emptiness, quillpost: Quillpost) -> None:
    manifest = replace(archive.verify_backup(saved.file), schema="9999")
    with saved.file.open("wb") as out, closing(archive.ArchiveWriter(out, manifest)) as writer:
        writer.finish()
    outcome = quillpost("restore", saved.file, **emptiness.settings)
    assert outcome.is_one_sentence()
    assert "newer" in outcome.err
    assert emptiness.is_untouched()


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


def test_an_ordinary_login_can_move_its_database(
    others_server: EmbeddedPostgres, tmp_path: Path, quillpost: Quillpost
) -> None:
    old, new = (others_server.conninfo(name, "tenant") for name in ("tenant_old", "tenant_new"))
    refused = quillpost("migrate", home=tmp_path, database_url=others_server.conninfo("tenant_old", "guest"))
    assert refused.is_one_sentence(), refused.err
    assert quillpost("migrate", home=tmp_path / "old", database_url=old).code == 0
    steps = (("backup", tmp_path / "old", old), ("restore", tmp_path / "new", new))
    for command, home, database in steps:
        outcome = quillpost(command, tmp_path / "b.qpb", home=home, database_url=database)
        assert outcome.code == 0, outcome.err
    assert read_schema(new).status == "current"
