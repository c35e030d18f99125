"""`python -m benchmarks [NAME]`: run one table, or all."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import admission, authenticate, paging
from benchmarks.audience import contest as audience
from benchmarks.audience import table as audience_table
from benchmarks.compose import claims, contest, table
from benchmarks.events import contest as events
from benchmarks.events import table as events_table
from benchmarks.fulfil import contest as fulfilments
from benchmarks.fulfil import table as fulfilments_table
from benchmarks.harness import absent_peers, report, run, save
from benchmarks.hostile import contest as hostile
from benchmarks.hostile import table as hostile_table
from benchmarks.overload import contest as overload
from benchmarks.pages import contest as pages
from benchmarks.send import contest as sends
from benchmarks.send import table as sends_table

Result = Mapping[str, Any]


def _authenticate() -> Result:
    race, server = authenticate.prepare()
    try:
        measured = run(race)
        report(measured)
    finally:
        server.stop()
    admitted = admission.run()
    save(admitted)
    admission.show(admitted)
    return {"authenticate": measured, "admission": admitted}


def _compose() -> Result:
    result = contest.run()
    result["claims"] = claims.assess(result)
    save(result)
    table.show(result)
    return result


def _send() -> Result:
    result = sends.run()
    save(result)
    sends_table.show(result)
    return result


def _fulfil() -> Result:
    result = fulfilments.run()
    save(result)
    fulfilments_table.show(result)
    return result


def _events() -> Result:
    result = events.run()
    save(result)
    events_table.show(result)
    return result


def _audience() -> Result:
    result = audience.run()
    save(result)
    audience_table.show(result)
    return result


def _hostile() -> Result:
    result = hostile.run()
    save(result)
    hostile_table.show(result)
    return result


def _paging() -> Result:
    result = paging.run()
    paging.show(result)
    return result


def _pages() -> Result:
    result = pages.run()
    pages.show(result)
    return result


def _overload() -> Result:
    result = overload.run()
    save(result)
    overload.show(result)
    return result


TABLES: dict[str, Callable[[], Result]] = {
    "authenticate": _authenticate,
    "compose": _compose,
    "send": _send,
    "paging": _paging,
    "fulfil": _fulfil,
    "events": _events,
    "audience": _audience,
    "pages": _pages,
    "hostile": _hostile,
    "overload": _overload,
}


def main(only: str | None) -> int:
    """0 where every contender ran: a table without one of its peers shows nothing of us."""
    if only is not None and only not in TABLES:
        print(f"There is no benchmark {only}. Known: {', '.join(TABLES)}.")
        return 1
    absent = [
        f"{name}: {peer}"
        for name, measure in TABLES.items()
        if only in (None, name)
        for peer in absent_peers(measure())
    ]
    if absent:
        print("Not measured, because these peers are missing on this machine. Install them and run it again:")
        for peer in absent:
            print(f"  {peer}")
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main(next(iter(sys.argv[1:]), None)))
