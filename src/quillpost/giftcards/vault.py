"""The two secrets of a piece's card: the claim that is printed on it, and the card itself.

Both are sealed, each bound to its own row. Nothing here is ever logged, and no repr shows them.
"""

import json
import secrets
from datetime import date

from quillpost.giftcards.rules import CLAIM_BYTES, claim_code
from quillpost.kit.sealing import Sealer
from quillpost.kit.tokens import TIMED
from quillpost.ports.giftcards import GiftCard


def new_claim() -> str:
    """Never one that begins as other people's ids do: those are shown in logs, and claims are not."""
    while (code := claim_code(secrets.token_bytes(CLAIM_BYTES))).startswith(TIMED):
        pass
    return code


def claim_context(item_id: int) -> str:
    return f"giftcards:{item_id}:claim"


def card_context(item_id: int) -> str:
    return f"giftcards:{item_id}:card"


def stock_context(row_id: int) -> str:
    return f"giftcard_stock:{row_id}:card"


def seal_claim(sealer: Sealer, item_id: int, claim: str) -> bytes:
    return sealer.seal(claim.encode("ascii"), context=claim_context(item_id))


def open_claim(sealer: Sealer, item_id: int, sealed: bytes) -> str:
    return sealer.open(sealed, context=claim_context(item_id)).decode("ascii")


def seal_card(sealer: Sealer, context: str, card: GiftCard) -> bytes:
    """The card in a row of `giftcards` or `giftcard_stock`, which the context names."""
    expires = card.expires_on.isoformat() if card.expires_on else None
    plain = {"code": card.code, "pin": card.pin, "url": card.url, "expires_on": expires}
    return sealer.seal(json.dumps(plain, separators=(",", ":")).encode(), context=context)


def open_card(sealer: Sealer, context: str, sealed: bytes) -> GiftCard:
    plain = json.loads(sealer.open(sealed, context=context))
    expires = date.fromisoformat(plain["expires_on"]) if plain["expires_on"] else None
    return GiftCard(code=plain["code"], pin=plain["pin"], url=plain["url"], expires_on=expires)
