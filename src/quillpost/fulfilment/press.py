"""What every step of fulfilment needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from quillpost.composition.studio import Studio
from quillpost.creative.shelf import Shelf
from quillpost.database import Database
from quillpost.fulfilment.checks import ReviewLimits
from quillpost.kit.sealing import Sealer
from quillpost.ports.giftcards import GiftcardIssuer
from quillpost.ports.worlds import World

DEFAULT_LIMITS = ReviewLimits()


@dataclass(frozen=True, slots=True)
class Press:
    db: Database
    studio: Studio
    shelf: Shelf
    worlds: Mapping[str, World]
    qr_base: str
    sealer: Sealer
    issuers: Mapping[str, GiftcardIssuer]
    """By mode, who issues the cards that pieces bring."""
    review: ReviewLimits = DEFAULT_LIMITS
    answer_within: timedelta | None = None
    """How long live orders that are due wait for a verifier; without one, not at all."""
    opt_out: str | None = None
    """What stands before a piece's code on the line about getting no more mail, where there is one."""

    @property
    def stocks(self) -> dict[str, str]:
        """The paper of each piece."""
        return {name: piece.stock for name, piece in self.studio.pieces.items()}
