"""Orders that something happens to, subscriptions to it, and a receiver in a process of its own."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.compose.recipients import recipient
from benchmarks.fulfil.office import Office
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.notifications.webhooks import service as webhook_service

ROOT = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")
_DELIVERED = """
    select w.url, d.event_id::text, d.body
      from deliveries d join webhooks w on w.id = d.webhook_id order by d.id
"""


def on_processor(pid: int) -> float:
    """Seconds of processor time, as the kernel accounts for it: all threads, and those that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


@contextmanager
def sink(office: Office) -> Iterator[str]:
    """Where it can be reached."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.events.sink", str(port)], cwd=ROOT)

    def answers() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    try:
        office.wait(answers, "the sink")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def send(office: Office, pieces: int, *, first: int = 0) -> int:
    """An order to so many people, from that one on, with its facts."""
    people = [
        {
            "name": one.name,
            "address": f"{number + 1} Main St",
            "city": one.city,
            "province": one.state,
            "postal_code": one.postal_code,
            "custom1": f"No. {number}",
        }
        for number, one in ((number, recipient(number)) for number in range(first, first + pieces))
    ]
    body = {
        "recipients": people,
        "message": "Hi %FIRST_NAME%!",
        "metadata": {"customer": "c-1001", "campaign": {"name": "Spring", "budget": 12.50}},
    }
    return int(office.call("POST", "/api/v2/send/postcard", body)["id"])


def subscribe(office: Office, urls: list[str], *, kind: str = "*") -> dict[str, str]:
    """A subscription for each URL; their secrets."""
    caller = Caller(account_id=office.account, mode="test")
    secrets = {}
    with office.parts.db.transaction(build_tenant(caller)) as tx:
        for url in urls:
            now = office.parts.clock()
            _, secrets[url] = webhook_service.create_webhook(
                tx, caller, office.parts.encryptor, url=url, type=kind, now=now
            )
    return secrets


def write_bodies(office: Office, secrets: dict[str, str], file: Path) -> None:
    """What was delivered, for whoever posts it without us."""
    found = office.admin.execute(_DELIVERED)
    with file.open("w") as lines:
        for url, event_id, body in found:
            lines.write(json.dumps([url, secrets[url], event_id, body]) + "\n")
