"""What a carrier's scan means."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from quillpost.fulfillment.tracking.rules import OPERATION_PHASES, PHASES, Scan, choose_reason, parse_phase, scan_digest
from quillpost.orders.rules import ItemStatus

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def scan(phase: str = "1", *, tracking: str = "0" * 20, at: datetime = NOON, raw: str = "{}") -> Scan:
    return Scan(tracking, phase, at, raw)


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("0", ItemStatus.IN_TRANSIT),
        ("1", ItemStatus.IN_TRANSIT),
        ("1a", ItemStatus.IN_TRANSIT),
        ("Phase 1b - Origin Secondary Processing", ItemStatus.IN_TRANSIT),
        ("2", ItemStatus.IN_LOCAL_AREA),
        ("2c", ItemStatus.IN_LOCAL_AREA),
        ("3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("3C", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("Phase 3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("PHASE 3c- Destination Sequenced Carrier Sortation", ItemStatus.PROCESSED_FOR_DELIVERY),
        (" phase 4c ", ItemStatus.DELIVERED),
        ("PARS", ItemStatus.RE_ROUTED),
        ("FPARS Processing", ItemStatus.RE_ROUTED),
        ("returned", ItemStatus.RETURNED_TO_SENDER),
        ("destroyed", ItemStatus.FAILED),
        ("Miscellaneous", None),
        ("Foreign Processing", None),
        ("", None),
        ("5", None),
        ("1d", None),
        ("11", None),
        ("phase", None),
    ],
)
def test_a_phase_is_evidence_of_a_status(phase: str, status: ItemStatus | None) -> None:
    assert PHASES.get(parse_phase(phase)) is status


@pytest.mark.parametrize(
    ("phase", "operation", "words", "found"),
    [
        ("PARS Processing", "", "Return to Sender", "returned"),
        ("PARS", "", "RTS", "returned"),
        ("FPARS", "", "Destroyed as dead mail", "destroyed"),
        ("Miscellaneous", "", "Returned to the mailer", "returned"),
        ("Miscellaneous", "", "Treated as waste", "destroyed"),
        ("Phase 2 - Destination Processing", "", "Return to sender", "2"),  # a number speaks for itself
        ("", "896", "", "3a"),
        ("", "919", "", "3c"),
        ("", "893", "Destroyed", "destroyed"),
        ("Phase 1", "896", "", "1"),
        ("", "777", "", "operation 777"),
        ("", "", "Forwarded", "pars"),
        ("", "", "Logical Delivery Event", "4c"),
        ("", "", "Delivery Confirmation Label", "unknown"),
        ("Miscellaneous", "896", "", "miscellaneous"),
    ],
)
def test_what_else_a_row_says_counts_where_the_phase_is_no_number(
    phase: str, operation: str, words: str, found: str
) -> None:
    assert parse_phase(phase, operation, words) == found


def test_every_operation_belongs_to_a_phase_that_we_know() -> None:
    assert set(OPERATION_PHASES.values()) <= PHASES.keys()
    assert all(len(operation) == 3 and operation.isdigit() for operation in OPERATION_PHASES)


def test_the_same_sighting_has_one_digest_wherever_its_clock_stands() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-5)))
    assert scan_digest(scan(at=there, raw='{"facility": "Austin"}')) == scan_digest(scan(at=NOON))


def test_another_piece_phase_or_second_is_another_sighting() -> None:
    sightings = [scan(), scan("2"), scan(tracking="1" * 20), scan(at=NOON + timedelta(seconds=1))]
    assert len({scan_digest(sighting) for sighting in sightings}) == len(sightings)


def test_the_carrier_s_own_reason_comes_first() -> None:
    assert choose_reason("returned", "Vacant") == "Vacant"
    assert choose_reason("returned", None) == "Returned by the postal service"
    assert choose_reason("destroyed", "") == "Lost in the mail"
    assert choose_reason("pars", "Moved") == "Moved"
    assert choose_reason("1", "Sorted") is None
    assert choose_reason("99z", "Sorted") is None
