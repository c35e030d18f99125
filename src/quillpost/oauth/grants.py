"""The two ways to tokens, a code and a refresh token, between Authlib's core and the families of ours.

Authlib first makes a token, and then gets rid of what it was made for. Here the code, or the refresh token,
is claimed by the very act that makes the next pair: those later steps of Authlib's have nothing left to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    TokenMixin,
    grants,
)

from quillpost.accounts import app_tokens
from quillpost.accounts.app_tokens import Code, Family, Pair
from quillpost.accounts.connections import Leave
from quillpost.accounts.rules import SCOPES
from quillpost.accounts.scope_words import in_order
from quillpost.oauth.consent import Consent
from quillpost.oauth.credentials import METHODS
from quillpost.oauth.requests import AppRequest
from quillpost.oauth.wrong_scopes import named

WRONG_CODE = "The code is unknown, expired, used already or another client's."
WRONG_REFRESH = "The refresh token is unknown, expired, used already or another client's."


@dataclass(frozen=True)
class GoodCode(AuthorizationCodeMixin):  # type: ignore[misc] # Authlib has no types
    code: Code

    def get_redirect_uri(self) -> str:
        return self.code.redirect_uri

    def get_scope(self) -> str:
        return _written(self.code.leave.scopes)


@dataclass(frozen=True)
class GoodRefresh(TokenMixin):  # type: ignore[misc] # Authlib has no types
    token: str
    family: Family

    def check_client(self, client: Any) -> bool:
        return bool(self.family.client_id == client.get_client_id())

    def get_scope(self) -> str:
        return _written(self.family.leave.scopes)


class ByCode(grants.AuthorizationCodeGrant):  # type: ignore[misc] # Authlib has no types
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def authenticate_token_endpoint_client(self) -> Any:
        """Whose request it is, and that there is anything in it to look at."""
        client = super().authenticate_token_endpoint_client()
        _require(self.request, "code", "the one that the person was led back to the app with")
        return client

    def generate_authorization_code(self) -> str:
        """The person's consent becomes a leave, and this the code for it."""
        consent: Consent = self.request.user
        asked = self.request.payload.scope
        return app_tokens.give_code(
            self.server.tx,
            self.client.client,
            consent.leave,
            consent.actor,
            redirect_uri=self.request.payload.redirect_uri,
            challenge=self.request.payload.data.get("code_challenge"),
            asked=None if asked is None else frozenset(asked.split()),
            lasting=self.server.lasting,
            now=self.server.now,
        )

    def save_authorization_code(self, code: str, request: Any) -> None:
        """It is kept already."""

    def query_authorization_code(self, code: str, client: Any) -> GoodCode:
        place = self.server
        found = app_tokens.read_code(place.tx, code, client.client, address=place.address, now=place.now)
        if not isinstance(found, Code):
            raise place.refused(found, client.client, WRONG_CODE)
        _require(self.request, "redirect_uri", "the one that the code was asked for with")
        if self.request.form["redirect_uri"] != found.redirect_uri:
            raise InvalidGrantError("The redirect_uri is not the one that the code was asked for with.")
        return GoodCode(found)

    def authenticate_user(self, authorization_code: GoodCode) -> Leave:
        return authorization_code.code.leave

    def generate_token(self, **_: Any) -> Mapping[str, Any]:
        place, code = self.server, self.request.authorization_code.code
        made = app_tokens.claim_code(
            place.tx, code, self.client.client, lasting=place.lasting, address=place.address, now=place.now
        )
        if isinstance(made, Pair):
            return _token(made, given=code.leave.scopes, asked=code.asked or self.client.scopes)
        raise place.refused(made, self.client.client, WRONG_CODE)

    def delete_authorization_code(self, authorization_code: GoodCode) -> None:
        """It is claimed already."""


class ByRefresh(grants.RefreshTokenGrant):  # type: ignore[misc] # Authlib has no types
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_token_endpoint_client(self) -> Any:
        """Whose request it is, and that there is anything in it to look at."""
        client = super().authenticate_token_endpoint_client()
        _require(self.request, "refresh_token", "the one that came with the latest access token")
        return client

    def _validate_token_scope(self, token: GoodRefresh) -> None:
        wanted = frozenset((self.request.payload.scope or "").split())
        given = token.get_scope()
        if wider := wanted - frozenset(given.split()):
            raise InvalidScopeError(f"This was not allowed: {named(wider)}. A refresh may ask for: {given}")

    def authenticate_refresh_token(self, refresh_token: str) -> GoodRefresh:
        place, client = self.server, self.client.client
        found = app_tokens.read_refresh(place.tx, refresh_token, client, address=place.address, now=place.now)
        if isinstance(found, Family):
            return GoodRefresh(refresh_token, found)
        raise place.refused(found, client, WRONG_REFRESH)

    def authenticate_user(self, refresh_token: GoodRefresh) -> Leave:
        return refresh_token.family.leave

    def generate_token(self, *, scope: str, **_: Any) -> Mapping[str, Any]:
        place, shown = self.server, self.request.refresh_token
        wanted = frozenset(scope.split())
        made = app_tokens.claim_refresh(
            place.tx,
            shown.token,
            shown.family,
            self.client.client,
            scopes=wanted,
            lasting=place.lasting,
            address=place.address,
            now=place.now,
        )
        if isinstance(made, Pair):
            return _token(made, given=wanted, asked=wanted)
        raise place.refused(made, self.client.client, WRONG_REFRESH)

    def revoke_old_credential(self, refresh_token: GoodRefresh) -> None:
        """It is claimed already."""


def _token(pair: Pair, *, given: frozenset[str] | None, asked: frozenset[str]) -> Mapping[str, Any]:
    """The answer: what is given is said only where it is not what was asked for (RFC 6749, 5.1)."""
    told = {} if given is None or given == asked else {"scope": _written(given)}
    return {
        "token_type": "Bearer",
        "expires_in": pair.expires_in,
        "access_token": pair.access_token,
        "refresh_token": pair.refresh_token,
        **told,
    }


def _require(request: AppRequest, name: str, which: str) -> None:
    if name not in request.form:
        raise InvalidRequestError(f"The {name} is missing: send {which}.")


def _written(scopes: frozenset[str] | None) -> str:
    return " ".join(SCOPES if scopes is None else in_order(scopes))
