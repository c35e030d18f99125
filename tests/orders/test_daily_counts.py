"""What happened day by day: counted with the facts, and added up to the days of every reader's zone."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import facts, orders
from quillpost.core.database.tables.orders import hourly_counts
from quillpost.orders.queries import DailyActivity, DayActivity, read_daily_activity
from support.factories import Account, make_account, make_live, make_sub_account, make_teammate
from support.test_client import TestClient

AUCKLAND, LOS_ANGELES, HOME = ZoneInfo("Pacific/Auckland"), ZoneInfo("America/Los_Angeles"), ZoneInfo("UTC")
COUNTED = {"scans": "item.scan", "sent": "Printed", "delivered": "Delivered"}


def sent_by(account: Account) -> int:
    sent = account.send(return_address="500 Congress Ave, Austin, TX 78701")
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def tell(container: Container, order_id: int, what: str, *moments: str) -> None:
    """Facts of an order, in one statement."""
    kind = "item.scan" if what == "item.scan" else "item.status"
    with container.db.system_transaction() as tx:
        order = tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()
        rows = [
            {
                "account_id": order.account_id, "sub_account_id": order.sub_account_id, "mode": order.mode,
                "kind": kind, "order_id": order.id, "order_status": "printing", "current": what,
                "event_id": sa.func.gen_random_uuid(), "at": datetime.fromisoformat(moment),
                "inferred": False, "scans": 0,
            }
            for moment in moments
        ]  # fmt: skip
        tx.execute(sa.insert(facts).values(rows))


def seen(container: Container, tenant: Tenant, zone: ZoneInfo, days: int = 7) -> DailyActivity:
    with container.db.transaction(tenant) as tx:
        return read_daily_activity(tx, tenant, days=days, zone=zone, now=container.clock())


def busy(happened: DailyActivity) -> list[DayActivity]:
    return [day for day in happened.days if day != DayActivity(day.day)]


def test_a_day_is_the_readers_own(container: Container, owner: Account) -> None:
    order = sent_by(owner)  # it is the 4th of May, 12:00 in Greenwich: in Auckland the 5th has just begun
    tell(container, order, "Printed", "2026-05-03T06:30Z", "2026-05-03T12:30Z", "2026-05-03T12:59:59Z")
    tell(container, order, "Delivered", "2026-05-04T06:30Z", "2026-05-04T07:00Z")
    tell(container, order, "item.scan", "2026-05-04T11:59:59Z")
    tell(container, order, "In Transit", "2026-05-04T07:00Z")  # is neither
    tenant = Tenant(owner.id, mode="test")
    third, fourth = date(2026, 5, 3), date(2026, 5, 4)
    assert busy(seen(container, tenant, HOME)) == [
        DayActivity(third, sent=3),
        DayActivity(fourth, delivered=2, scans=1),
    ]
    assert busy(seen(container, tenant, AUCKLAND)) == [
        DayActivity(third, sent=1),
        DayActivity(fourth, sent=2, delivered=2, scans=1),
    ]
    away = seen(container, tenant, LOS_ANGELES)
    assert busy(away) == [
        DayActivity(date(2026, 5, 2), sent=1), DayActivity(third, sent=2, delivered=1), DayActivity(fourth,
        delivered=1, scans=1),
    ]  # fmt: skip
    assert (away.sent, away.delivered, away.scans, away.scan_rate) == (3, 2, 1, 0.5)
    ends = [
        (seen(container, tenant, zone).days[0].day, seen(container, tenant, zone).days[-1].day)
        for zone in (HOME, AUCKLAND)
    ]
    assert ends == [(date(2026, 4, 28), fourth), (date(2026, 4, 29), date(2026, 5, 5))]
    assert seen(container, tenant, AUCKLAND, days=1).is_empty


def test_days_are_right_on_both_sides_of_a_change_of_clocks(container: Container, owner: Account) -> None:
    order = sent_by(owner)  # in California clocks went forward on the 8th of March
    tell(
        container, order, "Printed", "2026-03-08T07:30Z", "2026-03-08T08:00Z", "2026-03-09T06:30Z", "2026-03-09T07:00Z"
    )
    found = busy(seen(container, Tenant(owner.id, mode="test"), LOS_ANGELES, days=90))
    assert found == [
        DayActivity(date(2026, 3, 7), 1),
        DayActivity(date(2026, 3, 8), 2),
        DayActivity(date(2026, 3, 9), 1),
    ]


def test_everyone_has_their_own_mode_and_place(container: Container, http: TestClient, owner: Account) -> None:
    branch = make_sub_account(container, owner)
    real, teammate = make_live(container, owner), make_teammate(container, owner, branch)
    other = make_account(container, http, "other@example.com")
    at = "2026-05-04T09:10Z"
    for account, how_many in ((owner, 1), (real, 2), (teammate, 4), (other, 8)):
        order = sent_by(account)
        for what in COUNTED.values():
            tell(container, order, what, *[at] * how_many)
    all_of_it = {
        Tenant(owner.id, mode="test"): 5,
        Tenant(owner.id, mode="live"): 2,
        Tenant(owner.id, branch, "test"): 4,
        Tenant(owner.id, branch, "live"): 0,
        Tenant(other.id, mode="test"): 8,
    }
    for tenant, n in all_of_it.items():
        found = seen(container, tenant, HOME)
        assert (found.sent, found.delivered, found.scans) == (n, n, n), tenant
    with container.db.system_transaction() as tx:
        kept = sa.select(hourly_counts.c.mode, hourly_counts.c.what, sa.func.sum(hourly_counts.c.n))
        rows = tx.execute(kept.group_by(hourly_counts.c.mode, hourly_counts.c.what)).all()
        expected = {
            (mode, what): tx.execute(
                sa.select(sa.func.count())
                .select_from(facts)
                .where(facts.c.mode == mode, sa.or_(facts.c.kind == word, facts.c.current == word))
            ).scalar_one()
            for mode in ("test", "live")
            for what, word in COUNTED.items()
        }
        assert {(mode, what): n for mode, what, n in rows} == expected
        hours = set(tx.execute(sa.select(hourly_counts.c.hour)).scalars())
    assert hours == {datetime(2026, 5, 4, 9, tzinfo=UTC)}
