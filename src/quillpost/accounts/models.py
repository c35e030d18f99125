"""Who may act, and how often."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Literal

from quillpost.core.errors import Forbidden

Role = Literal["owner", "member", "operator"]
"""Owners decide on people, tokens and apps; members send; operators are members who also run the service."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a token. `person_id` is who made it, if known; `grant_id` is set for a connected app."""

    account_id: int
    mode: str
    sub_account_id: int | None = None
    token_id: int | None = None
    scopes: frozenset[str] | None = None
    person_id: int | None = None
    grant_id: int | None = None
    is_operator: bool = False

    def require(self, scope: str) -> None:
        """Raise unless the token may do this; a token without scopes may do everything."""
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden(f"This token lacks the scope {scope}.")


@dataclass(frozen=True, slots=True)
class RateLimitStatus:
    limit: int
    used: int
    resets_in: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def is_exceeded(self) -> bool:
        return self.used > self.limit


def get_network(address: str) -> str:
    """The address, or its /64 network for IPv6: a household has more addresses than we could count."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        # A socket that listens for both sees IPv4 as a part of IPv6, all of it in one such network.
        ip = ip.ipv4_mapped or ip
    return str(ip) if ip.version == 4 else str(ip_network((ip, 64), strict=False))
