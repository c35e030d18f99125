"""Who may act, and how often."""

from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from quillpost.kit.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever holds a token: an account, perhaps limited to one sub account, in one mode."""

    account_id: int
    mode: str
    sub_account_id: int | None = None
    token_id: int | None = None
    scopes: frozenset[str] | None = None

    @property
    def is_testing(self) -> bool:
        return self.mode == "test"

    def require(self, scope: str) -> None:
        """Raise unless the token may do this; a token without scopes may do everything."""
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden(f"This token lacks the scope {scope}.")


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much of a minute's calls is left."""

    limit: int
    used: int
    resets_in: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def is_spent(self) -> bool:
        return self.used > self.limit


def network_of(address: str) -> str:
    """Whom a network address stands for: a household of IPv6 has more addresses than we could count."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    return str(known) if known.version == 4 else str(ip_network((known, 64), strict=False))


SCOPES = tuple(
    f"{what}:{how}"
    for what in ("send", "orders", "lists", "templates", "webhooks", "account")
    for how in ("read", "write")
)
