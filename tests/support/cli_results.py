"""What a command leaves behind when it ends."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    def is_one_sentence(self, *words: str) -> bool:
        """Nothing but a single line with these words, ended by a full stop, and an exit code that says so."""
        is_line = self.code == 1 and not self.out and self.err.count("\n") == 1 and self.err.endswith(".\n")
        return is_line and all(each in self.err for each in words)


Quillpost = Callable[..., CommandResult]
