"""What the doctor says of a clock that is wrong."""

from datetime import UTC, datetime, timedelta

import pytest

from quillpost.app.container import Container
from quillpost.cli.doctor.installation import DoctorFinding
from quillpost.cli.doctor.operations import check_clock


def clock_finding(container: Container, *, off: float) -> DoctorFinding:
    with container.db.system_transaction() as tx:
        return check_clock(tx, now=datetime.now(UTC) + timedelta(seconds=off))


def test_a_clock_that_agrees_is_well(container: Container) -> None:
    assert clock_finding(container, off=0) == DoctorFinding("clock", "ok", "it agrees with the database's")


@pytest.mark.parametrize(
    ("off", "status", "which"),
    [
        (-10, "warning", "seconds behind the database's"),
        (10, "warning", "seconds ahead of the database's"),
        (-3_600, "broken", "seconds behind the database's"),
        (3_600, "broken", "seconds ahead of the database's"),
    ],
)
def test_a_wrong_clock_is_reported_with_its_offset(container: Container, off: int, status: str, which: str) -> None:
    found = clock_finding(container, off=off)
    seconds, _, rest = found.message.partition(" ")
    assert (found.subject, found.status, rest) == ("clock", status, which)
    assert abs(int(seconds.replace(",", "")) - abs(off)) <= 5
    assert "NTP" in found.advice
