"""The sheets and the envelopes of a batch as PDF files."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from quillpost.rendering.handwriting.hand import BAR_FONT, HAND_FONT, PLAIN_FONT
from quillpost.rendering.handwriting.service import Hands
from quillpost.rendering.handwriting.text import CachedFace, PlainFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.images.models import Picture, read_picture
from quillpost.rendering.layout.fronts import PlacedPicture
from quillpost.rendering.layout.models import Side
from quillpost.rendering.layout.sides import clip_art, draw_shared, move_to_trim
from quillpost.rendering.models import Box, Design
from quillpost.rendering.pdf.color import default_color_spaces, icc_color_space
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.pdf.fonts import embed_barcode_font, embed_font
from quillpost.rendering.pdf.metadata import PrintMetadata
from quillpost.rendering.ports import Sandbox

_DEVICE_SPACES = {1: b"/DeviceGray", 3: b"/DeviceRGB"}


@dataclass(frozen=True, slots=True)
class SheetTemplate:
    """One page of every copy of a design; its `entries` end in the open list of its contents."""

    side: Side
    entries: bytes
    is_personal: bool


class BatchFonts:
    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._vocabularies: dict[int, Vocabulary] = {}
        self.plain = CachedFace(hands.plain)

    def vocabulary_for(self, style: int) -> Vocabulary:
        if style not in self._vocabularies:
            self._vocabularies[style] = Vocabulary(self._hands.hand(style))
        return self._vocabularies[style]

    def embed_fonts(self, pdf: PdfFile, *, is_only_drawn: bool) -> tuple[dict[int, int], bytes]:
        """Embed every font that was used: the hands by style, the others as resources."""
        embed_face = partial(embed_font, pdf, is_temporary=is_only_drawn)
        hands = {
            style: embed_face(vocabulary.hand.prepared, vocabulary.used_glyphs)
            for style, vocabulary in self._vocabularies.items()
            if vocabulary.used_glyphs
        }
        other_fonts = b"".join(
            b"%b %d 0 R" % (font, embed_face(face.prepared, face.glyph_numbers(chars)))
            for font, (face, chars) in self._plain_faces_and_chars().items()
        )
        return hands, other_fonts + b"%b %d 0 R" % (BAR_FONT, embed_barcode_font(pdf))

    def _plain_faces_and_chars(self) -> dict[bytes, tuple[PlainFace, set[str]]]:
        faces = {PLAIN_FONT: (self.plain.face, set(self.plain.used_chars))}
        for vocabulary in self._vocabularies.values():
            for font, chars in vocabulary.borrowed_chars.items():
                faces.setdefault(font, (vocabulary.hand.fallback_faces[font], set()))[1].update(chars)
        return {font: face_and_chars for font, face_and_chars in sorted(faces.items()) if face_and_chars[1]}


class BatchPdf:
    """One PDF of a batch; fonts, pictures and a design's own content are written once."""

    def __init__(self, fonts: BatchFonts, metadata: PrintMetadata | None, sandbox: Sandbox) -> None:
        self._fonts = fonts
        self._sandbox = sandbox
        self._pdf = PdfFile(metadata)
        self._is_print_ready = metadata is not None
        self._default_spaces = default_color_spaces(self._pdf, metadata.intent) if metadata else b""
        self._pictures: dict[bytes, PlacedPicture] = {}
        self._forms: dict[bytes, Sequence[int]] = {}
        self._resource_numbers: dict[tuple[int, int | None], int] = {}
        self.page_count = 0

    def prepare_side(self, side: Side, design: Design) -> SheetTemplate:
        picture = design.front if side.art == "front" else design.background if side.art else None
        art_picture = self._embed_picture(picture) if picture else None
        logo, art = None, b""
        if art_picture:
            area = side.art_area or side.bleed_box
            art = b"q %b %b Q\n" % (clip_art(area, side.art_holes), art_picture.draw_over(area))
        elif side.is_cover and design.branding and design.branding.logo:
            logo = self._embed_picture(design.branding.logo)
        content = draw_shared(side, design, art, logo, self._fonts.vocabulary_for(design.hand), self._fonts.plain)
        drawn_picture = art_picture or logo
        number = drawn_picture.number if drawn_picture else None
        return self._add_sheet(side, design, content, number, is_personal=side.is_personal)

    def prepare_pdf_pages(self, side: Side, design: Design) -> list[SheetTemplate]:
        if design.pages is None:
            return []
        digest = hashlib.sha256(design.pages).digest()
        if digest not in self._forms:
            copied = self._sandbox.copy_pages(
                design.pages, first=self._pdf.last_number + 1, default_spaces=self._default_spaces
            )
            self._pdf.add_copied_objects(copied.objects)
            self._forms[digest] = copied.forms
        return [
            self._add_sheet(side, design, b"/P%d Do\n" % form, form, is_personal=False) for form in self._forms[digest]
        ]

    def begin_item(self, item_id: int, product: bytes) -> None:
        self._pdf.begin_part(b"%d" % item_id, product)

    def add_page(self, sheet: SheetTemplate, personal_content: bytes) -> None:
        personal_contents = b" %d 0 R" % self._pdf.add_stream(personal_content) if personal_content else b""
        self._pdf.put_open_page(sheet.entries, personal_contents)
        self.page_count += 1

    def finish(self) -> bytes:
        spaces = b"/ColorSpace<<%b>>" % self._default_spaces if self._default_spaces else b""
        hands, other_fonts = self._fonts.embed_fonts(self._pdf, is_only_drawn=not self._is_print_ready)
        for (style, picture), number in self._resource_numbers.items():
            hand_font = b"%b %d 0 R" % (HAND_FONT, hands[style]) if style in hands else b""
            xobjects = b"/XObject<</P%d %d 0 R>>" % (picture, picture) if picture else b""
            self._pdf.put(number, b"<</Font<<%b%b>>%b%b>>" % (hand_font, other_fonts, xobjects, spaces))
        return self._pdf.finish()

    def _add_sheet(
        self, side: Side, design: Design, content: bytes, picture: int | None, *, is_personal: bool
    ) -> SheetTemplate:
        """`picture` is the only object that the content draws; its fonts are known later."""
        key = (design.hand, picture)
        if key not in self._resource_numbers:
            self._resource_numbers[key] = self._pdf.reserve()
        media_box = b"[0 0 %.2f %.2f]" % (side.bleed_box.width, side.bleed_box.height)
        trim_box = _box_array(side.trim, side.bleed)
        content_number = self._pdf.add_stream(move_to_trim(side) + content)
        # A preview file opens at what a preview shows, and need not be cropped then.
        crop_box = b"" if self._is_print_ready else b"/CropBox" + _box_array(side.preview_area, side.bleed)
        boxes = b"/MediaBox%b/BleedBox%b/TrimBox%b%b" % (media_box, media_box, trim_box, crop_box)
        entries = b"%b/Resources %d 0 R/Contents[%d 0 R" % (boxes, self._resource_numbers[key], content_number)
        return SheetTemplate(side, entries, is_personal)

    def _embed_picture(self, data: bytes) -> PlacedPicture:
        """Shared by digest: many orders have the same art, and its bytes need not stay."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._pictures:
            self._pictures[digest] = embed_picture(self._pdf, read_picture(data))
        return self._pictures[digest]


def _box_array(box: Box, bleed: float) -> bytes:
    """A box of the trim as an array of the page, whose origin is the corner of the bleed."""
    edges = (box.left, box.bottom, box.right, box.top)
    return b"[%.2f %.2f %.2f %.2f]" % tuple(edge + bleed for edge in edges)


def embed_picture(pdf: PdfFile, picture: Picture) -> PlacedPicture:
    space = _DEVICE_SPACES[picture.components]
    if picture.profile is not None:
        space = icc_color_space(pdf, picture.profile, picture.components)
    size = (picture.width, picture.height)
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b%b" % (*size, space, picture.entries)
    return PlacedPicture(pdf.add_stream(picture.data, entries, is_final=True), *size, picture.orientation)
