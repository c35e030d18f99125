"""Codes and refresh tokens for access tokens, and PKCE.

Authlib first makes a token, and then gets rid of what it was made for. Here the code, or the refresh token,
is claimed by the very act that makes the next pair: those later steps of Authlib's have nothing left to do.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

from quillpost.accounts.models import SCOPES
from quillpost.accounts.oauth import tokens
from quillpost.accounts.oauth.apps import Leave
from quillpost.accounts.oauth.tokens import Code, Family, Pair
from quillpost.accounts.tokens.rules import in_order
from quillpost.web.oauth.consent import Consent, named
from quillpost.web.oauth.requests import METHODS, AppRequest

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
        return tokens.give_code(
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
        found = tokens.read_code(place.tx, code, client.client, address=place.address, now=place.now)
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
        made = tokens.claim_code(
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
        found = tokens.read_refresh(place.tx, refresh_token, client, address=place.address, now=place.now)
        if isinstance(found, Family):
            return GoodRefresh(refresh_token, found)
        raise place.refused(found, client, WRONG_REFRESH)

    def authenticate_user(self, refresh_token: GoodRefresh) -> Leave:
        return refresh_token.family.leave

    def generate_token(self, *, scope: str, **_: Any) -> Mapping[str, Any]:
        place, shown = self.server, self.request.refresh_token
        wanted = frozenset(scope.split())
        made = tokens.claim_refresh(
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


S256 = "S256"
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class Proof(CodeChallenge):  # type: ignore[misc] # Authlib has no types
    """Whoever exchanges the code is whoever asked for it. Public clients must prove it, the others may."""

    SUPPORTED_CODE_CHALLENGE_METHOD = (S256,)

    def validate_code_challenge(self, grant: Any, _result: None) -> None:
        asked = grant.request.payload.data
        challenge, method = asked.get("code_challenge"), asked.get("code_challenge_method")
        if challenge is None and method is None:
            if grant.client.client.is_public:
                raise InvalidRequestError("A public client must send a code_challenge, by S256.")
            return
        if challenge is None:
            raise InvalidRequestError("There is a code_challenge_method without a code_challenge.")
        if method != S256:
            raise InvalidRequestError("The code_challenge_method must be S256: plain is not taken.")
        if not CHALLENGE.fullmatch(challenge):
            raise InvalidRequestError("A code_challenge by S256 has 43 characters of base64url.")

    def validate_code_verifier(self, grant: Any, _result: None) -> None:
        challenge: str | None = grant.request.authorization_code.code.challenge
        verifier: str | None = grant.request.form.get("code_verifier")
        if challenge is None:
            if verifier is None and not grant.request.client.client.is_public:
                return
            # RFC 9700, 4.8.2
            raise InvalidRequestError(
                "There is a code_verifier, but the code was asked for without a code_challenge: send both or "
                "neither."
            )
        if verifier is None:
            raise InvalidRequestError(
                "The code_verifier is missing: the code was asked for with a code_challenge."
            )
        if not VERIFIER.fullmatch(verifier):
            raise InvalidRequestError(
                "A code_verifier has 43 to 128 characters: letters, digits and - . _ ~ alone."
            )
        if not compare_digest(create_s256_code_challenge(verifier), challenge):
            raise InvalidGrantError("The code_verifier does not fit the code_challenge.")
