"""One contender, once, in a process of its own, so that its time and its memory are its own.

`python -m benchmarks.compose.heat MODULE FOLDER PIECES` prints one line of JSON. The cost of a piece is the
difference between a large and a small file, so that fonts, the photo and whatever else a library does once
weighs on nobody. A library that is not there is said to be absent.
"""

import importlib
import json
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.compose import sheet
from benchmarks.compose.contender import Absent, Contender

_WARM_UP = 2


def measure(contender: Contender, count: int, out: Path) -> dict[str, float]:
    few = max(_WARM_UP, count // 10)
    contender.compose(_WARM_UP, out)
    started = contender.cpu_seconds()
    contender.compose(few, out)
    between, small = contender.cpu_seconds(), out.stat().st_size
    contender.compose(count, out)
    ended, large = contender.cpu_seconds(), out.stat().st_size
    seconds = ((ended - between) - (between - started)) / (count - few)
    return {
        "pieces": count,
        "pieces a second": 1 / seconds,
        "bytes a piece": (large - small) / (count - few),
        "file bytes a piece": large / count,
        "peak bytes": contender.peak_bytes(),
    }


def main(module: str, folder: Path, count: int) -> None:
    try:
        contender: Contender = importlib.import_module(module).start(sheet.load(folder, count))
    # Libraries in C that a package looks for when it is imported are an OSError.
    except (ImportError, OSError, Absent) as missing:
        print(json.dumps({"absent": str(missing).strip().partition("\n")[0]}))
        return
    with closing(contender):
        print(json.dumps(measure(contender, count, folder / f"{module}.pdf")))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
