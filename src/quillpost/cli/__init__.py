"""The command line: `quillpost --help`.

A module is imported when one of its commands is called: to import them all takes seconds.
"""

import gc
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("server", "Serve the API, the dashboard and, unless --no-jobs, the work behind them."),
    "work": ("worker", "Run jobs and deliver webhooks, and serve nothing."),
    "migrate": ("maintenance", "Bring the database to this release's schema."),
    "doctor": ("doctor", "Look at everything that can go wrong, and say what to do about it."),
    "backup": ("maintenance", "Write everything into FILE, while the service runs or not."),
    "restore": ("maintenance", "Bring a backup back, into an empty home and an empty database."),
    "demo": ("demo", "Send one of each piece in testing mode and follow it to the door."),
    "hands": (
        "handwriting",
        "List the hands; with FOLDER, draw all of them and all pieces, and a page that shows them.",
    ),
    "barcode": ("barcodes", "Encode lines of `TRACKING [ROUTING]` as Intelligent Mail barcodes."),
    "erase": (
        "privacy",
        "Erase a person from all that an account keeps: everyone at the address, and whoever has the e-mail.",
    ),
    "retention": ("privacy", "Show what is kept for how long, and how much is overdue."),
    "audit": ("accounts", "Show the audit log of an account, the newest line first."),
    # Groups come after commands, as Typer has it.
    "account": ("accounts", "Accounts."),
    "people": ("accounts", "People who sign in."),
    "token": ("tokens", "Personal access tokens."),
    "print": ("print_room", "The print room."),
    "tracking": ("tracking", "What the carrier has seen."),
    "leads": ("leads", "Addresses for radius searches."),
    "keys": ("privacy", "The keys that seal secrets."),
    "giftcards": ("giftcards", "Gift cards: brands, your own cards, and what became of them."),
    "lists": ("recipients", "Mailing lists from files, and back."),
}
"""By name, the module that has it under the same name, and what `quillpost --help` says of it."""


class LazyCommandGroup(TyperGroup):
    """A group that imports a command when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=help_text) for name, (_, help_text) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, placeholder, remaining_args = super().resolve_command(ctx, args)
        if name is None or placeholder is None:
            return name, placeholder, remaining_args
        return name, typer.main.get_group(_build_app(name)).commands[name], remaining_args


def build_full_app() -> typer.Typer:
    """All commands, with all that they need."""
    return _build_app(*COMMANDS)


def _build_app(*names: str) -> typer.Typer:
    app = typer.Typer()
    for name in names:
        module = _import_command(COMMANDS[name][0])
        command = getattr(module, "print_" if name == "print" else name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _import_command(name: str) -> ModuleType:
    """What is imported stays: to look for garbage among it would take a seventh of the time."""
    gc.disable()
    try:
        return importlib.import_module(f"quillpost.cli.{name}")
    finally:
        gc.freeze()
        gc.enable()


def _root_callback() -> None:
    """Makes a Typer without commands of its own a group."""


app = typer.Typer(
    name="quillpost",
    cls=LazyCommandGroup,
    callback=_root_callback,
    help="Self-hosted direct mail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command. An error that an operator can correct is one sentence and exit code 1, never a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (for as long as we live)
    try:
        app()
    except Exception as error:
        # It imports the database libraries, which not every command needs.
        importlib.import_module("quillpost.cli.console").exit_with_error(error)
        raise
