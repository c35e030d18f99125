"""Workers and servers are killed at each step of a gift card's way: to paper, back, and to whoever claims it.
What was issued is printed, and once; what is void is given back, and its money returned, once."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches.files import PRINT_FILE, redraw_batch_files
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardSecret
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import make_account, people
from support.giftcard_orders import card_row, item_ids_of, mail_giftcard, read_claim, send_giftcards
from support.giftcard_production import (
    VALUE,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    compose_all,
    free_in_stock,
    load_stock,
    print_file,
)
from support.print_room import HOME
from support.processes import PATIENCE, CommandRunner, answers, free_port, until
from support.production import LIVE_SETTINGS
from support.repeated_crashes import LEASE_END
from support.sender_office import SenderService, open_sender_service
from support.single_order_state import ITEM_WAY, assert_all_events_arrived

PIECES = 2
AT_ONCE = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
LIVE_AT_ONCE = {
    **AT_ONCE,
    "QUILLPOST_REVIEW_SECONDS": "0",
    **{f"QUILLPOST_{name.upper()}": value for name, value in LIVE_SETTINGS.items()},
}
FULFILMENT, ISSUING = "quillpost.fulfillment", "quillpost.orders.giftcards.issuance"
MADE_UP, OWN = (f"quillpost.integrations.giftcards.stock:{each}" for each in ("SandboxCards", "StockCards"))
SANDBOX = "quillpost.integrations.printing.sandbox:SandboxPrinter"
HOT_FOLDER = "quillpost.integrations.printing.folder:HotFolder"
FILES = "quillpost.integrations.storage.objects:_FolderStore"
GIVING_BACK = "quillpost.orders.giftcards.tasks:CardReturns"
PAGES = "quillpost.web.public.giftcards.pages"


def steps_to_paper(issuer: str, printer: str) -> list[CrashPoint]:
    return [
        # The cards are written down as asked for, and nothing is committed; then it is, and nobody was asked.
        CrashPoint(f"{ISSUING}:request_cards", "after"),
        CrashPoint(f"{issuer}.issue", "before"),
        # The issuer has found them, uncommitted; has issued them, and the answer is lost; it is kept,
        # uncommitted; committed.
        CrashPoint(f"{issuer}._take_cards", "after"),
        CrashPoint(f"{issuer}.issue", "after"),
        CrashPoint(f"{ISSUING}:store_cards", "after"),
        CrashPoint(f"{FULFILMENT}.batches.giftcards:_store_issued_cards", "after"),
        # Drawn; in the file store, the sealed file alone, with another, and all; written down, uncommitted;
        # committed.
        CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "after"),
        CrashPoint(f"{FILES}.put_file", "after"),
        CrashPoint(f"{FILES}.put", "after"),
        CrashPoint(f"{FULFILMENT}.batches.queries:swap_batch_status", "before"),
        CrashPoint(f"{FULFILMENT}.batches.queries:insert_batch_files", "after"),
        CrashPoint(f"{FULFILMENT}.batches.tasks:compose_batch", "after"),
        # The printer has it, and nobody knows; then it is known.
        CrashPoint(f"{printer}.submit", "before"),
        CrashPoint(f"{printer}.submit", "after"),
        CrashPoint(f"{FULFILMENT}.batches.tasks:hand_over_batch", "after"),
    ]


STEPS = [
    *steps_to_paper(MADE_UP, SANDBOX),
    # Printed: the pieces' money is earned.
    CrashPoint("quillpost.orders.items.service:MoveItemsStatement.run", "after"),
]
ALIKE = {
    CrashPoint(f"{ISSUING}:request_cards", "after"),
    CrashPoint(f"{MADE_UP}._take_cards", "after"),
    CrashPoint(f"{ISSUING}:store_cards", "after"),
    CrashPoint(f"{FULFILMENT}.batches.files:draw_batch_files", "after"),
    CrashPoint(f"{FILES}.put", "after"),
    CrashPoint(f"{FULFILMENT}.batches.queries:swap_batch_status", "before"),
    CrashPoint(f"{SANDBOX}.submit", "before"),
}
"""Deaths that leave the same behind as a neighbour's, as what is not committed does: looked at in the long
run."""

# The files of another order are kept, and nothing else; the card is void, and then the other order is there,
# too, uncommitted. At last all is committed, and the answer is lost.
TAKEN_BACK_IN_VAIN = [
    CrashPoint("quillpost.orders.service:store_files", "after"),
    CrashPoint("quillpost.orders.giftcards.tasks:void_cards", "after"),
    CrashPoint("quillpost.web.api.dependencies:UnitOfWork.__exit__", "before"),
]
TAKEN_BACK = CrashPoint("quillpost.web.api.dependencies:UnitOfWork.__exit__", "after")

LIVE_IS_UNSETTLED = """
    select (select count(*) from orders where status <> 'printing')
         + (select count(*) from batches where status <> 'handed')
         + (select count(*) from giftcards where status = 'void' and given_back_at is null)
         + (select count(*) from fact_queue)
         + (select count(*) from deliveries where status <> 'delivered')
         + (select count(*) from procrastinate_jobs where status = 'doing')
