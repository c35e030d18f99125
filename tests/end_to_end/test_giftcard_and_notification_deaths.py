"""A process that dies at any step of a gift card's way, or while it tells others of events and scans. What was issued
is printed, and once; what is void is given back, and its money returned, once; each is told, and again only what may
not have arrived, under the same key."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from quillpost.accounts.models import Caller
from quillpost.app import environments
from quillpost.fulfillment.batches import queries as batch_queries
from quillpost.fulfillment.batches.files import PRINT_FILE, redraw_batch_files
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.qr_scans import service as scan_service
from quillpost.fulfillment.qr_scans.service import ScanRecorder, ScanRequest
from quillpost.integrations.giftcards.stock import StockCards
from quillpost.notifications.ports import OutgoingMessage, PostResult
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from support import giftcard_orders as cards
from support.factories import people
from support.giftcard_orders import VALUE, card_row, send_giftcards
from support.giftcard_servers import FUNDING_SOURCE, TREMENDOUS_KEY, TremendousServer
from support.mailing_lists import make_order
from support.notifications import DANA, message_sender, send_all_due
from support.orders import HOME
from support.process_deaths import Death, MortalService, ProcessDied
from support.production import LIVE_SETTINGS
from support.qr_scans import codes_of, count_scans, order_with_codes, scan
from support.rows import run
from support.webhooks import subscribe

PIECES = 2
LEDGER = "select kind, cents from ledger_moves where order_id = %s order by id"
CARDS = "select status, issuer, count(*) from giftcards where order_id = %s group by 1, 2"


@pytest.mark.parametrize("issuer", ["stock", "tremendous"])
def test_a_card_is_printed_once(issuer: str, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that an operator loads, and of those that another service issues; for a printer who watches a folder."""
    partner, taken = tmp_path / "partner", tmp_path / "taken"
    for folder in (partner, taken):
        folder.mkdir()
    settings = LIVE_SETTINGS | {"print_partner": f"file://{partner}", "review_seconds": 0}
    with ExitStack() as stack:
        house = stack.enter_context(TremendousServer())
        if issuer == "tremendous":
            settings |= {"giftcards": f"tremendous:{house.url()}", "giftcards_key": TREMENDOUS_KEY}
            settings |= {"giftcards_account": FUNDING_SOURCE}
        service = stack.enter_context(closing(MortalService(conninfo, tmp_path, monkeypatch, "live", **settings)))
        cards.load_stock(service.container, PIECES, mode="live")  # to spare

        def flow(death: Death) -> None:
            cards.load_stock(service.container, PIECES, mode="live")
            order = send_giftcards(service.sender, recipients=people(PIECES), **HOME)
            with death:
                service.work(times=2)
            take_jobs(partner, taken)
            service.work(times=2)
            take_jobs(partner, taken)

            assert service.rows(CARDS, order) == [("issued", issuer, PIECES)]
            [(pieces, gifts)] = service.rows("select order_total, gift_total from orders where id = %s", order)
            assert gifts == PIECES * VALUE
            assert service.rows(LEDGER, order) == [("authorise", pieces + gifts), ("issue", gifts)]
            batches = """select distinct b.id, b.status, b.item_count from batches b join prints p on p.batch_id = b.id
                          join items i on i.id = p.item_id where i.order_id = %s"""
            [(batch, status, item_count)] = service.rows(batches, order)
            assert (status, item_count) == ("handed", PIECES)
            assert_printed_as_stored(service, batch)
            assert (taken / batch_reference(batch) / PRINT_FILE).read_bytes() == cards.print_file(
                service.container, batch
            )
            assert len(list(taken.iterdir())) == death.number

        effects = service.die_everywhere(flow)
        runs = len(effects) + 1
        if issuer == "stock":
            cards.assert_all_is_well(service.container)
            assert cards.free_in_stock(service.container) == PIECES
        else:
            run(service.container, cards.assert_books_agree)
            assert len(house.orders) == PIECES * runs
            references = service.rows("select reference::text from giftcards")
            assert {reference for (reference,) in references} == house.orders.keys()
        assert set(effects) >= {
            "fulfillment.batches.giftcards.issue_cards",
            "integrations.giftcards.stock.StockCards.issue" if issuer == "stock" else "IssuerClient.issue",
            "fulfillment.batches.giftcards._store_issued_cards",
            "_FolderStore.put_file batches/N",
            "fulfillment.batches.tasks.compose_batch",
            "LocalFolder.put .quillpost/batch-N.N/job",
            "LocalFolder.rename .quillpost/batch-N.N .quillpost",
            "fulfillment.batches.tasks.hand_over_batch",
        }


def take_jobs(partner: Path, taken: Path) -> None:
    """As a printer does, who would print twice what he finds twice."""
    for job in partner.glob("batch-*"):
        assert not (taken / job.name).exists(), f"{job.name} again"
        job.rename(taken / job.name)


