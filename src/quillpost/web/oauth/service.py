"""Authlib's authorization server, made for one request: codes, tokens and PKCE. A code, or a refresh token, is
claimed by the statement that makes the next pair, so Authlib's later steps have nothing left to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Error,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

from quillpost.accounts.oauth import clients, tokens
from quillpost.accounts.oauth.clients import OAuthClient
from quillpost.accounts.oauth.service import AppGrant
from quillpost.accounts.oauth.tokens import AuthorizationCode, TokenFamily, TokenLifetimes, TokenPair, TokenReuse
from quillpost.accounts.tokens.rules import SCOPES, sort_scopes
from quillpost.accounts.users.emails import notify_person
from quillpost.app.container import Container, Limits
from quillpost.core.database import Tx
from quillpost.web.oauth.forms import Consent, quote_scopes
from quillpost.web.oauth.requests import AUTH_METHODS, AppRequest, authenticate_app

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
        client = super().authenticate_token_endpoint_client()
        _require_parameter(self.request, "code", "the one that the person was led back to the app with")
        return client

    def generate_authorization_code(self) -> str:
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
        """Already stored."""

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
        """Already claimed."""


class RefreshGrant(grants.RefreshTokenGrant):  # type: ignore[misc] # Authlib has no types
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_token_endpoint_client(self) -> Any:
        client = super().authenticate_token_endpoint_client()
        _require_parameter(self.request, "refresh_token", "the one that came with the latest access token")
        return client

    def _validate_token_scope(self, token: ValidRefreshToken) -> None:
        requested = frozenset((self.request.payload.scope or "").split())
        granted = token.get_scope()
        if wider := requested - frozenset(granted.split()):
            raise InvalidScopeError(f"This was not allowed: {quote_scopes(wider)}. A refresh may ask for: {granted}")

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
        """Already claimed."""


def _token_response(pair: TokenPair, *, granted: frozenset[str] | None, requested: frozenset[str]) -> Mapping[str, Any]:
    """The scope is given only where it differs from the requested one (RFC 6749, 5.1)."""
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
    """Only the client that asked for a code can exchange it. Public clients must prove it, others may."""

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


@dataclass(frozen=True)
class AppClient(ClientMixin):  # type: ignore[misc] # Authlib has no types
    client: OAuthClient

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(SCOPES) if self.client.scopes is None else self.client.scopes

    def get_client_id(self) -> str:
        return self.client.client_id

    def get_default_redirect_uri(self) -> None:
        """None: every request names its address."""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.client.redirect_uris

    def get_allowed_scope(self, scope: str | None) -> str:
        """The requested scopes, or all that the client may have if it names none."""
        requested = frozenset((scope or "").split()) or self.scopes
        if not requested <= self.scopes:
            allowed = " ".join(sort_scopes(self.scopes))
            raise InvalidScopeError(
                f"The client is not registered for: {quote_scopes(requested - self.scopes)}. It may ask for: {allowed}"
            )
        return " ".join(sort_scopes(requested))

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


INCIDENTS = {
    "replay": "A code that “{app}” had exchanged already was shown again",
    "reuse": "A refresh token that “{app}” had used already was shown again",
}
DISCONNECTED_TEXT = (
    "{what}. Whoever did that may have stolen it, so that we have disconnected the app: none of its tokens "
    "is good any more.\n\nIf you still want the app to act for your account, connect it again. If this "
    "happens again, ask whoever makes the app."
)


@dataclass(frozen=True, slots=True)
class ServerResponse:
    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str]

    @property
    def error(self) -> str | None:
        return None if isinstance(self.body, str) else self.body.get("error")


class OAuthServer(AuthorizationServer):  # type: ignore[misc] # Authlib has no types
    def __init__(self, tx: Tx, container: Container, *, address: str | None, now: datetime) -> None:
        super().__init__()
        self.tx, self.address, self.now = tx, address, now
        self._container, self.lifetimes = container, _build_lifetimes(container.limits)
        self.register_grant(CodeGrant, [PkceExtension(required=True)])
        self.register_grant(RefreshGrant)

    def query_client(self, client_id: str) -> AppClient | None:
        client = clients.find_by_client_id(self.tx, client_id)
        return None if client is None else AppClient(client)

    def authenticate_client(self, request: AppRequest, *_methods_and_endpoint: Any) -> AppClient:
        """By each of our methods, at every endpoint."""
        client, request.auth_method = authenticate_app(self.tx, request.headers, request.form)
        return AppClient(client)

    def get_token_grant(self, request: AppRequest) -> Any:
        """Authlib's own refusal would repeat what was sent."""
        grant_type = request.payload.grant_type
        if grant_type is None:
            raise InvalidRequestError("The grant_type is missing.")
        if grant_type not in (CodeGrant.GRANT_TYPE, RefreshGrant.GRANT_TYPE):
            raise OAuth2Error(
                "The grant_type must be authorization_code or refresh_token.", error="unsupported_grant_type"
            )
        return super().get_token_grant(request)

    def validate_requested_scope(self, scope: str | None) -> None:
        if unknown := frozenset((scope or "").split()) - frozenset(SCOPES):
            raise InvalidScopeError(f"A scope is unknown: {quote_scopes(unknown)}. Known scopes: {' '.join(SCOPES)}")

    def save_token(self, token: Mapping[str, Any], request: AppRequest) -> None:
        """Its digest is already stored."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """No one listens."""

    def create_oauth2_request(self, request: AppRequest) -> AppRequest:
        return request

    def create_token_response(self, request: AppRequest) -> ServerResponse:
        try:
            self.get_token_grant(request)
        except OAuth2Error as refusal:
            return self.refuse(refusal)
        response: ServerResponse = super().create_token_response(request)
        return response

    def handle_response(self, status: int, body: Any, headers: Sequence[tuple[str, str]]) -> ServerResponse:
        """Redirects to the app, refusals too, say whose answer they are (RFC 9207)."""
        headers_by_name = dict(headers)
        if "Location" in headers_by_name:
            headers_by_name["Location"] = add_params_to_uri(
                headers_by_name["Location"], [("iss", self._container.base_url)]
            )
        return ServerResponse(status, dict(body) if not isinstance(body, str) else body, headers_by_name)

    def refuse(self, refusal: OAuth2Error) -> ServerResponse:
        return self.handle_response(*refusal())

    def reject_grant(self, ended: TokenReuse | None, client: OAuthClient, message: str) -> InvalidGrantError:
        """The person is notified if the token family ended by it."""
        if ended is not None and ended.notify_person_id is not None:
            incident = INCIDENTS[ended.reason].format(app=client.name)
            notify_person(
                self.tx,
                ended.notify_person_id,
                key=f"connection-{ended.grant_id}-{ended.reason}",
                subject=f"“{client.name}” was disconnected",
                text=DISCONNECTED_TEXT.format(what=incident),
                now=self.now,
            )
        return InvalidGrantError(message)


def _build_lifetimes(limits: Limits) -> TokenLifetimes:
    return TokenLifetimes(
        code=timedelta(seconds=limits.code_seconds),
        access=timedelta(days=limits.access_token_days),
        refresh=timedelta(days=limits.refresh_token_days),
    )
