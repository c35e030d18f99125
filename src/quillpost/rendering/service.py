"""Checks whether designs fit, draws previews, and composes print files."""

import gc
import zlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from quillpost.rendering.codes.barcode import encode_barcodes
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.rendering.files import BatchFonts, BatchPdf, SheetTemplate
from quillpost.rendering.handwriting.service import Hands
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout import furniture
from quillpost.rendering.layout.models import ProductLayout, Side
from quillpost.rendering.layout.paragraphs import DoesNotFit, Passage, SizeRange, lay_out_passages, misfit_error
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.layout.sides import (
    ItemCodes,
    draw_personal,
    make_address_passage,
    make_message_passage,
    make_return_passage,
)
from quillpost.rendering.models import PEN_COLORS, Addressee, Copy, Design
from quillpost.rendering.pdf.color import SRGB, OutputIntent, text_string
from quillpost.rendering.pdf.metadata import PrintMetadata
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.rules import FitChecker, Misfits
from quillpost.rendering.text.variables import TextTemplate, compile_template

_COPIES_PER_BATCH = 2_500
PREVIEW_DPI = 150


@dataclass(frozen=True, slots=True)
class PrintFiles:
    """A batch as files, with each copy's first and last page, counted from 1.

    `envelopes` has one page a copy, in the same order; None without envelopes.
    """

    sheets: bytes
    page_ranges: list[tuple[int, int]]
    envelopes: bytes | None


@dataclass(frozen=True, slots=True)
class PreviewImages:
    """PNGs by name, in reading order."""

    sides: dict[str, bytes]
    envelope: bytes | None


