"""The claims that a batch's pieces bring to their cards, as they are printed: sealed until they are drawn."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from quillpost.composition.content import Claim
from quillpost.database import Tx
from quillpost.database.giftcard_tables import giftcards
from quillpost.database.press_tables import prints
from quillpost.fulfilment.rules import reference
from quillpost.giftcards import vault
from quillpost.kit.errors import Unavailable
from quillpost.kit.sealing import SealBroken, Sealer
from quillpost.orders import look

Claims = Mapping[int, bytes | None]
"""Sealed, by the pieces; None where a claim is no longer kept."""


def read_claims(tx: Tx, batch_id: int) -> Claims:
    """Those of every piece of the batch that has, or had, a card: a void one is printed as it was."""
    inside = (
        sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)
        .join(prints, prints.c.item_id == giftcards.c.item_id)
        .where(prints.c.batch_id == batch_id, giftcards.c.claim_digest.is_not(None))
    )
    return {
        row.item_id: None if row.claim_sealed is None else bytes(row.claim_sealed)
        for row in tx.execute(inside)
    }


def opened(sealer: Sealer, batch_id: int, claims: Claims, *, qr_base: str) -> dict[int, Claim]:
    """The claims as they are printed, by the pieces; or `Unavailable`, where one is no longer kept."""
    return {
        item_id: look.printed_claim(_open(sealer, batch_id, item_id, sealed), qr_base=qr_base)
        for item_id, sealed in claims.items()
    }


def closed(sealer: Sealer, claims: Claims, item_ids: Iterable[int]) -> list[int]:
    """Those of these pieces without a claim that can be read. Without it nothing of them is drawn."""
    return [item_id for item_id in item_ids if not _opens(sealer, item_id, claims.get(item_id))]


def _opens(sealer: Sealer, item_id: int, sealed: bytes | None) -> bool:
    try:
        return sealed is not None and bool(vault.open_claim(sealer, item_id, sealed))
    except SealBroken:
        return False


def _open(sealer: Sealer, batch_id: int, item_id: int, sealed: bytes | None) -> str:
    if sealed is None:
        raise Unavailable(
            f"The print file of {reference(batch_id)} cannot be made again: the claims of its gift cards are"
            " forgotten once it is long in the mail. They still work for whoever has a piece."
        )
    return vault.open_claim(sealer, item_id, sealed)
