"""The key is changed, and everything is sealed anew, while all else goes on."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.users import passwords
from quillpost.app.container import Container
from quillpost.core import outbox
from quillpost.core.database import Tenant, encrypted_columns
from quillpost.core.database.encrypted_columns import EncryptedColumn, RotationCount, has_outdated_values
from quillpost.core.database.tables.accounts import erasing_files
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import DecryptionFailed, Encryptor, KeyFile, key_fingerprint
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.notifications.webhooks.service import secret_context
from quillpost.orders.giftcards import issuance
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.service import ENCRYPTED_COLUMNS, PRINT_FILES, count_all_by_key, reencrypt_all
from support.encrypted_data import code_of, encrypted_file, make_many
from support.factories import Account, make_inline_recipients
from support.giftcard_orders import claim_card, issue_cards, issue_order_cards, send_giftcards
from support.orders import end_review, item_ids
from support.rows import execute, run, scalar, scalars
from support.sign_in import DANA, enroll_second_factor, make_user
from support.waiting import is_lock_awaited, wait_until

WAITING = """select count(*) from pg_stat_activity
              where datname = current_database() and state = 'idle in transaction'"""
HOOK = next(column for column in ENCRYPTED_COLUMNS if str(column) == "webhooks.secret_sealed")


@pytest.fixture
def key_file(conninfo: str, container: Container, tmp_path: Path) -> KeyFile:
    """Of a service of the test's own."""
    return KeyFile(tmp_path / "home" / "secret.key")


def files_of(container: Container) -> BatchFileStorage:
    return BatchFileStorage(container.storage.store, container.encryptor)


def counts(container: Container) -> dict[str, dict[str, int]]:
    return {place: dict(found) for place, found in count_all_by_key(container.db, files_of(container)).items()}


def reseal_everything(container: Container) -> RotationCount:
    done = RotationCount()
    for _, step in reencrypt_all(container.db, files_of(container), now=container.clock()):
        done.reencrypted += step.reencrypted
        done.failed += step.failed
    return done


def sealed_by(column: EncryptedColumn, container: Container) -> dict[tuple[object, ...], tuple[str, bytes]]:
    """Every value of the column with its context, by its row."""
    keys, bound = len(column.primary_key), [column.table.c[name] for name in column.context_columns]
    query = sa.select(*(each.label(None) for each in (*column.primary_key, *bound, column.column)))
    rows = [tuple(row) for row in execute(container, query.where(column.is_encrypted))]
    return {row[:keys]: (column.context(*row[keys:-1]), bytes(row[-1])) for row in rows}


def subscribe(owner: Account) -> int:
    made = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def request_reset(container: Container, owner: Account) -> int:
    """A letter with a link; whose it is."""
    user, context = make_user(container, owner.id, DANA), container.sign_in_context
    passwords.request_reset(context, DANA, base_url=container.base_url, address="192.0.2.1", now=container.clock())
    return user


def encryptor_that_first(act: Callable[[], object], keys: Sequence[bytes]) -> Encryptor:
    class Interrupted(Encryptor):
        def encrypt(self, plain: bytes, *, context: str) -> bytes:
            act()
            return super().encrypt(plain, context=context)

    return Interrupted.from_keys(keys)


def encrypt_in_every_place(container: Container, owner: Account) -> int:
    """The batch that has an encrypted print file."""
    hook = subscribe(owner)
    assert owner.post(f"/webhooks/{hook}/rotate-secret", headers={"Idempotency-Key": "once"}).status_code == 200
    assert owner.post("/mailing-lists", {"name": "Neighbors"}).status_code in (200, 201)
    enroll_second_factor(container, request_reset(container, owner))
    whom = parse_subject({"email": "jane@example.com", "address": None})
    run(container, erasure_service.erase_subject, container.encryptor, Tenant(owner.id), whom, now=container.clock())
    issue_order_cards(container, send_giftcards(owner))
    return encrypted_file(container)


def test_every_sealed_column_of_the_schema_is_known(conninfo: str) -> None:
    with psycopg.connect(conninfo) as connection:
        found = connection.execute(
            """select table_name || '.' || column_name from information_schema.columns
                where table_schema = 'public' and data_type = 'bytea' and column_name like '%sealed%'"""
        ).fetchall()
        flagged = connection.execute(
            """select table_name from information_schema.columns
                where table_schema = 'public' and data_type = 'boolean' and column_name = 'sealed'"""
        ).fetchall()
    known = {str(column) for column in ENCRYPTED_COLUMNS}
    assert known == {name for [name] in found} | {"idempotency_keys.answer_body"}
    assert flagged == [("idempotency_keys",)], "another table says of a column whether it is sealed"


