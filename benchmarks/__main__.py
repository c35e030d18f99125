"""`python -m benchmarks [NAME]`: run one table, or all."""

import sys

from benchmarks import admission, authenticate, paging
from benchmarks.audience import contest as audience
from benchmarks.audience import table as audience_table
from benchmarks.compose import claims, contest, table
from benchmarks.events import contest as events
from benchmarks.events import table as events_table
from benchmarks.fulfil import contest as fulfilments
from benchmarks.fulfil import table as fulfilments_table
from benchmarks.harness import report, run, save
from benchmarks.pages import contest as pages
from benchmarks.send import contest as sends
from benchmarks.send import table as sends_table


def _authenticate() -> None:
    race, server = authenticate.prepare()
    try:
        report(run(race))
    finally:
        server.stop()
    result = admission.run()
    save(result)
    admission.show(result)


def _compose() -> None:
    result = contest.run()
    result["claims"] = claims.judge(result)
    save(result)
    table.show(result)


def _send() -> None:
    result = sends.run()
    save(result)
    sends_table.show(result)


def _fulfil() -> None:
    result = fulfilments.run()
    save(result)
    fulfilments_table.show(result)


def _events() -> None:
    result = events.run()
    save(result)
    events_table.show(result)


def _audience() -> None:
    result = audience.run()
    save(result)
    audience_table.show(result)


def _paging() -> None:
    paging.show(paging.run())


def _pages() -> None:
    pages.show(pages.run())


TABLES = {
    "authenticate": _authenticate,
    "compose": _compose,
    "send": _send,
    "paging": _paging,
    "fulfil": _fulfil,
    "events": _events,
    "audience": _audience,
    "pages": _pages,
}


def main(only: str | None) -> int:
    if only is not None and only not in TABLES:
        print(f"There is no benchmark {only}. Known: {', '.join(TABLES)}.")
        return 1
    for name, measure in TABLES.items():
        if only in (None, name):
            measure()
    return 0


if __name__ == "__main__":
    sys.exit(main(next(iter(sys.argv[1:]), None)))
