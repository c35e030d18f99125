"""A decoder whose work goes wrong in every way that a real one's may: `python -m unruly FD`."""

import ctypes
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from quillpost.rendering.decoder.messages import MessageHead
from quillpost.rendering.decoder.tasks import DecoderTask
from quillpost.rendering.decoder.worker import main
from quillpost.rendering.images.rules import UnprintableArt


def echo(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    return {"notes": []}, data


def refuse(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    raise UnprintableArt("Not this one.")


def fail(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    raise ZeroDivisionError


def eat(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    return {}, bytes(2_000_000_000)[:1]


def spin(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    while True:
        pass


def linger(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    """Work on until somebody else goes first."""
    while os.getpriority(os.PRIO_PROCESS, 0) == 0:
        pass
    return {"priority": os.getpriority(os.PRIO_PROCESS, 0)}, b""


def wait(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    signal.pause()
    return {}, b""


def die(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}, b""


def crash(data: bytes, how: MessageHead) -> tuple[MessageHead, bytes]:
    return {}, ctypes.string_at(0)


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


WORKS: dict[str, DecoderTask] = {
    work.__name__: work
    for work in (echo, refuse, fail, eat, spin, linger, wait, die, crash, babble, look_around, environment)
}

if __name__ == "__main__":
    main(WORKS)
