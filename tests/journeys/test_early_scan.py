"""The carrier may see a piece before the printer has said that it is printed."""

from sqlalchemy import text

from makers import Account, Clock, carry_on
from quillpost.app.container import Parts
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.fulfillment.tracking.service import ingest

WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
TOLD = text("select current from facts where item_id is not null order by id")
MOVES = text("select kind from ledger_moves order by id")


def test_an_early_scan_counts_and_the_piece_is_paid_once(owner: Account, parts: Parts, clock: Clock) -> None:
    assert owner.send().status_code == 200
    carry_on(parts, clock, seconds=12)
    with parts.db.work() as tx:
        tracking = tx.execute(text("select tracking from prints")).scalar_one()
        assert list(tx.execute(TOLD).scalars()) == ["Processing"]
    ingest(parts.db, [Scan(tracking, "1", clock.now())], now=clock.now())
    with parts.db.work() as tx:
        assert list(tx.execute(TOLD).scalars()) == ["Processing", "Printed", "In Transit"]

    carry_on(parts, clock, seconds=40)
    with parts.db.work() as tx:
        assert list(tx.execute(TOLD).scalars()) == WAY
        assert list(tx.execute(MOVES).scalars()) == ["authorise", "capture"]
