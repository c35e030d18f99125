"""A process that dies after any of the things that it does: others finish what it began, and nothing happens
twice. Nor is anything lost where the key is changed over a hundred thousand gift cards, while others are claimed."""

import io
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.runtime import key_path
from quillpost.core.database import encrypted_columns
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor, KeyFile, key_fingerprint, read_key_id
from quillpost.core.files import delete_orphaned_files
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.integrations.carriers import sandbox
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.orders.giftcards import issuance
from quillpost.privacy.service import reencrypt_all
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from support.automations import plan
from support.encrypted_data import code_of, make_many
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients, people, postcard
from support.giftcard_orders import mail_giftcard, read_claim, send_giftcards
from support.images import ImageServer
from support.mailing_lists import ListOwner, make_list, make_order
from support.orders import CENTS, item_ids
from support.process_deaths import Death, MortalService
from support.processes import Command, CommandRunner, CrashPoint, until
from support.sender_service import ITEM_WAY, ORDER_WAY, SenderService, assert_all_ended_once, open_sender_service

PIECES = 2
LEDGER = "select kind, cents from ledger_moves where order_id = %s order by id"
FAR_AWAY = timedelta(days=1_000)


def make_list_order(service: MortalService, caller: Caller, list_id: int, **values: object) -> int:
    """To everyone of a list, whoever else was written to."""
    now = service.clock.now()
    columns = {"authorised": PIECES * CENTS, "due_at": now, "creative_key": uuid4(), **values}
    return make_order(service.container, caller, list_id, **columns)  # type: ignore[arg-type]


