"""The sheets and the envelopes of a batch as PDF files."""

import hashlib
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from quillpost.rendering.codes.barcode import encode_barcodes
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.rendering.handwriting.natural_vocabulary import NaturalVocabulary
from quillpost.rendering.handwriting.service import Hand, Hands
from quillpost.rendering.handwriting.sheet.models import Signature
from quillpost.rendering.handwriting.sheet.signature_paths import signature_form
from quillpost.rendering.handwriting.text import BAR_FONT, HAND_FONT, PLAIN_FONT, CachedFace
from quillpost.rendering.handwriting.vocabulary import LetteringVocabulary, Vocabulary
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.images.models import Picture, read_picture
from quillpost.rendering.layout.fronts import PlacedPicture
from quillpost.rendering.layout.models import Passage, ProductLayout, Side
from quillpost.rendering.layout.paragraphs import (
    MessageSettings,
    lay_out_passages,
    make_address_passage,
    make_message_passage,
    make_return_passage,
    message_settings,
    misfit_error,
)
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.layout.sides import ItemCodes, clip_art, draw_personal, draw_shared, find_art, move_to_trim
from quillpost.rendering.layout.signatures import SIGNATURE_NAME
from quillpost.rendering.layout.windows import draw_windows, show_in_windows
from quillpost.rendering.models import Box, Copy, Design, HandChoice
from quillpost.rendering.pdf.color import default_color_spaces, icc_color_space, text_string
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from quillpost.rendering.pdf.fonts import embed_barcode_font, embed_font, embed_word_font
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.text.variables import TextTemplate, compile_template

_DEVICE_SPACES = {1: b"/DeviceGray", 3: b"/DeviceRGB"}
_COPIES_PER_BATCH = 2_500


@dataclass(frozen=True, slots=True)
class SheetTemplate:
    """One page of every copy of a design; its `entries` end in the open list of its contents."""

    side: Side
    entries: bytes
    is_personal: bool


class BatchFonts:
    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._vocabularies: dict[HandChoice, Vocabulary] = {}
        self.plain = CachedFace(hands.plain)

    def vocabulary_for(self, choice: HandChoice) -> Vocabulary:
        if choice not in self._vocabularies:
            self._vocabularies[choice] = make_vocabulary(self._hands.hand_for(choice))
        return self._vocabularies[choice]

    def embed_fonts(self, pdf: PdfFile, *, is_only_drawn: bool) -> tuple[dict[HandChoice, bytes], bytes]:
        """Embed every font that was used, as resources: those of the hands, and the others."""
        embed_face = partial(embed_font, pdf, is_temporary=is_only_drawn)
        hands = {
            choice: _embed_hand(pdf, vocabulary, is_temporary=is_only_drawn)
            for choice, vocabulary in self._vocabularies.items()
        }
        faces = {PLAIN_FONT: (self.plain.face, set(self.plain.used_chars))}
        for vocabulary in self._vocabularies.values():
            for font, chars in vocabulary.borrowed_chars.items():
                faces.setdefault(font, (vocabulary.fallback_faces[font], set()))[1].update(chars)
        other_fonts = b"".join(
            b"%b %d 0 R" % (font, embed_face(face.prepared, face.glyph_numbers(chars)))
            for font, (face, chars) in sorted(faces.items())
            if chars
        )
        return hands, other_fonts + b"%b %d 0 R" % (BAR_FONT, embed_barcode_font(pdf))


def make_vocabulary(hand: Hand) -> Vocabulary:
    return NaturalVocabulary(hand) if isinstance(hand, NaturalHand) else LetteringVocabulary(hand)


