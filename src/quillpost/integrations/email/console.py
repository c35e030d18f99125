"""Writes messages to standard output, for a service without a mail server."""

import sys
from contextlib import suppress
from typing import TextIO

from quillpost.notifications.ports import OutgoingMessage

WIDTH = 72


class ConsoleNotifier:
    def __init__(self, kind: str, setting: str, *, out: TextIO | None = None) -> None:
        self._kind = kind
        self._setting = setting
        self._out = out

    async def send(self, message: OutgoingMessage) -> None:
        head = f"{self._kind} that would be sent (set {self._setting} to send it) "
        lines = [head.ljust(WIDTH, "-"), f"To: {message.to}"]
        if self._kind == "E-mail":
            lines.append(f"Subject: {message.subject}")
        block = "\n".join([*lines, "", message.text.rstrip(), "-" * WIDTH, ""])
        out = self._out or sys.stdout
        with suppress(OSError, ValueError):  # nobody reads it any more, or it has no letters for it
            out.write(block)
            out.flush()

    async def close(self) -> None:
        """Nothing is held open."""