def assert_printed_as_stored(service: MortalService, batch_id: int) -> None:
    """The file in the store is the one that its rows give, to the byte: with the claims of its cards."""
    batch = run(service.container, batch_queries.read_batch, batch_id)
    redrawn = redraw_batch_files(service.container.production, batch)
    assert redrawn[PRINT_FILE] == cards.print_file(service.container, batch_id)


def test_a_void_card_is_free_once_though_taken_again(service: MortalService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "SandboxCards", partial(StockCards, mode="test"))
    service.restart()

    def flow(death: Death) -> None:
        cards.load_stock(service.container, PIECES - cards.free_in_stock(service.container))
        order = send_giftcards(service.sender, recipients=people(PIECES))
        for item in cards.issue_order_cards(service.container, order):
            assert service.sender.put(f"/order-items/{item}/invalidate-giftcard").status_code == 200
        assert cards.free_in_stock(service.container) == 0
        with death:
            service.work()
        # What nobody knows to be free is the next piece's before it is given back once more.
        [another] = cards.issue_order_cards(service.container, send_giftcards(service.sender))
        service.work()
        cards.issue_cards(service.container, [another])

        given_back = "select status, given_back_at is null, card_sealed is null from giftcards where order_id = %s"
        assert service.rows(given_back, order) == [("void", False, True)] * PIECES
        assert [entry for entry in service.rows(LEDGER, order) if entry[0] == "return"] == [("return", VALUE)] * PIECES
        assert card_row(service.container, another).status == "issued"
        assert cards.free_in_stock(service.container) == 1
        cards.assert_all_is_well(service.container)

    assert service.die_everywhere(flow) == [
        *["integrations.giftcards.stock.StockCards.return_card"] * PIECES,
        "orders.giftcards.tasks.CardReturns._record_returned",
    ]


def test_a_card_that_is_taken_back_again_and_again_is_void_once_and_reissued_once(service: MortalService) -> None:
    def flow(death: Death) -> None:
        item = cards.mail_giftcard(service.container, service.sender)
        [(order,)] = service.rows("select order_id from items where id = %s", item)
        path, body = f"/order-items/{item}/invalidate-giftcard", {"reissue": True, "reason": "Lost"}
        with death:
            service.sender.put(path, body)
        again = [service.sender.put(path, body) for _ in range(2)]

        another = card_row(service.container, item).reissued_as
        assert [(each.status_code, each.json()["reissued_as"]) for each in again] == [(200, another)] * 2
        assert service.rows(CARDS, order) == [("void", "sandbox", 1)]
        assert service.rows(LEDGER, order)[-1:] == [("return", VALUE)]
        assert service.rows("select recipient_count, gift_total from orders where id = %s", another) == [(1, VALUE)]
        assert [kind for kind, _ in service.rows(LEDGER, another)] == ["authorise"]
        assert service.rows("select count(*) from orders") == [(2 * death.number,)]
        assert service.rows("select count(*) from audit_log where act = 'giftcard.invalidated'") == [(death.number,)]
        service.run("giftcards.return_void_cards_periodic")
        cards.assert_all_is_well(service.container)

    assert service.die_everywhere(flow) == ["web.dependencies.UnitOfWork.commit"]


def test_a_card_whose_page_died_with_its_server_is_shown_again(service: MortalService) -> None:
    def flow(death: Death) -> None:
        item = cards.mail_giftcard(service.container, service.sender)
        path = f"/gift/{cards.read_claim(service.container, item)}/claim"
        with death:
            service.http.post(path)
        claimed_at = card_row(service.container, item).claimed_at
        shown = [service.http.post(path) for _ in range(2)]
        assert [page.status_code for page in shown] == [200, 200]
        assert "<code>" in shown[0].text
        assert shown[0].text == shown[1].text
        assert claimed_at == card_row(service.container, item).claimed_at is not None
        assert service.sender.put(f"/order-items/{item}/invalidate-giftcard", {"reissue": True}).status_code == 400
        assert card_row(service.container, item).status == "issued"

    assert service.die_everywhere(flow) == ["web.public.giftcards.pages._act_on_card"]


FAR_AWAY = timedelta(days=1_000)


class Subscriber:
    """Takes whatever is posted or mailed, and remembers it by its key."""

    def __init__(self, service: MortalService) -> None:
        self._service = service
        self.received: list[tuple[str, str]] = []

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self._take(headers["webhook-id"], body.decode())
        return PostResult(204)

    async def send(self, message: OutgoingMessage) -> None:
        self._take(message.key, message.text.partition("/unsubscribe/")[0])

    async def close(self) -> None: ...

    def assert_received_once(self, death: Death) -> None:
        """But for what the dead had not noted down."""
        unrecorded = list(takewhile(lambda effect: effect == "told", reversed(death.process.effects)))
        assert len(self.received) - len(set(self.received)) == (len(unrecorded) if death.process.is_dead else 0)
        assert len({key for key, _ in self.received}) == len(set(self.received)), "a repeat says something else"

    def _take(self, key: str, text: str) -> None:
        self._service.process.require_alive()
        self.received.append((key, text))
        self._service.process.record("told")


