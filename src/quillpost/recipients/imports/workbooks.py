"""Workbooks (.xlsx): their first sheet becomes a CSV file, in a process with limited memory and time."""

import os
import subprocess
import sys
import tempfile
from typing import IO

from quillpost.core.requests import ClientDisconnected, FairQueue, current_client
from quillpost.recipients.imports.sniffer import build_file_error

ZIP_SIGNATURE = b"PK\x03\x04"
TIMEOUT_SECONDS = 75.0
MAX_CONCURRENT = 2
"""A sheet is in memory while it is read: about a megabyte for a thousand rows."""
MAX_PER_ACCOUNT = 1
MAX_WAIT_SECONDS = 10.0
READER_BUSY = "Another workbook is being read. Send this one again in a moment, or save the sheet as CSV and send that."
REFUSED_EXIT_CODE = 3
"""The process wrote the reason to its standard error."""
TOO_LARGE = "The workbook is damaged, or too large to be read: save the sheet as CSV and send that."
_ENVIRONMENT_NAMES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")

reader_queue = FairQueue(MAX_CONCURRENT, MAX_PER_ACCOUNT, MAX_WAIT_SECONDS)


def is_workbook(file: IO[bytes]) -> bool:
    """By its first bytes; `convert_to_csv` rejects other zip archives."""
    file.seek(0)
    first_bytes = file.read(len(ZIP_SIGNATURE))
    file.seek(0)
    return first_bytes == ZIP_SIGNATURE


def convert_to_csv(file: IO[bytes]) -> IO[bytes]:
    """The first sheet that is not empty, as CSV in UTF-8, including blank rows."""
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    csv_file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (whoever looks at it closes it)
    try:
        with reader_queue.slot(READER_BUSY):
            _run_reader(file, csv_file)
    except BaseException:
        csv_file.close()
        raise
    return csv_file


def _run_reader(file: IO[bytes], csv_file: IO[bytes]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "quillpost.recipients.imports.workbook_reader"],
        stdin=file.fileno(),
        stdout=csv_file.fileno(),
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _ENVIRONMENT_NAMES if name in os.environ},
        cwd="/",
    )
    with process:
        try:
            with current_client().on_disconnect(process.kill):
                _, error_output = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise build_file_error(TOO_LARGE) from None
        finally:
            process.kill()
    if current_client().is_disconnected:
        raise ClientDisconnected
    if process.returncode == REFUSED_EXIT_CODE:
        raise build_file_error(error_output.decode(errors="replace")[:300])
    if process.returncode != 0:
        raise build_file_error(TOO_LARGE)
