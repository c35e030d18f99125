"""From designs and copies to one print-ready PDF, and to previews of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from quillpost.composition.art.image import ImageFacts, covering, prepare_picture
from quillpost.composition.content import BALLPOINTS, Addressee, Copy, Design
from quillpost.composition.hands.hand import HAND_FONT, PLAIN_FONT, hand
from quillpost.composition.marks.qr import QrEncoder, draw_qr
from quillpost.composition.pages import front, furniture
from quillpost.composition.pages.layout import Setting, set_message
from quillpost.composition.pages.pieces import PIECES, Box, PieceTemplate
from quillpost.composition.pages.writing import write
from quillpost.composition.pdf.fonts import embed_face
from quillpost.composition.pdf.raster import rasterise
from quillpost.composition.pdf.writer import PdfFile
from quillpost.composition.words.variables import fill, values_of

PAGES_A_PIECE = 2

_INFO = b"<</Producer(Quillpost)/Trapped/False>>"
_QR_MARGIN = 4.0
_PANEL_MARGIN = 3.0


def check_sender_fits(design: Design) -> None:
    """Raise DoesNotFit unless there is room for the return address and the postage mark.

    They are the same on every piece. What passes this check and the two below always composes.
    """
    piece = PIECES[design.piece]
    furniture.draw_return_address(design.return_address, piece.return_address)
    furniture.draw_indicia(design.indicia, piece.indicia)


def check_message_fits(design: Design, addressee: Addressee, *, qr: bool) -> None:
    """The same for the message with this addressee's words in it.

    A message that fits above a QR code fits without one, too.
    """
    _set(design, addressee, PIECES[design.piece], qr=qr)


def check_address_fits(design: Design, addressee: Addressee) -> None:
    """The same for the address block."""
    furniture.draw_address(addressee, PIECES[design.piece].address)


def compose_batch(designs: Mapping[int, Design], copies: Sequence[Copy]) -> bytes:
    """One PDF, front and back of each piece in the order given."""
    batch = _Batch()
    looks = {key: batch.prepare(designs[key]) for key in dict.fromkeys(c.design for c in copies)}
    for copy in copies:
        batch.add(looks[copy.design], copy)
    return batch.finish()


def pages_of(copy_index: int) -> tuple[int, int]:
    """The first and the last page, counted from 1, of the copy at that place in its batch."""
    first = copy_index * PAGES_A_PIECE + 1
    return first, first + PAGES_A_PIECE - 1


def preview(design: Design, copy: Copy, *, dpi: int = 150) -> dict[str, bytes]:
    """PNGs of the finished piece, `front` and `back`."""
    pdf = compose_batch({0: design}, [replace(copy, design=0)])
    front_png, back_png = rasterise(pdf, dpi=dpi)
    return {"front": front_png, "back": back_png}


@cache
def plain_front_png(piece: str, dpi: int) -> bytes:
    """The front of a piece without art and without a signature, drawn once and then remembered."""
    design = Design(piece=piece, message="", ink=BALLPOINTS["blue"].ink)
    return preview(design, Copy(item_id=0, design=0, addressee=Addressee()), dpi=dpi)["front"]


@dataclass(frozen=True, slots=True)
class _Look:
    """What all copies of one design share in the file: numbers of its objects."""

    design: Design
    piece: PieceTemplate
    page_entries: bytes
    front_content: int
    back_content: int


@dataclass(frozen=True, slots=True)
class _PlacedPicture:
    """A picture that the file already holds, without its pixels."""

    facts: ImageFacts
    orientation: int
    number: int


class _Batch:
    """One PDF in the making; fonts, pictures and a design's content are written once."""

    def __init__(self) -> None:
        self._pdf = PdfFile()
        self._qr = QrEncoder()
        self._pictures: dict[bytes, _PlacedPicture] = {}
        self._hand = hand()
        self._fonts = b"/Font<<%b %d 0 R%b %d 0 R>>" % (
            HAND_FONT,
            embed_face(self._pdf, self._hand.face),
            PLAIN_FONT,
            embed_face(self._pdf, self._hand.plain),
        )

    def prepare(self, design: Design) -> _Look:
        piece = PIECES[design.piece]
        to_trim = b"1 0 0 1 %.2f %.2f cm\n" % (piece.bleed, piece.bleed)
        front_content = self._pdf.add_stream(to_trim + self._front(design, piece))
        back_content = self._pdf.add_stream(to_trim + self._back(design, piece))
        return _Look(design, piece, self._page_entries(design, piece), front_content, back_content)

    def add(self, look: _Look, copy: Copy) -> None:
        content = self._pdf.add_stream(self._personal(look, copy))
        self._pdf.add_page(look.page_entries, [look.front_content])
        self._pdf.add_page(look.page_entries, [look.back_content, content])

    def finish(self) -> bytes:
        return self._pdf.finish(_INFO)

    def _front(self, design: Design, piece: PieceTemplate) -> bytes:
        if design.front is None:
            return front.draw_plain_front(piece, self._hand, design.sender)
        return self._art(design.front, piece.bleed_box, b"")

    def _back(self, design: Design, piece: PieceTemplate) -> bytes:
        """The part of the back that every copy of the design shares."""
        parts = []
        if design.background is not None:
            hole = furniture.rectangle(piece.ink_free)
            parts.append(self._art(design.background, piece.bleed_box, hole))
            panel = furniture.return_panel(design.return_address, piece.return_address)
            if panel is not None:
                parts.append(_white(panel.grown(_PANEL_MARGIN)))
        parts.append(furniture.draw_divider(piece.divider))
        parts.append(furniture.draw_return_address(design.return_address, piece.return_address))
        parts.append(furniture.draw_indicia(design.indicia, piece.indicia))
        return b"".join(parts)

    def _personal(self, look: _Look, copy: Copy) -> bytes:
        """What only this copy says."""
        design, piece = look.design, look.piece
        has_qr = copy.qr_url is not None
        setting = _set(design, copy.addressee, piece, qr=has_qr)
        parts = [
            write(
                setting,
                piece.message_box(qr=has_qr),
                design.ink,
                copy.item_id,
                realism=design.realism,
            ),
            furniture.draw_address(copy.addressee, piece.address),
        ]
        if copy.tracking is not None:
            parts.append(furniture.draw_barcode(copy.tracking, copy.routing, piece.barcode))
        if copy.qr_url is not None:
            if design.background is not None:
                parts.append(_white(piece.qr.grown(_QR_MARGIN)))
            parts.append(draw_qr(self._qr.encode(copy.qr_url), piece.qr))
        return b"".join(parts)

    def _art(self, data: bytes, area: Box, hole: bytes) -> bytes:
        """The picture over the area; with a hole, the even-odd rule keeps it out of there."""
        placed = self._picture(data)
        clip = b"%b %b W* n" % (furniture.rectangle(area), hole)
        matrix = covering(placed.facts, placed.orientation, area)
        return b"q %b %b /P%d Do Q\n" % (clip, matrix, placed.number)

    def _picture(self, data: bytes) -> _PlacedPicture:
        """Known by its digest: designs of many orders share their art, and its bytes need not stay."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._pictures:
            picture = prepare_picture(data)
            entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d%b" % (
                picture.facts.width,
                picture.facts.height,
                picture.entries,
            )
            number = self._pdf.add_stream(picture.data, entries, is_compressed=True)
            self._pictures[digest] = _PlacedPicture(picture.facts, picture.orientation, number)
        return self._pictures[digest]

    def _page_entries(self, design: Design, piece: PieceTemplate) -> bytes:
        numbers = [
            self._picture(data).number for data in (design.front, design.background) if data is not None
        ]
        pictures = b"".join(b"/P%d %d 0 R" % (n, n) for n in dict.fromkeys(numbers))
        media = b"[0 0 %.2f %.2f]" % (piece.bleed_box.width, piece.bleed_box.height)
        trim = b"[%.2f %.2f %.2f %.2f]" % (
            piece.bleed,
            piece.bleed,
            piece.bleed + piece.trim.width,
            piece.bleed + piece.trim.height,
        )
        resources = self._pdf.add(b"<<%b/XObject<<%b>>>>" % (self._fonts, pictures))
        return b"/MediaBox%b/BleedBox%b/TrimBox%b/Resources %d 0 R" % (
            media,
            media,
            trim,
            resources,
        )


def _set(design: Design, addressee: Addressee, piece: PieceTemplate, *, qr: bool) -> Setting:
    text = fill(design.message, values_of(addressee, design.sender))
    return set_message(hand(), text, piece.message_box(qr=qr), design.font_size, piece.title)


def _white(box: Box) -> bytes:
    """A quiet panel, so that a reader finds its contrast over any background."""
    return b"q 1 g %b f Q\n" % furniture.rectangle(box)