"""
RETURNED = "select cents from ledger_moves where kind = 'return' order by id"


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver, **AT_ONCE) as sender_service:
        yield sender_service


@pytest.fixture
def partner(tmp_path: Path) -> Path:
    folder = tmp_path / "partner"
    folder.mkdir()
    return folder


@pytest.fixture
def live_office(conninfo: str, home: Path, receiver: EventReceiver, partner: Path) -> Iterator[SenderService]:
    """Of a sender of live mail, with an operator who loads cards and a printer who watches a folder."""
    settings = LIVE_AT_ONCE | {"QUILLPOST_PRINT_PARTNER": f"file://{partner}"}
    with open_sender_service(conninfo, home, receiver, **settings) as sender_service:
        sender = make_account(sender_service.container, sender_service.sender.http, "live@example.com", mode="live")
        subscribed = sender.post("/webhooks", {"url": receiver.url_of(sender_service.path), "type": "*"})
        assert subscribed.status_code == 201, subscribed.text
        yield replace(sender_service, sender=sender)


# To paper


def test_a_card_outlives_a_death_at_every_step(sender_service: SenderService, command_runner: CommandRunner) -> None:
    assert_issued_and_printed_once(sender_service, command_runner, [step for step in STEPS if step not in ALIKE])


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_card_outlives_a_death(
    step: CrashPoint, sender_service: SenderService, command_runner: CommandRunner
) -> None:
    assert_issued_and_printed_once(sender_service, command_runner, [step])


@pytest.mark.long
def test_an_operator_s_own_card_outlives_a_death_at_every_step(
    live_office: SenderService, command_runner: CommandRunner, partner: Path
) -> None:
    sender_service = live_office
    load_stock(sender_service.container, PIECES + 1, mode="live")
    send_giftcards(sender_service.sender, recipients=people(PIECES), **HOME)
    in_flight = killed_in_turn(sender_service, command_runner, steps_to_paper(OWN, HOT_FOLDER))
    work_until_settled(sender_service, command_runner)

    assert_all_events_arrived(sender_service, in_flight=in_flight)
    assert sender_service.rows("select status, issuer, count(*) from giftcards group by 1, 2") == [
        ("issued", "stock", PIECES)
    ]
    assert free_in_stock(sender_service.container) == 1
    assert_all_is_well(sender_service.container)
    assert_printed_as_issued(sender_service.container)
    [(pieces, gifts)] = sender_service.rows("select order_total, gift_total from orders")
    assert sender_service.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", pieces + gifts),
        ("issue", gifts),
    ]
    assert sender_service.books() == {"credit": -pieces - gifts, "held": pieces, "gifts": PIECES * VALUE}
    _assert_is_what_was_composed(sender_service)
    [(batch,)] = sender_service.rows("select id from batches")
    [handed] = partner.rglob(PRINT_FILE)
    assert handed.read_bytes() == print_file(sender_service.container, batch)


def assert_issued_and_printed_once(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> None:
    sent = sender_service.sender.send("giftcard", recipients=people(PIECES))
    assert sent.status_code == 200, sent.text
    in_flight = killed_in_turn(sender_service, command_runner, deaths)
    work_to_the_end(sender_service, command_runner)

    assert list(sender_service.statuses().values()) == [ITEM_WAY] * PIECES
    assert_all_events_arrived(sender_service, in_flight=in_flight)
    assert sender_service.rows("select status, count(*) from giftcards group by 1") == [("issued", PIECES)]
    assert_all_is_well(sender_service.container)
    assert_printed_as_issued(sender_service.container)
    _assert_paid_once(sender_service)
    _assert_is_what_was_composed(sender_service)


def _assert_paid_once(sender_service: SenderService) -> None:
    [(pieces, gifts)] = sender_service.rows("select order_total, gift_total from orders")
    assert gifts == PIECES * VALUE
    assert sender_service.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", pieces + gifts),
        ("issue", gifts),
        ("capture", pieces),
    ]
    assert sender_service.books() == {"credit": -pieces - gifts, "held": 0, "earned": pieces, "gifts": gifts}


def _assert_is_what_was_composed(sender_service: SenderService) -> None:
    """One batch, whose file in the store is the one that its rows give, to the byte."""
    [(batch, item_count)] = sender_service.rows("select id, item_count from batches")
    assert item_count == PIECES
    with sender_service.container.db.system_transaction() as tx:
        known = fulfillment_queries.read_batch(tx, batch)
    assert redraw_batch_files(sender_service.container.production, known)[PRINT_FILE] == print_file(
        sender_service.container, batch
    )


# Back


@pytest.mark.long
def test_a_void_card_is_free_once_whoever_dies_while_it_is_given_back(
    live_office: SenderService, command_runner: CommandRunner
) -> None:
    sender_service, parts = live_office, live_office.container
    load_stock(parts, 3, mode="live")
    order = send_giftcards(sender_service.sender, recipients=people(3), **HOME)
    work_until_settled(sender_service, command_runner)
    first, second, _ = item_ids_of(parts, order)
    passed_on = opened(sender_service, first)
    for piece in (first, second):
        assert sender_service.sender.put(f"/order-items/{piece}/invalidate-giftcard").status_code == 200
    assert (free_in_stock(parts), given_back(sender_service)) == (0, 0)

    in_flight = killed_in_turn(sender_service, command_runner, [CrashPoint(f"{OWN}.return_card", "before")])
    assert (free_in_stock(parts), given_back(sender_service)) == (0, 0)
    in_flight += killed_in_turn(sender_service, command_runner, [CrashPoint(f"{OWN}.return_card", "after")])
    assert (free_in_stock(parts), given_back(sender_service)) == (1, 0)
    # What nobody knows to be free is the next piece's before it is given back once more.
    [another] = item_ids_of(parts, send_giftcards(sender_service.sender, **HOME))
    review_service.sweep_due_orders(parts.production, now=parts.clock())
    compose_all(parts.production, parts)
    assert (opened(sender_service, another), free_in_stock(parts)) == (passed_on, 0)
    in_flight += killed_in_turn(
        sender_service, command_runner, [CrashPoint(f"{GIVING_BACK}._record_returned", "before")]
    )
    assert (free_in_stock(parts), given_back(sender_service)) == (1, 0)
    in_flight += killed_in_turn(
        sender_service, command_runner, [CrashPoint(f"{GIVING_BACK}._record_returned", "after")]
    )
    assert (free_in_stock(parts), given_back(sender_service)) == (1, 2)
    work_until_settled(sender_service, command_runner)

    query = "select status, given_back_at is null, card_sealed is null from giftcards order by item_id"
    assert sender_service.rows(query) == [("void", False, True)] * 2 + [("issued", True, False)] * 2
    assert (opened(sender_service, another), free_in_stock(parts)) == (passed_on, 1)
    assert sender_service.value("select count(*) from giftcard_stock") == 3
    assert sender_service.rows(RETURNED) == [(VALUE,), (VALUE,)]
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)
    assert_all_events_arrived(sender_service, in_flight=in_flight)


@pytest.mark.long
def test_a_card_taken_back_by_dying_servers_is_void_once_and_reissued_once(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    [piece] = item_ids_of(sender_service.container, send_giftcards(sender_service.sender))
    work_to_the_end(sender_service, command_runner)
    path, order_request = f"/order-items/{piece}/invalidate-giftcard", {"reissue": True, "reason": "Lost"}
    for death in TAKEN_BACK_IN_VAIN:
        ask_the_dying(sender_service, command_runner, death, "PUT", f"/api/v2{path}", json=order_request)
        assert card_row(sender_service.container, piece).status == "issued"
        assert (sender_service.value("select count(*) from orders"), sender_service.rows(RETURNED)) == (1, [])
        assert_all_is_well(sender_service.container)
    ask_the_dying(sender_service, command_runner, TAKEN_BACK, "PUT", f"/api/v2{path}", json=order_request)
    another = card_row(sender_service.container, piece).reissued_as
    again = [sender_service.sender.put(path, order_request) for _ in range(2)]
    work_to_the_end(sender_service, command_runner)
    again.append(sender_service.sender.put(path, order_request))

    assert [(each.status_code, each.json()["reissued_as"]) for each in again] == [(200, another)] * 3
    assert sender_service.rows("select status, order_id = :another from giftcards order by 1", another=another) == [
        ("issued", True),
        ("void", False),
    ]
    assert sender_service.value("select count(*) from audit_log where act = 'giftcard.invalidated'") == 1
    assert sender_service.rows(RETURNED) == [(VALUE,)]
    [(first, returned), (second, gifts)] = sender_service.rows("select order_total, gift_total from orders order by id")
    assert (returned, gifts) == (0, VALUE)
    earned = first + second
    assert sender_service.books() == {"credit": -earned - VALUE, "held": 0, "earned": earned, "gifts": VALUE}
    assert list(sender_service.statuses().values()) == [ITEM_WAY] * 2
    assert_all_is_well(sender_service.container)
    assert_printed_as_issued(sender_service.container)
    assert_all_events_arrived(sender_service, in_flight=[])


# To whoever claims it


@pytest.mark.long
def test_a_card_whose_page_died_with_its_server_is_shown_again(
    sender_service: SenderService, command_runner: CommandRunner
) -> None:
    piece = mail_giftcard(sender_service.container, sender_service.sender)
    path, card = f"/gift/{read_claim(sender_service.container, piece)}/claim", opened(sender_service, piece)
    in_vain = CrashPoint("quillpost.orders.giftcards.service:claim_card", "after")
    ask_the_dying(sender_service, command_runner, in_vain, "POST", path)
    assert card_row(sender_service.container, piece).claimed_at is None
    claimed = []
    for death in (CrashPoint(f"{PAGES}:_card_page", "before"), CrashPoint(f"{PAGES}:_card_page", "after")):
        ask_the_dying(sender_service, command_runner, death, "POST", path)
        claimed.append(card_row(sender_service.container, piece).claimed_at)
    shown = sender_service.sender.http.post(path)
    claimed.append(card_row(sender_service.container, piece).claimed_at)

    assert shown.status_code == 200
    assert str(card.code) in shown.text
    assert f"<code>{card.pin}</code>" in shown.text
    assert None not in claimed
    assert len(set(claimed)) == 1
    too_late = sender_service.sender.put(f"/order-items/{piece}/invalidate-giftcard", {"reissue": True})
    assert too_late.status_code == 400
    assert (card_row(sender_service.container, piece).status, sender_service.rows(RETURNED)) == ("issued", [])
    assert_all_is_well(sender_service.container)


# Processes


def killed_in_turn(
    sender_service: SenderService, command_runner: CommandRunner, deaths: Sequence[CrashPoint]
) -> list[str]:
    """A worker for each; whatever each leaves, the books agree. The ids of events that may have been told."""
    in_flight: list[str] = []
    for death in deaths:
        killed = command_runner.start("work", settings=sender_service.settings, crash=death)
        assert killed.wait() == -signal.SIGKILL, f"{death} was never reached:\n{killed.output}"
        in_flight += sender_service.let_leases_end()
        with sender_service.container.db.system_transaction() as tx:
            tx.execute(LEASE_END)
            assert_books_agree(tx)
    return in_flight


def work_to_the_end(sender_service: SenderService, command_runner: CommandRunner) -> None:
    """Of all orders; and every void card is given back."""
    healthy = command_runner.start("work", settings=sender_service.settings)
    sender_service.wait_for_the_end()
    until(lambda: not awaited_back(sender_service), what="every void card given back")
    assert healthy.stop() == 0, healthy.output


def work_until_settled(sender_service: SenderService, command_runner: CommandRunner) -> None:
    """Live mail is with its printer, and all else is done."""
    healthy = command_runner.start("work", settings=sender_service.settings)
    until(lambda: sender_service.value(LIVE_IS_UNSETTLED) == 0, what="all mail handed over, and everyone told")
    assert healthy.stop() == 0, healthy.output


def ask_the_dying(
    sender_service: SenderService, command_runner: CommandRunner, death: CrashPoint, method: str, path: str, **how: Any
) -> None:
    """A server of its own dies of the call, and does not answer it."""
    port = free_port()
    words = ("serve", "--no-jobs", "--port", str(port))
    server = command_runner.start(*words, settings=sender_service.settings, crash=death)
    url, headers = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {sender_service.sender.token}"}
    until(lambda: answers(url, "/health") or server.has_ended(), what="the server alive")
    with pytest.raises(httpx2.TransportError):
        httpx2.request(method, url + path, headers=headers, timeout=PATIENCE, **how)
    assert server.wait() == -signal.SIGKILL, f"{death} was never reached:\n{server.output}"


# What is seen


def opened(sender_service: SenderService, item_id: int) -> CardSecret:
    """What only whoever claims the piece's card sees."""
    sealed = bytes(card_row(sender_service.container, item_id).card_sealed)
    return issuance.decrypt_card(sender_service.container.encryptor, issuance.card_context(item_id), sealed)


def given_back(sender_service: SenderService) -> int:
    return int(sender_service.value("select count(*) from giftcards where given_back_at is not null"))


def awaited_back(sender_service: SenderService) -> int:
    return int(sender_service.value("select count(*) from giftcards where status = 'void' and given_back_at is null"))
