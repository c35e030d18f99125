"""Where an app gives its tokens back (RFC 7009)."""

from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7009 import RevocationEndpoint
from fastapi import APIRouter, Request, Response

from quillpost.accounts import app_tokens
from quillpost.oauth.app_client import AppClient
from quillpost.oauth.credentials import METHODS
from quillpost.oauth.exchange import OurParts, PostedBody, answer_app
from quillpost.oauth.requests import AppRequest
from quillpost.oauth.server import Answer, Server

router = APIRouter(include_in_schema=False)


class Revocation(RevocationEndpoint):  # type: ignore[misc] # Authlib has no types
    CLIENT_AUTH_METHODS = METHODS

    def authenticate_token(self, request: AppRequest, client: AppClient) -> None:
        """Revoke it at once: there is nothing that Authlib would have to know of it. What a token is for can
        be told from the token itself, so that a hint is not needed, nor a wrong one in the way."""
        if "token" not in request.form:
            raise InvalidRequestError("The token is missing.")
        place = self.server
        done = app_tokens.revoke(
            place.tx, request.form["token"], client.client, address=place.address, now=place.now
        )
        if done == "another's":
            raise InvalidGrantError("This token was not issued to this client.")


@router.post("/oauth/revoke")
def revoke_token(request: Request, parts: OurParts, body: PostedBody) -> Response:
    """A token that is not known, or not any more, is as good as revoked."""
    return answer_app(request, parts, body, _revoked)


def _revoked(server: Server, asked: AppRequest) -> Answer:
    server.register_endpoint(Revocation)
    answer: Any = server.create_endpoint_response(Revocation.ENDPOINT_NAME, asked)
    told: Answer = answer
    return told
