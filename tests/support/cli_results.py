"""What a command leaves behind when it ends."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    def is_one_sentence(self) -> bool:
        """Nothing but a single line, ended by a full stop, and an exit code that says so."""
        return self.code == 1 and not self.out and self.err.count("\n") == 1 and self.err.endswith(".\n")


Quillpost = Callable[..., CommandResult]
