"""Text: times as the interface writes them, host names, and text for one line. All times are UTC."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import overload


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
    """Whether it is this machine: the connection cannot be tapped."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


Clock = Callable[[], datetime]

_UNITS = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)


@overload
def format_iso(moment: datetime) -> str: ...
@overload
def format_iso(moment: None) -> None: ...


def format_iso(moment: datetime | None) -> str | None:
    """ISO 8601 with a Z, to the second."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_time(moment: datetime) -> str:
    """`YYYY-MM-DD HH:MM:SS`, the form of send responses, templates and events."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_time_ago(moment: datetime, *, now: datetime) -> str:
    """In the largest unit that fits: `5 minutes ago`."""
    seconds = int((now - moment).total_seconds())
    for unit, length in _UNITS:
        count = seconds // length
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
