"""The hands: which there are, making them ready, and pictures of all of them."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from quillpost import wiring
from quillpost.cli.gallery import draw_gallery
from quillpost.cli.progress import Progress
from quillpost.composition.hands.catalogue import DEFAULT, PLAIN, Face
from quillpost.composition.hands.collection import Hands
from quillpost.kit.errors import NotReady

LOW_PRIORITY = 15
LOCK = ".preparing"

# A first send waits for these; all others give way to whatever else the machine has to do.
_NEEDED_FIRST = (PLAIN, DEFAULT)


def add_to(app: typer.Typer) -> None:
    app.command()(hands)


def hands(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Draw every hand and every piece into it.")
    ] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Make the hands ready that are not yet.")
    ] = False,
    beside: Annotated[
        int | None, typer.Option(hidden=True, help="End with this process, which is our parent.")
    ] = None,
) -> None:
    """List the hands; with FOLDER, draw all of them and all pieces, and a page that shows them.

    A hand is made ready once, which takes some seconds: by a running service in the background, by
    --prepare now, or when it is first needed.
    """
    if beside is not None:
        Thread(target=_end_with, args=(beside,), daemon=True).start()
    settings = wiring.load_settings()
    studio = wiring.studio(settings)
    if prepare:
        _prepare(studio.hands, wiring.faces_folder(settings))
    if folder is not None:
        draw_gallery(studio, folder)
    elif not prepare:
        Console().print(_table(studio.hands))


def _end_with(parent: int) -> None:
    """Leave when the service is gone, however it went. A hand in the making is then made another time."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _table(known: Hands) -> Table:
    waiting = {face.face for face in known.unprepared()}
    table = Table("Number", "Name", "Type", "Face", "Ready")
    for style in known.styles.values():
        is_ready = "no" if style.face in waiting else "yes"
        table.add_row(str(style.number), style.name, style.kind, style.face, is_ready)
    return table


def _prepare(known: Hands, folder: Path) -> None:
    with _alone_in(folder) as is_alone:
        if not is_alone:
            typer.echo("The hands are being made ready by another process already.")
            return
        missing = known.unprepared()
        if not missing:
            typer.echo("All hands are ready.")
            return
        _prepare_all(known, missing)
        if known.unprepared():
            raise NotReady(f"The hands cannot be kept in {folder}: see that there is room on its disk.")


def _prepare_all(known: Hands, missing: Sequence[Face]) -> None:
    has_yielded = False
    with Progress("Making hands ready", len(missing)) as progress:
        for face in missing:
            if not has_yielded and face not in _NEEDED_FIRST:
                os.nice(LOW_PRIORITY)
                has_yielded = True
            with progress.step(face.face) as tell:
                known.prepared(face, tell)


@contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Whether nobody else prepares hands for this folder; if so, nobody will until we are done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a")
    except OSError as fault:
        raise NotReady(f"The folder of hands {folder} cannot be used: {fault.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
