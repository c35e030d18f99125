"""Connected apps as people see them: an app is one thing, however often somebody let it in.

It has a connection for each time, on two devices say; each has tokens of its own. To disconnect the app is to
end them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quillpost.accounts import connections
from quillpost.accounts.connections import Connected
from quillpost.accounts.rules import SCOPES
from quillpost.database import Tx


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    """All connections of one client that the same person made for the same place, the newest first."""

    connections: Sequence[Connected]

    @property
    def newest(self) -> Connected:
        return self.connections[0]

    @property
    def since(self) -> datetime:
        return min(each.connected_at for each in self.connections)

    @property
    def last_used_at(self) -> datetime | None:
        return max((each.last_used_at for each in self.connections if each.last_used_at), default=None)

    @property
    def scopes(self) -> Sequence[str] | None:
        """What it may do by one connection or another; None: everything."""
        given: set[str] = set()
        for each in self.connections:
            if each.scopes is None:
                return None
            given.update(each.scopes)
        return [scope for scope in SCOPES if scope in given]


def list_apps(tx: Tx, account_id: int, *, now: datetime) -> list[ConnectedApp]:
    """The account's, the one that was connected last first. Takes the account's transaction."""
    alike: dict[tuple[object, ...], list[Connected]] = {}
    for each in connections.list_connected(tx, account_id, now=now):
        key = (each.client_id, each.person_id, each.sub_account_id, each.mode)
        alike.setdefault(key, []).append(each)
    return [ConnectedApp(group) for group in alike.values()]