def test_everything_opens_under_the_new_key_alone(container: Container, owner: Account, key_file: KeyFile) -> None:
    batch = encrypt_in_every_place(container, owner)
    before = counts(container)
    [old] = key_file.read_keys()
    assert before.keys() == {PRINT_FILES, *map(str, ENCRYPTED_COLUMNS)}, "nothing is sealed in one of the places"
    plain = {
        str(column): {key: container.encryptor.decrypt(value, context=where) for key, (where, value) in found.items()}
        for column in ENCRYPTED_COLUMNS
        if (found := sealed_by(column, container))
    }
    new = key_file.add_key()
    done = reseal_everything(container)
    assert (done.reencrypted, done.failed) == (sum(found[key_fingerprint(old)] for found in before.values()), 0)
    assert counts(container) == {place: {new: found[key_fingerprint(old)]} for place, found in before.items()}
    alone = Encryptor.from_keys([key_file.read_keys()[0]])
    for column in ENCRYPTED_COLUMNS:
        for key, (where, value) in sealed_by(column, container).items():
            assert alone.decrypt(value, context=where) == plain[str(column)][key]
            with pytest.raises(DecryptionFailed):
                Encryptor.from_keys([old]).decrypt(value, context=where)
    assert BatchFileStorage(container.storage.store, alone).read_file(batch, "print.pdf", is_secret=True) == b"%PDF"
    assert reseal_everything(container) == RotationCount(), "what was done is done again"


def test_a_value_changed_meanwhile_is_left_alone(container: Container, owner: Account, key_file: KeyFile) -> None:
    subscribe(owner)
    key_file.add_key()

    def change() -> None:
        execute(container, sa.update(webhooks).values(secret_sealed=b"changed meanwhile"))

    [done] = encrypted_columns.reencrypt(container.db, encryptor_that_first(change, key_file.read_keys()), HOOK)
    assert (done.reencrypted, done.skipped) == (0, 1)
    assert bytes(scalar(container, sa.select(webhooks.c.secret_sealed))) == b"changed meanwhile"


def test_nobody_is_waited_for_but_at_the_end_and_not_for_ever(
    container: Container, owner: Account, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, held, _ = (subscribe(owner) for _ in range(3))
    key_file.add_key()
    with container.db.system_transaction() as tx:
        tx.execute(sa.select(webhooks.c.id).where(webhooks.c.id == held).with_for_update())
        [done] = encrypted_columns.reencrypt(container.db, container.encryptor, HOOK)
        assert (done.reencrypted, done.skipped) == (2, 1)
        with ThreadPoolExecutor() as pool:
            waits = pool.submit(reseal_everything, container)
            wait_until(lambda: is_lock_awaited(tx))
            tx.execute(sa.update(webhooks).where(webhooks.c.id == held).values(description="mine"))
            tx.commit()
            assert waits.result().reencrypted == 1
    assert not run(container, has_outdated_values, HOOK, container.encryptor.current_header)
    monkeypatch.setattr(encrypted_columns, "LOCK_TIMEOUT", "50ms")
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).values(description="being written"))
        assert not encrypted_columns.wait_for_writers(container.db, webhooks)
    assert encrypted_columns.wait_for_writers(container.db, webhooks)


def test_what_no_key_opens_stays_and_is_counted(container: Container, owner: Account, key_file: KeyFile) -> None:
    first, second = subscribe(owner), subscribe(owner)
    strange = Encryptor.from_keys([b"?" * 32]).encrypt(b"x", context=secret_context(first))
    execute(container, sa.update(webhooks).where(webhooks.c.id == first).values(secret_sealed=strange))
    key_file.add_key()
    assert reseal_everything(container) == RotationCount(reencrypted=1, failed=1)
    assert sealed_by(HOOK, container)[(first,)][1] == strange
    assert container.encryptor.decrypt(sealed_by(HOOK, container)[(second,)][1], context=secret_context(second))


