"""What an operator can mend is told in one sentence, with an exit code, and without a traceback."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from support.processes import CommandRunner, free_port

UNPRIVILEGED = 65_534


class Refusal(Protocol):
    def __call__(self, settings: dict[str, str], *, user: int | None = None) -> str: ...


@pytest.fixture
def refusal(command_runner: CommandRunner, home: Path) -> Refusal:
    """Starts `quillpost serve` where it cannot run; what it said, as one line."""

    def refuse(settings: dict[str, str], *, user: int | None = None) -> str:
        given = {"QUILLPOST_HOME": str(home), "QUILLPOST_PORT": str(free_port())} | settings
        command = command_runner.start("serve", settings=given, user=user)
        assert command.wait() == 1, command.output
        message = command.output.strip()
        assert message.startswith("quillpost: "), message
        assert "Traceback" not in message
        assert len(message.splitlines()) == 1, message
        return message.removeprefix("quillpost: ")

    return refuse


@pytest.fixture
def tiny_disk(home: Path) -> Iterator[Path]:
    """A file system with room for nothing much."""
    disk = home / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("This machine does not let us mount a small file system.")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_what_keeps_a_server_from_starting_is_named(
    refusal: Refusal, home: Path, conninfo: str, subtests: pytest.Subtests
) -> None:
    nowhere = f"127.0.0.1:{free_port()}/quillpost"
    (home / "file").write_text("not a folder")
    below = {"QUILLPOST_HOME": str(home / "file" / "home")}
    unreachable = "^The database of QUILLPOST_DATABASE_URL cannot be reached: "
    proxy = "^QUILLPOST_TRUSTED_PROXIES is not usable: .*name each proxy by its address or network"
    here = {"QUILLPOST_DATABASE_URL": conninfo}
    cases = [
        ({"QUILLPOST_DATABASE_URL": f"postgresql://postgres@{nowhere}"}, unreachable + ".*refused"),
        ({"QUILLPOST_DATABASE_URL": "mysql://root@127.0.0.1/quillpost"}, unreachable),
        ({"QUILLPOST_DATABASE_URL": f"postgresql://dana:s3cret@{nowhere}"}, unreachable + "((?!s3cret).)*$"),
        ({"QUILLPOST_PORT": "abc"}, "^QUILLPOST_PORT is not usable: "),
        *(({"QUILLPOST_TRUSTED_PROXIES": each}, proxy) for each in ("*", "proxy.example", "10.0.0.0/40")),
        (
            here | {"QUILLPOST_SECRET_KEY": "c2hvcnQ="},
            "^QUILLPOST_SECRET_KEY must be 32 bytes as base64, or several such",
        ),
        (below, re.escape(str(home / "file"))),
        (here | below, re.escape(str(home / "file"))),
    ]
    for settings, message in cases:
        with subtests.test(**settings):
            assert re.search(message, refusal(settings))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal({"QUILLPOST_PORT": str(port)}) == (
            f"Port {port} on 127.0.0.1 cannot be used (Address already in use): stop what uses it, "
            "or set QUILLPOST_PORT to another."
        )
    with psycopg.connect(conninfo) as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    assert refusal(here).startswith("The database schema (9999) is newer than this release knows")


def test_a_home_that_may_not_be_written_is_named(refusal: Refusal, home: Path) -> None:
    home.chmod(0o555)
    message = refusal({"QUILLPOST_HOME": str(home / "new")}, user=UNPRIVILEGED if os.geteuid() == 0 else None)
    assert f"{home}/new cannot be used" in message
    assert "permission" in message.lower()


def test_a_disk_that_is_full_is_named(refusal: Refusal, tiny_disk: Path, conninfo: str) -> None:
    on_it = {"QUILLPOST_HOME": str(tiny_disk / "home")}
    assert "full" in refusal(on_it).lower()
    shutil.rmtree(tiny_disk / "home", ignore_errors=True)
    (tiny_disk / "ballast").write_bytes(b"\0" * shutil.disk_usage(tiny_disk).free)
    assert "No space left on device" in refusal(on_it | {"QUILLPOST_DATABASE_URL": conninfo})
