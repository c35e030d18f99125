"""What the run of the tests itself does: in which order they are run, who reports their failures, when garbage is
looked for. What tests ask for is in `support/fixtures.py`."""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.assertion_rewriting import rewrite_a_share

KEPT = {"QUILLPOST_IMB_CASES", "QUILLPOST_TEST_MOTO"}
for name in [name for name in os.environ if name.startswith("QUILLPOST_") and name not in KEPT]:
    del os.environ[name]
# Hands are prepared once for all tests, and for the next run.
os.environ["QUILLPOST_FACES_FOLDER"] = str(Path(__file__).parents[1] / ".tools" / "faces")
# A test that needs a home has its own: that of this checkout is its developer's, and below a file is none.
os.environ["QUILLPOST_HOME"] = f"{__file__}/home"
BROWSER = Path(__file__).parent / "browser"
COSTLY = {BROWSER, Path(__file__).parent / "end_to_end"}


class AtOnce:
    """Shows each failure when it happens, so that a run that is cut short has told of it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\n{report.nodeid} failed:\n{report.longreprtext}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run modules, and the tests of each, in random order")


def pytest_configure(config: pytest.Config) -> None:
    if worker := getattr(config, "workerinput", None):
        rewrite_a_share(config, place=int(worker["workerid"].removeprefix("gw")), among=worker["workercount"])
    else:  # what fails in a worker is reported to its controller
        config.pluginmanager.register(AtOnce(config))
    # The controller of several workers runs no test itself, and they start only when it has imported what it needs.
    if worker or config.getoption("dist", "no") == "no" or config.option.collectonly:
        config.pluginmanager.import_plugin("support.fixtures")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What costs most comes last, walks with a browser before the rest of it. Of several processes the last begins
    with that: those tests mostly wait, and the others have the processor meanwhile."""
    if (seed := config.getoption("shuffle")) is not None:
        shuffle_tests(items, random.Random(seed))
    for item in items:
        if not COSTLY.isdisjoint(item.path.parents):
            item.add_marker("costly")
    items.sort(key=lambda item: (is_costly(item), BROWSER not in item.path.parents))
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    usual = len(items) - sum(map(is_costly, items))
    of_others = min(len(items) * (processes - 1) // processes, usual) if processes > 1 else usual
    items[of_others:] = items[usual:] + items[of_others:usual]


def shuffle_tests(items: list[pytest.Item], chance: random.Random) -> None:
    """The tests of a module stay together: they share what it makes."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    shuffled = chance.sample(list(modules.values()), len(modules))
    items[:] = [item for tests in shuffled for item in chance.sample(tests, len(tests))]


def is_costly(item: pytest.Item) -> bool:
    return item.get_closest_marker("costly") is not None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported meanwhile stays, and is not looked through for garbage; what tests make is little beside it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()
