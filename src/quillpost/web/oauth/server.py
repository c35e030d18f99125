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
from quillpost.accounts.oauth.clients import Client
from quillpost.accounts.oauth.tokens import Ended, Lifetimes
from quillpost.accounts.tokens.rules import in_order
from quillpost.accounts.users.emails import tell_person
from quillpost.app.container import Limits, Parts
from quillpost.core.database import Tx
from quillpost.web.oauth.consent import named
from quillpost.web.oauth.grants import ByCode, ByRefresh, Proof
from quillpost.web.oauth.requests import AppRequest, authenticated


@dataclass(frozen=True)
class AppClient(ClientMixin):  # type: ignore[misc] # Authlib has no types
    client: Client

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
        asked = frozenset((scope or "").split()) or self.scopes
        if not asked <= self.scopes:
            known = " ".join(in_order(self.scopes))
            raise InvalidScopeError(
                f"The client is not registered for: {named(asked - self.scopes)}. It may ask for: {known}"
            )
        return " ".join(in_order(asked))

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


TOLD = {
    "replay": "A code that “{app}” had exchanged already was shown again",
    "reuse": "A refresh token that “{app}” had used already was shown again",
}
WORDS = (
    "{what}. Whoever did that may have stolen it, so that we have disconnected the app: none of its tokens "
    "is good any more.\n\nIf you still want the app to act for your account, connect it again. If this "
    "happens again, ask whoever makes the app."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes out, before it is HTTP."""

    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str]

    @property
    def error(self) -> str | None:
        return None if isinstance(self.body, str) else self.body.get("error")


class Server(AuthorizationServer):  # type: ignore[misc] # Authlib has no types
    def __init__(self, tx: Tx, parts: Parts, *, address: str | None, now: datetime) -> None:
        super().__init__()
        self.tx, self.address, self.now = tx, address, now
        self._parts, self.lasting = parts, _lasting(parts.limits)
        self.register_grant(ByCode, [Proof(required=True)])
        self.register_grant(ByRefresh)

    def query_client(self, client_id: str) -> AppClient | None:
        client = clients.by_client_id(self.tx, client_id)
        return None if client is None else AppClient(client)

    def authenticate_client(self, request: AppRequest, *_methods_and_endpoint: Any) -> AppClient:
        """By each of our methods, at every endpoint."""
        client, request.auth_method = authenticated(self.tx, request.headers, request.form)
        return AppClient(client)

    def get_token_grant(self, request: AppRequest) -> Any:
        """Authlib's own refusal would repeat what was sent."""
        kind = request.payload.grant_type
        if kind is None:
            raise InvalidRequestError("The grant_type is missing.")
        if kind not in (ByCode.GRANT_TYPE, ByRefresh.GRANT_TYPE):
            raise OAuth2Error(
                "The grant_type must be authorization_code or refresh_token.", error="unsupported_grant_type"
            )
        return super().get_token_grant(request)

    def validate_requested_scope(self, scope: str | None) -> None:
        if unknown := frozenset((scope or "").split()) - frozenset(SCOPES):
            raise InvalidScopeError(f"A scope is unknown: {named(unknown)}. Known scopes: {' '.join(SCOPES)}")

    def save_token(self, token: Mapping[str, Any], request: AppRequest) -> None:
        """Its digest is kept already."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: AppRequest) -> AppRequest:
        return request

    def create_token_response(self, request: AppRequest) -> Answer:
        try:
            self.get_token_grant(request)
        except OAuth2Error as refusal:
            return self.refuse(refusal)
        answer: Answer = super().create_token_response(request)
        return answer

    def handle_response(self, status: int, body: Any, headers: Sequence[tuple[str, str]]) -> Answer:
        """What leads back to the app says whose answer it is (RFC 9207), a refusal as well."""
        named = dict(headers)
        if "Location" in named:
            named["Location"] = add_params_to_uri(named["Location"], [("iss", self._parts.base_url)])
        return Answer(status, dict(body) if not isinstance(body, str) else body, named)

    def refuse(self, refusal: OAuth2Error) -> Answer:
        return self.handle_response(*refusal())

    def refused(self, found: Ended | None, client: Client, sentence: str) -> InvalidGrantError:
        """The refusal of a code, or of a refresh token. Where its family ended by it, the person is told."""
        if found is not None and found.to_tell is not None:
            what = TOLD[found.why].format(app=client.name)
            tell_person(
                self.tx,
                self._parts.sealer,
                found.to_tell,
                key=f"connection-{found.grant_id}-{found.why}",
                subject=f"“{client.name}” was disconnected",
                words=WORDS.format(what=what),
                now=self.now,
            )
        return InvalidGrantError(sentence)


def _lasting(limits: Limits) -> Lifetimes:
    return Lifetimes(
        code=timedelta(seconds=limits.code_seconds),
        access=timedelta(days=limits.access_token_days),
        refresh=timedelta(days=limits.refresh_token_days),
    )
