"""Every command's name, its module and what `quillpost --help` says of it, so that its module is loaded only
when it is called: to load them all takes seconds."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS_BY_MODULE: Final[dict[str, dict[str, str]]] = {
    "server": {"serve": "Serve the API, the dashboard and, unless --no-jobs, the work behind them."},
    "worker": {"work": "Run jobs and deliver webhooks, and serve nothing."},
    "maintenance": {
        "migrate": "Bring the database to this release's schema.",
        "doctor": "Look at everything that can go wrong, and say what to do about it.",
    },
    "backups": {
        "backup": "Write everything into FILE, while the service runs or not.",
        "restore": "Bring a backup back, into an empty home and an empty database.",
    },
    "demo": {"demo": "Send one of each piece in testing mode and follow it to the door."},
    "handwriting": {
        "hands": "List the hands; with FOLDER, draw all of them and all pieces, and a page that shows them."
    },
    "barcodes": {"barcode": "Encode lines of `TRACKING [ROUTING]` as Intelligent Mail barcodes."},
    "privacy": {
        "erase": "Erase a person from all that an account keeps: everyone at the address, and whoever has the e-mail.",
        "retention": "Show what is kept for how long, and how much is overdue.",
    },
    "audit": {"audit": "Show the audit log of an account, the newest line first."},
    # Groups come after commands, as Typer has it.
    "accounts": {"account": "Accounts."},
    "users": {"people": "People who sign in."},
    "tokens": {"token": "Personal access tokens."},
    "print_room": {"print": "The print room."},
    "tracking": {"tracking": "What the carrier has seen."},
    "leads": {"leads": "Addresses for radius searches."},
    "keys": {"keys": "The keys that seal secrets."},
    "giftcards": {"giftcards": "Gift cards: brands, your own cards, and what became of them."},
    "lists": {"lists": "Mailing lists from files, and back."},
}

LoadedCallback = Callable[[], None]


class LazyCommandGroup(TyperGroup):
    """A group that knows its commands by name alone until one of them is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=help_text) for name, help_text in _command_help_texts()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, placeholder, remaining_args = super().resolve_command(ctx, args)
        if name is None or placeholder is None:
            return name, placeholder, remaining_args
        command = typer.main.get_group(_build_app(MODULE_BY_COMMAND[name])).commands[name]
        on_loaded: LoadedCallback | None = ctx.obj
        if on_loaded is not None:
            on_loaded()
        return name, command, remaining_args


def build_full_app() -> typer.Typer:
    """All commands, with all that they need: for whoever looks at every one, or starts many."""
    return _build_app(*COMMANDS_BY_MODULE)


def _build_app(*modules: str) -> typer.Typer:
    app = typer.Typer()
    for module in modules:
        importlib.import_module(f"quillpost.cli.{module}").add_to(app)
    return app


def _command_help_texts() -> Iterator[tuple[str, str]]:
    for commands in COMMANDS_BY_MODULE.values():
        yield from commands.items()


MODULE_BY_COMMAND: Final = {name: module for module, commands in COMMANDS_BY_MODULE.items() for name in commands}
