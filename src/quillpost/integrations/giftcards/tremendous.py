"""Cards from Tremendous, or another service with its API v2: each is a link. An order carries our reference as
`external_id`: repeated, it returns the same order."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack

from quillpost.core.errors import NotReady
from quillpost.integrations.giftcards import http
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret

MAX_CONCURRENT = 4  # they accept ten requests a second
BALANCE_SOURCE = "BALANCE"
RECIPIENT_NAME = "Gift card recipient"  # the recipient is not disclosed
ENDED_STATUSES = {"FAILED", "CANCELED"}


class TremendousCards(http.IssuerClient):
    name = "tremendous"
    reference_field = "external_id"

    def __init__(
        self, base_url: str, *, key: str, funding_source: str | None = None, **options: Unpack[http.ClientOptions]
    ) -> None:
        self._funding_source = funding_source or BALANCE_SOURCE
        headers = {"Authorization": f"Bearer {key}"}
        super().__init__(f"{http.check_url(base_url)}/api/v2", headers=headers, concurrency=MAX_CONCURRENT, **options)

    def return_card(self, reference: str, *, now: datetime) -> bool:
        """Only rewards whose delivery failed can be canceled."""
        del now
        return self._run_with_connection(lambda connection: self._cancel_reward(connection, reference))

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
        self, connection: http.IssuerConnection, order: Mapping[str, Any], card: CardRequest
    ) -> http.CardOutcome:
        if order.get(self.reference_field) != card.reference:
            raise connection.build_invalid_response_error()
        status = _read_status(order)
        if status in ENDED_STATUSES:
            return CardNotIssued(f"{self.host} says that its order is {status.lower()}.", "never")
        if status != "EXECUTED":
            return CardNotIssued(f"The order at {self.host} waits to be approved there.", "ordered")
        rewards = http.list_objects(order.get("rewards"))
        if len(rewards) != 1 or not http.matches_amount(
            _read_object(rewards[0], "value").get("denomination"), card.cents
        ):
            raise connection.build_invalid_response_error()
        url = http.clean_link(_read_object(rewards[0], "delivery").get("link"))
        url = url or await self._generate_link(connection, rewards[0])
        if url is None:
            raise connection.build_invalid_response_error()
        return CardSecret(url=url)

    async def _generate_link(self, connection: http.IssuerConnection, reward: Mapping[str, Any]) -> str | None:
        response = await connection.request("POST", f"rewards/{_read_reward_id(connection, reward)}/generate_link", {})
        return http.clean_link(_read_object(response.payload, "reward").get("link"))

    def _unwrap_order(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return _read_object(payload, "order")

    async def _cancel_reward(self, connection: http.IssuerConnection, reference: str) -> bool:
        order = await self._find_order(connection, reference)
        if order is None or _read_status(order) in ENDED_STATUSES:
            return True
        rewards = http.list_objects(order.get("rewards"))
        if not rewards:
            raise connection.build_invalid_response_error()
        return (
            await connection.request("POST", f"rewards/{_read_reward_id(connection, rewards[0])}/cancel", {})
        ).is_success

    async def _check_account(self, connection: http.IssuerConnection) -> None:
        response = await connection.request("GET", "funding_sources")
        if not response.is_success:
            raise connection.build_invalid_response_error()
        sources = http.list_objects(response.payload.get("funding_sources"))
        source_ids = {str(source.get("id")) for source in sources} | {BALANCE_SOURCE}
        if self._funding_source.upper() not in {source.upper() for source in source_ids}:
            raise NotReady(f"{self.host} knows no funding source {self._funding_source}.")


def _read_status(order: Mapping[str, Any]) -> str:
    return str(order.get("status", "")).upper()


def _read_object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _read_reward_id(connection: http.IssuerConnection, reward: Mapping[str, Any]) -> str:
    reward_id = http.clean_text(reward.get("id")) or ""
    if not reward_id.isalnum() or not reward_id.isascii():
        raise connection.build_invalid_response_error()
    return reward_id
