"""A commercial source of addresses that is spoken to over HTTP; the protocol is in docs/leads.md.

`POST {base}/search` finds the nearest records, `POST {base}/purchases` says which of them were bought. Every
request is signed after the Standard Webhooks convention. A purchase carries its reference as
`Idempotency-Key` too: said again after a crash, it is the same purchase.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

from quillpost.client import signatures
from quillpost.core import exact_json
from quillpost.core.errors import NotReady
from quillpost.integrations.http.client import FAILURES, sentence
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.recipients.leads.ports import Lead, LeadsAsked, LeadsDown, Resident

SETTING = "QUILLPOST_LEADS"

BYTES_A_RECORD, BYTES_AT_LEAST = 2_000, 100_000
"""What an answer may hold."""
LONGEST_ID = 200
LONGEST_TEXT = 300
MOST_RECORDS = 20_000
"""That are asked for at once."""

_GIVEN = ("name", "company", "address", "address2", "city", "province", "postal_code", "country")
assert set(_GIVEN) <= {field.name for field in fields(Resident)}


class HttpLeads:
    """For worker threads: each call runs a short event loop of its own in the calling thread."""

    is_told = True

    def __init__(
        self,
        base_url: str,
        *,
        secrets: Sequence[str],
        clock: Callable[[], datetime],
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._base = checked(base_url).rstrip("/")
        self._secrets, self._clock, self._seconds, self._tls = list(secrets), clock, seconds, tls
        if not self._secrets:
            raise NotReady(f"{SETTING} is set: {SETTING}_SECRET must be set too, to sign with.")
        # The address is the operator's own setting, not a caller's: it may well be on a private network.
        self._guard = OutboundGuard(allow_private=True)

    def search(self, asked: LeadsAsked) -> Sequence[Lead]:
        count = min(asked.count, MOST_RECORDS)
        body = orjson.dumps(asdict(asked) | {"count": count, "record_types": list(asked.record_types)})
        most = BYTES_AT_LEAST + count * BYTES_A_RECORD
        answer = self._call("search", f"search:{uuid4()}", body, {}, most_bytes=most, now=self._clock())
        return _records(answer, f"The answer of {self._base}/search", count)

    def bought(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        body = orjson.dumps({"reference": reference, "ids": list(ids)})
        key = {"Idempotency-Key": reference}
        self._call("purchases", f"purchase:{reference}", body, key, most_bytes=BYTES_AT_LEAST, now=now)

    def _call(
        self,
        path: str,
        message_id: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        most_bytes: int,
        now: datetime,
    ) -> bytes:
        signed = signatures.sign(self._secrets, message_id=message_id, at=now, body=body)
        url = f"{self._base}/{path}"
        sent = {"Content-Type": "application/json", **headers, **signed}
        try:
            return asyncio.run(self._post(url, sent, body, most_bytes))
        except FAILURES as failure:
            raise LeadsDown(sentence(failure, url, seconds=self._seconds)) from failure

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, most_bytes: int) -> bytes:
        async with (
            self._guard.session(seconds=self._seconds, tls=self._tls) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            host = response.url.host
            if not 200 <= response.status < 300:
                raise LeadsDown(f"{host} answered with status {response.status}.")
            found = bytearray()
            while len(found) <= most_bytes and (
                chunk := await response.content.read(most_bytes + 1 - len(found))
            ):
                found += chunk
            if len(found) > most_bytes:
                raise LeadsDown(f"{host} answered with more than {most_bytes:,} bytes.")
            return bytes(found)


def checked(url: str) -> str:
    """The address, or `NotReady` with what is wrong with it."""
    try:
        parsed = urlsplit(url)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        is_plain = False
    if not is_plain or parsed.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise NotReady(f"{SETTING} must be an address such as https://host/path.")
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a user or a password: requests are signed instead.")
    return url


def _records(answer: bytes, source: str, count: int) -> list[Lead]:
    """Those of the answer that can be read, or `LeadsDown` where it is something else altogether."""
    try:
        told = exact_json.read(answer)
    except exact_json.NotJson as wrong:
        raise LeadsDown(f"{source} cannot be read: {wrong}") from None
    records = told.get("records") if isinstance(told, dict) else None
    if not isinstance(records, list):
        raise LeadsDown(f'{source} must be an object such as {{"records": []}}.')
    leads = [_lead(record, source) for record in records[:count]]
    if len({lead.id for lead in leads}) < len(leads):
        raise LeadsDown(f"{source} has the same id twice.")
    return leads


def _lead(record: Any, source: str) -> Lead:
    id_ = record.get("id") if isinstance(record, dict) else None
    id_ = str(id_) if isinstance(id_, int) and not isinstance(id_, bool) else id_
    if not isinstance(id_, str) or not 0 < len(id_) <= LONGEST_ID or "\0" in id_:
        raise LeadsDown(f"{source} has a record without an id.")
    owner = record.get("owner")
    lives_elsewhere = _resident(owner) if isinstance(owner, dict) else None
    return Lead(id_, _resident(record), lives_elsewhere, _place(record))


def _place(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Where it is, if the source says so, for a map alone: nothing hangs on it."""
    told = [record.get(name) for name in ("latitude", "longitude")]
    numbers = [float(each) for each in told if isinstance(each, (int, float)) and not isinstance(each, bool)]
    if len(numbers) < len(told) or not (abs(numbers[0]) <= 90 and abs(numbers[1]) <= 180):
        return None
    return numbers[0], numbers[1]


def _resident(record: Mapping[str, Any]) -> Resident:
    given: dict[str, Any] = {name: _text(record.get(name)) for name in _GIVEN}
    return Resident(**given)


def _text(value: object) -> str | None:
    """What is no text, or none that can be printed, is as good as nothing."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value.strip()[:LONGEST_TEXT] or None
