"""Commands as an operator runs them: words in, an exit code and two streams out."""

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from quillpost.app.container import Container
from quillpost.cli import main
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.cli_results import CommandResult, Quillpost


@pytest.fixture
def quillpost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quillpost:
    """Run a command in this process."""

    def run(*words: object, columns: int = 300, stdin: bytes = b"", **settings: object) -> CommandResult:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["quillpost", *map(str, words)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            patch.setenv("COLUMNS", str(columns))
            for name, value in settings.items():
                patch.setenv(f"QUILLPOST_{name.upper()}", str(value))
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        captured = capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def home(container: Container) -> Path:
    """Of the service that the test calls."""
    root: Path = container.storage.store._root  # type: ignore[attr-defined]
    return root.parent


@pytest.fixture
def beside(quillpost: Quillpost, container: Container, home: Path) -> Quillpost:
    """Run a command beside that service."""
    place = {"home": home, "database_url": container.db.conninfo, "base_url": "http://quillpost.test"}
    return lambda *words, **settings: quillpost(*words, **place | settings)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account can reach, as pytest's own are not: homes of embedded databases."""
    made = Path(tempfile.mkdtemp(prefix="qp-cli-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def blank(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database with nothing in it."""
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute("create database blank")
        yield postgres.conninfo("blank")
        admin.execute("drop database blank with (force)")
