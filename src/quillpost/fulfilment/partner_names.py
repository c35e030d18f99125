"""By which name a batch remembers its print partner: the address, written in one way."""

from urllib.parse import urlsplit

USUAL_PORTS = {"sftp": 22, "http": 80, "https": 443}


def partner_name(address: str) -> str:
    """The address without what may be written otherwise, and without a password.

    Capitals of the host, a port that is the usual one and slashes at the end make no other partner. A user is
    told where it is a part of the place, which it is over SFTP; elsewhere it may be a secret.
    """
    try:
        parsed = urlsplit(address)
        host, port = parsed.hostname or "", parsed.port
    except ValueError:
        return address.rpartition("@")[2]
    if not parsed.scheme:
        return address
    user = f"{parsed.username}@" if parsed.username and parsed.scheme == "sftp" else ""
    host = f"[{host}]" if ":" in host else host
    door = "" if port in (None, USUAL_PORTS.get(parsed.scheme)) else f":{port}"
    return f"{parsed.scheme}://{user}{host}{door}{parsed.path.rstrip('/')}"


def is_another(known: str | None, partner: str) -> bool:
    """Whether a batch is another partner's. One that knows none may be anybody's.

    Those that were handed over long ago know the address as it was written then.
    """
    return known is not None and partner_name(known) != partner_name(partner)
