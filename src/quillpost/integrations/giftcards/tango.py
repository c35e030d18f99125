"""Cards from Tango, or another service with its RaaS API v2: each has a code, perhaps a PIN, or a link. An order
carries our reference as `externalRefID`: repeated, it returns the same order, or is refused; then it is looked up.
Cards cannot be returned."""

import base64
from collections.abc import Mapping
from typing import Any, Unpack
from urllib.parse import quote

from quillpost.core.errors import NotReady
from quillpost.integrations.giftcards import http
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret

MAX_CONCURRENT = 1  # they accept one request a second
PIN_LABELS = ("pin", "security", "cvv", "access", "challenge")
LINK_LABELS = ("link", "url")


class TangoCards(http.IssuerClient):
    name = "tango"
    reference_field = "externalRefID"

    def __init__(self, base_url: str, *, key: str, account: str | None, **options: Unpack[http.ClientOptions]) -> None:
        """The key is `NAME:KEY` of the platform, the account `CUSTOMER/ACCOUNT`."""
        if ":" not in key:
            raise NotReady(f"{http.SETTING}_KEY must be the platform's name and its key, as NAME:KEY.")
        self._customer, separator, self._account = (account or "").partition("/")
        if not (self._customer and separator and self._account) or "/" in self._account:
            raise NotReady(f"{http.SETTING}_ACCOUNT must be the customer and the account, as CUSTOMER/ACCOUNT.")
        credentials = base64.b64encode(key.encode()).decode()
        headers = {"Authorization": f"Basic {credentials}"}
        super().__init__(f"{http.check_url(base_url)}/raas/v2", headers=headers, concurrency=MAX_CONCURRENT, **options)

    def _build_order(self, card: CardRequest) -> Mapping[str, Any]:
        return {
            "externalRefID": card.reference,
            "customerIdentifier": self._customer,
            "accountIdentifier": self._account,
            "utid": card.issuer_product,
            "amount": card.cents / 100,
            "sendEmail": False,
            "deliveryMethod": "NONE",
        }

    async def _read_card(
        self, connection: http.IssuerConnection, order: Mapping[str, Any], card: CardRequest
    ) -> http.CardOutcome:
        """Lists of orders omit credentials: they are read by order id."""
        gift_card = self._read_order_credentials(connection, order, card)
        if gift_card is None:
            order_id = http.clean_text(order.get("referenceOrderID")) or ""
            if not order_id.replace("-", "").isalnum() or not order_id.isascii():
                raise connection.build_invalid_response_error()
            response = await connection.request("GET", f"orders/{order_id}")
            gift_card = self._read_order_credentials(connection, response.payload, card)
        return gift_card or CardNotIssued(f"{self.host} has not made the card yet.", "ordered")

    def _read_order_credentials(
        self, connection: http.IssuerConnection, order: Mapping[str, Any], card: CardRequest
    ) -> CardSecret | None:
        if order.get("externalRefID", card.reference) != card.reference:
            raise connection.build_invalid_response_error()
        denomination, reward = order.get("denomination"), order.get("reward")
        value = denomination.get("value") if isinstance(denomination, dict) else None
        if not http.matches_amount(value, card.cents):
            raise connection.build_invalid_response_error()
        return read_credentials(reward) if isinstance(reward, dict) else None

    async def _check_account(self, connection: http.IssuerConnection) -> None:
        path = f"accounts/{quote(self._account, safe='')}"
        if not (await connection.request("GET", path, allow_missing=True)).is_success:
            raise NotReady(f"{self.host} knows no account {self._account}.")


def read_credentials(reward: Mapping[str, Any]) -> CardSecret | None:
    """Credentials by the issuer's labels, which differ from brand to brand."""
    credentials = [
        (credential.get("label"), credential.get("value"))
        for credential in http.list_objects(reward.get("credentialList"))
    ]
    credentials_by_name = reward.get("credentials")
    if not credentials and isinstance(credentials_by_name, dict):
        credentials = list(credentials_by_name.items())
    code = pin = url = expires_on = None
    for label, value in credentials:
        name = str(label).lower()
        if any(word in name for word in LINK_LABELS) or http.clean_link(value):
            url = url or http.clean_link(value)
        elif "expir" in name:
            expires_on = expires_on or http.parse_date(value)
        elif any(word in name for word in PIN_LABELS):
            pin = pin or http.clean_text(value)
        else:
            code = code or http.clean_text(value)
    if code is None and url is None:
        return None
    return CardSecret(code=code, pin=pin, url=url, expires_on=expires_on)
