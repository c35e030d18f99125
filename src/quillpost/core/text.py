"""Text that others wrote: host names, and text for one line."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address


def to_one_line(text: str, *, max_length: int) -> str:
    """Without line ends, control characters and marks that change the reading direction; cut to length."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…"


MAX_HOST_LENGTH = 253
MAX_LABEL_LENGTH = 63

# With "_", which no standard allows in a host name, and many have.
LABEL_PATTERN = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?", re.ASCII | re.IGNORECASE)
NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)


def find_host_error(host: str) -> str | None:
    """What is wrong with the host of a URL, in its ASCII form, as a sentence."""
    # Clients take a host that ends in a number for an IPv4 address, decimal, octal or hexadecimal, in one to four
    # parts. Only the usual spelling is read alike by all.
    if ":" in host:
        return None if _is_valid_address(host, IPv6Address) else f"{host} isn't an IPv6 address."
    name = host.removesuffix(".")
    labels = name.split(".")
    if NUMBER_PATTERN.fullmatch(labels[-1]):
        if _is_valid_address(host, IPv4Address):
            return None
        return f"{host} isn't an IPv4 address. Write four numbers from 0 to 255, such as 192.0.2.7."
    if len(name) > MAX_HOST_LENGTH:
        return f"The host name is longer than {MAX_HOST_LENGTH} characters."
    if any(len(label) > MAX_LABEL_LENGTH for label in labels):
        return f"A part of the host name is longer than {MAX_LABEL_LENGTH} characters."
    if not all(map(LABEL_PATTERN.fullmatch, labels)):
        return f"{host} isn't a host name. Use letters, digits and hyphens between single dots."
    return None


def _is_valid_address(text: str, address_type: type[IPv4Address] | type[IPv6Address]) -> bool:
    try:
        address_type(text)
    except ValueError:
        return False
    return "%" not in text  # a scope names a network card of ours


def is_loopback_host(host: str) -> bool:
    """Whether it is this machine: nobody listens on the way."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
