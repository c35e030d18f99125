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
from quillpost.accounts.oauth.apps import AppGrant
from quillpost.accounts.oauth.tokens import AuthorizationCode, TokenFamily, TokenPair
from quillpost.accounts.tokens.rules import sort_scopes
from quillpost.web.oauth.consent import Consent, describe_scopes
from quillpost.web.oauth.requests import AUTH_METHODS, AppRequest

INVALID_CODE = "The code is unknown, expired, used already or another client's."
INVALID_REFRESH_TOKEN = "The refresh token is unknown, expired, used already or another client's."


@dataclass(frozen=True)
class ValidCode(AuthorizationCodeMixin):  # type: ignore[misc] # Authlib has no types
    code: AuthorizationCode

    def get_redirect_uri(self) -> str:
        return self.code.redirect_uri

    def get_scope(self) -> str:
        return _join_scopes(self.code.grant.scopes)


@dataclass(frozen=True)
class ValidRefreshToken(TokenMixin):  # type: ignore[misc] # Authlib has no types
    token: str
    family: TokenFamily

    def check_client(self, client: Any) -> bool:
        return bool(self.family.client_id == client.get_client_id())

    def get_scope(self) -> str:
        return _join_scopes(self.family.grant.scopes)


class CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc] # Authlib has no types
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS

    def authenticate_token_endpoint_client(self) -> Any:
        """Whose request it is, and that there is anything in it to look at."""
        client = super().authenticate_token_endpoint_client()
        _require_parameter(self.request, "code", "the one that the person was led back to the app with")
        return client

    def generate_authorization_code(self) -> str:
        """The person's consent becomes a leave, and this the code for it."""
        consent: Consent = self.request.user
        requested_scope = self.request.payload.scope
        return tokens.issue_code(
            self.server.tx,
            self.client.client,
            consent.permission,
            consent.actor,
            redirect_uri=self.request.payload.redirect_uri,
            challenge=self.request.payload.data.get("code_challenge"),
            requested_scopes=None if requested_scope is None else frozenset(requested_scope.split()),
            lifetimes=self.server.lifetimes,
            now=self.server.now,
        )

    def save_authorization_code(self, code: str, request: Any) -> None:
        """It is kept already."""

    def query_authorization_code(self, code: str, client: Any) -> ValidCode:
        server = self.server
        stored_code = tokens.read_code(server.tx, code, client.client, address=server.address, now=server.now)
        if not isinstance(stored_code, AuthorizationCode):
            raise server.reject_grant(stored_code, client.client, INVALID_CODE)
        _require_parameter(self.request, "redirect_uri", "the one that the code was asked for with")
        if self.request.form["redirect_uri"] != stored_code.redirect_uri:
            raise InvalidGrantError("The redirect_uri is not the one that the code was asked for with.")
        return ValidCode(stored_code)

    def authenticate_user(self, authorization_code: ValidCode) -> AppGrant:
        return authorization_code.code.grant

    def generate_token(self, **_: Any) -> Mapping[str, Any]:
        server, code = self.server, self.request.authorization_code.code
        pair = tokens.exchange_code(
            server.tx, code, self.client.client, lifetimes=server.lifetimes, address=server.address, now=server.now
        )
        if isinstance(pair, TokenPair):
            return _token_response(
                pair, granted=code.grant.scopes, requested=code.requested_scopes or self.client.scopes
            )
        raise server.reject_grant(pair, self.client.client, INVALID_CODE)

    def delete_authorization_code(self, authorization_code: ValidCode) -> None:
        """It is claimed already."""


