"""The carrier may see a piece before the printer has said that it is printed."""

from sqlalchemy import text

from quillpost.app.container import Container
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.fulfillment.tracking.service import ingest_scans
from support.factories import Account, Clock, run_jobs_for

WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
STATUSES = text("select current from facts where item_id is not null order by id")
MOVES = text("select kind from ledger_moves order by id")


def test_an_early_scan_counts_and_the_piece_is_paid_once(owner: Account, container: Container, clock: Clock) -> None:
    assert owner.send().status_code == 200
    run_jobs_for(container, clock, seconds=12)
    with container.db.system_transaction() as tx:
        tracking = tx.execute(text("select tracking from prints")).scalar_one()
        assert list(tx.execute(STATUSES).scalars()) == ["Processing"]
    ingest_scans(container.db, [Scan(tracking, "1", clock.now())], now=clock.now())
    with container.db.system_transaction() as tx:
        assert list(tx.execute(STATUSES).scalars()) == ["Processing", "Printed", "In Transit"]

    run_jobs_for(container, clock, seconds=40)
    with container.db.system_transaction() as tx:
        assert list(tx.execute(STATUSES).scalars()) == WAY
        assert list(tx.execute(MOVES).scalars()) == ["authorise", "capture"]
