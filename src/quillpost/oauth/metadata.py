"""What this server can do, for programs that look (RFC 8414)."""

from fastapi import APIRouter, Response

from quillpost.accounts.rules import SCOPES
from quillpost.api.answers import answer
from quillpost.oauth.credentials import METHODS
from quillpost.oauth.exchange import OurParts
from quillpost.oauth.pkce import S256

router = APIRouter(include_in_schema=False)


@router.get("/.well-known/oauth-authorization-server")
def describe_server(parts: OurParts) -> Response:
    home = parts.base_url
    return answer(
        {
            "issuer": home,
            "authorization_endpoint": f"{home}/oauth/authorize",
            "token_endpoint": f"{home}/oauth/token",
            "revocation_endpoint": f"{home}/oauth/revoke",
            "service_documentation": f"{home}/docs",
            "scopes_supported": SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": [S256],
            "authorization_response_iss_parameter_supported": True,
        }
    )