class Renderer:
    """Composes and previews designs."""

    def __init__(
        self, hands: Hands, products: Mapping[str, ProductLayout], intent: OutputIntent = SRGB, *, sandbox: Sandbox
    ) -> None:
        self.hands = hands
        self.products = products
        self.sandbox = sandbox
        self._intent = intent

    def fill_messages(self, design: Design, addressees: Sequence[Addressee]) -> list[str]:
        template = compile_template(design.message)
        return [template.fill(addressee, design.sender) for addressee in addressees]

    def find_misfits(
        self,
        design: Design,
        addressees: Sequence[Addressee],
        *,
        qr: bool,
        messages: Sequence[str] | None = None,
        find_all: bool = False,
    ) -> Misfits:
        """A design without misfits always composes for these addressees.

        `messages` are those of `fill_messages`, if already filled. Without `find_all` only the first misfits are found.
        """
        sizes, is_even = self.handwriting_settings(design)
        checker = FitChecker(self.hands, self.products[design.product], design, sizes, is_even=is_even)
        filled_messages = self.fill_messages(design, addressees) if messages is None else messages
        message_misfits = checker.check_messages(filled_messages, qr=qr, find_all=find_all)
        return Misfits(
            checker.check_sender(), message_misfits, checker.check_addresses(addressees), checker.smallest_size
        )

    def products_too_small_for_indicia(self, indicia: Sequence[str]) -> list[str]:
        """Titles of the products on which this permit imprint does not fit."""
        return self._products_without_room(
            lambda side, face: side.indicia and furniture.draw_indicia(indicia, side.indicia, face)
        )

    def products_too_small_for_opt_out(self, line: str) -> list[str]:
        """Titles of the products on which this opt-out line does not fit."""
        return self._products_without_room(
            lambda side, face: side.opt_out and furniture.draw_opt_out(line, side.opt_out, face)
        )

    def _products_without_room(self, draw: Callable[[Side, CachedFace], object]) -> list[str]:
        face = CachedFace(self.hands.plain)

        def has_room(side: Side) -> bool:
            try:
                draw(side, face)
            except DoesNotFit:
                return False
            return True

        return [product.title for product in self.products.values() if not all(map(has_room, product.all_sides()))]

    def compose(
        self, designs: Mapping[Any, Design], copies: Sequence[Copy], *, title: str, made_at: datetime
    ) -> PrintFiles:
        """Print-ready files of the copies, in the order given."""
        gc.disable()  # a batch leaves no cycles, and garbage collection costs a twentieth of it
        try:
            return _BatchComposer(self, designs, PrintMetadata(title, made_at, self._intent)).run(copies)
        finally:
            gc.enable()  # always, even if another thread still composes

    def preview(
        self,
        design: Design,
        copy: Copy,
        *,
        dpi: int = PREVIEW_DPI,
        only_preview: str | None = None,
        excluded_previews: Collection[str] = (),
    ) -> PreviewImages:
        """The finished item, drawn from the pages that would print; sides are given by their preview names."""
        side_names = self.products[design.product].previews
        excluded_sides = frozenset(side_names[name] for name in excluded_previews)
        job = _BatchComposer(
            self, {0: design}, None, only_side=only_preview and side_names[only_preview], excluded_sides=excluded_sides
        )
        files = job.run([replace(copy, design=0)])
        sheets, envelope = job.prepared_designs[0].sheets, job.prepared_designs[0].envelope
        rasterize = self.sandbox.rasterize
        images = rasterize(files.sheets, dpi=dpi, crops=[sheet.side.preview_area for sheet in sheets])
        sides = dict(zip(self._preview_names(design, sheets), images, strict=True))
        envelope_image = rasterize(files.envelopes, dpi=dpi)[0] if files.envelopes and envelope else None
        return PreviewImages(sides, envelope_image)

    def render_plain_front(self, product: str, *, dpi: int) -> bytes:
        """The first side without art and without a signature."""
        design = Design(product=product, message="", ink=PEN_COLORS["blue"].ink)
        copy = Copy(item_id=0, design=0, addressee=Addressee())
        first_preview = next(iter(self.products[product].previews))
        return self.preview(design, copy, dpi=dpi, only_preview=first_preview).sides[first_preview]

    def handwriting_settings(self, design: Design) -> tuple[SizeRange, bool]:
        """The sizes of the handwriting, and whether it is even, which only AI hands can be."""
        if self.hands.styles[design.hand].kind != "AI":
            return SizeRange.from_name("auto"), False
        return SizeRange.from_name(design.font_size), not design.realism

    def _preview_names(self, design: Design, sheets: Sequence[SheetTemplate]) -> list[str]:
        """A side's name in previews; further pages are counted."""
        names_by_side = {side: name for name, side in self.products[design.product].previews.items()}
        return [
            names_by_side.get(sheet.side.name, sheet.side.name) if sheet.side.name != "page" else f"page {number}"
            for number, sheet in enumerate(sheets, start=1)
        ]


@dataclass(frozen=True, slots=True)
class _PreparedDesign:
    design: Design
    layout: ProductLayout
    template: TextTemplate
    message_side: Side | None
    sizes: SizeRange
    is_even: bool
    product_type: bytes
    sheets: list[SheetTemplate]
    envelope: SheetTemplate | None


