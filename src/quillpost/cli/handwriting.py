"""`quillpost hands`: list the handwriting styles, prepare their typefaces, draw them all."""

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
from quillpost.cli.console import ProgressBar, report_unwritable
from quillpost.core.errors import NotReady
from quillpost.rendering.handwriting.models import FaceRecipe
from quillpost.rendering.handwriting.service import Hands
from quillpost.rendering.previews import (
    SAMPLE_PIXELS,
    Specimen,
    describe_style,
    make_specimens,
    render_hand_detail,
    render_hand_sheet,
    render_sample,
)
from quillpost.rendering.service import Renderer

SHEET_DPI = 150
PRODUCT_DPI = 150

_PAGE_CSS = """
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
class _GalleryImage:
    file: str
    caption: str
    link: str | None = None
    is_portrait: bool = False

    def html(self) -> str:
        image_html = f'<img src="{escape(self.file)}" alt="{escape(self.caption)}" loading="lazy">'
        if self.link:
            image_html = f'<a href="{escape(self.link)}">{image_html}</a>'
        class_attribute = ' class="upright"' if self.is_portrait else ""
        return f"<figure{class_attribute}>{image_html}<figcaption>{escape(self.caption)}</figcaption></figure>"


def draw_gallery(renderer: Renderer, folder: Path) -> None:
    with report_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        page = _draw_all(renderer, folder)
        (folder / "index.html").write_text(page, "utf-8")
    page_url = (folder / "index.html").absolute().as_uri()
    Console(soft_wrap=True, highlight=False).print(f"Every hand and every piece: {page_url}", markup=False)


def _draw_all(renderer: Renderer, folder: Path) -> str:
    styles = renderer.hands.styles
    with ProgressBar("Drawing", len(styles) + len(renderer.products)) as progress:
        images: list[_GalleryImage] = []
        for style in styles.values():
            with progress.step(style.name):
                images += _draw_hand(renderer, style.number, folder)
        product_sections = []
        for name, product in renderer.products.items():
            with progress.step(product.title):
                pictures = "".join(picture.html() for picture in _draw_product(renderer, name, folder))
                product_sections.append(f"<h3>{escape(product.title.capitalize())}</h3>\n{pictures}")
    return _render_page("".join(hand.html() for hand in images), "\n".join(product_sections))


def _draw_hand(renderer: Renderer, number: int, folder: Path) -> Iterator[_GalleryImage]:
    style = renderer.hands.styles[number]
    stem = f"{number:02}-{style.name.lower()}"
    sample_file, sheet_file, detail_file = f"hand-{stem}-sample.png", f"hand-{stem}.png", f"hand-{stem}-detail.png"
    (folder / sample_file).write_bytes(render_sample(renderer, number))
    (folder / sheet_file).write_bytes(render_hand_sheet(renderer, number, dpi=SHEET_DPI))
    (folder / detail_file).write_bytes(render_hand_detail(renderer, number))
    yield _GalleryImage(sample_file, f"{number} {style.name}: {describe_style(style)}", link=sheet_file)
    yield _GalleryImage(detail_file, f"{style.name} at 600 dots an inch", link=detail_file)


def _draw_product(renderer: Renderer, name: str, folder: Path) -> Iterator[_GalleryImage]:
    for number, specimen in enumerate(make_specimens(renderer, name), start=1):
        for side, png in _draw_sides(renderer, specimen):
            file = f"piece-{name}-{number}-{side.replace(' ', '-')}.png"
            (folder / file).write_bytes(png)
            width, height = (int.from_bytes(png[offset : offset + 4], "big") for offset in (16, 20))
            yield _GalleryImage(file, f"{side}, {specimen.caption}", link=file, is_portrait=height > width)


def _draw_sides(renderer: Renderer, specimen: Specimen) -> Iterator[tuple[str, bytes]]:
    previews = renderer.preview(specimen.design, specimen.copy, dpi=PRODUCT_DPI)
    yield from previews.sides.items()
    if previews.envelope is not None:
        yield "envelope", previews.envelope


def _render_page(hands: str, products: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Quillpost: hands and pieces</title>
<style>{_PAGE_CSS}</style>
<h1>Hands and pieces</h1>
<section class="hands">
<h2>Hands</h2>
<p>A line of each, {SAMPLE_PIXELS[0]} pixels wide as the API shows it; behind it all forms of its letters.</p>
{hands}
</section>
<section class="pieces">
<h2>Pieces</h2>
<p>Each side as it is printed and cut, in the first hand.</p>
{products}
</section>
</html>
"""


LOW_PRIORITY = 15
LOCK_NAME = ".preparing"


def hands(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Draw every hand and every piece into it.")
    ] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Prepare the typefaces that are not ready.")] = False,
    beside: Annotated[int | None, typer.Option(hidden=True, help="End with this process, which is our parent.")] = None,
) -> None:
    """List the hands; with FOLDER, draw all of them and all pieces, and a page that shows them.

    Handwriting is always ready. Lettering is set from typefaces, and each of them is prepared once: by a
    running service in the background, by --prepare now, or when it is first needed.
    """
    if beside is not None:
        Thread(target=_exit_with_parent, args=(beside,), daemon=True).start()
    settings = runtime.load_settings()
    renderer = bootstrap.build_renderer(settings)
    if prepare:
        _prepare_missing(renderer.hands, bootstrap.get_faces_folder(settings))
    if folder is not None:
        draw_gallery(renderer, folder)
    elif not prepare:
        Console().print(_hands_table(renderer.hands))


def _exit_with_parent(parent: int) -> None:
    """The typeface that is being prepared is prepared another time."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _hands_table(collection: Hands) -> Table:
    unprepared = {face.face for face in collection.unprepared_faces()}
    table = Table("Number", "Name", "What it is", "Ready")
    for style in collection.styles.values():
        is_ready = "no" if style.lettering and style.lettering.face in unprepared else "yes"
        table.add_row(str(style.number), style.name, describe_style(style), is_ready)
    return table


def _prepare_missing(collection: Hands, folder: Path) -> None:
    with _try_folder_lock(folder) as has_lock:
        if not has_lock:
            typer.echo("Another process is preparing the typefaces already.")
            return
        missing = collection.unprepared_faces()
        if not missing:
            typer.echo("All typefaces are ready.")
            return
        _prepare_all(collection, missing)
        if collection.unprepared_faces():
            raise NotReady(f"Prepared typefaces cannot be kept in {folder}: see that there is room on its disk.")


def _prepare_all(collection: Hands, missing: Sequence[FaceRecipe]) -> None:
    os.nice(LOW_PRIORITY)
    with ProgressBar("Preparing typefaces", len(missing)) as progress:
        for face in missing:
            with progress.step(face.face):
                collection.prepare_face(face)


@contextmanager
def _try_folder_lock(folder: Path) -> Iterator[bool]:
    """False if another process prepares typefaces for this folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_NAME).open("a")
    except OSError as error:
        raise NotReady(f"The folder of prepared typefaces {folder} cannot be used: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
