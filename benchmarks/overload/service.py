"""`quillpost serve` as an operator starts it, with its own database, and two accounts: one floods."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.overload.flood import send_of
from quillpost.accounts import service as account_service
from quillpost.accounts.queries import insert_token
from quillpost.app import bootstrap
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings

_FACES = Path(__file__).parents[2] / ".tools" / "faces"
_PATIENCE = 90.0
_DAYS = 7 * 24 * 3_600
ORDERS = 30
"""Of each account, so that there is something to read."""


@dataclass(frozen=True, slots=True)
class Service:
    port: int
    flooding: str
    good: str
    """Tokens of two accounts."""


@contextmanager
def running(workers: int) -> Iterator[Service]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home)
    server.start()
    try:
        upgrade_database(server.conninfo())
        tokens = _open_accounts(home, server.conninfo())
        with _served(home, server.conninfo(), workers) as port:
            for token, number in product(tokens, range(ORDERS)):
                _send(port, token, number)
            yield Service(port, *tokens)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _open_accounts(home: Path, conninfo: str) -> list[str]:
    container = bootstrap.build_container(Settings(home=home, faces_folder=_FACES), conninfo)
    tokens = []
    for name in ("flooding", "good"):
        with container.db.system_transaction() as tx:
            now = container.clock()
            number = account_service.create_account(tx, email=f"{name}@example.com", name=name, now=now)
            tokens.append(insert_token(tx, number, mode="test", name="bench", now=now)[1])
    container.db.close()
    return tokens


@contextmanager
def _served(home: Path, conninfo: str, workers: int) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {
        **os.environ,
        "QUILLPOST_HOME": str(home),
        "QUILLPOST_DATABASE_URL": conninfo,
        "QUILLPOST_FACES_FOLDER": str(_FACES),
        "QUILLPOST_CALLS_A_MINUTE": str(10**9),
        "QUILLPOST_TEST_REVIEW_SECONDS": str(_DAYS),  # composing them is another table's
    }
    with (home / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "quillpost", "serve", "--port", str(port), "--workers", str(workers)],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_ready(port, process)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _send(port: int, token: str, number: int) -> None:
    sending = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v2/send/postcard",
        data=json.dumps(send_of(number)).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(sending, timeout=_PATIENCE).close()


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("The service did not start.")
