"""The key is changed, and everything is sealed anew, while all else goes on."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event

import psycopg
import pytest
import sqlalchemy as sa
from front_door import DANA, enrolled
from gifted import claim, end_review_of, issue, issued, pieces_of, send_gifts
from many_cards import code_of, make_many
from sealed_files import sealed_file
from signed_in import make_person

from makers import Account, guests
from quillpost.accounts.users import password_resets
from quillpost.app.container import Parts
from quillpost.core import outbox
from quillpost.core.database import Tenant, encrypted_columns
from quillpost.core.database.encrypted_columns import Done, SealedColumn, is_any_left
from quillpost.core.database.tables.giftcards import giftcard_stock, giftcards
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.database.tables.privacy import erasing_files
from quillpost.core.encryption import NAMELESS, SealBroken, Sealer, fingerprint
from quillpost.core.key_files import KeyFile
from quillpost.fulfillment.files import BatchStore
from quillpost.notifications.webhooks.service import secret_context
from quillpost.orders.giftcards import issuance
from quillpost.privacy import erasure
from quillpost.privacy.key_rotation import COLUMNS, FILES, count_all, reseal_all
from quillpost.privacy.models import whom_of

CARD = next(column for column in COLUMNS if str(column) == "giftcards.card_sealed")
WAITING = """select count(*) from pg_stat_activity
              where datname = current_database() and state = 'idle in transaction'"""
HOOK = next(column for column in COLUMNS if str(column) == "webhooks.secret_sealed")


@pytest.fixture
def key_file(parts: Parts, tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "home" / "secret.key")


def files_of(parts: Parts) -> BatchStore:
    return BatchStore(parts.shelf.store, parts.sealer)


def counts(parts: Parts) -> dict[str, dict[str, int]]:
    return {place: dict(found) for place, found in count_all(parts.db, files_of(parts)).items()}


def reseal_everything(parts: Parts) -> Done:
    done = Done()
    for _, step in reseal_all(parts.db, files_of(parts), now=parts.clock()):
        done.renewed += step.renewed
        done.broken += step.broken
    return done


def sealed_by(column: SealedColumn, parts: Parts) -> dict[tuple[object, ...], tuple[str, bytes]]:
    """Every value of the column with its context, by its row."""
    keys, bound = len(column.keys), [column.table.c[name] for name in column.bound_to]
    wanted = sa.select(*(each.label(None) for each in (*column.keys, *bound, column.column)))
    with parts.db.work() as tx:
        rows = [tuple(row) for row in tx.execute(wanted.where(column.is_sealed))]
    return {row[:keys]: (column.context(*row[keys:-1]), bytes(row[-1])) for row in rows}


def subscribe(owner: Account) -> int:
    made = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


@pytest.fixture
def everything(parts: Parts, owner: Account) -> None:
    """Something is sealed in every place that there is."""
    hook = subscribe(owner)
    again = {"Idempotency-Key": "once"}
    assert owner.post(f"/webhooks/{hook}/rotate-secret", headers=again).status_code == 200
    assert owner.post("/mailing-lists", {"name": "Neighbours"}).status_code in (200, 201)
    person = make_person(parts, owner.id, DANA)
    enrolled(parts, person)
    password_resets.ask(parts.people, DANA, base_url=parts.base_url, address="192.0.2.1", now=parts.clock())
    whom = whom_of({"email": "jane@example.com", "address": None})
    with parts.db.work() as tx:
        erasure.erase(tx, parts.sealer, Tenant(owner.id), whom, now=parts.clock())
    issued(parts, send_gifts(owner))


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
    known = {str(column) for column in COLUMNS}
    assert known == {name for [name] in found} | {"idempotency_keys.answer_body"}
    assert flagged == [("idempotency_keys",)], "another table says of a column whether it is sealed"


@pytest.mark.usefixtures("everything")
def test_everything_opens_under_the_new_key_alone_and_nothing_under_the_old(
    parts: Parts, key_file: KeyFile
) -> None:
    before = counts(parts)
    [old] = key_file.read()
    assert before.keys() == {str(column) for column in COLUMNS}, "nothing is sealed in one of the places"
    plain = {
        str(column): {key: parts.sealer.open(value, context=where) for key, (where, value) in found.items()}
        for column in COLUMNS
        if (found := sealed_by(column, parts))
    }
    new = key_file.add()
    done = reseal_everything(parts)
    how_many = sum(found[fingerprint(old)] for found in before.values())
    assert (done.renewed, done.broken) == (how_many, 0)
    assert counts(parts) == {place: {new: found[fingerprint(old)]} for place, found in before.items()}
    alone = Sealer.of([key_file.read()[0]])
    for column in COLUMNS:
        for key, (where, value) in sealed_by(column, parts).items():
            assert alone.open(value, context=where) == plain[str(column)][key]
            with pytest.raises(SealBroken):
                Sealer.of([old]).open(value, context=where)
    assert reseal_everything(parts) == Done(), "what was done is done again"


def test_what_earlier_releases_sealed_is_given_the_name_of_its_key(
    parts: Parts, owner: Account, key_file: KeyFile
) -> None:
    hook = subscribe(owner)
    [key] = key_file.read()
    nameless = Sealer({NAMELESS: key}, NAMELESS).seal(b"whsec_x", context=secret_context(hook))
    with parts.db.work() as tx:
        tx.execute(sa.update(webhooks).values(secret_sealed=nameless))
    assert counts(parts)["webhooks.secret_sealed"] == {NAMELESS: 1}
    assert reseal_everything(parts).renewed == 1
    assert counts(parts)["webhooks.secret_sealed"] == {fingerprint(key): 1}


def test_a_value_that_was_changed_meanwhile_is_left_alone(
    parts: Parts, owner: Account, key_file: KeyFile
) -> None:
    subscribe(owner)
    key_file.add()

    class Interrupted(Sealer):
        def seal(self, plain: bytes, *, context: str) -> bytes:
            with parts.db.work() as tx:
                tx.execute(sa.update(webhooks).values(secret_sealed=b"changed meanwhile"))
            return super().seal(plain, context=context)

    [done] = encrypted_columns.reseal(parts.db, Interrupted.of(key_file.read()), HOOK)
    assert (done.renewed, done.passed_by) == (0, 1)
    with parts.db.work() as tx:
        assert bytes(tx.execute(sa.select(webhooks.c.secret_sealed)).scalar_one()) == b"changed meanwhile"


def test_nobody_is_waited_for_but_at_the_end(parts: Parts, owner: Account, key_file: KeyFile) -> None:
    subscribe(owner)
    held, other = subscribe(owner), subscribe(owner)
    key_file.add()
    with parts.db.work() as tx:
        tx.execute(sa.select(webhooks.c.id).where(webhooks.c.id == held).with_for_update())
        [done] = encrypted_columns.reseal(parts.db, parts.sealer, HOOK)
        assert (done.renewed, done.passed_by) == (2, 1)
        with ThreadPoolExecutor() as pool:
            waits = pool.submit(reseal_everything, parts)
            tx.execute(sa.update(webhooks).where(webhooks.c.id == held).values(description="mine"))
            tx.commit()
            assert waits.result().renewed == 1
    assert other
    with parts.db.work() as tx:
        assert not is_any_left(tx, HOOK, parts.sealer.mark)


def test_what_no_key_opens_stays_and_is_counted(parts: Parts, owner: Account, key_file: KeyFile) -> None:
    first, second = subscribe(owner), subscribe(owner)
    strange = Sealer.of([b"?" * 32]).seal(b"x", context=secret_context(first))
    with parts.db.work() as tx:
        tx.execute(sa.update(webhooks).where(webhooks.c.id == first).values(secret_sealed=strange))
    key_file.add()
    assert reseal_everything(parts) == Done(renewed=1, broken=1)
    assert sealed_by(HOOK, parts)[(first,)][1] == strange
    assert parts.sealer.open(sealed_by(HOOK, parts)[(second,)][1], context=secret_context(second))


def test_every_row_is_met_once_however_many_there_are(
    parts: Parts, owner: Account, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        subscribe(owner)
        again = {"Idempotency-Key": f"key {number}"}
        owner.post("/webhooks", {"url": "https://example.com/again", "type": "*"}, headers=again)
    monkeypatch.setattr(encrypted_columns, "AT_ONCE", 2)
    key_file.add()
    ended_early = reseal_all(parts.db, files_of(parts), now=parts.clock())
    steps = [next(ended_early)]
    ended_early.close()  # type: ignore[attr-defined]
    steps += reseal_all(parts.db, files_of(parts), now=parts.clock())
    by_place = {place: [d.renewed for at, d in steps if at == place] for place, _ in steps}
    assert by_place == {"webhooks.secret_sealed": [2] * 4, "idempotency_keys.answer_body": [2, 2]}


def test_a_sealed_print_file_is_sealed_anew(parts: Parts, key_file: KeyFile) -> None:
    batch = sealed_file(parts)
    [old] = key_file.read()
    new = key_file.add()
    assert counts(parts) == {FILES: {fingerprint(old): 1}}
    assert reseal_everything(parts).renewed == 1
    assert counts(parts) == {FILES: {new: 1}}
    alone = BatchStore(parts.shelf.store, Sealer.of(key_file.read()[:1]))
    assert alone.get(batch, "print.pdf", is_secret=True) == b"%PDF"


def test_no_transaction_waits_for_the_file_store(
    parts: Parts, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_file(parts)
    waiting: list[int] = []

    def look(self: BatchStore, batch_id: int, name: str) -> bytes:
        with psycopg.connect(conninfo) as other:
            [found] = other.execute(WAITING).fetchall()
        waiting.append(found[0])
        return self.sealer.mark

    monkeypatch.setattr(BatchStore, "header", look)
    assert counts(parts) == {FILES: {parts.sealer.current: 1}}
    assert waiting == [0]


def test_a_print_file_whose_time_came_while_it_was_sealed_is_removed_again(
    parts: Parts, key_file: KeyFile
) -> None:
    batch = sealed_file(parts)
    key_file.add()

    class Interrupted(Sealer):
        def seal(self, plain: bytes, *, context: str) -> bytes:
            with parts.db.work() as tx:
                tx.execute(sa.text("delete from batch_files"))
            parts.shelf.store.delete(f"batches/{batch}/print.pdf")
            return super().seal(plain, context=context)

    files = BatchStore(parts.shelf.store, Interrupted.of(key_file.read()))
    assert [place for place, _ in reseal_all(parts.db, files, now=parts.clock())] == [FILES]
    with parts.db.work() as tx:
        queued = list(tx.execute(sa.select(erasing_files.c.key)).scalars())
    assert queued == [f"batches/{batch}/print.pdf"]


def test_whoever_writes_is_waited_for_and_not_for_ever(
    parts: Parts, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(owner)
    monkeypatch.setattr(encrypted_columns, "LONGEST_WAIT", "50ms")
    with parts.db.work() as tx:
        tx.execute(sa.update(webhooks).values(description="being written"))
        assert not encrypted_columns.wait_for_writers(parts.db, webhooks)
    assert encrypted_columns.wait_for_writers(parts.db, webhooks)


CARDS = 60
"""`test_key_rotation.py` does the same over a hundred thousand."""


def test_cards_are_sent_issued_and_claimed_while_the_key_is_changed(
    parts: Parts, owner: Account, key_file: KeyFile, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encrypted_columns, "AT_ONCE", 15)
    order_id = send_gifts(owner, recipients=guests(7))
    end_review_of(parts, order_id)
    first, *others = pieces_of(parts, order_id)
    issue(parts, [first])
    [old] = key_file.read()
    claims = make_many(conninfo, parts.sealer, first, CARDS)
    begun = Event()

    def go_on() -> None:
        """Cards are issued and shown, from before the key is changed until after all is sealed anew."""
        for item_id in others:
            issue(parts, [item_id])
            begun.set()
        for item_id in [*others, *islice(claims, 20)]:
            claim(parts, item_id)

    with ThreadPoolExecutor() as pool:
        going = pool.submit(go_on)
        assert begun.wait(30)
        new = key_file.add()
        at_once = [pool.submit(reseal_everything, parts) for _ in range(2)]
        for each in at_once:
            assert each.result().broken == 0
        going.result()
    reseal_everything(parts)  # what was sealed before the change, and written after its turn

    how_many = CARDS + 1 + len(others)
    seen = counts(parts)
    assert {place: seen[place] for place in seen if place.startswith("gift")} == {
        "giftcards.claim_sealed": {new: how_many},
        "giftcards.card_sealed": {new: how_many},
        "giftcard_stock.card_sealed": {new: how_many},
    }
    alone, former = Sealer.of(key_file.read()[:1]), Sealer.of([old])
    with parts.db.work() as tx:
        cards = tx.execute(sa.select(giftcards)).all()
        stock = tx.execute(sa.select(giftcard_stock)).all()
    for row in cards:
        card = issuance.open_card(alone, issuance.card_context(row.item_id), bytes(row.card_sealed))
        spoken = issuance.open_claim(alone, row.item_id, bytes(row.claim_sealed))
        if row.item_id in claims:
            assert (card.code, spoken) == (code_of(row.item_id), claims[row.item_id])
        with pytest.raises(SealBroken):
            issuance.open_claim(former, row.item_id, bytes(row.claim_sealed))
    assert sum(row.claimed_at is not None for row in cards) == 20 + len(others)
    for row in stock:
        assert issuance.open_card(alone, issuance.stock_context(row.id), bytes(row.card_sealed)).code


def test_a_letter_that_is_tried_again_does_not_bring_an_old_seal_back(
    parts: Parts, owner: Account, key_file: KeyFile
) -> None:
    make_person(parts, owner.id, DANA)
    password_resets.ask(parts.people, DANA, base_url=parts.base_url, address="192.0.2.1", now=parts.clock())
    now = parts.clock()
    with parts.db.work() as tx:
        [notice] = outbox.claim(tx, "mail", most=1, lease=now, now=now)
    new = key_file.add()
    reseal_everything(parts)
    with parts.db.work() as tx:
        outbox.record_failure(tx, notice, error="nobody there", next_at=now)
    assert counts(parts)["notices.secret_sealed"] == {new: 1}
