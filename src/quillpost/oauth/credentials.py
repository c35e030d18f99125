"""How an app says who it is: by HTTP Basic, or in its form; a public one by its id alone."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_plus

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError

from quillpost.accounts import clients
from quillpost.accounts.clients import Client
from quillpost.database import Tx
from quillpost.kit.tokens import is_of_kind

Method = Literal["client_secret_basic", "client_secret_post", "none"]
METHODS: tuple[Method, ...] = ("client_secret_basic", "client_secret_post", "none")

UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Said:
    client_id: str
    secret: str | None
    method: Method


def authenticated(tx: Tx, headers: Mapping[str, str], form: Mapping[str, str]) -> tuple[Client, Method]:
    """Whose request it is, and how it was proved."""
    said = _said(headers.get("authorization"), form)
    client = clients.by_client_id(tx, said.client_id)
    if client is None:
        raise _wrong("There is no such client.")
    if client.is_public:
        if said.secret is not None:
            raise _wrong("This client is public: it has no secret, and sends its client_id alone.")
        return client, "none"
    if said.secret is None:
        raise _wrong("This client has a secret, which is missing.")
    if not (is_of_kind(said.secret, "secret") and clients.is_secret(tx, client, said.secret)):
        raise _wrong("This is not the client's secret.")
    return client, said.method


def _said(authorization: str | None, form: Mapping[str, str]) -> Said:
    if authorization is None:
        if "client_id" not in form:
            raise _wrong(
                "Say which client it is, by HTTP Basic or by client_id and client_secret in the form."
            )
        method: Method = "client_secret_post" if "client_secret" in form else "none"
        return Said(form["client_id"], form.get("client_secret"), method)
    if "client_secret" in form:
        raise InvalidRequestError("Send the client secret once: by HTTP Basic or in the form.")
    client_id, secret = _basic(authorization)
    if form.get("client_id", client_id) != client_id:
        raise _wrong("The client_id of the form is another than that of HTTP Basic.")
    return Said(client_id, secret or None, "client_secret_basic")


def _basic(authorization: str) -> tuple[str, str]:
    """Id and secret, each encoded as in a form (RFC 6749, 2.3.1)."""
    scheme, _, value = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        written, colon, rest = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        client_id, secret = (unquote_plus(each, errors="strict") for each in (written, rest))
        if not colon or not client_id or not (client_id + secret).isprintable():
            raise ValueError
        return client_id, secret
    except (binascii.Error, ValueError):
        raise _wrong("The Authorization header is no HTTP Basic of client_id and client_secret.") from None


def _wrong(sentence: str) -> InvalidClientError:
    return InvalidClientError(sentence, status_code=UNAUTHORIZED)
