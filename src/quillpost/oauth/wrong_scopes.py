"""How an error names what an app asked for in vain. It may be shown to people, who did not write it."""

import re
from collections.abc import Collection

from quillpost.kit.tokens import hide_secrets

PLAIN = re.compile(r"[A-Za-z0-9:._/-]{1,40}")
MOST = 3


def named(scopes: Collection[str]) -> str:
    """The scopes, as far as they are short plain words (RFC 6749 allows no other letters than ASCII's) and no
    secrets of ours."""
    plain = sorted(scope for scope in scopes if PLAIN.fullmatch(scope) and hide_secrets(scope) == scope)
    others = len(scopes) - len(plain[:MOST])
    words = plain[:MOST]
    if others:
        words.append(f"{others} more" if words else "what is no plain word")
    return ", ".join(words)
