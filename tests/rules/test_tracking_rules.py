"""What a carrier's scan means."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from quillpost.orders.rules import ItemStatus
from quillpost.ports import CarrierScan
from quillpost.tracking.rules import digest, reason_of, status_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def scan(phase: str = "1", *, tracking: str = "0" * 20, at: datetime = NOON, **raw: object) -> CarrierScan:
    return CarrierScan(tracking, phase, at, raw)


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("0", ItemStatus.IN_TRANSIT),
        ("1", ItemStatus.IN_TRANSIT),
        ("1a", ItemStatus.IN_TRANSIT),
        ("2", ItemStatus.IN_LOCAL_AREA),
        ("2c", ItemStatus.IN_LOCAL_AREA),
        ("3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("3C", ItemStatus.PROCESSED_FOR_DELIVERY),
        ("Phase 3a", ItemStatus.PROCESSED_FOR_DELIVERY),
        (" phase 4c ", ItemStatus.DELIVERED),
        ("PARS", ItemStatus.RE_ROUTED),
        ("returned", ItemStatus.RETURNED_TO_SENDER),
        ("destroyed", ItemStatus.FAILED),
        ("", None),
        ("5", None),
        ("phase", None),
    ],
)
def test_a_phase_is_evidence_of_a_status(phase: str, status: ItemStatus | None) -> None:
    assert status_of(scan(phase)) is status


def test_the_same_sighting_has_one_digest_wherever_its_clock_stands() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-5)))
    assert digest(scan(at=there, facility="Austin")) == digest(scan(at=NOON))


def test_another_piece_phase_or_second_is_another_sighting() -> None:
    sightings = [
        scan(),
        scan("2"),
        scan(tracking="1" * 20),
        scan(at=NOON + timedelta(seconds=1)),
    ]
    assert len({digest(sighting) for sighting in sightings}) == len(sightings)


def test_the_carrier_s_own_reason_comes_first() -> None:
    assert reason_of(ItemStatus.RETURNED_TO_SENDER, scan(reason="Vacant")) == "Vacant"
    assert reason_of(ItemStatus.RETURNED_TO_SENDER, scan()) == "Returned by the postal service"
    assert reason_of(ItemStatus.FAILED, scan(reason="")) == "Lost in the mail"
    assert reason_of(ItemStatus.IN_TRANSIT, scan()) is None