def test_a_whole_list_is_mailed_once(service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the list to the mailbox: items, batch, print files, the printer's folder, scans, the ledger."""
    monkeypatch.setattr(sandbox, "MAX_PACE", 0.9)  # all mail is as fast
    list_id = make_list(service.container, caller, people(PIECES))

    def flow(death: Death) -> None:
        order = make_list_order(service, caller, list_id)
        with death:
            service.work(times=5)
        service.work(times=5)

        items = service.rows("select id, address from items where order_id = %s order by id", order)
        assert [address for _, address in items] == [someone["address"] for someone in people(PIECES)]
        ways = "select array_agg(current order by id) from facts where order_id = %s group by item_id order by item_id"
        assert [way for (way,) in service.rows(ways, order)] == [ITEM_WAY] * PIECES + [ORDER_WAY]
        assert service.rows(LEDGER, order) == [("authorise", PIECES * CENTS), ("capture", PIECES * CENTS)]
        printed = "select b.status, b.item_count from prints p join batches b on b.id = p.batch_id where p.item_id = %s"
        scanned = "select count(*) from carrier_scans where item_id = %s"
        for item, _ in items:
            assert service.rows(printed, item) == [("mailed", PIECES)]
            assert service.rows(scanned, item) == [(len(sandbox.USUAL_JOURNEY),)]
        assert service.rows("select task_name from procrastinate_jobs where status in ('failed', 'doing')") == []

    effects = service.die_everywhere(flow)
    assert set(effects) >= {
        "orders.tasks.materialize_order",
        "fulfillment.review.service.sweep_due_orders",
        "fulfillment.batches.service.pool_due_orders",
        "_FolderStore.put_file batches/N",
        "fulfillment.batches.tasks.compose_batch",
        "_FolderStore.put_file print-jobs/test/batch-N",
        "_FolderStore.put_file sandbox/mailbox",
        "fulfillment.batches.tasks.hand_over_batch",
        "fulfillment.print_room.service.record_printer_progress",
        "fulfillment.tracking.service.ingest_scans",
        "_ObjectStore.delete sandbox/mailbox",
    }
    runs = len(effects) + 1
    assert service.rows("select total_sends from mailing_lists") == [(PIECES * runs,)]
    assert service.rows("select count(*) from batches") == [(runs,)]
    assert_all_ended_once(service.office)


def test_a_send_that_is_repeated_until_it_is_answered_makes_one_order(service: MortalService, art: ImageServer) -> None:
    def flow(death: Death) -> None:
        picture = art.picture(["teal", "navy", "olive"][death.number - 1])  # each is stored once
        body = postcard(recipients=people(PIECES), front_image_url=picture)
        key = {"Idempotency-Key": f"number {death.number}"}
        before = service.rows("select count(*) from orders")
        with death:
            service.sender.post("/send/postcard", body, headers=key)
        answers = [service.sender.post("/send/postcard", body, headers=key) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
        assert answers[0].json() == answers[1].json()
        order = answers[0].json()["id"]
        assert service.rows("select count(*) from orders") == [(before[0][0] + 1,)]
        assert service.rows("select count(*) from items where order_id = %s", order) == [(PIECES,)]
        assert service.rows(LEDGER, order) == service.rows(
            "select 'authorise', order_total from orders where id = %s", order
        )

    effects = service.die_everywhere(flow)
    assert effects == ["_FolderStore.put_file creative/N", "web.dependencies.UnitOfWork.commit"]
    service.clock.advance(days=2)
    delete_orphaned_files(service.container.db, service.container.storage, now=service.clock.now())
    stored = {key for purpose in ("creative", "preview") for key in service.container.storage.store.keys(f"{purpose}/")}
    assert stored == {key for (key,) in service.rows("select key from files")}


def test_an_automation_mails_to_everyone_once(service: MortalService) -> None:
    def flow(death: Death) -> None:
        lists = ListOwner(service.sender)
        visitors = lists.make(f"Visitors {death.number}")
        made = service.sender.post("/automations", plan(visitors)).json()["id"]
        lists.fill(visitors, *(f"{n} Street {death.number}" for n in range(PIECES)))
        with death:
            service.run("automations.send_due_periodic")
        service.run("automations.send_due_periodic")

        known = service.sender.get(f"/automations/{made}").json()
        assert (known["sent_count"], known["waiting"], known["last_error"]) == (PIECES, 0, None)
        orders = "select order_id, count(*) from automation_sent where automation_id = %s group by 1"
        [(order, sent)] = service.rows(orders, made)
        assert (sent, order) == (PIECES, known["last_order_id"])
        assert service.rows("select recipient_count from orders where id = %s", order) == [(PIECES,)]
        assert [kind for kind, _ in service.rows(LEDGER, order)] == ["authorise"]

    effects = service.die_everywhere(flow)
    assert {"orders.automations.tasks._claim_next", "orders.automations.tasks._create_order"} <= set(effects)
    assert service.rows("select count(*) from orders") == [(len(effects) + 1,)]


def test_a_file_is_on_the_list_once(service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_tasks, "MAX_CHUNK_ROWS", 2)
    rows = "".join(f"Person {n},{n + 1} Main Street,Austin,TX,78701\n" for n in range(5))
    data = f"Name,Street,City,State,Zip\n{rows}Jane,1 Main St.,Austin,TX,78701\n".encode()

    def flow(death: Death) -> None:
        container, list_id = service.container, make_list(service.container, caller, [])
        looked = import_service.inspect_file(io.BytesIO(data), name="people.csv", mapping=None, has_header=None)
        key = import_service.store_file(container.storage.store, looked, now=service.clock.now())
        with container.db.transaction(build_tenant(caller)) as tx:
            made = import_service.create_import(tx, list_id, looked, key, clock=service.clock.now)
        with death:
            service.work(times=2)
        service.work(times=2)

        names = service.rows("select name from recipients where mailing_list_id = %s order by id", list_id)
        assert names == [(f"Person {n}",) for n in range(5)]
        counted = "select status, rows_read, rows_imported, rows_rejected, duplicates from imports where id = %s"
        assert service.rows(counted, made.id) == [("done", 6, 5, 1, 1)]
        assert service.rows("select place, line from import_rejects where import_id = %s", made.id) == [(5, 7)]
        listed = "select total_recipients, processed from mailing_lists where id = %s"
        assert service.rows(listed, list_id) == [(5, True)]
        assert service.rows("select 1 from pg_tables where tablename like 'import_staging%%'") == []

    effects = service.die_everywhere(flow)
    assert Counter(effects)["recipients.imports.tasks._stage_rows"] == 4, (
        "the list is locked, and three chunks are stored"
    )
    assert "recipients.imports.tasks._finish_import" in effects


def test_a_change_of_the_key_goes_on_where_it_was(service: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_columns, "BATCH_SIZE", 2)
    hooks = [service.sender.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}) for _ in range(5)]
    assert [hook.status_code for hook in hooks] == [201] * 5
    secrets = "select id, secret_sealed from webhooks order by id"

    def reencrypt() -> int:
        container = service.container
        files = BatchFileStorage(container.storage.store, container.encryptor)
        return sum(step.reencrypted for _, step in reencrypt_all(container.db, files, now=service.clock.now()))

    def flow(death: Death) -> None:
        KeyFile(key_path(service.home)).add_key()
        with death:
            reencrypt()
        done_before = 2 * len(death.process.effects)
        assert reencrypt() == max(len(hooks) - done_before, 0), "what was done is done again"
        current = Encryptor.from_keys(KeyFile(key_path(service.home)).read_keys()[:1])
        for number, encrypted in service.rows(secrets):
            assert decrypt_secret(current, number, encrypted) == hooks[number - 1].json()["secret"]

    assert service.die_everywhere(flow) == ["core.database.encrypted_columns._reencrypt_rows"] * 3


