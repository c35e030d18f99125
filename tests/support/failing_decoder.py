"""A decoder whose work goes wrong in every way that a real one's may: `python -m unruly FD`."""

import ctypes
import os
import signal
import socket
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

from quillpost.rendering.decoder.messages import MessageHead
from quillpost.rendering.decoder.tasks import DecoderTask
from quillpost.rendering.decoder.worker import main
from quillpost.rendering.images.rules import UnprintableArt


def echo(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    return {"notes": []}, data


def refuse(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    raise UnprintableArt("Not this one.")


def linger(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    """Work on until somebody else goes first."""
    while os.getpriority(os.PRIO_PROCESS, 0) == 0:
        pass
    return {"priority": os.getpriority(os.PRIO_PROCESS, 0)}, b""


def babble(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    """Talk nonsense on every socket there is."""
    for number in range(3, 100):
        try:
            os.write(number, b"\xff" * 100)
        except OSError:
            continue
    os._exit(0)


def look_around(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    """What can be done from here."""

    actions: dict[str, Callable[[], object]] = {
        "read": lambda: Path("/etc/hostname").read_bytes(),
        "write": lambda: Path("/tmp/unruly").write_bytes(b"x"),
        "connect": lambda: socket.socket(),
    }

    def can(action: str) -> bool:
        try:
            actions[action]()
        except OSError:
            return False
        return True

    return {action: can(action) for action in actions}, b""


def environment(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    return dict(os.environ), b""


def ending(act: Callable[[], object]) -> DecoderTask:
    """Work that does only that, and comes to no answer."""

    def work(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
        act()
        return {}, b""

    return work


ENDS: dict[str, Callable[[], object]] = {
    "fail": lambda: 1 // 0,
    "eat": lambda: bytes(2_000_000_000),
    "spin": lambda: all(True for _ in repeat(None)),
    "wait": signal.pause,
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: ctypes.string_at(0),
}
WORKS: dict[str, DecoderTask] = {
    **{work.__name__: work for work in (echo, refuse, linger, babble, look_around, environment)},
    **{name: ending(act) for name, act in ENDS.items()},
}

if __name__ == "__main__":
    main(WORKS)
