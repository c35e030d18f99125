"""Cards from Tango, or whoever speaks as its RaaS API v2 does: each has a code, perhaps a PIN, or a link.

An order carries our reference as `externalRefID`: said again, it is answered with the order that there is, or
refused; then it is looked up. What is bought there is not taken back.
"""

import asyncio
import base64
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from quillpost.core.errors import NotReady
from quillpost.integrations.giftcards.http import (
    SETTING,
    IssuerCalls,
    Line,
    Outcome,
    Rest,
    checked,
    day,
    is_worth,
    link,
    listed,
    text,
)
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, NoCard

AT_ONCE = 1
"""They take one request in a second."""

PINS = ("pin", "security", "cvv", "access", "challenge")
LINKS = ("link", "url")


class TangoCards:
    name = "tango"

    def __init__(
        self,
        base_url: str,
        *,
        key: str,
        account: str | None,
        seconds: float = 30.0,
        rest: Rest = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """The key is the platform's name and key, `NAME:KEY`; the account `CUSTOMER/ACCOUNT`."""
        if ":" not in key:
            raise NotReady(f"{SETTING}_KEY must be the platform's name and its key, as NAME:KEY.")
        self._customer, sign, self._account = (account or "").partition("/")
        if not (self._customer and sign and self._account) or "/" in self._account:
            raise NotReady(f"{SETTING}_ACCOUNT must be the customer and the account, as CUSTOMER/ACCOUNT.")
        basic = base64.b64encode(key.encode()).decode()
        self._calls = IssuerCalls(
            f"{checked(base_url)}/raas/v2",
            headers={"Authorization": f"Basic {basic}"},
            at_once=AT_ONCE,
            seconds=seconds,
            rest=rest,
            tls=tls,
        )

    def issue(self, asked: Sequence[CardAsked], *, now: datetime) -> Mapping[str, Outcome]:
        del now
        return self._calls.each(asked, self._one)

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del brand, product, cents
        return None

    def give_back(self, reference: str, *, now: datetime) -> bool:
        del reference, now
        return False

    def reach(self) -> str:
        """Who answers, in words; `IssuerDown`, or `NotReady` where it does not know the account."""
        return self._calls.talk(self._greet)

    async def _one(self, line: Line, card: CardAsked) -> Outcome:
        answer = await line.ask("POST", "orders", self._order(card))
        order = answer.told if answer.is_good else await self._looked_up(line, card)
        if order is None:
            return self._calls.none_of(card, answer)
        return await self._card(line, order, card)

    def _order(self, card: CardAsked) -> Mapping[str, Any]:
        return {
            "externalRefID": card.reference,
            "customerIdentifier": self._customer,
            "accountIdentifier": self._account,
            "utid": card.product,
            "amount": card.cents / 100,
            "sendEmail": False,
            "deliveryMethod": "NONE",
        }

    async def _looked_up(self, line: Line, card: CardAsked) -> Mapping[str, Any] | None:
        """The order of one that was asked for before, whose answer was lost; it is paid for."""
        found = await line.ask("GET", "orders", query={"externalRefID": card.reference})
        if not found.is_good:
            raise line.odd()
        orders = listed(found.told.get("orders"))
        return next((each for each in orders if each.get("externalRefID") == card.reference), None)

    async def _card(self, line: Line, order: Mapping[str, Any], card: CardAsked) -> Outcome:
        """Lists of orders leave out what a card is redeemed with: it is asked for by the order's own id."""
        found = self._redeemed_with(line, order, card)
        if found is None:
            id_ = text(order.get("referenceOrderID")) or ""
            if not id_.replace("-", "").isalnum() or not id_.isascii():
                raise line.odd()
            whole = await line.ask("GET", f"orders/{id_}")
            found = self._redeemed_with(line, whole.told, card)
        return found or NoCard(f"{self._calls.host} has not made the card yet.", "ordered")

    def _redeemed_with(self, line: Line, order: Mapping[str, Any], card: CardAsked) -> GiftCard | None:
        if order.get("externalRefID", card.reference) != card.reference:
            raise line.odd()
        denomination, reward = order.get("denomination"), order.get("reward")
        value = denomination.get("value") if isinstance(denomination, dict) else None
        if not is_worth(value, card.cents):
            raise line.odd()
        return read_credentials(reward) if isinstance(reward, dict) else None

    async def _greet(self, line: Line) -> str:
        path = f"accounts/{quote(self._account, safe='')}"
        if not (await line.ask("GET", path, may_miss=True)).is_good:
            raise NotReady(f"{self._calls.host} knows no account {self._account}.")
        return f"{self._calls.host} lets us in"


def read_credentials(reward: Mapping[str, Any]) -> GiftCard | None:
    """What a card is redeemed with, by what they call each part: the names differ from brand to brand."""
    told = [(each.get("label"), each.get("value")) for each in listed(reward.get("credentialList"))]
    by_name = reward.get("credentials")
    if not told and isinstance(by_name, dict):
        told = list(by_name.items())
    code = pin = url = expires_on = None
    for label, value in told:
        name = str(label).lower()
        if any(word in name for word in LINKS) or link(value):
            url = url or link(value)
        elif "expir" in name:
            expires_on = expires_on or day(value)
        elif any(word in name for word in PINS):
            pin = pin or text(value)
        else:
            code = code or text(value)
    if code is None and url is None:
        return None
    return GiftCard(code=code, pin=pin, url=url, expires_on=expires_on)
