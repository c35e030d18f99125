"""The file in which a PostgreSQL says that its data folder is taken."""

import subprocess
import sys
from pathlib import Path

NO_PROCESS = 2**30  # no system counts its processes that far
STATUS_LINE = 8


def disown_if_stale(data: Path) -> None:
    """Free a data folder whose `postmaster.pid` names a process that is not its server.

    After a crash of the machine or a restart of the container that number may belong to anyone,
    and PostgreSQL would believe its server alive. Only the number is replaced: by the rest of
    the file PostgreSQL still notices orphaned backends, and waits for them.
    """
    file = data / "postmaster.pid"
    try:
        text = file.read_text()
    except FileNotFoundError:
        return
    pid, _, rest = text.partition("\n")
    if not pid.isdecimal():  # cut short by a crash; PostgreSQL would not touch it
        file.unlink()
    elif not _serves(int(pid), data):
        file.write_text(f"{NO_PROCESS}\n{rest}")


def read_pid(data: Path) -> int | None:
    """The process that the file names."""
    lines = _lines(data)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def read_status(data: Path) -> str | None:
    """What the server says of itself: starting, ready, standby or stopping."""
    lines = _lines(data)
    return lines[STATUS_LINE - 1].strip() if len(lines) >= STATUS_LINE else None


def is_served(data: Path) -> bool:
    """Whether the process that the file names is there, and a server of this data."""
    pid = read_pid(data)
    return pid is not None and _serves(pid, data)


def _lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _serves(pid: int, data: Path) -> bool:
    """Whether that process is a server of this data; in doubt, yes."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data)  # a server works in its data folder
        except FileNotFoundError:  # gone, or a zombie
            return False
        except PermissionError:
            return True
    else:
        command = ["ps", "-p", str(pid), "-o", "comm="]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return "postgres" in answer.stdout
