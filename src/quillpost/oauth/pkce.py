"""PKCE (RFC 7636) by S256 alone, looked at where leave is asked for and again where a code is exchanged."""

import re
from hmac import compare_digest
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

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
