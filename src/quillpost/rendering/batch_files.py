"""Files in the making: the printed sheets of a batch, and the envelopes that go around them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from quillpost.rendering.geometry import Box
from quillpost.rendering.handwriting.collection import Hands
from quillpost.rendering.handwriting.hand import BAR_FONT, HAND_FONT, PLAIN_FONT
from quillpost.rendering.handwriting.plain import Lettering, PlainFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.images.models import read_picture
from quillpost.rendering.layout.fronts import PlacedPicture
from quillpost.rendering.layout.products import Side
from quillpost.rendering.layout.sides import masked, shared, to_trim
from quillpost.rendering.models import Design
from quillpost.rendering.pdf.barcode_font import embed_bars
from quillpost.rendering.pdf.color import default_spaces, icc_space
from quillpost.rendering.pdf.fonts import embed
from quillpost.rendering.pdf.metadata import Press
from quillpost.rendering.pdf.writer import PdfFile
from quillpost.rendering.ports import Sandbox

_DEVICE_SPACES = {1: b"/DeviceGray", 3: b"/DeviceRGB"}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page of every copy of a design; its `entries` end in the open list of its contents."""

    side: Side
    entries: bytes
    is_personal: bool


class Inks:
    """The hands and the plain face as one batch uses them."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._vocabularies: dict[int, Vocabulary] = {}
        self.plain = Lettering(hands.plain)

    def vocabulary(self, style: int) -> Vocabulary:
        if style not in self._vocabularies:
            self._vocabularies[style] = Vocabulary(self._hands.hand(style))
        return self._vocabularies[style]

    def embed_all(self, pdf: PdfFile, *, is_only_drawn: bool) -> tuple[dict[int, int], bytes]:
        """Put all fonts that were used into a file: the hands by style, and the others as resources."""
        put = partial(embed, pdf, is_only_drawn=is_only_drawn)
        hands = {
            style: put(vocabulary.hand.prepared, vocabulary.used)
            for style, vocabulary in self._vocabularies.items()
            if vocabulary.used
        }
        others = b"".join(
            b"%b %d 0 R" % (font, put(face.prepared, face.numbers(letters)))
            for font, (face, letters) in self._plain_letters().items()
        )
        return hands, others + b"%b %d 0 R" % (BAR_FONT, embed_bars(pdf))

    def _plain_letters(self) -> dict[bytes, tuple[PlainFace, set[str]]]:
        """What was set in faces other than the hands, by font."""
        found = {PLAIN_FONT: (self.plain.face, set(self.plain.letters))}
        for vocabulary in self._vocabularies.values():
            for font, letters in vocabulary.borrowed.items():
                found.setdefault(font, (vocabulary.hand.others[font], set()))[1].update(letters)
        return {font: known for font, known in sorted(found.items()) if known[1]}


class BatchFile:
    """One PDF of a batch; fonts, pictures and a design's own content are written once."""

    def __init__(self, inks: Inks, press: Press | None, sandbox: Sandbox) -> None:
        self._inks = inks
        self._sandbox = sandbox
        self._pdf = PdfFile(press)
        self._is_for_press = press is not None
        self._spaces = default_spaces(self._pdf, press.intent) if press else b""
        self._pictures: dict[bytes, PlacedPicture] = {}
        self._forms: dict[bytes, Sequence[int]] = {}
        self._resources: dict[tuple[int, int | None], int] = {}
        self.page_count = 0

    def prepare(self, side: Side, design: Design) -> Sheet:
        """A side with all that the design's copies share."""
        picture = design.front if side.art == "front" else design.background if side.art else None
        placed = self._picture(picture) if picture else None
        logo = None if placed else self._logo(side, design)
        art = _art(side, placed) if placed else b""
        content = shared(side, design, art, logo, self._inks.vocabulary(design.hand), self._inks.plain)
        drawn = placed or logo
        number = drawn.number if drawn else None
        return self._sheet(side, design, content, number, is_personal=side.is_personal)

    def prepare_pages(self, side: Side, design: Design) -> list[Sheet]:
        """One sheet for each page of the design's own PDF."""
        if design.pages is None:
            return []
        digest = hashlib.sha256(design.pages).digest()
        if digest not in self._forms:
            copied = self._sandbox.copy_pages(
                design.pages, first=self._pdf.last + 1, default_spaces=self._spaces
            )
            self._pdf.take(copied.objects)
            self._forms[digest] = copied.forms
        return [
            self._sheet(side, design, b"/P%d Do\n" % form, form, is_personal=False)
            for form in self._forms[digest]
        ]

    def begin_piece(self, item_id: int, product: bytes) -> None:
        self._pdf.begin_part(b"%d" % item_id, product)

    def add(self, sheet: Sheet, personal: bytes) -> None:
        own = b" %d 0 R" % self._pdf.add_stream(personal) if personal else b""
        self._pdf.put_page(sheet.entries, own)
        self.page_count += 1

    def finish(self) -> bytes:
        spaces = b"/ColorSpace<<%b>>" % self._spaces if self._spaces else b""
        hands, others = self._inks.embed_all(self._pdf, is_only_drawn=not self._is_for_press)
        for (style, picture), number in self._resources.items():
            hand = b"%b %d 0 R" % (HAND_FONT, hands[style]) if style in hands else b""
            drawn = b"/XObject<</P%d %d 0 R>>" % (picture, picture) if picture else b""
            self._pdf.put(number, b"<</Font<<%b%b>>%b%b>>" % (hand, others, drawn, spaces))
        return self._pdf.finish()

    def _sheet(
        self, side: Side, design: Design, content: bytes, picture: int | None, *, is_personal: bool
    ) -> Sheet:
        """`picture` is the one object that the content draws, if any; what fonts it needs is known later."""
        key = (design.hand, picture)
        if key not in self._resources:
            self._resources[key] = self._pdf.reserve()
        media = b"[0 0 %.2f %.2f]" % (side.bleed_box.width, side.bleed_box.height)
        trim = _corners(side.trim, side.bleed)
        number = self._pdf.add_stream(to_trim(side) + content)
        # A file for the eye alone opens at what a preview shows, and need not be cropped then.
        crop = b"" if self._is_for_press else b"/CropBox" + _corners(side.shown, side.bleed)
        entries = b"/MediaBox%b/BleedBox%b/TrimBox%b%b/Resources %d 0 R/Contents[%d 0 R" % (
            media,
            media,
            trim,
            crop,
            self._resources[key],
            number,
        )
        return Sheet(side, entries, is_personal)

    def _logo(self, side: Side, design: Design) -> PlacedPicture | None:
        """The picture that a cover without art shows of its sender's branding."""
        branding = design.branding if side.is_cover else None
        return self._picture(branding.logo) if branding and branding.logo else None

    def _picture(self, data: bytes) -> PlacedPicture:
        """Known by its digest: designs of many orders share their art, and its bytes need not stay."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._pictures:
            picture = read_picture(data)
            space = _DEVICE_SPACES[picture.components]
            if picture.profile is not None:
                space = icc_space(self._pdf, picture.profile, picture.components)
            entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b%b" % (
                picture.width,
                picture.height,
                space,
                picture.entries,
            )
            number = self._pdf.add_stream(picture.data, entries, is_final=True)
            self._pictures[digest] = PlacedPicture(number, picture.width, picture.height, picture.orientation)
        return self._pictures[digest]


def _corners(box: Box, bleed: float) -> bytes:
    """A box of the trim as an array of the page, whose origin is the corner of the bleed."""
    edges = (box.left, box.bottom, box.right, box.top)
    return b"[%.2f %.2f %.2f %.2f]" % tuple(edge + bleed for edge in edges)


def _art(side: Side, picture: PlacedPicture) -> bytes:
    """The picture over its area, left out where paper must stay free of ink."""
    area = side.art_area or side.bleed_box
    return b"q %b %b Q\n" % (masked(area, side.art_holes), picture.draw_over(area))
