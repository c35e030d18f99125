"""Requests of apps, and how they authenticate."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_plus

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError, OAuth2Payload, OAuth2Request

from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import OAuthClient
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.core.exact_json import DEFAULT_BODY_LIMITS, BodyLimits, parse_form
from quillpost.core.tokens import is_of_kind

MAX_PARAMETERS = 50
UNREADABLE_FORM = "The form cannot be read: send UTF-8 text, and at most 50 fields."
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")

# Authlib refuses plain http, but for loopback. Behind a proxy we may see http where the app sees https; and
# people's passwords come the same way: whether the service is reached by https is the operator's matter.
LOOPBACK_URL = "https://localhost"


class UnreadableParameters(ValueError):
    pass


def read_parameters(encoded: bytes, bounds: BodyLimits = DEFAULT_BODY_LIMITS) -> dict[str, list[str]]:
    """Query or form, by name. An empty value counts as missing (RFC 6749, 3.1)."""
    try:
        pairs = [pair for pair in parse_form(encoded, max_fields=MAX_PARAMETERS, limits=bounds) if pair[1]]
    except Invalid as error:
        raise UnreadableParameters(error.message) from None
    except ValueError:
        raise UnreadableParameters(UNREADABLE_FORM) from None
    if any(CONTROL_CHARACTER.search(text) for pair in pairs for text in pair):
        raise UnreadableParameters(UNREADABLE_FORM)
    values_by_name: dict[str, list[str]] = {}
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    return values_by_name


def find_repeated(parameters: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for name, values in parameters.items() if len(values) > 1]


class RequestPayload(OAuth2Payload):  # type: ignore[misc] # Authlib has no types
    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        self._values_by_name = parameters
        self._first_values = {name: values[0] for name, values in parameters.items()}

    @property
    def data(self) -> Mapping[str, str]:
        return self._first_values

    @property
    def datalist(self) -> Mapping[str, Sequence[str]]:
        return self._values_by_name


class AppRequest(OAuth2Request):  # type: ignore[misc] # Authlib has no types
    """In the query of the authorization endpoint, in the form of the others."""

    def __init__(
        self, method: str, path: str, parameters: Mapping[str, Sequence[str]], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(method, LOOPBACK_URL + path, headers=headers)
        self.payload = RequestPayload(parameters)

    @property
    def args(self) -> Mapping[str, str]:
        return self.form

    @property
    def form(self) -> Mapping[str, str]:
        fields: Mapping[str, str] = self.payload.data
        return fields


ClientAuthMethod = Literal["client_secret_basic", "client_secret_post", "none"]
AUTH_METHODS: tuple[ClientAuthMethod, ...] = ("client_secret_basic", "client_secret_post", "none")

UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    client_id: str
    secret: str | None
    method: ClientAuthMethod


def authenticate_app(
    tx: Tx, headers: Mapping[str, str], form: Mapping[str, str]
) -> tuple[OAuthClient, ClientAuthMethod]:
    credentials = _read_credentials(headers.get("authorization"), form)
    client = clients.find_by_client_id(tx, credentials.client_id)
    if client is None:
        raise _invalid_client("There is no such client.")
    if client.is_public:
        if credentials.secret is not None:
            raise _invalid_client("This client is public: it has no secret, and sends its client_id alone.")
        return client, "none"
    if credentials.secret is None:
        raise _invalid_client("This client has a secret, which is missing.")
    if not (is_of_kind(credentials.secret, "secret") and clients.is_client_secret(tx, client, credentials.secret)):
        raise _invalid_client("This is not the client's secret.")
    return client, credentials.method


def _read_credentials(authorization: str | None, form: Mapping[str, str]) -> ClientCredentials:
    if authorization is None:
        if "client_id" not in form:
            raise _invalid_client(
                "Say which client it is, by HTTP Basic or by client_id and client_secret in the form."
            )
        method: ClientAuthMethod = "client_secret_post" if "client_secret" in form else "none"
        return ClientCredentials(form["client_id"], form.get("client_secret"), method)
    if "client_secret" in form:
        raise InvalidRequestError("Send the client secret once: by HTTP Basic or in the form.")
    client_id, secret = _parse_basic(authorization)
    if form.get("client_id", client_id) != client_id:
        raise _invalid_client("The client_id of the form is another than that of HTTP Basic.")
    return ClientCredentials(client_id, secret or None, "client_secret_basic")


def _parse_basic(authorization: str) -> tuple[str, str]:
    """Each is encoded as in a form (RFC 6749, 2.3.1)."""
    scheme, _, value = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        id_text, colon, secret_text = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        client_id, secret = (unquote_plus(text, errors="strict") for text in (id_text, secret_text))
        if not colon or not client_id or not (client_id + secret).isprintable():
            raise ValueError
        return client_id, secret
    except (binascii.Error, ValueError):
        raise _invalid_client("The Authorization header is no HTTP Basic of client_id and client_secret.") from None


def _invalid_client(message: str) -> InvalidClientError:
    return InvalidClientError(message, status_code=UNAUTHORIZED)
