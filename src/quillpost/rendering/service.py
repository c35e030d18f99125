"""Checks whether designs fit, draws previews, and composes print files."""

import gc
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from quillpost.rendering.files import BatchComposer, PrintFiles, SheetTemplate, make_vocabulary
from quillpost.rendering.handwriting.service import Hands
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.layout.models import DoesNotFit, Passage, ProductLayout, Side
from quillpost.rendering.layout.paragraphs import (
    lay_out_passages,
    make_address_passage,
    make_message_passage,
    make_return_passage,
    message_settings,
    misfit_error,
)
from quillpost.rendering.layout.sides import fit_opt_out
from quillpost.rendering.layout.text import draw_address, draw_indicia, fit_return_address
from quillpost.rendering.models import PEN_COLORS, Addressee, Copy, Design
from quillpost.rendering.pdf.color import SRGB, OutputIntent
from quillpost.rendering.pdf.files import PrintMetadata
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.text.variables import compile_template

Key = TypeVar("Key", bound=Hashable)

# No piece takes so many letters: such a message is not even laid out.
_MAX_MESSAGE_CHARS = 20_000
_CHARS_PER_LINE = 60
_MESSAGES_PER_CHECK = 500


@dataclass(frozen=True, slots=True)
class Misfits:
    """What is too long: the sender's texts, and by recipient messages and addresses."""

    sender: DoesNotFit | None
    messages: dict[int, DoesNotFit]
    addresses: dict[int, DoesNotFit]
    smallest_size: float | None = field(default=None, compare=False)
    """Of all messages, in points; None if none was laid out."""


class FitChecker:
    def __init__(self, hands: Hands, product: ProductLayout, design: Design) -> None:
        hand = hands.hand_for(design.hand_choice)
        self._product, self._design = product, design
        self._face = CachedFace(hands.plain)
        self._vocabulary = make_vocabulary(hand)
        self._settings = message_settings(design, hand.style)
        self.sizes_used: list[float] = []  # the smallest of each group of passages

    def check_sender(self) -> DoesNotFit | None:
        try:
            for side in self._product.all_sides:
                if side.return_address and not side.handwritten:
                    fit_return_address(self._design.return_address, side.return_address, self._face)
                if side.indicia:
                    draw_indicia(self._design.indicia, side.indicia, self._face)
        except DoesNotFit as too_long:
            return too_long
        passages = [
            (None, passage)
            for side in self._product.all_sides
            if side.handwritten
            and (passage := make_return_passage(side, self._design, 0, manner=self._settings.manner))
        ]
        return self._find_misfits(passages).get(None) if passages else None

    def check_messages(self, messages: Sequence[str], *, qr: bool, find_all: bool) -> dict[int, DoesNotFit]:
        """Recipients with the same text share one check; it stops at the first misfits unless `find_all`.

        A message that fits above a QR code fits without one, too.
        """
        if self._design.pdf_only:
            return {}
        side = self._product.message_side
        distinct = list(dict.fromkeys(messages))
        misfits: dict[str, DoesNotFit] = {}
        for start in range(0, len(distinct), _MESSAGES_PER_CHECK):
            batch = distinct[start : start + _MESSAGES_PER_CHECK]
            passages = []
            for message in batch:
                if len(message) > _MAX_MESSAGE_CHARS:
                    text = (
                        f"The message has {len(message):,} characters with its variables filled, far too many for a"
                        f" {self._product.title}."
                    )
                    misfits[message] = DoesNotFit(len(message) // _CHARS_PER_LINE, text)
                elif passage := make_message_passage(side, self._design, message, 0, self._settings, qr=qr):
                    passages.append((message, passage))
            misfits |= self._find_misfits(passages)
            if misfits and not find_all:
                break
        return {index: misfits[message] for index, message in enumerate(messages) if message in misfits}

    def check_addresses(self, addressees: Sequence[Addressee]) -> dict[int, DoesNotFit]:
        misfits: dict[int, DoesNotFit] = {}
        passages = []
        for index, addressee in enumerate(addressees):
            for side in self._product.all_sides:
                if side.handwritten:
                    if passage := make_address_passage(side, self._design, addressee, 0, manner=self._settings.manner):
                        passages.append((index, passage))
                elif side.address:
                    try:
                        draw_address(addressee, side.address, self._face)
                    except DoesNotFit as too_long:
                        misfits[index] = too_long
        return misfits | self._find_misfits(passages) if passages else misfits

    def _find_misfits(self, passages: Sequence[tuple[Key, Passage]]) -> dict[Key, DoesNotFit]:
        misfits = {}
        for indexes, layout in lay_out_passages(self._vocabulary, [passage for _, passage in passages]):
            self.sizes_used.append(float(layout.sizes.min()))
            for row in np.flatnonzero(~layout.fits).tolist():
                misfits[passages[indexes[row]][0]] = misfit_error(layout, row, self._product.title)
        return misfits


PREVIEW_DPI = 150


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
        checker = FitChecker(self.hands, self.products[design.product], design)
        filled_messages = self.fill_messages(design, addressees) if messages is None else messages
        message_misfits = checker.check_messages(filled_messages, qr=qr, find_all=find_all)
        smallest_size = min(checker.sizes_used, default=None)
        return Misfits(checker.check_sender(), message_misfits, checker.check_addresses(addressees), smallest_size)

    def products_too_small_for_indicia(self, indicia: Sequence[str]) -> list[str]:
        """Titles of the products on which this permit imprint does not fit."""
        return self._products_without_room(
            lambda side, face: side.indicia and draw_indicia(indicia, side.indicia, face)
        )

    def products_too_small_for_opt_out(self, line: str) -> list[str]:
        """Titles of the products on which this opt-out line does not fit."""
        return self._products_without_room(lambda side, face: side.opt_out and fit_opt_out(line, side.opt_out, face))

    def _products_without_room(self, draw: Callable[[Side, CachedFace], object]) -> list[str]:
        face = CachedFace(self.hands.plain)

        def has_room(side: Side) -> bool:
            try:
                draw(side, face)
            except DoesNotFit:
                return False
            return True

        return [product.title for product in self.products.values() if not all(map(has_room, product.all_sides))]

    def compose(
        self, designs: Mapping[Any, Design], copies: Sequence[Copy], *, title: str, made_at: datetime
    ) -> PrintFiles:
        """Print-ready files of the copies, in the order given."""
        metadata = PrintMetadata(title, made_at, self._intent)
        gc.disable()  # a batch leaves no cycles, and garbage collection costs a twentieth of it
        try:
            return BatchComposer(self.hands, self.products, self.sandbox, designs, metadata).run(copies)
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
        job = BatchComposer(
            self.hands,
            self.products,
            self.sandbox,
            {0: design},
            None,
            only_side=only_preview and side_names[only_preview],
            excluded_sides=frozenset(side_names[name] for name in excluded_previews),
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

    def _preview_names(self, design: Design, sheets: Sequence[SheetTemplate]) -> list[str]:
        """A side's name in previews; further pages are counted."""
        names_by_side = {side: name for name, side in self.products[design.product].previews.items()}
        return [
            names_by_side.get(sheet.side.name, sheet.side.name) if sheet.side.name != "page" else f"page {number}"
            for number, sheet in enumerate(sheets, start=1)
        ]
