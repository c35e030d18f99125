"""Workers are killed at each step of a gift card's way to paper; what was issued is printed, and once."""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from crashing_worker import CrashPoint
from event_receiver import EventReceiver
from gift_press import (
    VALUE,
    assert_books_agree,
    assert_each_card_once,
    assert_printed_as_issued,
    print_file,
)
from office import Office, opened_office
from processes import Nursery
from verdict import ITEM_WAY, assert_everyone_was_told

from makers import people
from quillpost.fulfilment import store
from quillpost.fulfilment.drawing import PRINT_FILE, remade

PIECES = 2
AT_ONCE = {
    "QUILLPOST_TEST_REVIEW_SECONDS": "0",
    "QUILLPOST_TEST_JOURNEY_SECONDS": "1",
    "QUILLPOST_JOB_HEARTBEAT_SECONDS": "0.4",
    "QUILLPOST_JOB_STALL_SECONDS": "2",
}
FULFILMENT, ISSUING = "quillpost.fulfilment", "quillpost.giftcards.issuing"
ISSUER = "quillpost.adapters.giftcards.stock:SandboxCards"
PRINTER = "quillpost.adapters.printing.sandbox:SandboxPrinter"
FILES = "quillpost.adapters.files.objects:_FolderFiles"

STEPS = [
    # The cards are written down as asked for, and nothing is committed; then it is, and nobody was asked.
    CrashPoint(f"{ISSUING}:ask", "after"),
    CrashPoint(f"{ISSUER}.issue", "before"),
    # The issuer has issued them, and the answer is lost; it is kept, uncommitted; committed.
    CrashPoint(f"{ISSUER}.issue", "after"),
    CrashPoint(f"{ISSUING}:take", "after"),
    CrashPoint(f"{FULFILMENT}.gifts:_keep", "after"),
    # Drawn; in the file store, the sealed file alone, with another, and all; written down, uncommitted;
    # committed.
    CrashPoint(f"{FULFILMENT}.production:draw", "after"),
    CrashPoint(f"{FILES}.put_file", "after"),
    CrashPoint(f"{FILES}.put", "after"),
    CrashPoint(f"{FULFILMENT}.store:swap_batch", "before"),
    CrashPoint(f"{FULFILMENT}.store:keep_files", "after"),
    CrashPoint(f"{FULFILMENT}.production:compose", "after"),
    # The printer has it, and nobody knows; then it is known. Printed: the pieces' money is earned.
    CrashPoint(f"{PRINTER}.submit", "before"),
    CrashPoint(f"{PRINTER}.submit", "after"),
    CrashPoint(f"{FULFILMENT}.production:hand_over", "after"),
    CrashPoint("quillpost.orders.moves:Moves.run", "after"),
]
ALIKE = {
    CrashPoint(f"{ISSUING}:ask", "after"),
    CrashPoint(f"{ISSUING}:take", "after"),
    CrashPoint(f"{FULFILMENT}.production:draw", "after"),
    CrashPoint(f"{FILES}.put", "after"),
    CrashPoint(f"{FULFILMENT}.store:swap_batch", "before"),
    CrashPoint(f"{PRINTER}.submit", "before"),
}
"""Deaths that leave the same behind as a neighbour's, as what is not committed does: looked at in the long
run."""


# As when a worker was missed for long enough; and it is not the jobs' fault that so many died.
LET_GO = sa.text("update procrastinate_jobs set status = 'todo', attempts = 0 where status = 'doing'")


@pytest.fixture
def office(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[Office]:
    with opened_office(conninfo, home, receiver, **AT_ONCE) as office:
        yield office


def test_a_card_outlives_a_death_at_every_step(office: Office, nursery: Nursery) -> None:
    assert_issued_and_printed_once(office, nursery, [step for step in STEPS if step not in ALIKE])


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_card_outlives_a_death(step: CrashPoint, office: Office, nursery: Nursery) -> None:
    assert_issued_and_printed_once(office, nursery, [step])


def assert_issued_and_printed_once(office: Office, nursery: Nursery, deaths: Sequence[CrashPoint]) -> None:
    sent = office.sender.send("giftcard", recipients=people(PIECES))
    assert sent.status_code == 200, sent.text
    in_the_air: list[str] = []
    for death in deaths:
        killed = nursery.start("work", settings=office.settings, crash=death)
        assert killed.wait() == -signal.SIGKILL, f"{death} was never reached:\n{killed.output}"
        in_the_air += office.let_leases_end()
        with office.parts.db.work() as tx:
            tx.execute(LET_GO)
            assert_books_agree(tx)
    healthy = nursery.start("work", settings=office.settings)
    office.wait_for_the_end()
    assert healthy.stop() == 0, healthy.output

    assert list(office.statuses().values()) == [ITEM_WAY] * PIECES
    assert_everyone_was_told(office, in_the_air=in_the_air)
    assert office.rows("select status, count(*) from giftcards group by 1") == [("issued", PIECES)]
    with office.parts.db.work() as tx:
        assert_books_agree(tx)
        assert_each_card_once(tx, office.parts)
    assert_printed_as_issued(office.parts)
    _assert_paid_once(office)
    _assert_is_what_was_composed(office)


def _assert_paid_once(office: Office) -> None:
    [(pieces, gifts)] = office.rows("select order_total, gift_total from orders")
    assert gifts == PIECES * VALUE
    assert office.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", pieces + gifts),
        ("issue", gifts),
        ("capture", pieces),
    ]
    assert office.books() == {"credit": -pieces - gifts, "held": 0, "earned": pieces, "gifts": gifts}


def _assert_is_what_was_composed(office: Office) -> None:
    """One batch, whose file in the store is the one that its rows give, to the byte."""
    [(batch, item_count)] = office.rows("select id, item_count from batches")
    assert item_count == PIECES
    with office.parts.db.work() as tx:
        known = store.read_batch(tx, batch)
    assert remade(office.parts.press, known)[PRINT_FILE] == print_file(office.parts, batch)
