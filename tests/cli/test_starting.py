"""A command loads what it needs, and `quillpost --help` knows them all without loading any."""

import json
import subprocess
import sys

import pytest
import typer

from quillpost.cli import COMMANDS, app, build_full_app
from support.cli_results import Quillpost

LIBRARIES = ("sqlalchemy", "pydantic", "alembic", "paramiko", "aiohttp", "numpy", "pikepdf", "fastapi")

LOOK = f"""
import importlib, json, sys
from quillpost.cli import app
def loaded():
    return [name for name in {LIBRARIES} if name in sys.modules]
app(["--help"], standalone_mode=False)
found = {{"--help": loaded()}}
for module in ("recipients", "worker"):
    importlib.import_module("quillpost.cli." + module)
    found[module] = loaded()
print(json.dumps(found), file=sys.stderr)
"""


def test_help_says_of_every_command_what_the_command_says_of_itself() -> None:
    announced = typer.main.get_group(app).commands
    real = typer.main.get_group(build_full_app()).commands
    assert {name: command.help for name, command in announced.items()} == {
        name: (command.help or "").partition("\n\n")[0].replace("\n", " ") for name, command in real.items()
    }
    assert list(announced) == list(real)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_announced_command_can_be_called(quillpost: Quillpost, name: str) -> None:
    shown = quillpost(name, "--help")
    assert shown.code == 0
    assert f"Usage: quillpost {name}" in shown.out


def test_an_unknown_command_suggests_a_similar_one(quillpost: Quillpost) -> None:
    refused = quillpost("lsts")
    assert refused.code == 2
    assert "No such command 'lsts'. Did you mean 'lists'?" in refused.err


def test_a_command_loads_no_library_that_only_others_need() -> None:
    run = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert json.loads(run.stderr) == {
        "--help": [],
        "recipients": ["sqlalchemy", "pydantic"],
        "worker": ["sqlalchemy", "pydantic", "aiohttp", "numpy"],
    }
