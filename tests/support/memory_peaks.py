"""What a call takes of this process, which is the server here, and what it leaves running."""

import os
import select
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from quillpost.rendering.decoder.service import DECODER_POOL
from quillpost.rendering.decoder.worker import IDLE_CHILDREN_COUNT

_SELF = Path("/proc/self")
A_MOMENT = 20.0


@dataclass
class MemoryPeak:
    """Bytes that this process took more than before, at most."""

    grown: int = 0


@contextmanager
def measure_peak() -> Iterator[MemoryPeak]:
    """The most memory that was held at any moment within the block."""
    (_SELF / "clear_refs").write_text("5")  # the peak begins anew, from what is held now
    before, seen = _held("VmHWM"), MemoryPeak()
    yield seen
    seen.grown = _held("VmHWM") - before


def wait_for_children() -> bool:
    """Whether the decoder has no child but those that wait for work; one that was just ended may take a
    moment."""
    while len(alive := _children()) > IDLE_CHILDREN_COUNT:
        if not _one_ends(alive):
            return False
    return True


def _children() -> list[int]:
    """Those that are not dead and only wait to be buried."""
    decoder = DECODER_POOL.pid
    listed = Path(f"/proc/{decoder}/task/{decoder}/children").read_text().split() if decoder else []
    return [int(child) for child in listed if _state(child) != "Z"]


def _state(process: str) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def _one_ends(processes: list[int]) -> bool:
    with ExitStack() as opened:
        handles = []
        for process in processes:
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(process))
                opened.callback(os.close, handles[-1])
        return len(handles) < len(processes) or bool(select.select(handles, [], [], A_MOMENT)[0])


def _held(what: str) -> int:
    lines = (_SELF / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))