class _BatchComposer:
    """One batch; without metadata its files are plain PDFs for previews."""

    def __init__(
        self,
        renderer: Renderer,
        designs: Mapping[Any, Design],
        metadata: PrintMetadata | None,
        *,
        only_side: str | None = None,
        excluded_sides: frozenset[str] = frozenset(),
    ) -> None:
        self._renderer = renderer
        self._only_side = only_side
        self._excluded_sides = excluded_sides
        self._designs = designs
        self._fonts = BatchFonts(renderer.hands)
        self._sheets_pdf = BatchPdf(self._fonts, metadata, renderer.sandbox)
        self._envelopes_pdf = BatchPdf(self._fonts, metadata, renderer.sandbox)
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
        product, envelope = self._renderer.products[design.product], None
        sheets = self._prepare_sheets(design, product)
        if product.envelope and not self._only_side:
            envelope = self._envelopes_pdf.prepare_side(product.envelope, design)
        template, message_side = compile_template(design.message), None if design.pdf_only else product.message_side
        settings = self._renderer.handwriting_settings(design)
        product_type = text_string(product.product)
        return _PreparedDesign(design, product, template, message_side, *settings, product_type, sheets, envelope)

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
        handwriting = self._write_passages(copies)
        barcodes = self._encode_barcodes(copies)
        for index, copy in enumerate(copies):
            prepared = self.prepared_designs[copy.design]
            codes = ItemCodes(barcodes[index], self._qr_encoder)
            first_page = self._sheets_pdf.page_count + 1
            self._sheets_pdf.begin_item(copy.item_id, prepared.product_type)
            for sheet in prepared.sheets:
                self._sheets_pdf.add_page(
                    sheet, self._personal_content(sheet, prepared, copy, codes, handwriting[index])
                )
            if prepared.envelope:
                self._envelopes_pdf.begin_item(copy.item_id, prepared.product_type)
                envelope_content = self._personal_content(prepared.envelope, prepared, copy, codes, handwriting[index])
                self._envelopes_pdf.add_page(prepared.envelope, envelope_content)
            yield first_page, self._sheets_pdf.page_count

    def _personal_content(
        self,
        sheet: SheetTemplate,
        prepared: _PreparedDesign,
        copy: Copy,
        codes: ItemCodes,
        handwriting: dict[str, bytes],
    ) -> bytes:
        if not sheet.is_personal:
            return b""
        printed_content = draw_personal(sheet.side, prepared.design, copy, codes, self._fonts.plain)
        return handwriting.get(sheet.side.name, b"") + printed_content

    def _encode_barcodes(self, copies: Sequence[Copy]) -> list[bytes | None]:
        tracked = [(copy.tracking, copy.routing) for copy in copies if copy.tracking is not None]
        barcodes = iter(encode_barcodes(tracked))
        return [next(barcodes) if copy.tracking is not None else None for copy in copies]

    def _write_passages(self, copies: Sequence[Copy]) -> list[dict[str, bytes]]:
        """The handwriting of all copies by side, laid out together, which is many times faster."""
        handwriting: list[dict[str, bytes]] = [{} for _ in copies]
        by_style: dict[int, list[tuple[int, str, Passage]]] = {}
        for index, copy in enumerate(copies):
            prepared = self.prepared_designs[copy.design]
            passages = by_style.setdefault(prepared.design.hand, [])
            passages += [(index, side, passage) for side, passage in _handwritten_passages(prepared, copy)]
        for style, placed_passages in by_style.items():
            vocabulary = self._fonts.vocabulary_for(style)
            for indexes, layout in lay_out_passages(vocabulary, [passage for _, _, passage in placed_passages]):
                for row in np.flatnonzero(~layout.fits).tolist():
                    title = self.prepared_designs[copies[placed_passages[indexes[row]][0]].design].layout.title
                    raise misfit_error(layout, row, title)
                for passage_index, operators in zip(indexes, write_passages(vocabulary, layout), strict=True):
                    index, side, _ = placed_passages[passage_index]
                    by_side = handwriting[index]
                    by_side[side] = by_side[side] + operators if side in by_side else operators
        return handwriting


def _handwritten_passages(prepared: _PreparedDesign, copy: Copy) -> list[tuple[str, Passage]]:
    """Everything on this copy that is in the hand, with the name of its side."""
    design, is_even, passages = prepared.design, prepared.is_even, []
    side = prepared.message_side
    message = prepared.template.fill(copy.addressee, design.sender) if side else ""
    reader = copy.addressee
    # All unevenness of a copy comes from its reader and its text, which a preview knows as well.
    seed_text = f"{message}{reader.name}{reader.address}{reader.address2}{reader.postal_code}"
    seed = zlib.crc32(seed_text.encode(errors="replace"))
    if side is not None:
        passage = make_message_passage(
            side, design, message, seed, qr=copy.qr_url is not None, sizes=prepared.sizes, is_even=is_even
        )
        if passage:
            passages.append((side.name, passage))
    if prepared.envelope:
        side = prepared.envelope.side
        address = make_address_passage(side, design, copy.addressee, seed, is_even=is_even)
        sender = make_return_passage(side, design, seed, is_even=is_even)
        passages += [(side.name, passage) for passage in (address, sender) if passage]
    return passages