def test_every_row_is_met_once_however_many_there_are(
    container: Container, owner: Account, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        subscribe(owner)
        again = {"Idempotency-Key": f"key {number}"}
        owner.post("/webhooks", {"url": "https://example.com/again", "type": "*"}, headers=again)
    monkeypatch.setattr(encrypted_columns, "BATCH_SIZE", 2)
    key_file.add_key()
    ended_early = reencrypt_all(container.db, files_of(container), now=container.clock())
    steps = [next(ended_early)]
    ended_early.close()  # type: ignore[attr-defined]
    steps += reencrypt_all(container.db, files_of(container), now=container.clock())
    by_place = {place: [d.reencrypted for at, d in steps if at == place] for place, _ in steps}
    assert by_place == {"webhooks.secret_sealed": [2] * 4, "idempotency_keys.answer_body": [2, 2]}


def test_nobody_waits_for_the_file_store(container: Container, conninfo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted_file(container)
    waiting: list[int] = []

    def look(self: BatchFileStorage, batch_id: int, name: str) -> bytes:
        with psycopg.connect(conninfo) as other:
            [found] = other.execute(WAITING).fetchall()
        waiting.append(found[0])
        return self.encryptor.current_header

    monkeypatch.setattr(BatchFileStorage, "read_header", look)
    assert counts(container) == {PRINT_FILES: {container.encryptor.current_key_id: 1}}
    assert waiting == [0]


def test_a_print_file_that_expired_while_it_was_sealed_is_removed(container: Container, key_file: KeyFile) -> None:
    batch = encrypted_file(container)
    key_file.add_key()

    def remove() -> None:
        execute(container, "delete from batch_files")
        container.storage.store.delete(f"batches/{batch}/print.pdf")

    files = BatchFileStorage(container.storage.store, encryptor_that_first(remove, key_file.read_keys()))
    assert [place for place, _ in reencrypt_all(container.db, files, now=container.clock())] == [PRINT_FILES]
    assert scalars(container, sa.select(erasing_files.c.key)) == [f"batches/{batch}/print.pdf"]


CARDS = 60
"""`end_to_end/test_process_deaths.py` does the same over a hundred thousand."""


def test_cards_are_sent_issued_and_claimed_while_the_key_is_changed(
    container: Container, owner: Account, key_file: KeyFile, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypted_columns, "BATCH_SIZE", 15)
    order_id = send_giftcards(owner, recipients=make_inline_recipients(7))
    end_review(container, order_id)
    first, *others = item_ids(container, order_id)
    issue_cards(container, [first])
    [old] = key_file.read_keys()
    claims = make_many(conninfo, container.encryptor, first, CARDS)
    begun = Event()

    def go_on() -> None:
        """Cards are issued and shown, from before the key is changed until after all is sealed anew."""
        for item_id in others:
            issue_cards(container, [item_id])
            begun.set()
        for item_id in [*others, *islice(claims, 20)]:
            claim_card(container, item_id)

    with ThreadPoolExecutor() as pool:
        going = pool.submit(go_on)
        assert begun.wait(30)
        new = key_file.add_key()
        for each in [pool.submit(reseal_everything, container) for _ in range(2)]:
            assert each.result().failed == 0
        going.result()
    reseal_everything(container)  # what was sealed before the change, and written after its turn

    how_many = CARDS + 1 + len(others)
    seen = counts(container)
    assert {place: seen[place] for place in seen if place.startswith("gift")} == {
        "giftcards.claim_sealed": {new: how_many},
        "giftcards.card_sealed": {new: how_many},
        "giftcard_stock.card_sealed": {new: how_many},
    }
    alone, former = Encryptor.from_keys(key_file.read_keys()[:1]), Encryptor.from_keys([old])
    with container.db.system_transaction() as tx:
        cards = tx.execute(sa.select(giftcards)).all()
        stock = tx.execute(sa.select(giftcard_stock)).all()
    for row in cards:
        card = issuance.decrypt_card(alone, issuance.card_context(row.item_id), bytes(row.card_sealed))
        spoken = issuance.decrypt_claim(alone, row.item_id, bytes(row.claim_sealed))
        if row.item_id in claims:
            assert (card.code, spoken) == (code_of(row.item_id), claims[row.item_id])
        with pytest.raises(DecryptionFailed):
            issuance.decrypt_claim(former, row.item_id, bytes(row.claim_sealed))
    assert sum(row.claimed_at is not None for row in cards) == 20 + len(others)
    for row in stock:
        assert issuance.decrypt_card(alone, issuance.stock_context(row.id), bytes(row.card_sealed)).code


def test_a_letter_tried_again_brings_no_old_seal_back(container: Container, owner: Account, key_file: KeyFile) -> None:
    request_reset(container, owner)
    now = container.clock()
    [notice] = run(container, outbox.claim_due_notifications, "mail", limit=1, leased_until=now, now=now)
    new = key_file.add_key()
    reseal_everything(container)
    run(container, outbox.record_failure, notice, error="nobody there", next_at=now)
    assert counts(container)["notices.secret_sealed"] == {new: 1}
