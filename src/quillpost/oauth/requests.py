"""What an app asks, as Authlib's core wants to see it: parameters in plain letters, and none empty."""

import re
from collections.abc import Mapping, Sequence

from authlib.oauth2.rfc6749 import OAuth2Payload, OAuth2Request

from quillpost.kit.bounds import BOUNDS, Bounds, read_form
from quillpost.kit.errors import Invalid

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
