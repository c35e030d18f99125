"""A PostgreSQL of our own in a folder of its own, and other processes that start one."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from quillpost.core.database.embedded.server import EmbeddedPostgres

QUICK = {"fsync": "off"}

PREPARE = """
import os, pwd, sys
from pathlib import Path
import psycopg
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import NotReady
home, bin_folder = Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None
server = EmbeddedPostgres(home, bin_folder=bin_folder, settings={"fsync": "off"})
"""


@contextmanager
def make_home() -> Iterator[Path]:
    """A folder that every account can reach, as pytest's own temporary folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="qp-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ask(server: EmbeddedPostgres, question: str) -> object:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        cursor = connection.execute(question)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def postmaster_of(home: Path) -> int:
    return int((home / "postgres/data/postmaster.pid").read_text().split()[0])


@contextmanager
def parent_of_a_server(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has started the server and now waits."""
    code = PREPARE + "server.start(); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        yield parent
