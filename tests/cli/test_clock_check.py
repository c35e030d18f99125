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
    ("off", "verdict", "which"),
    [
        (-10, "warning", "seconds behind the database's"),
        (10, "warning", "seconds ahead of the database's"),
        (-3_600, "broken", "seconds behind the database's"),
        (3_600, "broken", "seconds ahead of the database's"),
    ],
)
def test_a_clock_that_is_wrong_is_told_and_by_how_much(
    container: Container, off: int, verdict: str, which: str
) -> None:
    found = clock_finding(container, off=off)
    seconds, _, rest = found.message.partition(" ")
    assert (found.subject, found.status, rest) == ("clock", verdict, which)
    assert abs(int(seconds.replace(",", "")) - abs(off)) <= 5
    assert "NTP" in found.advice
