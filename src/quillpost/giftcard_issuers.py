"""Who issues gift cards, by mode; a part of the wiring."""

from collections.abc import Mapping

from quillpost.adapters.giftcards.calls import SETTING
from quillpost.adapters.giftcards.stock import SandboxCards, StockCards
from quillpost.adapters.giftcards.tango import TangoCards
from quillpost.adapters.giftcards.tremendous import TremendousCards
from quillpost.database import Database
from quillpost.kit.errors import NotReady
from quillpost.kit.sealing import Sealer
from quillpost.kit.times import Clock
from quillpost.ports.giftcards import GiftcardIssuer
from quillpost.settings import Settings

House = TremendousCards | TangoCards


def giftcard_issuers(
    settings: Settings, db: Database, sealer: Sealer, clock: Clock
) -> Mapping[str, GiftcardIssuer]:
    """Testing mode makes up its cards: nothing is bought there."""
    live = house_of(settings) or StockCards(db, sealer, clock=clock)
    return {"test": SandboxCards(db, sealer, clock=clock), "live": live}


def house_of(settings: Settings) -> House | None:
    """Who is asked for live cards, where it is not our own stock. Nobody is called yet."""
    if settings.giftcards is None:
        return None
    kind, _, address = settings.giftcards.partition(":")
    key = settings.giftcards_key.get_secret_value() if settings.giftcards_key else ""
    if kind not in ("tremendous", "tango"):
        raise NotReady(f"{SETTING} must be tremendous:https://host or tango:https://host.")
    if not key or not key.isprintable() or not key.isascii():
        raise NotReady(f"{SETTING} is set: {SETTING}_KEY must be set too, to be let in with.")
    if kind == "tremendous":
        return TremendousCards(address, key=key, funding_source=settings.giftcards_account)
    return TangoCards(address, key=key, account=settings.giftcards_account)
