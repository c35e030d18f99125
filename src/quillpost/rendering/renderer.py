"""What the rest of the service asks of composition: does it fit, how does it look, print it."""

import gc
import zlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from quillpost.rendering.batch_files import BatchFile, Inks, Sheet
from quillpost.rendering.codes.barcode import encode_many
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.rendering.fit import Fit, Misfits
from quillpost.rendering.handwriting.collection import Hands
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.layout import furniture
from quillpost.rendering.layout.paragraphs import Passage, Sizes, chunks, does_not_fit
from quillpost.rendering.layout.passages import write
from quillpost.rendering.layout.products import Piece, Side
from quillpost.rendering.layout.sides import Codes, address_passage, message_passage, personal, return_passage
from quillpost.rendering.models import BALLPOINTS, Addressee, Copy, Design
from quillpost.rendering.pdf.color import SRGB, OutputIntent
from quillpost.rendering.pdf.metadata import Press
from quillpost.rendering.pdf.objects import text_string
from quillpost.rendering.ports import Sandbox
from quillpost.rendering.text.variables import Template, compile_text

_COPIES_AT_ONCE = 2_500
PREVIEW_DPI = 150


@dataclass(frozen=True, slots=True)
class Printed:
    """A batch as files. For each copy its first and its last page, counted from 1.

    `envelopes` has one page a copy, in the same order; pieces without an envelope have no such file.
    """

    sheets: bytes
    pages: list[tuple[int, int]]
    envelopes: bytes | None


@dataclass(frozen=True, slots=True)
class Previews:
    """PNGs by the names of what they show, in reading order."""

    sides: dict[str, bytes]
    envelope: bytes | None


