"""Where an app may be led back to: the only addresses that are ever sent a code.

They are compared to the letter, so that each is written plainly: one that two programs read differently could
lead a code astray.
"""

import re
from urllib.parse import parse_qsl, urlsplit, urlunsplit

LONGEST = 2_000

HOME = ("localhost", "127.0.0.1", "::1")
"""Hosts that are the reader's own machine: nobody listens on the way there, so http will do."""

OURS = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
"""What we add to the address: it cannot be there already."""

WRITTEN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")
PRIVATE_SCHEME = re.compile(r"[a-z][a-z0-9+\-]*(\.[a-z0-9+\-]+)+")


def fault_of(address: str) -> str | None:
    """What is wrong with it, in a sentence; None: it will do."""
    if len(address) > LONGEST:
        return f"At most {LONGEST:,} characters, please."
    if "#" in address:
        return f"{address} has a fragment: leave out # and what follows."
    if "*" in address:
        return f"{address} has a wildcard: register each address as it is."
    if not WRITTEN.fullmatch(address):
        return f"{address} is no address: use letters, digits and URL punctuation, and no spaces."
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return f"{address} is no address."
    if parts.scheme in ("https", "http") and not host:
        return f"{address} names no host."
    if "@" in parts.netloc:
        return f"{address} has a user name in it: leave that out."
    if urlunsplit(parts) != address:
        return f"{address} is not written plainly: {urlunsplit(parts)} would be."
    if OURS & {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}:
        return f"{address} has a query parameter that we add ourselves: {', '.join(sorted(OURS))}."
    return _scheme_fault(address, parts.scheme, host)


def _scheme_fault(address: str, scheme: str, host: str | None) -> str | None:
    if scheme == "https" or (scheme == "http" and host in HOME) or PRIVATE_SCHEME.fullmatch(scheme):
        return None
    return (
        f"{address} must begin with https:// (http:// on localhost, 127.0.0.1 or [::1]), or with a scheme "
        "of the app's own that has a dot in it, such as com.example.app:/"
    )
