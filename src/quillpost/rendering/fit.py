"""Whether a design's texts fit its piece: the sender's own, each recipient's message and address."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from quillpost.rendering.handwriting.collection import Hands
from quillpost.rendering.handwriting.plain import Lettering
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout import furniture
from quillpost.rendering.layout.paragraphs import DoesNotFit, Passage, Sizes, chunks, does_not_fit
from quillpost.rendering.layout.products import Piece
from quillpost.rendering.layout.sides import address_passage, message_passage, return_passage
from quillpost.rendering.models import Addressee, Design

Key = TypeVar("Key", bound=Hashable)

# No piece takes so many letters: such a message is not even laid out.
_MOST_LETTERS = 20_000
_LETTERS_A_LINE = 60
_LOOKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Misfits:
    """All that is too long for a piece: what is the sender's, and by recipient messages and addresses."""

    sender: DoesNotFit | None
    messages: dict[int, DoesNotFit]
    addresses: dict[int, DoesNotFit]
    smallest: float | None = field(default=None, compare=False)
    """In points, the size of the smallest letters that a message is written in; None, none was laid out."""


class Fit:
    """Whether one design's texts fit its piece."""

    def __init__(self, hands: Hands, piece: Piece, design: Design, sizes: Sizes, *, is_even: bool) -> None:
        self._piece, self._design = piece, design
        self._sides = list(piece.every_side())
        self._face = Lettering(hands.plain)
        self._vocabulary = Vocabulary(hands.hand(design.hand))
        self._sizes, self._is_even = sizes, is_even
        self._written_at: list[float] = []

    @property
    def smallest(self) -> float | None:
        """The smallest size of those messages that were laid out so far."""
        return min(self._written_at, default=None)

    def sender(self) -> DoesNotFit | None:
        try:
            for side in self._sides:
                if side.return_address and not side.handwritten:
                    furniture.draw_return_address(
                        self._design.return_address, side.return_address, self._face
                    )
                if side.indicia:
                    furniture.draw_indicia(self._design.indicia, side.indicia, self._face)
        except DoesNotFit as too_long:
            return too_long
        written = [return_passage(side, self._design, 0, is_even=self._is_even) for side in self._sides]
        return self._unfit([(None, passage) for passage in written if passage]).get(None)

    def messages(self, own: Sequence[str], *, qr: bool, every: bool) -> dict[int, DoesNotFit]:
        """Recipients with the same words share one look; unless every misfit is wanted, it ends with
        the first that are too long.

        A message that fits above a QR code fits without one, too.
        """
        if self._design.pdf_only:
            return {}
        side, sizes, is_even = self._piece.message_side, self._sizes, self._is_even
        distinct = list(dict.fromkeys(own))
        unfit: dict[str, DoesNotFit] = {}
        for start in range(0, len(distinct), _LOOKED_AT_ONCE):
            some = distinct[start : start + _LOOKED_AT_ONCE]
            unfit |= {words: self._far_too_long(words) for words in some if len(words) > _MOST_LETTERS}
            found = [
                (words, message_passage(side, self._design, words, 0, qr=qr, sizes=sizes, is_even=is_even))
                for words in some
                if words not in unfit
            ]
            unfit |= self._unfit([(words, passage) for words, passage in found if passage], self._written_at)
            if unfit and not every:
                break
        return {place: unfit[words] for place, words in enumerate(own) if words in unfit}

    def _far_too_long(self, words: str) -> DoesNotFit:
        return DoesNotFit(
            len(words) // _LETTERS_A_LINE,
            f"The message has {len(words):,} characters with its variables filled,"
            f" far too many for a {self._piece.title}.",
        )

    def addresses(self, addressees: Sequence[Addressee]) -> dict[int, DoesNotFit]:
        unfit: dict[int, DoesNotFit] = {}
        passages = []
        for place, addressee in enumerate(addressees):
            for side in self._sides:
                passage = address_passage(side, self._design, addressee, 0, is_even=self._is_even)
                if passage:
                    passages.append((place, passage))
                if side.address and not side.handwritten:
                    try:
                        furniture.draw_address(addressee, side.address, self._face)
                    except DoesNotFit as too_long:
                        unfit[place] = too_long
        return unfit | self._unfit(passages)

    def _unfit(
        self, passages: Sequence[tuple[Key, Passage]], written_at: list[float] | None = None
    ) -> dict[Key, DoesNotFit]:
        unfit = {}
        for places, layout in chunks(self._vocabulary, [passage for _, passage in passages]):
            if written_at is not None:
                written_at.append(float(layout.sizes.min()))
            for row in np.flatnonzero(~layout.fits).tolist():
                unfit[passages[places[row]][0]] = does_not_fit(layout, row, self._piece.title)
        return unfit
