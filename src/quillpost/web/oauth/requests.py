"""What an app asks, and how it says who it is."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_plus

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError, OAuth2Payload, OAuth2Request

from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import Client
from quillpost.core.body_limits import BOUNDS, Bounds, read_form
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.core.tokens import is_of_kind

MOST_PARAMETERS = 50
NO_TEXT = "The form cannot be read: send UTF-8 text, and at most 50 fields."
CONTROLS = re.compile(r"[\x00-\x1f\x7f]")

# Authlib refuses plain http, but for loopback. Behind a proxy we may see http where the app sees https; and
# people's passwords come the same way: whether the service is reached by https is the operator's matter.
OUR_SIDE = "https://localhost"


class Unreadable(ValueError):
    """Parameters that are no text, or too many; it says which."""


def read_parameters(encoded: bytes, bounds: Bounds = BOUNDS) -> dict[str, list[str]]:
    """Query or form, by name. What has no value counts as left out (RFC 6749, 3.1)."""
    try:
        pairs = [pair for pair in read_form(encoded, fields=MOST_PARAMETERS, bounds=bounds) if pair[1]]
    except Invalid as too_much:
        raise Unreadable(too_much.message) from None
    except ValueError:
        raise Unreadable(NO_TEXT) from None
    if any(CONTROLS.search(text) for pair in pairs for text in pair):
        raise Unreadable(NO_TEXT)
    read: dict[str, list[str]] = {}
    for name, value in pairs:
        read.setdefault(name, []).append(value)
    return read


def repeated(parameters: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of those that are there more than once."""
    return [name for name, values in parameters.items() if len(values) > 1]


class Payload(OAuth2Payload):  # type: ignore[misc] # Authlib has no types
    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        self._lists = parameters
        self._firsts = {name: values[0] for name, values in parameters.items()}

    @property
    def data(self) -> Mapping[str, str]:
        return self._firsts

    @property
    def datalist(self) -> Mapping[str, Sequence[str]]:
        return self._lists


class AppRequest(OAuth2Request):  # type: ignore[misc] # Authlib has no types
    """A request of an app: in the query of the authorization endpoint, in the form of the others."""

    def __init__(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Sequence[str]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(method, OUR_SIDE + path, headers=headers)
        self.payload = Payload(parameters)

    @property
    def args(self) -> Mapping[str, str]:
        return self.form

    @property
    def form(self) -> Mapping[str, str]:
        fields: Mapping[str, str] = self.payload.data
        return fields


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
