"""What an app asks a person for: looked at before anyone is asked, and again when they have decided."""

from collections.abc import Mapping, Sequence
from typing import Any

from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Error
from fastapi import Request

from quillpost.web.oauth.requests import AppRequest, UnreadableParameters, find_repeated, read_parameters
from quillpost.web.oauth.server import OAuthServer
from quillpost.web.rendering import MAX_NEXT_LENGTH


class InvalidAuthorizationRequest(Exception):
    """Nobody may be led back: we know no such app, or not at that address. The reader is told instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def get_grant(request: Request, server: OAuthServer) -> Any:
    """Authlib's grant for this request, all of it good. Else `InvalidAuthorizationRequest`, or an error for the app."""
    parameters = _read_parameters(request)
    redirect_uri = _registered_redirect_uri(server, parameters)
    state = parameters["state"][0] if len(parameters.get("state", ())) == 1 else None
    try:
        _check_parameters(parameters)
    except OAuth2Error as refusal:
        refusal.redirect_uri, refusal.state = redirect_uri, state
        raise
    return server.get_consent_grant(AppRequest("GET", request.url.path, parameters))


def _read_parameters(request: Request) -> Mapping[str, Sequence[str]]:
    query: bytes = request.scope["query_string"]
    # Whoever is not signed in must find back here.
    if len(request.url.path) + len(query) >= MAX_NEXT_LENGTH:
        raise InvalidAuthorizationRequest("The app's request is too long.")
    try:
        return read_parameters(query)
    except UnreadableParameters:
        raise InvalidAuthorizationRequest("The app's request cannot be read: it is no plain UTF-8 text.") from None


def _registered_redirect_uri(server: OAuthServer, parameters: Mapping[str, Sequence[str]]) -> str:
    """Where the app is led back to: one of its registered addresses, to the letter."""
    for name in ("client_id", "redirect_uri"):
        if name not in parameters:
            raise InvalidAuthorizationRequest(f"The app's request lacks {name}.")
        if len(parameters[name]) > 1:
            raise InvalidAuthorizationRequest(f"The app's request has {name} more than once.")
    client, redirect_uri = server.query_client(parameters["client_id"][0]), parameters["redirect_uri"][0]
    if client is None:
        raise InvalidAuthorizationRequest("No app is registered here under that client_id.")
    if not client.check_redirect_uri(redirect_uri):
        raise InvalidAuthorizationRequest(
            "The app wants to be led back to an address (redirect_uri) that is not registered for it."
        )
    return redirect_uri


def _check_parameters(parameters: Mapping[str, Sequence[str]]) -> None:
    if find_repeated(parameters):
        raise InvalidRequestError("A parameter is there more than once.")
    if "response_type" not in parameters:
        raise InvalidRequestError("The response_type is missing.")
    if parameters["response_type"] != ["code"]:
        raise OAuth2Error("The response_type must be code.", error="unsupported_response_type")
