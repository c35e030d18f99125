"""`quillpost hands`: list the handwriting styles, prepare them, draw them all."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from quillpost.app import bootstrap, runtime
from quillpost.cli.progress import Progress
from quillpost.core.errors import NotReady
from quillpost.rendering.handwriting.catalog import DEFAULT, PLAIN, Face
from quillpost.rendering.handwriting.collection import Hands
from quillpost.rendering.renderer import Studio
from quillpost.rendering.samples import SAMPLE_PIXELS, hand_sheet, sample
from quillpost.rendering.specimens import Specimen, specimens

SHEET_DPI = 150
PIECE_DPI = 150

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #223; background: #eceae6; margin: 2rem auto;
       max-width: 76rem; padding: 0 1rem }
h2 { margin: 3rem 0 1rem }
h3 { margin: 2rem 0 .5rem }
figure { display: inline-block; margin: 0 1.25rem 1.25rem 0; max-width: 100%; vertical-align: top }
figcaption { font-size: .85rem; color: #667 }
img { display: block; max-width: 100%; height: auto; box-shadow: 0 1px 6px #0003; background: #fff }
.hands img { width: 36rem } .pieces img { width: 34rem } .pieces .upright img { width: 20rem }
"""


@dataclass(frozen=True, slots=True)
class _Picture:
    file: str
    caption: str
    link: str | None = None
    is_upright: bool = False

    def html(self) -> str:
        shown = f'<img src="{escape(self.file)}" alt="{escape(self.caption)}" loading="lazy">'
        if self.link:
            shown = f'<a href="{escape(self.link)}">{shown}</a>'
        kind = ' class="upright"' if self.is_upright else ""
        return f"<figure{kind}>{shown}<figcaption>{escape(self.caption)}</figcaption></figure>"


def draw_gallery(studio: Studio, folder: Path) -> None:
    """Hands that are not ready yet are made so on the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = _drawn(studio, folder)
        (folder / "index.html").write_text(page, "utf-8")
    except OSError as fault:
        raise NotReady(f"{folder} cannot be written: {fault.strerror}.") from None
    place = (folder / "index.html").absolute().as_uri()
    Console(soft_wrap=True, highlight=False).print(f"Every hand and every piece: {place}", markup=False)


def _drawn(studio: Studio, folder: Path) -> str:
    styles = studio.hands.styles
    with Progress("Drawing", len(styles) + len(studio.pieces)) as progress:
        hands = []
        for style in styles.values():
            with progress.step(style.name) as tell:
                studio.hands.prepared(style, tell)
                hands.append(_draw_hand(studio, style.number, folder))
        pieces = []
        for name, piece in studio.pieces.items():
            with progress.step(piece.title):
                pictures = "".join(picture.html() for picture in _draw_piece(studio, name, folder))
                pieces.append(f"<h3>{escape(piece.title.capitalize())}</h3>\n{pictures}")
    return _page("".join(hand.html() for hand in hands), "\n".join(pieces))


def _draw_hand(studio: Studio, number: int, folder: Path) -> _Picture:
    style = studio.hands.styles[number]
    stem = f"{number:02}-{style.name.lower()}"
    line, sheet = f"hand-{stem}-sample.png", f"hand-{stem}.png"
    (folder / line).write_bytes(sample(studio, number))
    (folder / sheet).write_bytes(hand_sheet(studio, number, dpi=SHEET_DPI))
    return _Picture(line, f"{number} {style.name}: {style.kind}, from {style.face}", link=sheet)


def _draw_piece(studio: Studio, name: str, folder: Path) -> Iterator[_Picture]:
    for number, specimen in enumerate(specimens(studio, name), start=1):
        for side, png in _sides(studio, specimen):
            file = f"piece-{name}-{number}-{side.replace(' ', '-')}.png"
            (folder / file).write_bytes(png)
            width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
            yield _Picture(file, f"{side}, {specimen.caption}", link=file, is_upright=height > width)


def _sides(studio: Studio, specimen: Specimen) -> Iterator[tuple[str, bytes]]:
    previews = studio.preview(specimen.design, specimen.copy, dpi=PIECE_DPI)
    yield from previews.sides.items()
    if previews.envelope is not None:
        yield "envelope", previews.envelope


def _page(hands: str, pieces: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Quillpost: hands and pieces</title>
<style>{_STYLE}</style>
<h1>Hands and pieces</h1>
<section class="hands">
<h2>Hands</h2>
<p>A line of each, {SAMPLE_PIXELS[0]} pixels wide as the API shows it; behind it all takes of its letters.</p>
{hands}
</section>
<section class="pieces">
<h2>Pieces</h2>
<p>Each side as it is printed and cut, in the first hand.</p>
{pieces}
</section>
</html>
"""


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
    settings = runtime.load_settings()
    studio = bootstrap.studio(settings)
    if prepare:
        _prepare(studio.hands, bootstrap.faces_folder(settings))
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
