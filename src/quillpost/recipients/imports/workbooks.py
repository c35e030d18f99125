"""Workbooks (.xlsx): their first sheet becomes a CSV file, in a process of bounded means."""

import os
import subprocess
import sys
import tempfile
from typing import IO

from quillpost.core.clients import ClientGone, FairTurns, current_client
from quillpost.recipients.imports.sniffer import refused

ZIP = b"PK\x03\x04"
SECONDS = 75.0
AT_ONCE = 2
"""A sheet is held whole while it is read: about a megabyte for a thousand rows."""
FOR_ONE = 1
"""An account whose workbook takes long leaves a place to the others."""
PATIENCE_SECONDS = 10.0
BUSY = (
    "Another workbook is being read. Send this one again in a moment, or save the sheet as CSV and send that."
)
REFUSED = 3
"""How the process ends that says why."""
TOO_LARGE = "The workbook is damaged, or too large to be read: save the sheet as CSV and send that."
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")

turns = FairTurns(AT_ONCE, FOR_ONE, PATIENCE_SECONDS)


def is_workbook(file: IO[bytes]) -> bool:
    """Whether the file is one by its first bytes; `unfolded` refuses another zip archive."""
    file.seek(0)
    begins = file.read(len(ZIP))
    file.seek(0)
    return begins == ZIP


def unfolded(file: IO[bytes]) -> IO[bytes]:
    """The first sheet that holds anything, as CSV in UTF-8: a row for each of its rows, blank ones too."""
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    rows: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (whoever looks at it closes it)
    try:
        with turns.turn(BUSY):
            _unfold(file, rows)
    except BaseException:
        rows.close()
        raise
    return rows


def _unfold(file: IO[bytes], rows: IO[bytes]) -> None:
    reading = subprocess.Popen(
        [sys.executable, "-P", "-m", "quillpost.recipients.imports.workbook_reader"],
        stdin=file.fileno(),
        stdout=rows.fileno(),
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        cwd="/",
    )
    with reading:
        try:
            with current_client().when_gone(reading.kill):
                _, told = reading.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise refused(TOO_LARGE) from None
        finally:
            reading.kill()
    if current_client().is_gone:
        raise ClientGone
    if reading.returncode == REFUSED:
        raise refused(told.decode(errors="replace")[:300])
    if reading.returncode != 0:
        raise refused(TOO_LARGE)
