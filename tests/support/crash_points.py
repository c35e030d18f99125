"""A point in the program at which a process kills itself, as a power cut would, or at which it stays."""

import importlib
import inspect
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any, Literal

HOUR = 3_600


@dataclass(frozen=True)
class CrashPoint:
    """Right before, or right after, the n-th call of a function, named `package.module:Class.function`; or
    that call takes an hour (`during`).

    The name is that of the place where it is looked up: a function that another module imported by name
    is that module's.
    """

    function: str
    moment: Literal["before", "after", "during"]
    call: int = 1

    def __str__(self) -> str:
        short = self.function.removeprefix("quillpost.").replace(":", ".")
        return f"{self.moment} call {self.call} of {short}"

    def install(self) -> None:
        """Arm this process; it dies when it gets there."""
        module, _, path = self.function.partition(":")
        *holders, name = path.split(".")
        place: Any = importlib.import_module(module)
        for holder in holders:
            place = getattr(place, holder)
        setattr(place, name, self._armed(getattr(place, name)))

    def _armed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        numbers = count(1)
        if inspect.iscoroutinefunction(original):

            @wraps(original)
            async def crash_async(*args: Any, **options: Any) -> Any:
                fatal = next(numbers) == self.call
                _die_if(fatal and self.moment == "before")
                result = await original(*args, **options)
                _die_if(fatal)
                return result

            return crash_async

        @wraps(original)
        def crash(*args: Any, **options: Any) -> Any:
            fatal = next(numbers) == self.call
            if fatal and self.moment == "during":
                time.sleep(HOUR)
            _die_if(fatal and self.moment == "before")
            result = original(*args, **options)
            _die_if(fatal)
            return result

        return crash


def _die_if(fatal: bool) -> None:
    if fatal:
        os.kill(os.getpid(), signal.SIGKILL)
