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

from quillpost.cli.progress import DIRECT_OPENER
from quillpost.core.errors import NotReady

START_SECONDS = 120
STOP_SECONDS = 60
POLL_SECONDS = 0.2

# The operator's own database, bucket or keys are not for a demonstration.
INHERITED_PREFIXES = ("QUILLPOST_TEST_", "QUILLPOST_POSTGRES_BIN")


@dataclass(frozen=True, slots=True)
class DemoService:
    base_url: str
    token: str
    print_jobs: Path


@contextmanager
def run_demo_service(home: Path) -> Iterator[DemoService]:
    """A service of our own, ready for work, stopped at the end; what is in its home stays."""
    home.mkdir(parents=True, exist_ok=True)
    port = _find_free_port()
    log_file = home / "service.log"
    log_file.touch(mode=0o600)  # the welcome, with its token, is in it
    with log_file.open("w") as log:
        service = subprocess.Popen(
            [sys.executable, "-m", "quillpost", "serve", "--welcome", "--port", str(port)],
            env=_build_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches us, and we stop it
        )
    try:
        base_url = f"http://127.0.0.1:{port}"
        _wait_until_ready(service, f"{base_url}/ready", log_file)
        token = (home / "first-token").read_text().strip()
        yield DemoService(base_url, token, home / "files" / "print-jobs" / "test")
    finally:
        _stop_service(service)


def _build_environment(home: Path) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QUILLPOST_") or name.startswith(INHERITED_PREFIXES)
    }
    return inherited | {"QUILLPOST_HOME": str(home), "QUILLPOST_CALLS_A_MINUTE": "6000", "QUILLPOST_LOG_FORMAT": "json"}


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(service: subprocess.Popen[bytes], url: str, log_file: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.poll() is not None:
            log_lines = log_file.read_text().strip().splitlines()
            raise NotReady(f"The demonstration's service ended: {log_lines[-1] if log_lines else 'without a word'}")
        try:
            with DIRECT_OPENER.open(url, timeout=5):
                return
        except OSError:  # not listening yet, or not ready
            time.sleep(POLL_SECONDS)
    raise NotReady(f"The demonstration's service takes too long to start (see {log_file}).")


def _stop_service(service: subprocess.Popen[bytes]) -> None:
    service.send_signal(signal.SIGTERM)
    try:
        service.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()
