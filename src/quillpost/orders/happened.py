"""What happened day by day: pieces sent, delivered and scanned. Readers have the days of their own zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from quillpost.database import Tenant, Tx

# Whoever is limited to a sub account sees its hours alone. An hour belongs to the day in which it begins:
# where a zone's days begin at half past, half an hour of them is counted with the day before.
COUNT = """
    select (hour at time zone :zone)::date as day, what, sum(n)::bigint as n
      from (select hour, what, sum(n) as n from hourly_counts
             where account_id = :account and mode = :mode and hour >= :since and hour <= :now {place}
             group by hour, what) hours
     group by 1, 2
"""
OF_ALL: Final = sa.text(COUNT.format(place=""))
OF_ONE: Final = sa.text(COUNT.format(place="and sub_account_id = :sub_account"))


@dataclass(frozen=True, slots=True)
class Day:
    day: date
    sent: int = 0
    delivered: int = 0
    scans: int = 0


@dataclass(frozen=True, slots=True)
class Happened:
    """The days, oldest first, those on which nothing happened among them; the last is today."""

    days: Sequence[Day]

    @property
    def sent(self) -> int:
        return sum(day.sent for day in self.days)

    @property
    def delivered(self) -> int:
        return sum(day.delivered for day in self.days)

    @property
    def scans(self) -> int:
        return sum(day.scans for day in self.days)

    @property
    def scan_rate(self) -> float | None:
        """Scans for each piece that was delivered; None where none was. Some are scanned more than once."""
        return self.scans / self.delivered if self.delivered else None

    @property
    def is_nothing(self) -> bool:
        return not (self.sent or self.delivered or self.scans)


def read_days(tx: Tx, who: Tenant, *, days: int, zone: ZoneInfo, now: datetime) -> Happened:
    """So many days up to today, as clocks in the zone show it, in the reader's mode."""
    today = now.astimezone(zone).date()
    first = today - timedelta(days=days - 1)
    asked = {
        "account": who.account_id,
        "mode": who.mode,
        "sub_account": who.sub_account_id,
        "zone": zone.key,
        "since": datetime.combine(first, time.min, tzinfo=zone),
        "now": now,
    }
    counted: dict[date, dict[str, int]] = {}
    for row in tx.execute(OF_ALL if who.sub_account_id is None else OF_ONE, asked):
        counted.setdefault(row.day, {})[row.what] = row.n
    every = (first + timedelta(days=n) for n in range(days))
    return Happened([Day(day, **counted.get(day, {})) for day in every])
