"""What became of the orders of a time, added up."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tenant, Tx
from quillpost.database.paging import rows_of
from quillpost.database.tables import orders
from quillpost.orders.rules import ItemStatus, OrderStatus

NOT_SENT = (ItemStatus.PROCESSING, ItemStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Totals:
    """`cents` is what the orders cost that were not cancelled."""

    orders: int
    tally: dict[ItemStatus, int]
    lost: int
    scans: int
    multi_scans: int
    cents: int

    @property
    def sent(self) -> int:
        """Pieces that were printed, or came further: some were lost in the mail."""
        return sum(count for status, count in self.tally.items() if status not in NOT_SENT) + self.lost


def add_up(
    tx: Tx,
    who: Tenant,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    sub_account_id: int | None = None,
) -> Totals:
    """The orders made from `since` on and before `until`."""
    wanted = rows_of(orders, who)
    if since is not None:
        wanted.append(orders.c.created_at >= since)
    if until is not None:
        wanted.append(orders.c.created_at < until)
    if sub_account_id is not None:
        wanted.append(orders.c.sub_account_id == sub_account_id)
    cost = sa.func.sum(orders.c.order_total + orders.c.leads_fee + orders.c.gift_total)
    sums = [
        sa.func.count().label("orders"),
        cost.filter(orders.c.status != OrderStatus.CANCELLED.value).label("cents"),
        *(sa.func.sum(orders.c[name]).label(name) for name in ("total_scans", "multi_scans", "n_lost")),
        *(sa.func.sum(orders.c[f"n_{status.tally}"]).label(status.tally) for status in ItemStatus),
    ]
    found = tx.execute(sa.select(*sums).where(*wanted)).one()._mapping
    return Totals(
        orders=found["orders"],
        tally={status: int(found[status.tally] or 0) for status in ItemStatus},
        lost=int(found["n_lost"] or 0),
        scans=int(found["total_scans"] or 0),
        multi_scans=int(found["multi_scans"] or 0),
        cents=int(found["cents"] or 0),
    )
