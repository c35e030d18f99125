"""Our core alone on a longer and longer job, in files of the size that we cut: is it flat?

`python -m benchmarks.compose.growth FOLDER PIECES`, one process a size, prints one line of JSON.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.compose.contender import peak_bytes_here
from benchmarks.compose.ours import PIECES_A_FILE, Core

SIZES = (5_000, 20_000, 100_000)


def main(folder: Path, count: int) -> None:
    core, out = Core(folder), folder / "growth.pdf"
    core.batch(core.copies(0, 2))
    seconds, written = 0.0, 0
    for first in range(0, count, PIECES_A_FILE):
        copies = core.copies(first, min(PIECES_A_FILE, count - first))
        started = time.process_time()
        out.write_bytes(core.batch(copies))
        seconds += time.process_time() - started
        written += out.stat().st_size
    answer = {
        "pieces": count,
        "microseconds a piece": seconds / count * 1e6,
        "file bytes a piece": written / count,
        "peak bytes": peak_bytes_here(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
