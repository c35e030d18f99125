"""Cards from Tremendous, or another service with its API v2: each is a link. An order carries our reference as
`external_id`: repeated, it returns the same order."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quillpost.core.errors import NotReady
from quillpost.integrations.giftcards.http import (
    CardOutcome,
    IssuerClient,
    IssuerConnection,
    Sleep,
    check_url,
    clean_link,
    clean_text,
    list_objects,
    matches_amount,
)
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret

MAX_CONCURRENT = 4  # they accept ten requests a second
BALANCE_SOURCE = "BALANCE"
RECIPIENT_NAME = "Gift card recipient"  # the recipient is not disclosed
ENDED_STATUSES = {"FAILED", "CANCELED"}


class TremendousCards:
    name = "tremendous"

    def __init__(
        self,
        base_url: str,
        *,
        key: str,
        funding_source: str | None = None,
        seconds: float = 30.0,
        sleep: Sleep = asyncio.sleep,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._funding_source = funding_source or BALANCE_SOURCE
        self._client = IssuerClient(
            f"{check_url(base_url)}/api/v2",
            headers={"Authorization": f"Bearer {key}"},
            concurrency=MAX_CONCURRENT,
            seconds=seconds,
            sleep=sleep,
            tls=tls,
        )

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Mapping[str, CardOutcome]:
        del now
        return self._client.issue_cards(card_requests, self._issue_card)

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del brand, product, cents
        return None

    def return_card(self, reference: str, *, now: datetime) -> bool:
        """Only rewards whose delivery failed can be canceled."""
        del now
        return self._client.run_with_connection(lambda connection: self._cancel_reward(connection, reference))

    def check_connection(self) -> str:
        return self._client.run_with_connection(self._check_funding_source)

    async def _issue_card(self, connection: IssuerConnection, card: CardRequest) -> CardOutcome:
        response = await connection.request("POST", "orders", self._build_order(card))
        if response.is_success:
            order = _read_object(response.payload, "order")
        elif (existing_order := await self._find_order(connection, card.reference)) is not None:
            order = existing_order
        else:
            return self._client.explain_no_card(card, response)
        if order.get("external_id") != card.reference:
            raise connection.build_invalid_response_error()
        return await self._read_card(connection, order, card)

    def _build_order(self, card: CardRequest) -> Mapping[str, Any]:
        return {
            "external_id": card.reference,
            "payment": {"funding_source_id": self._funding_source},
            "reward": {
                "value": {"denomination": card.cents / 100, "currency_code": "USD"},
                "delivery": {"method": "LINK"},
                "recipient": {"name": RECIPIENT_NAME},
                "products": [card.issuer_product],
            },
        }

    async def _read_card(
        self, connection: IssuerConnection, order: Mapping[str, Any], card: CardRequest
    ) -> CardOutcome:
        status = _read_status(order)
        if status in ENDED_STATUSES:
            return CardNotIssued(f"{self._client.host} says that its order is {status.lower()}.", "never")
        if status != "EXECUTED":
            return CardNotIssued(f"The order at {self._client.host} waits to be approved there.", "ordered")
        rewards = list_objects(order.get("rewards"))
        if len(rewards) != 1 or not matches_amount(_read_object(rewards[0], "value").get("denomination"), card.cents):
            raise connection.build_invalid_response_error()
        url = clean_link(_read_object(rewards[0], "delivery").get("link"))
        url = url or await self._generate_link(connection, rewards[0])
        if url is None:
            raise connection.build_invalid_response_error()
        return CardSecret(url=url)

    async def _generate_link(self, connection: IssuerConnection, reward: Mapping[str, Any]) -> str | None:
        response = await connection.request("POST", f"rewards/{_read_reward_id(connection, reward)}/generate_link", {})
        return clean_link(_read_object(response.payload, "reward").get("link"))

    async def _find_order(self, connection: IssuerConnection, reference: str) -> Mapping[str, Any] | None:
        """The order of an earlier request whose response may have been lost; it is paid for."""
        response = await connection.request("GET", "orders", query={"external_id": reference})
        if not response.is_success:
            raise connection.build_invalid_response_error()
        orders = list_objects(response.payload.get("orders"))
        return next((order for order in orders if order.get("external_id") == reference), None)

    async def _cancel_reward(self, connection: IssuerConnection, reference: str) -> bool:
        order = await self._find_order(connection, reference)
        if order is None or _read_status(order) in ENDED_STATUSES:
            return True
        rewards = list_objects(order.get("rewards"))
        if not rewards:
            raise connection.build_invalid_response_error()
        return (
            await connection.request("POST", f"rewards/{_read_reward_id(connection, rewards[0])}/cancel", {})
        ).is_success

    async def _check_funding_source(self, connection: IssuerConnection) -> str:
        response = await connection.request("GET", "funding_sources")
        if not response.is_success:
            raise connection.build_invalid_response_error()
        sources = list_objects(response.payload.get("funding_sources"))
        source_ids = {str(source.get("id")) for source in sources} | {BALANCE_SOURCE}
        if self._funding_source.upper() not in {source.upper() for source in source_ids}:
            raise NotReady(f"{self._client.host} knows no funding source {self._funding_source}.")
        return f"{self._client.host} lets us in"


def _read_status(order: Mapping[str, Any]) -> str:
    return str(order.get("status", "")).upper()


def _read_object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _read_reward_id(connection: IssuerConnection, reward: Mapping[str, Any]) -> str:
    reward_id = clean_text(reward.get("id")) or ""
    if not reward_id.isalnum() or not reward_id.isascii():
        raise connection.build_invalid_response_error()
    return reward_id
