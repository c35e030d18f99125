"""Workbooks (.xlsx): their first sheet becomes a CSV file, in a process of bounded means."""

import os
import subprocess
import sys
import tempfile
import zipfile
from threading import BoundedSemaphore
from typing import IO

from quillpost.audience.importing.sniffing import refused
from quillpost.kit.errors import Unavailable

ZIP = b"PK\x03\x04"
UNPACKED = 1_000_000_000
"""Bytes of all that is in the archive, as it says of itself; the process that reads it is bounded anyway."""
SWELLS = 100
"""Times its own size that an archive of more than `SMALL` bytes may hold: people in rows come to twenty."""
SMALL = 20_000_000
SECONDS = 75.0
AT_ONCE = 1
"""A sheet is held whole while it is read: about a megabyte for a thousand rows."""
PATIENCE_SECONDS = 10.0
BUSY = (
    "Another workbook is being read. Send this one again in a moment, or save the sheet as CSV and send that."
)
REFUSED = 3
"""How the process ends that says why."""
TOO_LARGE = "The workbook is damaged, or too large to be read: save the sheet as CSV and send that."
_NO_WORKBOOK = "This file is a zip archive and no workbook. Send a CSV, TSV or .xlsx file."
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")

_turns = BoundedSemaphore(AT_ONCE)


def is_workbook(file: IO[bytes]) -> bool:
    """Whether the file is one, by what is in it. Another zip archive is refused."""
    file.seek(0)
    if file.read(len(ZIP)) != ZIP:
        return False
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            inside = archive.infolist()
        size = file.seek(0, os.SEEK_END)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise refused(TOO_LARGE) from None
    if "xl/workbook.xml" not in {each.filename for each in inside}:
        raise refused(_NO_WORKBOOK)
    unpacked = sum(each.file_size for each in inside)
    if unpacked > UNPACKED or unpacked > max(SMALL, SWELLS * size):
        raise refused(TOO_LARGE)
    return True


def unfolded(file: IO[bytes]) -> IO[bytes]:
    """The first sheet that holds anything, as CSV in UTF-8: a row for each of its rows, blank ones too."""
    file.flush()
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    rows: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (whoever looks at it closes it)
    try:
        _unfold(file, rows)
    except BaseException:
        rows.close()
        raise
    return rows


def _unfold(file: IO[bytes], rows: IO[bytes]) -> None:
    if not _turns.acquire(timeout=PATIENCE_SECONDS):
        raise Unavailable(BUSY)
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "quillpost.audience.importing.unfolder"],
            stdin=file.fileno(),
            stdout=rows.fileno(),
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            cwd="/",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise refused(TOO_LARGE) from None
    finally:
        _turns.release()
    if ended.returncode == REFUSED:
        raise refused(ended.stderr.decode(errors="replace")[:300])
    if ended.returncode != 0:
        raise refused(TOO_LARGE)
