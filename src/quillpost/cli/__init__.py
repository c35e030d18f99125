"""The command line: `quillpost --help`."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from quillpost.cli.commands import LazyCommandGroup


def _root_callback() -> None:
    """A Typer without commands of its own is a group by having this."""


app = typer.Typer(
    name="quillpost",
    cls=LazyCommandGroup,
    callback=_root_callback,
    help="Self-hosted direct mail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _replace_closed_streams() -> None:
    """A stream that the caller has closed is replaced by one that swallows everything."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (for as long as we live)


def main(on_loaded: Callable[[], None] | None = None) -> None:
    """Run a command. What an operator can mend is one sentence and exit code 1, never a traceback.

    Whoever starts it may want to know when the command and all that it needs is loaded.
    """
    _replace_closed_streams()
    try:
        app(obj=on_loaded)
    except Exception as error:
        # It knows the libraries of the database, which not every command needs.
        importlib.import_module("quillpost.cli.runtime").exit_with_error(error)
        raise