class Studio:
    """Everything that it takes to draw: the hands, the pieces' templates, the press's colours."""

    def __init__(
        self, hands: Hands, pieces: Mapping[str, Piece], intent: OutputIntent = SRGB, *, sandbox: Sandbox
    ) -> None:
        self.hands = hands
        self.pieces = pieces
        self.sandbox = sandbox
        self._intent = intent

    def wordings(self, design: Design, addressees: Sequence[Addressee]) -> list[str]:
        """The message as each of them reads it."""
        text = compile_text(design.message)
        return [text.fill(addressee, design.sender) for addressee in addressees]

    def misfits(
        self,
        design: Design,
        addressees: Sequence[Addressee],
        *,
        qr: bool,
        wordings: Sequence[str] | None = None,
        every: bool = False,
    ) -> Misfits:
        """What does not fit. A design without misfits always composes for these addressees.

        `wordings` spares filling the message for everyone once more, where that was done already.
        Of messages the first few that are too long are found, or with `every` each one.
        """
        sizes, is_even = self.handwriting_of(design)
        fit = Fit(self.hands, self.pieces[design.piece], design, sizes, is_even=is_even)
        own = self.wordings(design, addressees) if wordings is None else wordings
        messages = fit.messages(own, qr=qr, every=every)
        return Misfits(fit.sender(), messages, fit.addresses(addressees), fit.smallest)

    def too_small_for(self, indicia: Sequence[str]) -> list[str]:
        """The titles of the pieces on which these lines of a permit imprint do not fit."""
        face = Lettering(self.hands.plain)
        return self._without_room(
            lambda side: side.indicia is None or furniture.takes_indicia(indicia, side.indicia, face)
        )

    def too_small_for_opt_out(self, line: str) -> list[str]:
        """The titles of the pieces on which such a line about getting no more mail does not fit."""
        face = Lettering(self.hands.plain)
        return self._without_room(
            lambda side: side.opt_out is None or furniture.takes_opt_out(line, side.opt_out, face)
        )

    def _without_room(self, takes: Callable[[Side], bool]) -> list[str]:
        return [piece.title for piece in self.pieces.values() if not all(map(takes, piece.every_side()))]

    def compose(
        self, designs: Mapping[Any, Design], copies: Sequence[Copy], *, title: str, made_at: datetime
    ) -> Printed:
        """Print-ready files of the copies, in the order given. Designs have keys of any kind."""
        with _uncollected():
            return _Job(self, designs, Press(title, made_at, self._intent)).run(copies)

    def preview(
        self,
        design: Design,
        copy: Copy,
        *,
        dpi: int = PREVIEW_DPI,
        only: str | None = None,
        without: Collection[str] = (),
    ) -> Previews:
        """The finished piece, drawn from the very pages that would print.

        `only` names the one side that is wanted, as the piece's previews name it; `without`, those that are
        not.
        """
        names = self.pieces[design.piece].previews
        left_out = frozenset(names[name] for name in without)
        job = _Job(self, {0: design}, None, only=only and names[only], without=left_out)
        printed = job.run([replace(copy, design=0)])
        sheets, envelope = job.looks[0].sheets, job.looks[0].envelope
        draw = self.sandbox.rasterize
        pictures = draw(printed.sheets, dpi=dpi, crops=[sheet.side.shown for sheet in sheets])
        sides = dict(zip(self._names(design, sheets), pictures, strict=True))
        wrapped = draw(printed.envelopes, dpi=dpi)[0] if printed.envelopes and envelope else None
        return Previews(sides, wrapped)

    def plain_front(self, piece: str, *, dpi: int) -> bytes:
        """The first side of a piece without art and without a signature."""
        design = Design(piece=piece, message="", ink=BALLPOINTS["blue"].ink)
        copy = Copy(item_id=0, design=0, addressee=Addressee())
        first = next(iter(self.pieces[piece].previews))
        return self.preview(design, copy, dpi=dpi, only=first).sides[first]

    def handwriting_of(self, design: Design) -> tuple[Sizes, bool]:
        """At which sizes the hand may write, and whether evenly: a choice that only AI hands have."""
        if self.hands.styles[design.hand].kind != "AI":
            return Sizes.named("auto"), False
        return Sizes.named(design.font_size), not design.realism

    def _names(self, design: Design, sheets: Sequence[Sheet]) -> list[str]:
        """A side's own name in previews; further pages are counted."""
        by_side = {side: name for name, side in self.pieces[design.piece].previews.items()}
        return [
            by_side.get(sheet.side.name, sheet.side.name) if sheet.side.name != "page" else f"page {number}"
            for number, sheet in enumerate(sheets, start=1)
        ]


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage meanwhile: a batch leaves no cycles, and searching costs a twentieth of it."""
    gc.disable()
    try:
        yield
    finally:
        # Always: whoever else composes meanwhile is searched for a while, and nobody is left without.
        gc.enable()


@dataclass(frozen=True, slots=True)
class _Look:
    """A design as its copies are made from it."""

    design: Design
    piece: Piece
    text: Template
    message_side: Side | None
    sizes: Sizes
    is_even: bool
    product: bytes
    sheets: list[Sheet]
    envelope: Sheet | None


class _Job:
    """One batch on its way into files; without a press they are plain PDFs for the eye alone."""

    def __init__(
        self,
        studio: Studio,
        designs: Mapping[Any, Design],
        press: Press | None,
        *,
        only: str | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._studio = studio
        self._only = only
        self._without = without
        self._designs = designs
        self._inks = Inks(studio.hands)
        self._sheets = BatchFile(self._inks, press, studio.sandbox)
        self._envelopes = BatchFile(self._inks, press, studio.sandbox)
        self._qr = QrEncoder()
        self.looks: dict[Hashable, _Look] = {}

    def run(self, copies: Sequence[Copy]) -> Printed:
        self.looks = {
            key: self._look(self._designs[key]) for key in dict.fromkeys(copy.design for copy in copies)
        }
        pages: list[tuple[int, int]] = []
        for start in range(0, len(copies), _COPIES_AT_ONCE):
            pages += self._add(copies[start : start + _COPIES_AT_ONCE])
        envelopes = self._envelopes.finish() if self._envelopes.page_count else None
        return Printed(self._sheets.finish(), pages, envelopes)

    def _look(self, design: Design) -> _Look:
        piece = self._studio.pieces[design.piece]
        return _Look(
            design,
            piece,
            compile_text(design.message),
            None if design.pdf_only else piece.message_side,
            *self._studio.handwriting_of(design),
            text_string(piece.product),
            self._prepared(design, piece),
            self._envelopes.prepare(piece.envelope, design) if piece.envelope and not self._only else None,
        )

    def _prepared(self, design: Design, piece: Piece) -> list[Sheet]:
        sides = piece.sides
        if design.pdf_only:
            # A window must show an address; where there is none, the PDF alone is the letter.
            sides = (piece.address_sheet,) if piece.address_sheet else ()
        if self._only:
            return [self._sheets.prepare(side, design) for side in sides if side.name == self._only]
        pages = self._sheets.prepare_pages(piece.extra, design) if piece.extra else []
        wanted = [side for side in sides if side.name not in self._without]
        return [self._sheets.prepare(side, design) for side in wanted] + pages

    def _add(self, copies: Sequence[Copy]) -> Iterator[tuple[int, int]]:
        written = self._written(copies)
        bars = self._bars(copies)
        for place, copy in enumerate(copies):
            look = self.looks[copy.design]
            codes = Codes(bars[place], self._qr)
            first = self._sheets.page_count + 1
            self._sheets.begin_piece(copy.item_id, look.product)
            for sheet in look.sheets:
                self._sheets.add(sheet, self._personal(sheet, look, copy, codes, written[place]))
            if look.envelope:
                self._envelopes.begin_piece(copy.item_id, look.product)
                own = self._personal(look.envelope, look, copy, codes, written[place])
                self._envelopes.add(look.envelope, own)
            yield first, self._sheets.page_count

    def _personal(
        self, sheet: Sheet, look: _Look, copy: Copy, codes: Codes, written: dict[str, bytes]
    ) -> bytes:
        if not sheet.is_personal:
            return b""
        own = personal(sheet.side, look.design, copy, codes, self._inks.plain)
        return written.get(sheet.side.name, b"") + own

    def _bars(self, copies: Sequence[Copy]) -> list[bytes | None]:
        tracked = [(copy.tracking, copy.routing) for copy in copies if copy.tracking is not None]
        bars = iter(encode_many(tracked))
        return [next(bars) if copy.tracking is not None else None for copy in copies]

    def _written(self, copies: Sequence[Copy]) -> list[dict[str, bytes]]:
        """All handwriting of the copies, by side: laid out together, as that is many times faster."""
        written: list[dict[str, bytes]] = [{} for _ in copies]
        by_style: dict[int, list[tuple[int, str, Passage]]] = {}
        for place, copy in enumerate(copies):
            look = self.looks[copy.design]
            passages = by_style.setdefault(look.design.hand, [])
            passages += [(place, side, passage) for side, passage in _passages(look, copy)]
        for style, found in by_style.items():
            vocabulary = self._inks.vocabulary(style)
            for group, layout in chunks(vocabulary, [passage for _, _, passage in found]):
                for row in np.flatnonzero(~layout.fits).tolist():
                    title = self.looks[copies[found[group[row]][0]].design].piece.title
                    raise does_not_fit(layout, row, title)
                for number, operators in zip(group, write(vocabulary, layout), strict=True):
                    place, side, _ = found[number]
                    own = written[place]
                    own[side] = own[side] + operators if side in own else operators
        return written


def _passages(look: _Look, copy: Copy) -> list[tuple[str, Passage]]:
    """Everything on this copy that is in the hand, with the name of its side."""
    design, is_even, found = look.design, look.is_even, []
    side = look.message_side
    words = look.text.fill(copy.addressee, design.sender) if side else ""
    seed = _seed(copy.addressee, words)
    if side is not None:
        passage = message_passage(
            side, design, words, seed, qr=copy.qr_url is not None, sizes=look.sizes, is_even=is_even
        )
        if passage:
            found.append((side.name, passage))
    if look.envelope:
        side = look.envelope.side
        address = address_passage(side, design, copy.addressee, seed, is_even=is_even)
        sender = return_passage(side, design, seed, is_even=is_even)
        found += [(side.name, passage) for passage in (address, sender) if passage]
    return found


def _seed(whom: Addressee, words: str) -> int:
    """Where all unevenness of a copy comes from: its reader and its words, which a preview knows as well."""
    told = f"{words}{whom.name}{whom.address}{whom.address2}{whom.postal_code}"
    return zlib.crc32(told.encode(errors="replace"))