def _embed_hand(pdf: PdfFile, vocabulary: Vocabulary, *, is_temporary: bool) -> bytes:
    if isinstance(vocabulary, NaturalVocabulary):
        return b"".join(
            b"%b %d 0 R" % (font.name, embed_word_font(pdf, vocabulary.style.name, font, is_temporary=is_temporary))
            for font in vocabulary.fonts()
        )
    assert isinstance(vocabulary, LetteringVocabulary)
    number = embed_font(pdf, vocabulary.hand.prepared, vocabulary.used_glyphs, is_temporary=is_temporary)
    return b"%b %d 0 R" % (HAND_FONT, number)


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
        self._resource_numbers: dict[tuple[HandChoice, int | None, int | None], int] = {}
        self.page_count = 0

    def prepare_side(self, side: Side, design: Design, *, window_sheet: Side | None = None) -> SheetTemplate:
        """An envelope shows the `window_sheet` in its windows, without art: that is kept clear of them."""
        picture = find_art(side, design)
        art_picture = self._embed_picture(picture) if picture else None
        logo, art = None, b""
        if art_picture:
            area = side.art_area or side.bleed_box
            art = b"q %b %b Q\n" % (clip_art(area, side.art_holes), art_picture.draw_over(area))
        elif side.is_cover and design.branding and design.branding.logo:
            logo = self._embed_picture(design.branding.logo)
        faces = self._fonts.vocabulary_for(design.hand_choice), self._fonts.plain
        content = draw_shared(side, design, art, logo, *faces)
        if window_sheet:
            content += draw_windows(side, window_sheet, draw_shared(window_sheet, design, b"", None, *faces))
        drawn_picture = art_picture or logo
        number = drawn_picture.number if drawn_picture else None
        is_signed = side.message or (window_sheet and window_sheet.message)
        signature = self._embed_signature(design.signature) if is_signed and design.signature else None
        return self._add_sheet(side, design, content, number, signature, is_personal=side.is_personal)

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
            self._add_sheet(side, design, b"/P%d Do\n" % form, form, None, is_personal=False)
            for form in self._forms[digest]
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
        for (choice, picture, signature), number in self._resource_numbers.items():
            hand_font = hands.get(choice, b"")
            drawn = b"/P%d %d 0 R" % (picture, picture) if picture else b""
            drawn += b"%b %d 0 R" % (SIGNATURE_NAME, signature) if signature else b""
            xobjects = b"/XObject<<%b>>" % drawn if drawn else b""
            self._pdf.put(number, b"<</Font<<%b%b>>%b%b>>" % (hand_font, other_fonts, xobjects, spaces))
        return self._pdf.finish()

    def _add_sheet(
        self,
        side: Side,
        design: Design,
        content: bytes,
        picture: int | None,
        signature: int | None,
        *,
        is_personal: bool,
    ) -> SheetTemplate:
        """`picture` is the only object that the content draws, and handwriting a signature; fonts are known later."""
        key = (design.hand_choice, picture, signature)
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

    def _embed_signature(self, data: bytes) -> int:
        """As many pages as there are draw one form."""
        return self._pdf.add_shared_stream(*signature_form(Signature.from_bytes(data)))


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


@dataclass(frozen=True, slots=True)
class PrintFiles:
    """A batch as files, with each copy's first and last page, counted from 1.

    `envelopes` has one page a copy, in the same order; None without envelopes.
    """

    sheets: bytes
    page_ranges: list[tuple[int, int]]
    envelopes: bytes | None


@dataclass(frozen=True, slots=True)
class _PreparedDesign:
    design: Design
    layout: ProductLayout
    template: TextTemplate
    message_side: Side | None
    settings: MessageSettings
    product_type: bytes
    sheets: list[SheetTemplate]
    envelope: SheetTemplate | None
    window_sheet: Side | None
    personal_sides: list[Side]


