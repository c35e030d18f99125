"""Every hand and every piece as pictures in a folder, and a page that shows them."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console

from quillpost.cli.progress import Progress
from quillpost.composition.samples import SAMPLE_PIXELS, hand_sheet, sample
from quillpost.composition.specimens import Specimen, specimens
from quillpost.composition.studio import Studio
from quillpost.kit.errors import NotReady

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
