"""Whether a design's texts fit: the sender's own, and each recipient's message and address."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from quillpost.rendering.handwriting.service import Hands
from quillpost.rendering.handwriting.text import CachedFace
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout import furniture
from quillpost.rendering.layout.models import ProductLayout
from quillpost.rendering.layout.paragraphs import DoesNotFit, Passage, SizeRange, lay_out_passages, misfit_error
from quillpost.rendering.layout.sides import make_address_passage, make_message_passage, make_return_passage
from quillpost.rendering.models import Addressee, Design

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
    def __init__(
        self, hands: Hands, product: ProductLayout, design: Design, sizes: SizeRange, *, is_even: bool
    ) -> None:
        self._product, self._design = product, design
        self._sides = list(product.all_sides())
        self._face = CachedFace(hands.plain)
        self._vocabulary = Vocabulary(hands.hand(design.hand))
        self._sizes, self._is_even = sizes, is_even
        self._sizes_used: list[float] = []

    @property
    def smallest_size(self) -> float | None:
        return min(self._sizes_used, default=None)

    def check_sender(self) -> DoesNotFit | None:
        try:
            for side in self._sides:
                if side.return_address and not side.handwritten:
                    furniture.draw_return_address(self._design.return_address, side.return_address, self._face)
                if side.indicia:
                    furniture.draw_indicia(self._design.indicia, side.indicia, self._face)
        except DoesNotFit as too_long:
            return too_long
        return_passages = [make_return_passage(side, self._design, 0, is_even=self._is_even) for side in self._sides]
        return self._find_misfits([(None, passage) for passage in return_passages if passage]).get(None)

    def check_messages(self, messages: Sequence[str], *, qr: bool, find_all: bool) -> dict[int, DoesNotFit]:
        """Recipients with the same text share one check; it stops at the first misfits unless `find_all`.

        A message that fits above a QR code fits without one, too.
        """
        if self._design.pdf_only:
            return {}
        side, sizes, is_even = self._product.message_side, self._sizes, self._is_even
        distinct = list(dict.fromkeys(messages))
        misfits: dict[str, DoesNotFit] = {}
        for start in range(0, len(distinct), _MESSAGES_PER_CHECK):
            batch = distinct[start : start + _MESSAGES_PER_CHECK]
            misfits |= {
                message: self._too_many_characters(message) for message in batch if len(message) > _MAX_MESSAGE_CHARS
            }
            passages = [
                (message, make_message_passage(side, self._design, message, 0, qr=qr, sizes=sizes, is_even=is_even))
                for message in batch
                if message not in misfits
            ]
            misfits |= self._find_misfits(
                [(message, passage) for message, passage in passages if passage], self._sizes_used
            )
            if misfits and not find_all:
                break
        return {index: misfits[message] for index, message in enumerate(messages) if message in misfits}

    def _too_many_characters(self, message: str) -> DoesNotFit:
        return DoesNotFit(
            len(message) // _CHARS_PER_LINE,
            f"The message has {len(message):,} characters with its variables filled,"
            f" far too many for a {self._product.title}.",
        )

    def check_addresses(self, addressees: Sequence[Addressee]) -> dict[int, DoesNotFit]:
        misfits: dict[int, DoesNotFit] = {}
        passages = []
        for index, addressee in enumerate(addressees):
            for side in self._sides:
                passage = make_address_passage(side, self._design, addressee, 0, is_even=self._is_even)
                if passage:
                    passages.append((index, passage))
                if side.address and not side.handwritten:
                    try:
                        furniture.draw_address(addressee, side.address, self._face)
                    except DoesNotFit as too_long:
                        misfits[index] = too_long
        return misfits | self._find_misfits(passages)

    def _find_misfits(
        self, passages: Sequence[tuple[Key, Passage]], sizes_used: list[float] | None = None
    ) -> dict[Key, DoesNotFit]:
        misfits = {}
        for indexes, layout in lay_out_passages(self._vocabulary, [passage for _, passage in passages]):
            if sizes_used is not None:
                sizes_used.append(float(layout.sizes.min()))
            for row in np.flatnonzero(~layout.fits).tolist():
                misfits[passages[indexes[row]][0]] = misfit_error(layout, row, self._product.title)
        return misfits
