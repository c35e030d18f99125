"""What an operator can mend is told in one sentence, with an exit code, and without a traceback."""

import os
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
    def __call__(self, *, user: int | None = None, **settings: str) -> str: ...


@pytest.fixture
def refusal(command_runner: CommandRunner, home: Path) -> Refusal:
    """Starts `quillpost serve` where it cannot run; what it said, as one line."""

    def refuse(*, user: int | None = None, **settings: str) -> str:
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


def stamp(conninfo: str, revision: str) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute("update alembic_version set version_num = %s", [revision])


def test_a_port_in_use_is_named(refusal: Refusal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(QUILLPOST_PORT=str(port))
    assert message == (
        f"Port {port} on 127.0.0.1 cannot be used (Address already in use): stop what uses it, "
        "or set QUILLPOST_PORT to another."
    )


def test_an_unreachable_database_is_named(refusal: Refusal) -> None:
    message = refusal(QUILLPOST_DATABASE_URL=f"postgresql://postgres@127.0.0.1:{free_port()}/quillpost")
    assert message.startswith("The database of QUILLPOST_DATABASE_URL cannot be reached: ")
    assert "refused" in message


def test_a_database_url_that_is_none_is_refused(refusal: Refusal) -> None:
    message = refusal(QUILLPOST_DATABASE_URL="mysql://root@127.0.0.1/quillpost")
    assert message.startswith("The database of QUILLPOST_DATABASE_URL cannot be reached: ")


def test_the_password_of_an_unreachable_database_is_not_shown(refusal: Refusal) -> None:
    message = refusal(QUILLPOST_DATABASE_URL=f"postgresql://dana:s3cret@127.0.0.1:{free_port()}/quillpost")
    assert "s3cret" not in message


def test_a_newer_schema_asks_for_a_newer_release(refusal: Refusal, conninfo: str) -> None:
    stamp(conninfo, "9999")
    message = refusal(QUILLPOST_DATABASE_URL=conninfo)
    assert message.startswith("The database schema (9999) is newer than this release knows")


def test_a_setting_that_is_no_number_is_named(refusal: Refusal) -> None:
    assert refusal(QUILLPOST_PORT="abc").startswith("QUILLPOST_PORT is not usable: ")


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.0/40"])
def test_a_proxy_that_is_no_address_is_named(refusal: Refusal, proxies: str) -> None:
    message = refusal(QUILLPOST_TRUSTED_PROXIES=proxies)
    assert message.startswith("QUILLPOST_TRUSTED_PROXIES is not usable: ")
    assert "name each proxy by its address or network" in message


def test_a_key_of_the_wrong_length_is_named(refusal: Refusal, conninfo: str) -> None:
    message = refusal(QUILLPOST_DATABASE_URL=conninfo, QUILLPOST_SECRET_KEY="c2hvcnQ=")
    assert message == "QUILLPOST_SECRET_KEY must be 32 bytes as base64, or several such keys with spaces."


def test_a_home_that_is_a_file_is_named(refusal: Refusal, home: Path) -> None:
    (home / "file").write_text("not a folder")
    message = refusal(QUILLPOST_HOME=str(home / "file" / "home"))
    assert str(home / "file") in message


def test_a_home_that_is_a_file_is_named_beside_another_database(refusal: Refusal, home: Path, conninfo: str) -> None:
    (home / "file").write_text("not a folder")
    message = refusal(QUILLPOST_HOME=str(home / "file" / "home"), QUILLPOST_DATABASE_URL=conninfo)
    assert str(home / "file") in message


def test_a_home_that_may_not_be_written_is_named(refusal: Refusal, home: Path) -> None:
    home.chmod(0o555)
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    message = refusal(user=user, QUILLPOST_HOME=str(home / "new"))
    assert f"{home}/new cannot be used" in message
    assert "permission" in message.lower()


def test_a_disk_that_is_full_is_named(refusal: Refusal, tiny_disk: Path) -> None:
    assert "full" in refusal(QUILLPOST_HOME=str(tiny_disk / "home")).lower()


def test_a_disk_that_is_full_is_named_beside_another_database(refusal: Refusal, tiny_disk: Path, conninfo: str) -> None:
    fill(tiny_disk)
    message = refusal(QUILLPOST_HOME=str(tiny_disk / "home"), QUILLPOST_DATABASE_URL=conninfo)
    assert "No space left on device" in message


def fill(disk: Path) -> None:
    free = shutil.disk_usage(disk).free
    (disk / "ballast").write_bytes(b"\0" * free)
