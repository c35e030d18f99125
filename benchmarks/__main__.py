"""`python -m benchmarks [NAME]`: run one table, or all."""

import sys

from benchmarks import authenticate
from benchmarks.harness import report, run

TABLES = {"authenticate": authenticate.prepare}


def main(only: str | None) -> int:
    if only is not None and only not in TABLES:
        print(f"There is no benchmark {only}. Known: {', '.join(TABLES)}.")
        return 1
    for name, prepare in TABLES.items():
        if only in (None, name):
            contest, server = prepare()
            try:
                report(run(contest))
            finally:
                server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(next(iter(sys.argv[1:]), None)))
