"""Authlib's authorization server, made for one request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    ClientMixin,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Error,
)

from quillpost.accounts.models import SCOPES
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import OAuthClient
from quillpost.accounts.oauth.tokens import TokenLifetimes, TokenReuse
from quillpost.accounts.tokens.rules import sort_scopes
from quillpost.accounts.users.emails import notify_person
from quillpost.app.container import Container, Limits
from quillpost.core.database import Tx
from quillpost.web.oauth.consent import describe_scopes
from quillpost.web.oauth.grants import CodeGrant, PkceExtension, RefreshGrant
from quillpost.web.oauth.requests import AppRequest, authenticate_app


@dataclass(frozen=True)
class AppClient(ClientMixin):  # type: ignore[misc] # Authlib has no types
    client: OAuthClient

    @property
    def scopes(self) -> frozenset[str]:
        """The most that it may ask for."""
        return frozenset(SCOPES) if self.client.scopes is None else self.client.scopes

    def get_client_id(self) -> str:
        return self.client.client_id

    def get_default_redirect_uri(self) -> None:
        """None: every request names its address, however many are registered."""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.client.redirect_uris

    def get_allowed_scope(self, scope: str | None) -> str:
        """What is asked for, if it may be; all that may be, if nothing is named."""
        requested = frozenset((scope or "").split()) or self.scopes
        if not requested <= self.scopes:
            allowed = " ".join(sort_scopes(self.scopes))
            raise InvalidScopeError(
                f"The client is not registered for: {describe_scopes(requested - self.scopes)}. It may ask for: "
                f"{allowed}"
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
    """What goes out, before it is HTTP."""

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
            raise InvalidScopeError(f"A scope is unknown: {describe_scopes(unknown)}. Known scopes: {' '.join(SCOPES)}")

    def save_token(self, token: Mapping[str, Any], request: AppRequest) -> None:
        """Its digest is kept already."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""

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
        """What leads back to the app says whose answer it is (RFC 9207), a refusal as well."""
        headers_by_name = dict(headers)
        if "Location" in headers_by_name:
            headers_by_name["Location"] = add_params_to_uri(
                headers_by_name["Location"], [("iss", self._container.base_url)]
            )
        return ServerResponse(status, dict(body) if not isinstance(body, str) else body, headers_by_name)

    def refuse(self, refusal: OAuth2Error) -> ServerResponse:
        return self.handle_response(*refusal())

    def reject_grant(self, ended: TokenReuse | None, client: OAuthClient, message: str) -> InvalidGrantError:
        """The refusal of a code, or of a refresh token. Where its family ended by it, the person is told."""
        if ended is not None and ended.notify_person_id is not None:
            incident = INCIDENTS[ended.reason].format(app=client.name)
            notify_person(
                self.tx,
                self._container.encryptor,
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
