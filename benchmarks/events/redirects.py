"""Scans answered by the real server, each a row before it is, against a bare redirect: by processor time.

What is measured is the server's process with all its threads, not PostgreSQL's. A code is either scanned for
the first time, and has to be looked up, or again within the minute.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.events.scenario import ROOT, on_processor
from benchmarks.fulfil.office import Office

CONNECTIONS = 64
_URL = "https://shop.example.com/hi?n=~FIRST_NAME~&no=~CUSTOM1~"
_NEW_CODES = "update items set code = new_short_code() where order_id = %s"
_CODES = "select string_agg(code, ' ') from items where order_id = %s"
_KEPT = "select count(*) from visit_inbox where kind = 'person'"


def compared(office: Office, *, pieces: int = 4_000, rounds: int = 5) -> dict[str, Any]:
    """Both in turns; how many times a bare redirect's processor time ours takes."""
    spent: dict[str, list[float]] = {"first scans": [], "scans again": [], "bare": []}
    file = office.home / "codes.txt"
    with office.serving() as ours, _bare(office) as (bare, bare_port):
        order_id = _send(office, pieces)
        port = int(office.url.rpartition(":")[2])
        for number in range(rounds + 1):
            office.admin.execute(_NEW_CODES, (order_id,))
            file.write_text(office.one(_CODES, order_id))
            office.admin.execute("vacuum analyze items")
            office.admin.execute("truncate visit_inbox")
            office.admin.execute("checkpoint")
            taken = {
                "first scans": _spent(ours, port, file),
                "bare": _spent(bare, bare_port, file),
                "scans again": _spent(ours, port, file),
            }
            if (kept := office.one(_KEPT)) != 2 * pieces:
                raise RuntimeError(f"{2 * pieces} scans were answered and {kept} stored.")
            if number:  # the first round is for nothing: everyone is warm then
                for name, seconds in taken.items():
                    spent[name].append(seconds / pieces)
    typical = {name: median(found) for name, found in spent.items()}
    return {
        "connections": CONNECTIONS,
        "scans a round": 2 * pieces,
        "rounds": rounds,
        "microseconds": {name: round(seconds * 1e6, 1) for name, seconds in typical.items()},
        "times a bare redirect": {
            name: round(typical[name] / typical["bare"], 2) for name in ("first scans", "scans again")
        },
    }


def _send(office: Office, pieces: int) -> int:
    people = [
        {
            "name": f"Jane {number} Doe",
            "address": f"{number + 1} Main St",
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701",
            "custom1": str(number),
        }
        for number in range(pieces)
    ]
    body = {"recipients": people, "message": "Hi %FIRST_NAME%!", "qrcode_url": _URL}
    return int(office.call("POST", "/api/v2/send/postcard", body)["id"])


def _spent(process: int, port: int, file: Path) -> float:
    """Seconds of processor time that the process takes for a scan of each code of the file."""
    before = on_processor(process)
    phones = [sys.executable, "-m", "benchmarks.events.phones", str(port), str(CONNECTIONS), str(file)]
    subprocess.run(phones, cwd=ROOT, check=True)
    return on_processor(process) - before


@contextmanager
def _bare(office: Office) -> Iterator[tuple[int, int]]:
    """The process, and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = [sys.executable, "-m", "benchmarks.events.bare_redirect", str(port)]
    process = subprocess.Popen(words, cwd=ROOT)

    def answers() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    try:
        office.wait(answers, "the bare server")
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()
