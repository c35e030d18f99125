"""A verifier of addresses over HTTP, as `docs/verify.md` says.

`POST {base}/verify` and `POST {base}/append` carry a list of questions, each with an `id`, and are answered
with a list of answers. The same body may be sent again, and has the same `Idempotency-Key` then.
"""

import asyncio
import hashlib
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson

from quillpost.core.errors import NotReady
from quillpost.integrations.http.client import FAILURES, sentence
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.recipients.addresses.cities import CODES
from quillpost.recipients.verification.ports import (
    AddressAnswer,
    AskedAddress,
    AskedPerson,
    Moved,
    PostalParts,
    VerifierDown,
)

LONGEST = 300
DPV = frozenset({"Y", "D", "S", "N"})
ZIP = re.compile(r"\d{5}(?:-\d{4})?", re.ASCII)

Answer = TypeVar("Answer")


def read_answers(
    body: bytes, asked: int, read: Callable[[Mapping[str, Any]], Answer], nothing: Answer
) -> Sequence[Answer]:
    """One for each question, by its `id`; what is missing, or cannot be understood, is no answer."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise VerifierDown("The verifier's answer is not JSON.") from None
    answers = told.get("answers") if isinstance(told, dict) else None
    if not isinstance(answers, list):
        raise VerifierDown("The verifier's answer has no list named answers.")
    found = [nothing] * asked
    for answer in answers:
        place = answer.get("id") if isinstance(answer, dict) else None
        if type(place) is int and 0 <= place < asked:
            found[place] = read(answer)
    return found


def read_answer(answer: Mapping[str, Any]) -> AddressAnswer:
    dpv = answer.get("dpv")
    return AddressAnswer(
        dpv=dpv if isinstance(dpv, str) and dpv in DPV else None,
        corrected=read_parts(answer.get("address")),
        moved=_moved(answer.get("moved")),
        is_vacant=answer.get("vacant") is True,
    )


def read_found(answer: Mapping[str, Any]) -> PostalParts | None:
    return read_parts(answer.get("address"))


def read_parts(told: object) -> PostalParts | None:
    """A whole address at home, or nothing: half of one is printed nowhere."""
    if not isinstance(told, dict):
        return None
    street, second, city, state, code = (
        _line(told.get(name)) for name in ("address", "address2", "city", "state", "zip")
    )
    if not (street and city) or state not in CODES or code is None or not ZIP.fullmatch(code):
        return None
    return street, second, city, state, code


def _moved(told: object) -> Moved | None:
    if not isinstance(told, dict):
        return None
    to = read_parts(told.get("address"))
    if to is None and told.get("address") is not None:
        return None  # they have moved somewhere that we cannot read: the old address is as good as before
    return Moved(to, _day(told.get("date")))


def _day(told: object) -> date | None:
    """NCOA knows the month of a move; some services tell the day."""
    if not isinstance(told, str):
        return None
    try:
        return date.fromisoformat(told if len(told) > len("2026-05") else f"{told}-01")
    except ValueError:
        return None


def _line(told: object) -> str | None:
    if not isinstance(told, str) or len(told) > LONGEST or not told.isprintable():
        return None
    return " ".join(told.upper().split()) or None


SETTING = "QUILLPOST_VERIFIER"
LARGEST_ANSWER = 4_000_000
NO_ANSWER = AddressAnswer()


class HttpVerifier:
    """For worker threads: each call runs a short event loop of its own in the calling thread."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str,
        appends: bool = False,
        seconds: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._key = key
        self._appends = appends
        self._seconds = seconds
        self._tls = tls
        # The address is the operator's own setting, not a caller's: it may well be on a private network.
        self._guard = OutboundGuard(allow_private=True)

    @property
    def appends(self) -> bool:
        return self._appends

    def verify(self, asked: Sequence[AskedAddress]) -> Sequence[AddressAnswer]:
        questions = [
            {"id": place, "name": each.name, "company": each.company, **_written(each.parts)}
            for place, each in enumerate(asked)
        ]
        body = asyncio.run(self._ask("verify", {"addresses": questions}))
        return read_answers(body, len(asked), read_answer, NO_ANSWER)

    def append(self, asked: Sequence[AskedPerson]) -> Sequence[PostalParts | None]:
        questions = [
            {"id": place, "name": each.name, "company": each.company, "email": each.email}
            for place, each in enumerate(asked)
        ]
        body = asyncio.run(self._ask("append", {"people": questions}))
        return read_answers(body, len(asked), read_found, None)

    async def _ask(self, what: str, questions: Mapping[str, object]) -> bytes:
        url, data = f"{self._base}/{what}", orjson.dumps(questions)
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Idempotency-Key": hashlib.sha256(data).hexdigest(),
        }
        try:
            async with (
                self._guard.session(seconds=self._seconds, tls=self._tls) as session,
                session.post(url, data=data, headers=headers, allow_redirects=False) as response,
            ):
                body = await _read(response)
        except FAILURES as failure:
            raise VerifierDown(sentence(failure, url, seconds=self._seconds)) from failure
        _check(response, body)
        return body


def verifier_at(address: str, *, key: str | None, appends: bool) -> HttpVerifier:
    """The verifier, or `NotReady` with a sentence on what does not fit together. Nobody is called yet."""
    try:
        parsed = urlsplit(address)
        is_plain = bool(parsed.hostname) and parsed.port != 0 and not (parsed.query or parsed.fragment)
    except ValueError:
        raise NotReady(f"{SETTING} is not an address that we can read.") from None
    if parsed.scheme not in ("http", "https") or not is_plain or " " in address or not address.isprintable():
        raise NotReady(f"{SETTING} must be an address such as https://host/path.")
    if parsed.username is not None or parsed.password is not None:
        raise NotReady(f"{SETTING} must not hold a user or a password: set {SETTING}_KEY instead.")
    if not key:
        raise NotReady(f"{SETTING} is set: {SETTING}_KEY must be set too, to be let in with.")
    return HttpVerifier(address, key=key, appends=appends)


def _written(parts: PostalParts) -> dict[str, str | None]:
    street, second, city, state, code = parts
    return {"address": street, "address2": second, "city": city, "state": state, "zip": code}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """No more than one byte too many."""
    body = bytearray()
    while len(body) <= LARGEST_ANSWER and (chunk := await response.content.read(64 * 1024)):
        body += chunk
    return bytes(body)


def _check(response: aiohttp.ClientResponse, body: bytes) -> None:
    """What it says when it refuses is not shown: it may repeat whom it was asked about."""
    host, status = response.url.host, response.status
    if 300 <= status < 400:
        raise VerifierDown(f"{host} redirects to another address: give the final one in {SETTING}.")
    if status in (401, 403):
        raise VerifierDown(f"{host} does not let us in, it answered with status {status}: see {SETTING}_KEY.")
    if not 200 <= status < 300:
        raise VerifierDown(f"{host} answered with status {status}.")
    if len(body) > LARGEST_ANSWER:
        raise VerifierDown(f"{host} answered with more than {LARGEST_ANSWER:,} bytes.")
