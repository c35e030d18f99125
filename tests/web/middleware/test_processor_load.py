"""When there is more to compute than a process or its machine can."""

from dataclasses import dataclass

import pytest

from quillpost.web.middleware.admission import HIGH_LOAD_SECONDS, MEASURE_SECONDS, ProcessorLoad, read_machine_ticks


@dataclass
class Machine:
    """Two processors, as somebody else would count them."""

    now: float = 100.0
    spent: float = 5.0
    ticks: tuple[int, int] = (1_000, 500)

    def load(self) -> ProcessorLoad:
        return ProcessorLoad(lambda: self.now, lambda: self.spent, lambda: self.ticks)

    def go_on(self, seconds: float, *, spent: float, idle: float) -> None:
        self.now += seconds
        self.spent += spent
        self.ticks = self.ticks[0] + round(200 * seconds), self.ticks[1] + round(200 * seconds * idle)


@pytest.mark.parametrize(
    ("spent", "idle", "is_high"),
    [
        (0.9, 0.5, True),  # the process computes all the time
        (0.3, 0.05, True),  # others take what it would need
        (0.3, 0.5, False),
        (0.0, 1.0, False),
    ],
)
def test_the_process_or_the_machine_is_fully_used(spent: float, idle: float, is_high: bool) -> None:
    machine = Machine()
    load = machine.load()
    assert not load.is_high
    machine.go_on(1, spent=spent, idle=idle)
    assert load.is_high == is_high


def test_it_is_looked_at_now_and_then_and_lasts_for_a_while() -> None:
    machine = Machine()
    load, seen = machine.load(), []
    for seconds, is_busy in (
        (MEASURE_SECONDS / 2, True),
        (MEASURE_SECONDS / 2, True),
        (HIGH_LOAD_SECONDS / 2, False),
        (HIGH_LOAD_SECONDS, False),
    ):
        machine.go_on(seconds, spent=seconds * is_busy, idle=not is_busy)
        seen.append(load.is_high)
    assert seen == [False, True, True, False]


def test_where_nobody_counts_the_machines_ticks_the_process_is_what_counts() -> None:
    machine = Machine()
    load = ProcessorLoad(lambda: machine.now, lambda: machine.spent, lambda: (0, 0))
    machine.go_on(1, spent=0.1, idle=0)
    assert not load.is_high
    total, idle = read_machine_ticks()
    assert 0 <= idle <= total
