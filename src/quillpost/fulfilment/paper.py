"""The single prints of a batch, and what can still be done with each: some are void, some in the mail."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.fulfilment.rules import reference
from quillpost.orders.rules import ENDS, ItemStatus

IN_THE_HOUSE = frozenset({ItemStatus.PROCESSING, ItemStatus.PRINTED})
"""Where the carrier has not seen a piece, it may still be in the print room."""

FIND = sa.text(
    """
    select p.position, p.item_id, p.superseded, i.status, i.person_gone_at is not null as is_erased,
           exists (select 1 from giftcards g where g.item_id = p.item_id
                      and g.claim_digest is not null and g.claim_sealed is null) as claim_is_gone,
           (select max(n.batch_id) from prints n
             where p.superseded and n.item_id = p.item_id and not n.superseded) as anew
      from prints p join items i on i.id = p.item_id
     where p.batch_id = :batch
       and (p.position = any(cast(:positions as integer[])) or p.item_id = any(cast(:items as bigint[])))
     order by p.position
    """
)


@dataclass(frozen=True, slots=True)
class Paper:
    """A piece as it lies in a batch. Void, it is printed again in batch `anew`, unless it ended before."""

    position: int
    item_id: int
    status: ItemStatus
    is_void: bool
    anew: int | None
    is_erased: bool = False
    claim_is_gone: bool = False
    """Of a gift card; it works for whoever has the piece, and cannot be printed again."""

    @property
    def is_in_the_mail(self) -> bool:
        """What has failed is no news, and void paper is not what the carrier has."""
        return not self.is_void and self.status not in (*IN_THE_HOUSE, ItemStatus.FAILED)

    @property
    def why_not_spoiled(self) -> str | None:
        """What a person is told who calls it spoiled in vain."""
        if self.is_void and self.anew is not None:
            return f"Piece {self.position} was reprinted in {reference(self.anew)}: mark it there."
        if self.is_void:
            return f"Piece {self.position} was to be reprinted, and has ended before ({self.status})."
        if self.is_in_the_mail:
            return f"Piece {self.position} is in the mail already ({self.status}): it cannot be spoiled."
        return None

    @property
    def why_not_reprinted(self) -> str | None:
        if self.status in ENDS:
            return f"Ended already ({self.status})."
        if self.status not in IN_THE_HOUSE:
            return f"In the mail already ({self.status})."
        if self.is_erased:
            return "Its recipient was erased."
        if self.claim_is_gone:
            return "Its gift card's claim is no longer kept. Take the card back, and reissue it."
        if self.is_void:
            return f"Reprinted in {reference(self.anew)}." if self.anew else "Reprinted already."
        return None


def find_paper(
    tx: Tx, batch_id: int, *, positions: Sequence[int] = (), item_ids: Sequence[int] = ()
) -> list[Paper]:
    """These pieces of the batch, each once, by their places; what is not there is left out."""
    if not positions and not item_ids:
        return []
    asked = {"batch": batch_id, "positions": list(positions), "items": list(item_ids)}
    return [
        Paper(
            position=row.position,
            item_id=row.item_id,
            status=ItemStatus(row.status),
            is_void=row.superseded,
            anew=row.anew,
            is_erased=row.is_erased,
            claim_is_gone=row.claim_is_gone,
        )
        for row in tx.execute(FIND, asked)
    ]
