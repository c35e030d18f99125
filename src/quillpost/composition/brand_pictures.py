"""How a brand of gift cards is shown where one is chosen: a picture that we draw, of its name and colour."""

from quillpost.composition.batch import Inks
from quillpost.composition.content import Ink
from quillpost.composition.geometry import INCH, Box
from quillpost.composition.pages.giftcard import HEIGHT, WIDTH, draw_brand
from quillpost.composition.pdf.writer import PdfFile
from quillpost.composition.studio import Studio

PIXELS_ACROSS = 640


def brand_picture(studio: Studio, brand: str, accent: Ink) -> bytes:
    """A PNG in the look of the printed card, without an amount."""
    inks, file = Inks(studio.hands), PdfFile()
    content = file.add_stream(draw_brand(Box(0, 0, WIDTH, HEIGHT), brand, accent, inks.plain))
    _, fonts = inks.embed_all(file, is_only_drawn=True)
    entries = b"/MediaBox[0 0 %.2f %.2f]/Resources<</Font<<%b>>>>" % (WIDTH, HEIGHT, fonts)
    file.add_page(entries, [content])
    return studio.sandbox.rasterize(file.finish(), dpi=PIXELS_ACROSS / WIDTH * INCH)[0]
