"""An address verifier over HTTP, see `docs/verify.md`. `POST {base}/verify` and `POST {base}/append` carry a list of
questions with ids. A repeated body has the same `Idempotency-Key`."""

import hashlib
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

import orjson

from quillpost.core.errors import NotReady
from quillpost.integrations.http.client import ServiceClient, ServiceResponse, parse_service_url
from quillpost.recipients.addresses.cities import STATE_CODES
from quillpost.recipients.verification.ports import (
    AddressQuery,
    AddressVerification,
    ChangeOfAddress,
    PersonQuery,
    PostalParts,
    VerifierDown,
)

MAX_TEXT_LENGTH = 300
DPV_CODES = frozenset({"Y", "D", "S", "N"})
ZIP_PATTERN = re.compile(r"\d{5}(?:-\d{4})?", re.ASCII)
ResponseItem = TypeVar("ResponseItem")


def read_responses(
    body: bytes, count: int, read_item: Callable[[Mapping[str, Any]], ResponseItem], missing: ResponseItem
) -> Sequence[ResponseItem]:
    """By `id`; one that is missing or cannot be parsed is no response."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise VerifierDown("The verifier's answer is not JSON.") from None
    items = payload.get("answers") if isinstance(payload, dict) else None
    if not isinstance(items, list):
        raise VerifierDown("The verifier's answer has no list named answers.")
    responses = [missing] * count
    for item in items:
        index = item.get("id") if isinstance(item, dict) else None
        if type(index) is int and 0 <= index < count:
            responses[index] = read_item(item)
    return responses


def read_verification(item: Mapping[str, Any]) -> AddressVerification:
    dpv = item.get("dpv")
    return AddressVerification(
        dpv=dpv if isinstance(dpv, str) and dpv in DPV_CODES else None,
        corrected=read_address(item.get("address")),
        moved=_read_move(item.get("moved")),
        is_vacant=item.get("vacant") is True,
    )


def read_found_address(item: Mapping[str, Any]) -> PostalParts | None:
    return read_address(item.get("address"))


def read_address(value: object) -> PostalParts | None:
    """A complete domestic address, or None."""
    if not isinstance(value, dict):
        return None
    street, second_line, city, state, code = (
        _read_line(value.get(name)) for name in ("address", "address2", "city", "state", "zip")
    )
    if not (street and city) or state not in STATE_CODES or code is None or not ZIP_PATTERN.fullmatch(code):
        return None
    return street, second_line, city, state, code


def _read_move(value: object) -> ChangeOfAddress | None:
    if not isinstance(value, dict):
        return None
    new_address = read_address(value.get("address"))
    if new_address is None and value.get("address") is not None:
        return None  # they have moved somewhere that we cannot read: the old address is as good as before
    return ChangeOfAddress(new_address, _read_date(value.get("date")))


def _read_date(value: object) -> date | None:
    """NCOA has the month of a move; some services have the day."""
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(value if len(value) > len("2026-05") else f"{value}-01")
    except ValueError:
        return None


def _read_line(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or not value.isprintable():
        return None
    return " ".join(value.upper().split()) or None


SETTING = "QUILLPOST_VERIFIER"
MAX_RESPONSE_BYTES = 4_000_000
NO_VERIFICATION = AddressVerification()


class HttpVerifier:
    def __init__(
        self,
        base_url: str,
        *,
        key: str,
        can_append: bool = False,
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._client = ServiceClient(base_url, error=VerifierDown, seconds=seconds, tls=tls)
        self._key = key
        self.can_append = can_append

    def verify(self, addresses: Sequence[AddressQuery]) -> Sequence[AddressVerification]:
        questions = [
            {"id": index, "name": address.name, "company": address.company, **_address_to_json(address.parts)}
            for index, address in enumerate(addresses)
        ]
        body = self._post("verify", {"addresses": questions})
        return read_responses(body, len(addresses), read_verification, NO_VERIFICATION)

    def append(self, people: Sequence[PersonQuery]) -> Sequence[PostalParts | None]:
        questions = [
            {"id": index, "name": person.name, "company": person.company, "email": person.email}
            for index, person in enumerate(people)
        ]
        body = self._post("append", {"people": questions})
        return read_responses(body, len(people), read_found_address, None)

    def _post(self, path: str, questions: Mapping[str, object]) -> bytes:
        data = orjson.dumps(questions)
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Idempotency-Key": hashlib.sha256(data).hexdigest(),
        }
        response = self._client.post(path, headers=headers, body=data, max_bytes=MAX_RESPONSE_BYTES)
        _check_response(response)
        return response.body


def build_http_verifier(url: str, *, key: str | None, can_append: bool) -> HttpVerifier:
    """The verifier, or `NotReady`. No request is made yet."""
    parse_service_url(url, SETTING, hint=f"set {SETTING}_KEY instead.")
    if not key:
        raise NotReady(f"{SETTING} is set: {SETTING}_KEY must be set too, to be let in with.")
    return HttpVerifier(url, key=key, can_append=can_append)


def _address_to_json(parts: PostalParts) -> dict[str, str | None]:
    street, second_line, city, state, code = parts
    return {"address": street, "address2": second_line, "city": city, "state": state, "zip": code}


def _check_response(response: ServiceResponse) -> None:
    """The text of a refusal is not shown: it may quote a recipient."""
    host, status = response.host, response.status
    if 300 <= status < 400:
        raise VerifierDown(f"{host} redirects to another address: give the final one in {SETTING}.")
    if status in (401, 403):
        raise VerifierDown(f"{host} does not let us in, it answered with status {status}: see {SETTING}_KEY.")
    if not 200 <= status < 300:
        raise VerifierDown(f"{host} answered with status {status}.")
    if len(response.body) > MAX_RESPONSE_BYTES:
        raise VerifierDown(f"{host} answered with more than {MAX_RESPONSE_BYTES:,} bytes.")
