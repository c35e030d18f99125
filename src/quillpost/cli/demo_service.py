"""The demonstration's own service: a process and a home that belong to nobody else."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quillpost.cli.progress import DIRECT
from quillpost.core.errors import NotReady

START_SECONDS = 120
STOP_SECONDS = 60
BETWEEN_LOOKS = 0.2

# The operator's own database, bucket or keys are not for a demonstration.
TAKEN_OVER = ("QUILLPOST_TEST_", "QUILLPOST_POSTGRES_BIN")


@dataclass(frozen=True, slots=True)
class DemoService:
    base_url: str
    token: str
    print_jobs: Path


@contextmanager
def demo_service(home: Path) -> Iterator[DemoService]:
    """A service of our own, ready for work, stopped at the end; what is in its home stays."""
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log_file = home / "service.log"
    log_file.touch(mode=0o600)  # the welcome, with its token, is in it
    with log_file.open("w") as log:
        service = subprocess.Popen(
            [sys.executable, "-m", "quillpost", "serve", "--welcome", "--port", str(port)],
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches us, and we stop it
        )
    try:
        base_url = f"http://127.0.0.1:{port}"
        _await_ready(service, f"{base_url}/ready", log_file)
        token = (home / "first-token").read_text().strip()
        yield DemoService(base_url, token, home / "files" / "print-jobs" / "test")
    finally:
        _stop(service)


def _environment(home: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QUILLPOST_") or name.startswith(TAKEN_OVER)
    }
    return kept | {
        "QUILLPOST_HOME": str(home),
        "QUILLPOST_CALLS_A_MINUTE": "6000",
        "QUILLPOST_LOG_FORMAT": "json",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_ready(service: subprocess.Popen[bytes], url: str, log_file: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.poll() is not None:
            said = log_file.read_text().strip().splitlines()
            raise NotReady(f"The demonstration's service ended: {said[-1] if said else 'without a word'}")
        try:
            with DIRECT.open(url, timeout=5):
                return
        except OSError:  # not listening yet, or not ready
            time.sleep(BETWEEN_LOOKS)
    raise NotReady(f"The demonstration's service takes too long to start (see {log_file}).")


def _stop(service: subprocess.Popen[bytes]) -> None:
    service.send_signal(signal.SIGTERM)
    try:
        service.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()
