"""Every command's name, its module and what `quillpost --help` says of it, so that its module is loaded only
when it is called: to load them all takes seconds."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

MODULES: Final[dict[str, dict[str, str]]] = {
    "server": {
        "serve": "Serve the API, the dashboard and, unless --no-jobs, the work behind them.",
    },
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
        "erase": "Erase a person from all that an account keeps: everyone at the address, and whoever has the"
        " e-mail.",
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

Loaded = Callable[[], None]


class Index(TyperGroup):
    """A group that knows its commands by name alone until one of them is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=told) for name, told in _told()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, announced, rest = super().resolve_command(ctx, args)
        if name is None or announced is None:
            return name, announced, rest
        loaded = typer.main.get_group(_of(MODULE_OF[name])).commands[name]
        tell: Loaded | None = ctx.obj
        if tell is not None:
            tell()
        return name, loaded, rest


def everything() -> typer.Typer:
    """All commands, with all that they need: for whoever looks at every one, or starts many."""
    return _of(*MODULES)


def _of(*modules: str) -> typer.Typer:
    app = typer.Typer()
    for module in modules:
        importlib.import_module(f"quillpost.cli.{module}").add_to(app)
    return app


def _told() -> Iterator[tuple[str, str]]:
    for commands in MODULES.values():
        yield from commands.items()


MODULE_OF: Final = {name: module for module, commands in MODULES.items() for name in commands}
