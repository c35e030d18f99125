"""What must be true once an order of plain pieces has ended, whatever happened on its way."""

from collections import Counter
from collections.abc import Sequence

from support.final_state import assert_all_ended_once
from support.sender_office import SenderService

ITEM_WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
UNREPORTED = "select count(*) from facts f where not exists (select 1 from deliveries d where d.fact_id = f.id)"
ORDER_WAY = ["reviewing", "processing", "printing", "mailed", "fulfilled"]


def assert_all_happened_once(
    sender_service: SenderService, *, pieces: int, in_flight: Sequence[str], deaths: int = 1
) -> None:
    """One order, one batch. `in_flight`: the events that dead workers had taken and not recorded."""
    assert list(sender_service.statuses().values()) == [ITEM_WAY] * pieces
    statuses = sender_service.rows("select current from facts where item_id is null order by id")
    assert [status for (status,) in statuses] == ORDER_WAY
    assert sender_service.rows("select status, item_count from batches") == [("mailed", pieces)]
    assert_all_ended_once(sender_service)
    _assert_paid_once(sender_service)
    _assert_notified(sender_service, pieces, in_flight, deaths)
    assert sender_service.value("select count(*) from procrastinate_jobs where status in ('failed', 'doing')") == 0


def _assert_paid_once(sender_service: SenderService) -> None:
    total = sender_service.value("select order_total from orders")
    assert sender_service.rows("select kind, cents from ledger_moves order by id") == [
        ("authorise", total),
        ("capture", total),
    ]
    assert sender_service.books() == {"credit": -total, "held": 0, "earned": total}


def _assert_notified(sender_service: SenderService, pieces: int, in_flight: Sequence[str], deaths: int) -> None:
    times = assert_all_events_arrived(sender_service, in_flight=in_flight)
    assert len(times) == len(ORDER_WAY) + pieces * (len(ITEM_WAY) + 1)
    assert max(times.values()) <= 1 + deaths


def assert_all_events_arrived(sender_service: SenderService, *, in_flight: Sequence[str]) -> Counter[str]:
    """Every event at least once; again only what may have been sent already, with its id and words."""
    assert sender_service.value(UNREPORTED) == 0
    times = Counter(event.id for event in sender_service.received())
    assert set(times) == {event for (event,) in sender_service.rows("select event_id::text from deliveries")}
    assert {event for event, count in times.items() if count > 1} <= set(in_flight)
    assert len({(event.id, event.body) for event in sender_service.received()}) == len(times)
    return times