CARDS = 100_000
LONG = 300.0
IN_THE_MIDDLE = CrashPoint("quillpost.core.database.encrypted_columns:_reencrypt_rows", "after", call=150)
"""Of batches of a thousand there are three hundred."""

ISSUED = "select count(*) from giftcards where order_id = :order_id and status = 'issued'"
CLAIMED = "select count(*) from giftcards where claimed_at is not null"


def send_and_claim(sender_service: SenderService) -> None:
    """An order whose cards are issued by the worker, and claimed."""
    order_id = send_giftcards(sender_service.sender, recipients=make_inline_recipients(PIECES))
    until(lambda: sender_service.value(ISSUED, order_id=order_id) == PIECES, what="cards issued", seconds=LONG)
    for item_id in item_ids(sender_service.container, order_id):
        claim_card(sender_service, read_claim(sender_service.container, item_id))


def claim_card(sender_service: SenderService, claim: str) -> str:
    answer = sender_service.sender.http.post(f"/gift/{claim}/claim")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_every_card_is_reencrypted(conninfo: str, home: Path, receiver: EventReceiver, runner: CommandRunner) -> None:
    orders, stop, file = count(), Event(), KeyFile(home / "secret.key")
    with open_sender_service(conninfo, home, receiver) as sender_service, ThreadPoolExecutor() as pool:

        def keys(*words: str, crash: CrashPoint | None = None) -> Command:
            return runner.start("keys", *words, settings=sender_service.settings, crash=crash)

        def go_on() -> None:
            while not stop.is_set():
                send_and_claim(sender_service)
                next(orders)

        parts = sender_service.container
        first = mail_giftcard(parts, sender_service.sender)
        [old] = file.read_keys()
        claims = make_many(conninfo, parts.encryptor, first, CARDS)
        worker = runner.start("work", settings=sender_service.settings)
        going = pool.submit(go_on)
        try:
            until(lambda: sender_service.value(CLAIMED) > 0 or going.done(), what="business going on", seconds=LONG)
            assert keys("new").wait() == 0
            killed = keys("reseal", crash=IN_THE_MIDDLE)
            assert killed.wait(LONG) == -signal.SIGKILL, killed.output
            assert set(key_ids(sender_service)) == {key_fingerprint(key) for key in file.read_keys()}
            for item_id, claim in list(claims.items())[::1_000]:
                assert code_of(item_id) in claim_card(sender_service, claim)
            at_once = [keys("reseal"), keys("reseal")]
            assert [each.wait(LONG) for each in at_once] == [0, 0], at_once[0].output + at_once[1].output
        finally:
            stop.set()
        going.result(LONG)
        last = keys("reseal")  # what was sealed before the change, and written after its turn
        assert last.wait(LONG) == 0, last.output
        assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()[:1]), claims)

        then = file.changed_at - timedelta(hours=1)
        os.utime(file.path, (then.timestamp(), then.timestamp()))
        forgotten = keys("forget", key_fingerprint(old), "--yes")
        assert forgotten.wait() == 0, forgotten.output
        send_and_claim(sender_service)  # with a worker that was there before the key was changed
        assert worker.stop() == 0, worker.output
        how_many = CARDS + 1 + PIECES * (next(orders) + 1)
        assert assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()), claims) == how_many


def key_ids(sender_service: SenderService) -> list[str]:
    """Of claims and cards: in whichever of them it was killed."""
    with sender_service.container.db.system_transaction() as tx:
        columns = (giftcards.c.claim_sealed, giftcards.c.card_sealed, giftcard_stock.c.card_sealed)
        return [read_key_id(bytes(value)) for column in columns for value in tx.execute(sa.select(column)).scalars()]


def assert_all_open(sender_service: SenderService, alone: Encryptor, claims: dict[int, str]) -> int:
    """Under this key alone, each with what was sealed in it; how many there are."""
    with sender_service.container.db.system_transaction() as tx:
        cards = tx.execute(sa.text("select item_id, claim_sealed, card_sealed from giftcards")).all()
        stock = tx.execute(sa.text("select id, mode, card_sealed from giftcard_stock")).all()
    codes = set()
    for row in cards:
        card = issuance.decrypt_card(alone, issuance.card_context(row.item_id), bytes(row.card_sealed))
        claim = issuance.decrypt_claim(alone, row.item_id, bytes(row.claim_sealed))
        codes.add(card.code)
        assert row.item_id not in claims or (card.code, claim) == (code_of(row.item_id), claims[row.item_id])
    assert len(codes) == len(stock) == len(cards)
    for row in stock:
        code = issuance.decrypt_card(alone, issuance.stock_context(row.id), bytes(row.card_sealed)).code
        assert code == code_of(row.id) if row.mode == "live" else code in codes
    return len(cards)