class RefreshGrant(grants.RefreshTokenGrant):  # type: ignore[misc] # Authlib has no types
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_token_endpoint_client(self) -> Any:
        """Whose request it is, and that there is anything in it to look at."""
        client = super().authenticate_token_endpoint_client()
        _require_parameter(self.request, "refresh_token", "the one that came with the latest access token")
        return client

    def _validate_token_scope(self, token: ValidRefreshToken) -> None:
        requested = frozenset((self.request.payload.scope or "").split())
        granted = token.get_scope()
        if wider := requested - frozenset(granted.split()):
            raise InvalidScopeError(f"This was not allowed: {describe_scopes(wider)}. A refresh may ask for: {granted}")

    def authenticate_refresh_token(self, refresh_token: str) -> ValidRefreshToken:
        server, client = self.server, self.client.client
        family = tokens.read_refresh_token(server.tx, refresh_token, client, address=server.address, now=server.now)
        if isinstance(family, TokenFamily):
            return ValidRefreshToken(refresh_token, family)
        raise server.reject_grant(family, client, INVALID_REFRESH_TOKEN)

    def authenticate_user(self, refresh_token: ValidRefreshToken) -> AppGrant:
        return refresh_token.family.grant

    def generate_token(self, *, scope: str, **_: Any) -> Mapping[str, Any]:
        server, valid_token = self.server, self.request.refresh_token
        scopes = frozenset(scope.split())
        pair = tokens.exchange_refresh_token(
            server.tx,
            valid_token.token,
            valid_token.family,
            self.client.client,
            scopes=scopes,
            lifetimes=server.lifetimes,
            address=server.address,
            now=server.now,
        )
        if isinstance(pair, TokenPair):
            return _token_response(pair, granted=scopes, requested=scopes)
        raise server.reject_grant(pair, self.client.client, INVALID_REFRESH_TOKEN)

    def revoke_old_credential(self, refresh_token: ValidRefreshToken) -> None:
        """It is claimed already."""


def _token_response(pair: TokenPair, *, granted: frozenset[str] | None, requested: frozenset[str]) -> Mapping[str, Any]:
    """The answer: what is given is said only where it is not what was asked for (RFC 6749, 5.1)."""
    scope_field = {} if granted is None or granted == requested else {"scope": _join_scopes(granted)}
    return {
        "token_type": "Bearer",
        "expires_in": pair.expires_in,
        "access_token": pair.access_token,
        "refresh_token": pair.refresh_token,
        **scope_field,
    }


def _require_parameter(request: AppRequest, name: str, hint: str) -> None:
    if name not in request.form:
        raise InvalidRequestError(f"The {name} is missing: send {hint}.")


def _join_scopes(scopes: frozenset[str] | None) -> str:
    return " ".join(SCOPES if scopes is None else sort_scopes(scopes))


S256 = "S256"
CHALLENGE_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER_PATTERN = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class PkceExtension(CodeChallenge):  # type: ignore[misc] # Authlib has no types
    """Whoever exchanges the code is whoever asked for it. Public clients must prove it, the others may."""

    SUPPORTED_CODE_CHALLENGE_METHOD = (S256,)

    def validate_code_challenge(self, grant: Any, _result: None) -> None:
        parameters = grant.request.payload.data
        challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
        if challenge is None and method is None:
            if grant.client.client.is_public:
                raise InvalidRequestError("A public client must send a code_challenge, by S256.")
            return
        if challenge is None:
            raise InvalidRequestError("There is a code_challenge_method without a code_challenge.")
        if method != S256:
            raise InvalidRequestError("The code_challenge_method must be S256: plain is not taken.")
        if not CHALLENGE_PATTERN.fullmatch(challenge):
            raise InvalidRequestError("A code_challenge by S256 has 43 characters of base64url.")

    def validate_code_verifier(self, grant: Any, _result: None) -> None:
        challenge: str | None = grant.request.authorization_code.code.challenge
        verifier: str | None = grant.request.form.get("code_verifier")
        if challenge is None:
            if verifier is None and not grant.request.client.client.is_public:
                return
            # RFC 9700, 4.8.2
            raise InvalidRequestError(
                "There is a code_verifier, but the code was asked for without a code_challenge: send both or neither."
            )
        if verifier is None:
            raise InvalidRequestError("The code_verifier is missing: the code was asked for with a code_challenge.")
        if not VERIFIER_PATTERN.fullmatch(verifier):
            raise InvalidRequestError("A code_verifier has 43 to 128 characters: letters, digits and - . _ ~ alone.")
        if not compare_digest(create_s256_code_challenge(verifier), challenge):
            raise InvalidGrantError("The code_verifier does not fit the code_challenge.")