async def deliver_all(service: MortalService, subscriber: Subscriber) -> None:
    """As a dispatcher does, one step after the other, until nothing is left."""
    parts, timeout = service.container, timedelta(seconds=15)
    dispatcher = Dispatcher(parts.db, parts.encryptor, subscriber, parts.clock, response_timeout=timeout)
    while dispatcher._fan_out() or await dispatcher._step() or dispatcher._attempts:
        await asyncio.gather(*dispatcher._attempts)
    await dispatcher._shut_down()


def test_each_event_is_posted_once_but_for_those_in_flight(service: MortalService, caller: Caller) -> None:
    subscribe(service.container, caller)

    def flow(death: Death) -> None:
        subscriber = Subscriber(service)
        due_at = service.clock.now() + FAR_AWAY
        orders = [make_order(service.container, caller, due_at=due_at) for _ in range(3)]
        with death:
            asyncio.run(deliver_all(service, subscriber))
        asyncio.run(deliver_all(service, subscriber))

        events = """select d.event_id::text from deliveries d join facts f on f.id = d.fact_id
                     where f.order_id = any(%s) and d.status = 'delivered'"""
        assert {key for (key,) in service.rows(events, orders)} == {key for key, _ in subscriber.received}
        assert len({key for key, _ in subscriber.received}) == len(orders)
        subscriber.assert_received_once(death)

    dispatcher = "notifications.webhooks.dispatcher.Dispatcher"
    steps = [f"{dispatcher}._fan_out", f"{dispatcher}._run_step", *["told"] * 3, *[f"{dispatcher}._run_step"] * 2]
    assert service.die_everywhere(flow) == steps


# As many as it takes for three steps, one after the other, of a minute ago.
HAPPENED = """
    insert into facts (account_id, mode, kind, order_id, order_status, previous, current, at)
    select account_id, mode, 'order.status', id, status, 'reviewing', 'processing', %s - n * interval '1 second'
      from orders, generate_series(1, 7) n where id = %s
    returning 1
"""


def test_a_replay_repeats_nothing(service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_tasks, "FACTS_PER_TRANSACTION", 3)
    order = make_order(service.container, caller, due_at=service.clock.now() + FAR_AWAY)

    def flow(death: Death) -> None:
        service.work()
        hook, now = subscribe(service.container, caller), service.clock.now()
        service.rows(HAPPENED, now, order)
        run(service.container, webhook_tasks.start_replay, hook.id, since=now - timedelta(minutes=1), until=now)
        with death:
            service.work()
        service.work()

        assert service.rows("select 1 from webhook_replays") == []
        facts = "select fact_id from deliveries where webhook_id = %s order by id"
        in_order = "select id from facts where at >= %s - interval '1 minute' and at < %s order by at, id"
        assert service.rows(facts, hook.id) == service.rows(in_order, now, now)

    assert service.die_everywhere(flow) == ["notifications.webhooks.tasks.continue_replay"] * 3


def test_each_scan_is_counted_once(service: MortalService, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    process_batch = ScanRecorder._process_batch

    def disconnect_when_dead(recorder: ScanRecorder, requests: Sequence[ScanRequest]) -> None:
        try:
            process_batch(recorder, requests)
        except ProcessDied:
            scan_service._respond(requests, {}, ConnectionResetError())

    monkeypatch.setattr(ScanRecorder, "_process_batch", disconnect_when_dead)
    monkeypatch.setattr(scan_service, "TIMEOUT_SECONDS", 60)  # however busy this machine is

    def flow(death: Death) -> None:
        later = service.clock.now() + FAR_AWAY
        order = order_with_codes(service.container, caller, notification_emails=[DANA], schedule_for=later)
        [code] = codes_of(service.container, order.id)
        subscriber, answers = Subscriber(service), []

        def scan_and_tell() -> None:
            answers.append(scan(service.http, code).status_code)
            count_scans(service.container)
            send_all_due(message_sender(service.container, subscriber))

        with death:
            scan_and_tell()
        scan_and_tell()

        assert answers == [503 if death.process.effects == ["insert_scans"] else 302, 302]
        assert service.rows("select scans from items where order_id = %s", order.id) == [(2,)]
        assert service.rows("select total_scans, multi_scans from orders where id = %s", order.id) == [(2, 1)]
        events = "select scans from facts where kind = 'item.scan' and order_id = %s order by id"
        assert service.rows(events, order.id) == [(1,), (2,)]
        sent = "select key from notices where status = 'sent' and key like 'scans:' || %s || ':%%'"
        assert {key for (key,) in service.rows(sent, order.id)} == {key for key, _ in subscriber.received}
        assert subscriber.received
        subscriber.assert_received_once(death)

    assert service.die_everywhere(flow) == [
        "insert_scans",
        "the test",  # which counts them
        "notifications.tasks.MessageSender._write_digests",
        "notifications.tasks.MessageSender._claim",
        "told",
        "notifications.tasks.MessageSender._record",
    ]
