"""What commands say of themselves, and how little each of them loads."""

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


def test_help_says_of_commands_what_they_say_of_themselves(quillpost: Quillpost, subtests: pytest.Subtests) -> None:
    announced = typer.main.get_group(app).commands
    real = typer.main.get_group(build_full_app()).commands
    assert {name: command.help for name, command in announced.items()} == {
        name: (command.help or "").partition("\n\n")[0].replace("\n", " ") for name, command in real.items()
    }
    assert list(announced) == list(real)
    for name in COMMANDS:
        with subtests.test(name):
            shown = quillpost(name, "--help")
            assert (shown.code, f"Usage: quillpost {name}" in shown.out) == (0, True)
    refused = quillpost("lsts")
    assert (refused.code, "No such command 'lsts'. Did you mean 'lists'?" in refused.err) == (2, True)


def test_a_command_loads_no_library_that_only_others_need() -> None:
    run = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert json.loads(run.stderr) == {
        "--help": [],
        "recipients": ["sqlalchemy", "pydantic"],
        "worker": ["sqlalchemy", "pydantic", "aiohttp", "numpy"],
    }