class BatchComposer:
    """One batch; without metadata its files are plain PDFs for previews."""

    def __init__(
        self,
        hands: Hands,
        products: Mapping[str, ProductLayout],
        sandbox: Sandbox,
        designs: Mapping[Any, Design],
        metadata: PrintMetadata | None,
        *,
        only_side: str | None = None,
        excluded_sides: frozenset[str] = frozenset(),
    ) -> None:
        self._hands = hands
        self._products = products
        self._is_print_ready = metadata is not None
        self._only_side = only_side
        self._excluded_sides = excluded_sides
        self._designs = designs
        self._fonts = BatchFonts(hands)
        self._sheets_pdf = BatchPdf(self._fonts, metadata, sandbox)
        self._envelopes_pdf = BatchPdf(self._fonts, metadata, sandbox)
        self._qr_encoder = QrEncoder()
        self.prepared_designs: dict[Hashable, _PreparedDesign] = {}

    def run(self, copies: Sequence[Copy]) -> PrintFiles:
        self.prepared_designs = {
            key: self._prepare_design(self._designs[key]) for key in dict.fromkeys(copy.design for copy in copies)
        }
        page_ranges: list[tuple[int, int]] = []
        for start in range(0, len(copies), _COPIES_PER_BATCH):
            page_ranges += self._add_copies(copies[start : start + _COPIES_PER_BATCH])
        envelopes = self._envelopes_pdf.finish() if self._envelopes_pdf.page_count else None
        return PrintFiles(self._sheets_pdf.finish(), page_ranges, envelopes)

    def _prepare_design(self, design: Design) -> _PreparedDesign:
        product, envelope = self._products[design.product], None
        sheets, window_sheet = self._prepare_sheets(design, product), self._find_window_sheet(design, product)
        if product.envelope and not self._only_side:
            envelope = self._envelopes_pdf.prepare_side(product.envelope, design, window_sheet=window_sheet)
        template, message_side = compile_template(design.message), None if design.pdf_only else product.message_side
        settings = message_settings(design, self._hands.style_for(design.hand_choice))
        product_type = text_string(product.product)
        personal_sides = [sheet.side for sheet in (*sheets, envelope) if sheet and sheet.is_personal]
        if window_sheet and window_sheet not in personal_sides:
            personal_sides.append(window_sheet)
        return _PreparedDesign(
            design, product, template, message_side, settings, product_type,
            sheets, envelope, window_sheet, personal_sides,
        )  # fmt: skip

    def _find_window_sheet(self, design: Design, product: ProductLayout) -> Side | None:
        """The sheet that previews show in the windows of its envelope; a printed envelope has nothing there."""
        if self._is_print_ready or product.envelope is None or not product.envelope.windows:
            return None
        sides = [product.address_sheet] if design.pdf_only else product.sides
        return next((side for side in sides if side and side.address), None)

    def _prepare_sheets(self, design: Design, product: ProductLayout) -> list[SheetTemplate]:
        sides = product.sides
        if design.pdf_only:
            # A window must show an address; without a window the PDF is the whole letter.
            sides = (product.address_sheet,) if product.address_sheet else ()
        if self._only_side:
            return [self._sheets_pdf.prepare_side(side, design) for side in sides if side.name == self._only_side]
        pages = self._sheets_pdf.prepare_pdf_pages(product.extra, design) if product.extra else []
        included_sides = [side for side in sides if side.name not in self._excluded_sides]
        return [self._sheets_pdf.prepare_side(side, design) for side in included_sides] + pages

    def _add_copies(self, copies: Sequence[Copy]) -> Iterator[tuple[int, int]]:
        written = self._write_passages(copies)
        printed = self._draw_printed(copies)
        for copy, handwriting, print_content in zip(copies, written, printed, strict=True):
            prepared = self.prepared_designs[copy.design]
            draw = partial(_personal_content, handwriting, print_content)
            first_page = self._sheets_pdf.page_count + 1
            self._sheets_pdf.begin_item(copy.item_id, prepared.product_type)
            for sheet in prepared.sheets:
                self._sheets_pdf.add_page(sheet, draw(sheet.side) if sheet.is_personal else b"")
            if prepared.envelope:
                side, window_sheet = prepared.envelope.side, prepared.window_sheet
                envelope_content = draw(side) if prepared.envelope.is_personal else b""
                if window_sheet:
                    envelope_content += show_in_windows(side, window_sheet, draw(window_sheet))
                self._envelopes_pdf.begin_item(copy.item_id, prepared.product_type)
                self._envelopes_pdf.add_page(prepared.envelope, envelope_content)
            yield first_page, self._sheets_pdf.page_count

    def _draw_printed(self, copies: Sequence[Copy]) -> list[dict[str, bytes]]:
        """What only each copy has in print, by side. For all copies at once: deflating a page empties the caches."""
        tracked = [(copy.tracking, copy.routing) for copy in copies if copy.tracking is not None]
        barcodes = iter(encode_barcodes(tracked))
        printed: list[dict[str, bytes]] = []
        for copy in copies:
            prepared = self.prepared_designs[copy.design]
            codes = ItemCodes(next(barcodes) if copy.tracking is not None else None, self._qr_encoder)
            draw = partial(draw_personal, design=prepared.design, copy=copy, codes=codes, face=self._fonts.plain)
            printed.append({side.name: draw(side) for side in prepared.personal_sides})
        return printed

    def _write_passages(self, copies: Sequence[Copy]) -> list[dict[str, bytes]]:
        """The handwriting of all copies by side, laid out together, which is many times faster."""
        handwriting: list[dict[str, bytes]] = [{} for _ in copies]
        by_hand: dict[HandChoice, list[tuple[int, str, Passage]]] = {}
        for index, copy in enumerate(copies):
            prepared = self.prepared_designs[copy.design]
            passages = by_hand.setdefault(prepared.design.hand_choice, [])
            passages += [(index, side, passage) for side, passage in _handwritten_passages(prepared, copy)]
        for choice, placed_passages in by_hand.items():
            vocabulary = self._fonts.vocabulary_for(choice)
            for indexes, layout in lay_out_passages(vocabulary, [passage for _, _, passage in placed_passages]):
                for row in np.flatnonzero(~layout.fits).tolist():
                    title = self.prepared_designs[copies[placed_passages[indexes[row]][0]].design].layout.title
                    raise misfit_error(layout, row, title)
                for passage_index, operators in zip(indexes, write_passages(vocabulary, layout), strict=True):
                    index, side, _ = placed_passages[passage_index]
                    by_side = handwriting[index]
                    by_side[side] = by_side[side] + operators if side in by_side else operators
        return handwriting


def _personal_content(handwriting: dict[str, bytes], printed: dict[str, bytes], side: Side) -> bytes:
    return handwriting.get(side.name, b"") + printed[side.name]


def _handwritten_passages(prepared: _PreparedDesign, copy: Copy) -> list[tuple[str, Passage]]:
    """Everything on this copy that is in the hand, with the name of its side."""
    design, manner, passages = prepared.design, prepared.settings.manner, []
    side = prepared.message_side
    message = prepared.template.fill(copy.addressee, design.sender) if side else ""
    reader = copy.addressee
    # All unevenness of a copy comes from its reader and its text, which a preview knows as well.
    seed_text = f"{message}{reader.name}{reader.address}{reader.address2}{reader.postal_code}"
    seed = zlib.crc32(seed_text.encode(errors="replace"))
    if side is not None:
        passage = make_message_passage(side, design, message, seed, prepared.settings, qr=copy.qr_url is not None)
        if passage:
            passages.append((side.name, passage))
    if prepared.envelope:
        side = prepared.envelope.side
        address = make_address_passage(side, design, copy.addressee, seed, manner=manner)
        sender = make_return_passage(side, design, seed, manner=manner)
        passages += [(side.name, passage) for passage in (address, sender) if passage]
    return passages
