"""What must be true once an order of plain pieces has ended, whatever happened on its way."""

from collections import Counter
from collections.abc import Sequence

import pikepdf
from office import Office

ITEM_WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
ORDER_WAY = ["reviewing", "processing", "printing", "fulfilled"]


def assert_all_happened_once(
    office: Office, *, pieces: int, in_the_air: Sequence[str], deaths: int = 1
) -> None:
    """One order, one batch. `in_the_air`: the events that dead workers had taken and not recorded."""
    assert list(office.statuses().values()) == [ITEM_WAY] * pieces
    told = office.rows("select current from facts where item_id is null order by id")
    assert [status for (status,) in told] == ORDER_WAY
    _assert_printed_once(office, pieces)
    _assert_paid_once(office)
    _assert_told(office, pieces, in_the_air, deaths)
    assert office.value("select count(*) from procrastinate_jobs where status in ('failed', 'doing')") == 0


def _assert_printed_once(office: Office, pieces: int) -> None:
    assert office.rows("select status, item_count from batches") == [("mailed", pieces)]
    (job,) = (office.files / "print-jobs" / "test").iterdir()
    with pikepdf.open(job / "print.pdf") as printed:
        assert len(printed.pages) == 2 * pieces


def _assert_paid_once(office: Office) -> None:
    total = office.value("select order_total from orders")
    assert office.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", total),
        ("capture", total),
    ]
    assert office.books() == {"credit": -total, "held": 0, "earned": total}


def _assert_told(office: Office, pieces: int, in_the_air: Sequence[str], deaths: int) -> None:
    """Every event at least once; again only what may have been sent already."""
    times = Counter(event.id for event in office.received())
    assert set(times) == {event for (event,) in office.rows("select event_id::text from deliveries")}
    assert len(times) == len(ORDER_WAY) + pieces * (len(ITEM_WAY) + 1)
    assert {event for event, count in times.items() if count > 1} <= set(in_the_air)
    assert max(times.values()) <= 1 + deaths
