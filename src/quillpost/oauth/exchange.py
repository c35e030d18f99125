"""How the two endpoints that apps call are called: by a form, once each, and not guessed at for long."""

from collections.abc import Callable, Mapping
from typing import Annotated

from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Error
from fastapi import Depends, Request, Response

from quillpost.accounts.service import count_knock
from quillpost.api.answers import answer
from quillpost.api.needs import parts_of
from quillpost.kit.bounds import Bounds
from quillpost.oauth.credentials import UNAUTHORIZED
from quillpost.oauth.requests import AppRequest, Unreadable, read_parameters, repeated
from quillpost.oauth.server import Answer, Server
from quillpost.parts import Parts
from quillpost.reception.forms import WRONG_TYPE, is_form, whole_form
from quillpost.reception.visits import address_of

DOOR = "oauth"
FAILURES_A_MINUTE = 60
UNKEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}

Act = Callable[[Server, AppRequest], Answer]


OurParts = Annotated[Parts, Depends(parts_of)]
PostedBody = Annotated[bytes, Depends(whole_form)]


def answer_app(request: Request, parts: Parts, body: bytes, act: Act) -> Response:
    """Do it in one transaction. What a refusal has changed (a family that ended) is kept like all else."""
    try:
        asked = _asked(request, body, parts.limits.bounds)
    except OAuth2Error as refusal:
        return _response(refusal.status_code, dict(refusal.get_body()))
    address = address_of(request)
    with parts.db.work() as tx:
        told = act(Server(tx, parts, address=address, now=parts.clock()), asked)
    if told.error is not None:
        allowance = count_knock(parts.db, DOOR, address, limit=FAILURES_A_MINUTE)
        if allowance.is_spent:
            return _too_many(allowance.resets_in)
    return _response(told.status, told.body, told.headers)


def _asked(request: Request, body: bytes, bounds: Bounds) -> AppRequest:
    if not is_form(request):
        raise InvalidRequestError(WRONG_TYPE)
    if request.url.query:
        raise InvalidRequestError("Send everything in the form, and nothing in the address.")
    try:
        parameters = read_parameters(body, bounds)
    except Unreadable as wrong:
        raise InvalidRequestError(str(wrong)) from None
    if repeated(parameters):
        raise InvalidRequestError("A field of the form is there more than once.")
    return AppRequest("POST", request.url.path, parameters, request.headers)


def _too_many(seconds: int) -> Response:
    sentence = f"Too many failed attempts. Try again in {seconds} seconds."
    body = {"error": "temporarily_unavailable", "error_description": sentence}
    return _response(429, body, {"Retry-After": str(seconds)})


def _response(status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    scheme = {"WWW-Authenticate": 'Basic realm="Quillpost"'} if status == UNAUTHORIZED else {}
    return answer(body, status=status, headers={**(headers or {}), **UNKEPT, **scheme})
