"""Where an app exchanges a code, or a refresh token, for tokens."""

from fastapi import APIRouter, Request, Response

from quillpost.oauth.exchange import OurParts, PostedBody, answer_app
from quillpost.oauth.server import Server

router = APIRouter(include_in_schema=False)


@router.post("/oauth/token")
def give_tokens(request: Request, parts: OurParts, body: PostedBody) -> Response:
    return answer_app(request, parts, body, Server.create_token_response)
