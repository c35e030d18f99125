"""The keys that seal secrets: seen, changed, and forgotten once nothing needs them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts.audit.service import note_for_operators
from quillpost.app.runtime import Footing, key_path
from quillpost.cli.print_files import Machine, counted, write
from quillpost.cli.progress import Progress
from quillpost.cli.runtime import standing
from quillpost.core.database.encrypted_columns import wait_for_writers
from quillpost.core.encryption import NAMELESS
from quillpost.core.errors import NotReady, Refused
from quillpost.core.key_files import KeyFile
from quillpost.fulfillment.files import BatchStore
from quillpost.privacy.key_rotation import TABLES, count_all, reseal_all

keys = typer.Typer(help="The keys that seal secrets.", no_args_is_help=True)

SETTING = "QUILLPOST_SECRET_KEY"
WHAT_ENDS = (
    "What it has sealed or signed outside of the database ends with it: links by which readers of mails"
    " unsubscribe, links to files, pages that are open in a browser, what tells browsers that are known, and"
    " the address of the built-in receiver, which `quillpost serve --welcome` subscribes anew when it starts."
    " Backups that were made before need it, too: their FILE.key has it."
)
REST: Final = timedelta(hours=1)
"""After a change of the keys, for how long none is forgotten. What a running service has sealed with the
former one is written by then: a print file is in the store before anything in the database tells of it."""


def add_to(app: typer.Typer) -> None:
    app.add_typer(keys, name="keys")


@dataclass(frozen=True, slots=True)
class Standing:
    """Which keys there are, the current one first, and what is sealed under each, by where it lies."""

    ids: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    is_file: bool

    def under(self, key_id: str) -> int:
        return sum(by_key.get(key_id, 0) for by_key in self.counts.values())

    @property
    def found(self) -> list[str]:
        """The ids of all keys that are here, or that something is sealed under."""
        return list(dict.fromkeys([*self.ids, *(key for by_key in self.counts.values() for key in by_key)]))

    @property
    def missing(self) -> list[str]:
        return [key_id for key_id in self.found if key_id not in (*self.ids, NAMELESS)]

    @property
    def left(self) -> int:
        """How many values are not under the current key."""
        return sum(self.under(key_id) for key_id in self.found[1:])

    def what_next(self) -> str:
        former = ", ".join(self.ids[1:])
        if self.missing:
            lost = sum(map(self.under, self.missing))
            return (
                f"{counted(lost, 'value')} cannot be opened: bring the key {self.missing[0]} back, from"
                " FILE.key of a backup, as the last one."
            )
        if not former:
            how = "`quillpost keys new` changes the key" if self.is_file else _add_by_hand()
            return f"All is well; {how}."
        if self.left:
            also = "" if self.is_file else ", once every machine has been started anew with these keys"
            return f"Run `quillpost keys reseal`{also}: {counted(self.left, 'value')} need a former key."
        if self.is_file:
            return (
                f"Nothing needs {former} any more: `quillpost keys forget {self.ids[1]}`, at the earliest an"
                " hour after the keys were changed."
            )
        return (
            f"Nothing is sealed under {former}. If it is new: once every machine has been started anew with"
            f" it, make it the first in {SETTING} on all of them. If it is a former one: remove it there."
        )


@keys.command("list")
def list_(machine: Machine = False) -> None:
    """Show the keys by their ids, how much is sealed under each, and what to do next."""
    with standing() as ground:
        found = _look(ground)
    if machine:
        write({"keys": found.ids, "current": found.ids[0], "sealed": found.counts, "next": found.what_next()})
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("sealed", overflow="fold")
    for key_id in found.found:
        table.add_column(_titled(found, key_id), justify="right")
    for place, by_key in found.counts.items():
        table.add_row(place, *(f"{by_key.get(key_id, 0):,}" for key_id in found.found))
    table.add_row("in all", *(f"{found.under(key_id):,}" for key_id in found.found))
    console = Console(highlight=False)
    console.print(table)
    console.print(found.what_next(), markup=False, soft_wrap=True)


@keys.command()
def new() -> None:
    """Make a new key, which seals from now on. The others stay, and open what they have sealed.

    Running services notice it by themselves.
    """
    with standing() as ground:
        if ground.settings.secret_key is not None:
            raise NotReady(f"The keys are in {SETTING}, which is yours to change: {_add_by_hand()}.")
        with ground.db.work() as tx:
            made = KeyFile(key_path(ground.settings.home)).add()
            note_for_operators(tx, "key.new", about={"name": made}, now=ground.clock())
    typer.echo(
        f"{made} is the current key. Run `quillpost keys reseal` next, and take a backup of the key file."
    )


@keys.command()
def reseal() -> None:
    """Seal everything anew that is under a former key, while the service runs.

    It may be stopped at any time, and run again.
    """
    with standing() as ground:
        left = _look(ground).left
        done, broken = _reseal(ground, left)
        with ground.db.work() as tx:
            about = {"name": ground.sealer.current, "how_many": done}
            note_for_operators(tx, "key.resealed", about=about, now=ground.clock())
        after = _look(ground)
    typer.echo(f"{counted(done, 'value')} sealed anew under {after.ids[0]}.")
    if broken:
        typer.echo(f"{counted(broken, 'value')} could not be opened, and stay as they are.", err=True)
    typer.echo(after.what_next())
    if broken:
        raise typer.Exit(1)


@keys.command()
def forget(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `quillpost keys list` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a former key for good, if nothing is sealed under it any more."""
    with standing() as ground:
        _require_unused(ground, key_id)
        if ground.settings.secret_key is not None:
            typer.echo(
                f"Nothing needs {key_id}. If every machine has been started anew since another key is the"
                f" first: remove it from {SETTING} on all of them. {WHAT_ENDS}"
            )
            return
        typer.echo(WHAT_ENDS)
        if not yes:
            typer.confirm(f"Forget {key_id} for good?", abort=True)
        with ground.db.work() as tx:
            KeyFile(key_path(ground.settings.home)).forget(key_id)
            note_for_operators(tx, "key.forgotten", about={"name": key_id}, now=ground.clock())
    typer.echo(f"{key_id} is gone.")


