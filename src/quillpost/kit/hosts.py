"""Names and addresses of machines."""

from ipaddress import ip_address


def is_this_machine(host: str) -> bool:
    """Whether whoever is reached under it is this very machine: nobody listens on the way."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
