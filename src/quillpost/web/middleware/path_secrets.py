"""Secrets in an address: they have leaked, into proxies, histories and logs. What we do not read, we do not
repeat.

The links by which somebody joins, or sets another password, hold secrets that belong in an address.
"""

import re
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.types import Scope

from quillpost.core.errors import Refused
from quillpost.core.tokens import HIDDEN_REPLACEMENT, SECRET_START_PATTERN

SECRET_PREFIX = b"qp_"
SECRET_LINKS = (("/join/", "qp_invitation_"), ("/reset/", "qp_reset_"))


class SecretInUrl(Refused):
    """A call whose path or query holds a secret of ours."""

    def __init__(self) -> None:
        super().__init__(
            "The address of this call holds a token or another secret. It belongs in the Authorization header"
            " (as Bearer) or in the body, never in an address, which logs keep on its way: revoke it now."
        )


def remove_url_secrets(scope: Scope) -> bool:
    """Take every secret out of the request's address, before anyone reads it; whether there was one."""
    query: bytes = scope.get("query_string", b"")
    decoded_query = unquote_to_bytes(query) if b"%" in query else query
    if SECRET_PREFIX.decode() not in scope["path"] and SECRET_PREFIX not in decoded_query:
        return False
    path = without_secrets(scope["path"])
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    clean_pairs = [(without_secrets(name), without_secrets(value)) for name, value in pairs]
    is_leak = path != scope["path"] or clean_pairs != pairs
    if path != scope["path"]:
        scope["path"], scope["raw_path"] = path, quote(path).encode()
    if clean_pairs != pairs:
        scope["query_string"] = urlencode(clean_pairs).encode()
    return is_leak


def without_secrets(text: str) -> str:
    """The text with the beginnings of its secrets alone, but for links that are made to hold theirs."""

    def hide(match: re.Match[str]) -> str:
        is_link = any(match[1] == kind and text.endswith(path, 0, match.start()) for path, kind in SECRET_LINKS)
        return match[0] if is_link else match.expand(HIDDEN_REPLACEMENT)

    return SECRET_START_PATTERN.sub(hide, text)
