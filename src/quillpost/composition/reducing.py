"""A picture with fewer pixels, for the eye alone. It is read by what draws previews anyway."""

from quillpost.composition.art.picture import read_picture
from quillpost.composition.geometry import INCH, Box
from quillpost.composition.pages.placed import PlacedPicture
from quillpost.composition.pdf.intent import icc_space
from quillpost.composition.pdf.writer import PdfFile
from quillpost.composition.sandbox import Sandbox

_SPACES = {1: b"/DeviceGray", 3: b"/DeviceRGB"}


def reduced(sandbox: Sandbox, data: bytes, *, most: int) -> bytes:
    """The printable picture with at most so many pixels on its longer side, upright, as a PNG; one that has
    no more than that stays as it is."""
    picture = read_picture(data)
    wide, high = picture.upright_size
    share = most / max(wide, high)
    if share >= 1:
        return data
    file = PdfFile()
    space = _SPACES[picture.components]
    if picture.profile is not None:
        space = icc_space(file, picture.profile, picture.components)
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b%b" % (
        picture.width,
        picture.height,
        space,
        picture.entries,
    )
    number = file.add_stream(picture.data, entries, is_final=True)
    page = Box(0, 0, round(wide * share), round(high * share))
    placed = PlacedPicture(number, picture.width, picture.height, picture.orientation)
    content = file.add_stream(placed.draw_over(page))
    size = b"[0 0 %.2f %.2f]" % (page.width, page.height)
    resources = b"/Resources<</XObject<</P%d %d 0 R>>>>" % (number, number)
    file.add_page(b"/MediaBox%b/TrimBox%b%b" % (size, size, resources), [content])
    return sandbox.rasterize(file.finish(), dpi=INCH)[0]
