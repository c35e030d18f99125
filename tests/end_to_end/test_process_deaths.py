"""A process that dies after any of the things that it does: others finish what it began, and nothing happens twice."""

import io
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.runtime import key_path
from quillpost.core.database import encrypted_columns
from quillpost.core.encryption import Encryptor, KeyFile
from quillpost.core.files import delete_orphaned_files
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.integrations.carriers import sandbox
from quillpost.notifications.webhooks.service import decrypt_secret
from quillpost.privacy.service import reencrypt_all
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from support.automations import plan
from support.factories import people, postcard
from support.images import ImageServer
from support.mailing_lists import ListOwner, make_list, make_order
from support.orders import CENTS
from support.process_deaths import Death, MortalService
from support.sender_service import ITEM_WAY, ORDER_WAY, assert_all_ended_once

PIECES = 2
LEDGER = "select kind, cents from ledger_moves where order_id = %s order by id"
FAR_AWAY = timedelta(days=1_000)


def make_list_order(service: MortalService, caller: Caller, list_id: int, **values: object) -> int:
    """To everyone of a list, whoever else was written to."""
    now = service.clock.now()
    columns = {"authorised": PIECES * CENTS, "due_at": now, "creative_key": uuid4(), **values}
    return make_order(service.container, caller, list_id, **columns)  # type: ignore[arg-type]


def test_everyone_of_a_list_is_mailed_once_and_paid_once(
    service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_everyone_of_a_file_is_on_the_list_once(
    service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
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
