"""A commercial source of leads over HTTP; the protocol is in docs/leads.md. `POST {base}/search` finds the nearest
records, `POST {base}/purchases` says which were bought. Requests are signed as Standard Webhooks. A purchase has its
reference as `Idempotency-Key`."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

import orjson

from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.core.errors import NotReady
from quillpost.integrations.http.client import ServiceClient, parse_service_url
from quillpost.recipients.leads.ports import Lead, LeadProviderDown, LeadQuery, Resident

SETTING = "QUILLPOST_LEADS"
MAX_BYTES_PER_RECORD, BASE_RESPONSE_BYTES = 2_000, 100_000  # limits of a response
MAX_ID_LENGTH = 200
MAX_TEXT_LENGTH = 300
MAX_RECORDS = 20_000  # of one request
_RESIDENT_FIELDS = ("name", "company", "address", "address2", "city", "province", "postal_code", "country")
assert set(_RESIDENT_FIELDS) <= {field.name for field in fields(Resident)}


class HttpLeadProvider:
    needs_purchase_reports = True

    def __init__(
        self,
        base_url: str,
        *,
        secrets: Sequence[str],
        clock: Callable[[], datetime],
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        expected = "must be an address such as https://host/path."
        hint = "requests are signed instead."
        parse_service_url(base_url, SETTING, hint=hint, expected=expected, unreadable=expected)
        self._client = ServiceClient(base_url, error=LeadProviderDown, seconds=seconds, tls=tls)
        self._secrets, self._clock = list(secrets), clock
        if not self._secrets:
            raise NotReady(f"{SETTING} is set: {SETTING}_SECRET must be set too, to sign with.")

    def search(self, query: LeadQuery) -> Sequence[Lead]:
        count = min(query.count, MAX_RECORDS)
        body = orjson.dumps(asdict(query) | {"count": count, "record_types": list(query.record_types)})
        max_bytes = BASE_RESPONSE_BYTES + count * MAX_BYTES_PER_RECORD
        response_body = self._call("search", f"search:{uuid4()}", body, {}, max_bytes=max_bytes, now=self._clock())
        return _read_records(response_body, f"The answer of {self._client.base_url}/search", count)

    def confirm_purchase(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        body = orjson.dumps({"reference": reference, "ids": list(ids)})
        headers = {"Idempotency-Key": reference}
        self._call("purchases", f"purchase:{reference}", body, headers, max_bytes=BASE_RESPONSE_BYTES, now=now)

    def _call(
        self, path: str, message_id: str, body: bytes, headers: Mapping[str, str], *, max_bytes: int, now: datetime
    ) -> bytes:
        signature_headers = signatures.sign(self._secrets, message_id=message_id, at=now, body=body)
        all_headers = {"Content-Type": "application/json", **headers, **signature_headers}
        response = self._client.post(path, headers=all_headers, body=body, max_bytes=max_bytes)
        if not 200 <= response.status < 300:
            raise LeadProviderDown(f"{response.host} answered with status {response.status}.")
        if len(response.body) > max_bytes:
            raise LeadProviderDown(f"{response.host} answered with more than {max_bytes:,} bytes.")
        return response.body


def _read_records(response_body: bytes, source: str, count: int) -> list[Lead]:
    """The readable records, or `LeadProviderDown` where the response is something else."""
    try:
        payload = exact_json.parse_json(response_body)
    except exact_json.InvalidJson as failure:
        raise LeadProviderDown(f"{source} cannot be read: {failure}") from None
    records = payload.get("records") if isinstance(payload, dict) else None
    if not isinstance(records, list):
        raise LeadProviderDown(f'{source} must be an object such as {{"records": []}}.')
    leads = [_read_lead(record, source) for record in records[:count]]
    if len({lead.id for lead in leads}) < len(leads):
        raise LeadProviderDown(f"{source} has the same id twice.")
    return leads


def _read_lead(record: Any, source: str) -> Lead:
    lead_id = record.get("id") if isinstance(record, dict) else None
    lead_id = str(lead_id) if isinstance(lead_id, int) and not isinstance(lead_id, bool) else lead_id
    if not isinstance(lead_id, str) or not 0 < len(lead_id) <= MAX_ID_LENGTH or "\0" in lead_id:
        raise LeadProviderDown(f"{source} has a record without an id.")
    owner = record.get("owner")
    absentee_owner = _read_resident(owner) if isinstance(owner, dict) else None
    return Lead(lead_id, _read_resident(record), absentee_owner, _read_coordinates(record))


def _read_coordinates(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Only for maps."""
    values = [record.get(name) for name in ("latitude", "longitude")]
    numbers = [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < len(values) or not (abs(numbers[0]) <= 90 and abs(numbers[1]) <= 180):
        return None
    return numbers[0], numbers[1]


def _read_resident(record: Mapping[str, Any]) -> Resident:
    values: dict[str, Any] = {name: _clean_text(record.get(name)) for name in _RESIDENT_FIELDS}
    return Resident(**values)


def _clean_text(value: object) -> str | None:
    """None where it is no printable text."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value.strip()[:MAX_TEXT_LENGTH] or None