def _look(ground: Footing) -> Standing:
    counts = count_all(ground.db, BatchStore(ground.store, ground.sealer))
    return Standing(ground.sealer.ids, counts, is_file=ground.settings.secret_key is None)


def _reseal(ground: Footing, left: int) -> tuple[int, int]:
    """How many values were sealed anew, and how many no key opens."""
    done = broken = 0
    with Progress("Sealing anew", left) as bar:
        for _, step in reseal_all(ground.db, BatchStore(ground.store, ground.sealer), now=ground.clock()):
            done, broken = done + step.renewed, broken + step.broken
            bar.reach(done)
    return done, broken


def _require_unused(ground: Footing, key_id: str) -> None:
    ids = ground.sealer.ids
    if key_id == ids[0]:
        raise Refused(f"{key_id} is the current key: make another one first.")
    if key_id not in ids:
        raise Refused(f"There is no key {key_id}: there are {_listed(ids)}.")
    # What was sealed before the key was changed may be on its way into the database still.
    if ground.settings.secret_key is None:  # else the processes that sealed with it have ended
        rests_until = KeyFile(key_path(ground.settings.home)).changed_at + REST
        if ground.clock() < rests_until:
            raise Refused(
                "The keys were changed less than an hour ago, and what was sealed before may not be written"
                f" yet: try again from {rests_until:%H:%M} UTC on."
            )
    for table in TABLES:
        if not wait_for_writers(ground.db, table):
            raise Refused(f"Somebody writes to {table.name} for long: try again later.")
    found = _look(ground)
    # Nobody can tell which key the nameless ones need, short of trying.
    if needed := found.under(key_id) + found.under(NAMELESS):
        raise Refused(
            f"{counted(needed, 'value')} may still need {key_id}: run `quillpost keys reseal` first."
        )


def _titled(found: Standing, key_id: str) -> str:
    if key_id == found.ids[0]:
        return f"{key_id} (current)"
    if key_id == NAMELESS:
        return "of earlier releases"
    return f"{key_id} (former)" if key_id in found.ids else f"{key_id} (missing)"


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(ids)


def _add_by_hand() -> str:
    return (
        "to change the key, add a new one (`openssl rand -base64 32`) as the last, with a space before it, on"
        " every machine, and start them anew"
    )
