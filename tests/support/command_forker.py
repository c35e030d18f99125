"""A warm process that forks `quillpost` commands, so that starting one costs no imports.

It reads a request a line from its standard input and answers with a line, both JSON:
`{"start": [arguments], "environment": {...}, "output": path, "crash": {...} or null, "user": id or null}`
-> the process's id,
`{"wait": pid, "seconds": n}` -> its exit status (negative: the signal that ended it), or null: still alive.
When its input ends, so do the processes that are left.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from quillpost.app import bootstrap
from quillpost.cli import build_full_app, main
from quillpost.core.settings import Settings
from quillpost.recipients.addresses.cities import load_zip_codes
from quillpost.rendering.models import Addressee, Copy, Design
from support.processes import CrashPoint

BETWEEN_LOOKS = 0.02


def tend() -> None:
    alive: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if "start" in request:
            answer = _start(request)
            alive.add(answer)
        else:
            answer = _wait(request["wait"], request["seconds"])
            if answer is not None:
                alive.discard(request["wait"])
        print(json.dumps(answer), flush=True)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def warm_up() -> None:
    """Load every command and the ZIP codes, and preview a card: the default hand is prepared for all, and what is
    imported late is imported."""
    build_full_app()
    load_zip_codes()
    someone = Addressee(name="Jane Doe", city="Austin", province="TX", postal_code="78701")
    card = Design("postcard-4x6", "Hi!", ink=(0, 0, 0))
    copy = Copy(1, 0, someone, tracking="00310999999000000001")
    bootstrap.build_renderer(Settings()).preview(card, copy, dpi=10)


def _start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(request)
    return pid


def _become(request: dict[str, Any]) -> None:
    """From here on this process is `quillpost`, and ends as it does."""
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, stream)
    os.environ.update(request["environment"])
    if request["user"] is not None:
        os.setgroups([])
        os.setgid(request["user"])
        os.setuid(request["user"])
    if request["crash"] is not None:
        CrashPoint(**request["crash"]).install()
    sys.argv = ["quillpost", *request["start"]]
    status = 0
    try:
        main()
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(BETWEEN_LOOKS)


def run() -> None:
    warm_up()
    tend()
