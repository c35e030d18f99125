"""An OAuth client as Authlib's core asks about it."""

from dataclasses import dataclass

from authlib.oauth2.rfc6749 import ClientMixin, InvalidScopeError

from quillpost.accounts.clients import Client
from quillpost.accounts.rules import SCOPES
from quillpost.accounts.scope_words import in_order
from quillpost.oauth.wrong_scopes import named


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
