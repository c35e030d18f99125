"""Cards from Tremendous, or whoever speaks as its API v2 does: each is a link, which is redeemed there.

An order carries our reference as `external_id`: said again, it is answered with the order that there is.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quillpost.core.errors import NotReady
from quillpost.integrations.giftcards.http import (
    IssuerCalls,
    Line,
    Outcome,
    Rest,
    checked,
    is_worth,
    link,
    listed,
    text,
)
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, NoCard

AT_ONCE = 4
"""They take ten requests in a second."""
BALANCE = "BALANCE"
RECIPIENT = "Gift card recipient"
"""Whom a piece is for is not told: the link is ours to deliver."""

GONE = {"FAILED", "CANCELED"}


class TremendousCards:
    name = "tremendous"

    def __init__(
        self,
        base_url: str,
        *,
        key: str,
        funding_source: str | None = None,
        seconds: float = 30.0,
        rest: Rest = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._funding_source = funding_source or BALANCE
        self._calls = IssuerCalls(
            f"{checked(base_url)}/api/v2",
            headers={"Authorization": f"Bearer {key}"},
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
        """Their documentation lets only a reward be cancelled whose delivery failed: most are not."""
        del now
        return self._calls.talk(lambda line: self._cancel(line, reference))

    def reach(self) -> str:
        """Who answers, in words; `IssuerDown`, or `NotReady` where it does not know what we pay with."""
        return self._calls.talk(self._greet)

    async def _one(self, line: Line, card: CardAsked) -> Outcome:
        answer = await line.ask("POST", "orders", self._order(card))
        if answer.is_good:
            order = _object(answer.told, "order")
        elif (found := await self._looked_up(line, card.reference)) is not None:
            order = found
        else:
            return self._calls.none_of(card, answer)
        if order.get("external_id") != card.reference:
            raise line.odd()
        return await self._card(line, order, card)

    def _order(self, card: CardAsked) -> Mapping[str, Any]:
        return {
            "external_id": card.reference,
            "payment": {"funding_source_id": self._funding_source},
            "reward": {
                "value": {"denomination": card.cents / 100, "currency_code": "USD"},
                "delivery": {"method": "LINK"},
                "recipient": {"name": RECIPIENT},
                "products": [card.product],
            },
        }

    async def _card(self, line: Line, order: Mapping[str, Any], card: CardAsked) -> Outcome:
        status = _status(order)
        if status in GONE:
            return NoCard(f"{self._calls.host} says that its order is {status.lower()}.", "never")
        if status != "EXECUTED":
            return NoCard(f"The order at {self._calls.host} waits to be approved there.", "ordered")
        rewards = listed(order.get("rewards"))
        if len(rewards) != 1 or not is_worth(_object(rewards[0], "value").get("denomination"), card.cents):
            raise line.odd()
        found = link(_object(rewards[0], "delivery").get("link"))
        found = found or await self._new_link(line, rewards[0])
        if found is None:
            raise line.odd()
        return GiftCard(url=found)

    async def _new_link(self, line: Line, reward: Mapping[str, Any]) -> str | None:
        answer = await line.ask("POST", f"rewards/{_id(line, reward)}/generate_link", {})
        return link(_object(answer.told, "reward").get("link"))

    async def _looked_up(self, line: Line, reference: str) -> Mapping[str, Any] | None:
        """The order of one that was asked for before, whose answer may have been lost; it is paid for."""
        found = await line.ask("GET", "orders", query={"external_id": reference})
        if not found.is_good:
            raise line.odd()
        orders = listed(found.told.get("orders"))
        return next((each for each in orders if each.get("external_id") == reference), None)

    async def _cancel(self, line: Line, reference: str) -> bool:
        order = await self._looked_up(line, reference)
        if order is None or _status(order) in GONE:
            return True
        rewards = listed(order.get("rewards"))
        if not rewards:
            raise line.odd()
        return (await line.ask("POST", f"rewards/{_id(line, rewards[0])}/cancel", {})).is_good

    async def _greet(self, line: Line) -> str:
        answer = await line.ask("GET", "funding_sources")
        if not answer.is_good:
            raise line.odd()
        sources = listed(answer.told.get("funding_sources"))
        known = {str(each.get("id")) for each in sources} | {BALANCE}
        if self._funding_source.upper() not in {each.upper() for each in known}:
            raise NotReady(f"{self._calls.host} knows no funding source {self._funding_source}.")
        return f"{self._calls.host} lets us in"


def _status(order: Mapping[str, Any]) -> str:
    return str(order.get("status", "")).upper()


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _id(line: Line, reward: Mapping[str, Any]) -> str:
    """Theirs, as a part of an address."""
    given = text(reward.get("id")) or ""
    if not given.isalnum() or not given.isascii():
        raise line.odd()
    return given
