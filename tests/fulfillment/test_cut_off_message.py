"""The line about what waits for the cut-off."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from quillpost.cli.orders import format_waiting
from quillpost.fulfillment.batches.service import WaitingOrders

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")
AT_FOUR = NOW + timedelta(hours=8)


def test_the_cutoff_is_shown_in_its_own_zone() -> None:
    line = format_waiting([WaitingOrders(AT_FOUR, 18, 1_204)], "live", zone=NEW_YORK, now=NOW)
    assert line == "1,204 pieces of 18 orders wait until 16:00 (America/New_York)."


def test_what_waits_longer_is_summed_up() -> None:
    later = [WaitingOrders(AT_FOUR + timedelta(days=n), 1, 40) for n in (1, 2)]
    line = format_waiting([WaitingOrders(AT_FOUR, 1, 1), *later], "test", zone=UTC, now=NOW)
    assert line == "1 piece of 1 test order waits until 20:00 (UTC), 80 pieces of 2 test orders longer."


def test_a_time_that_is_not_within_a_day_has_its_date() -> None:
    line = format_waiting([WaitingOrders(NOW + timedelta(days=1), 2, 3)], "live", zone=NEW_YORK, now=NOW)
    assert line == "3 pieces of 2 orders wait until 2026-05-05 08:00 (America/New_York)."
