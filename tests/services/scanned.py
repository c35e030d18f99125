"""Printed codes, those who scan them, and what is known of it afterwards."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from httpx2 import Response
from placing import item_ids, place
from waiting import wait_until

from direct import TestClient
from makers import people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database import Tx, driver
from quillpost.core.database.tables.base import items, mailing_lists
from quillpost.core.database.tables.notifications import visit_inbox, visits
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.fulfillment.qr_scans.queries import Coming, keep
from quillpost.fulfillment.qr_scans.rules import Kind
from quillpost.orders.models import Order

PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.5 Mobile/15E148 Safari/604.1"
)
PAGE = "https://shop.example.com/hi"


class Ticks:
    """A desk's watch, which stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def coded(parts: Parts, who: Caller, pieces: int = 1, *, list_id: int | None = None, **wish: Any) -> Order:
    """An order whose pieces carry codes: the letters of their ids."""
    order = place(parts, who, people(pieces), qrcode_url=PAGE, **wish)
    with parts.db.work() as tx:
        tx.execute(
            sa.update(items)
            .where(items.c.order_id == order.id)
            .values(code=sa.func.lpad(sa.cast(items.c.id, sa.Text), 8, "A"), mailing_list_id=list_id)
        )
    return order


def codes_of(parts: Parts, order_id: int) -> list[str]:
    with parts.db.work() as tx:
        found = tx.execute(sa.select(items.c.code).where(items.c.order_id == order_id).order_by(items.c.id))
        return list(found.scalars())


def scan(http: TestClient, code: str, method: str = "GET", agent: str = PHONE, **headers: str) -> Response:
    return http.request(method, f"/q/{code}", headers={"User-Agent": agent} | headers, follow_redirects=False)


def come(parts: Parts, *item_ids: int, kind: Kind = "person") -> None:
    """These pieces are scanned, one after the other, and nobody has counted it yet."""
    with parts.db.work() as tx:
        keep(driver(tx), [Coming(item_id, parts.clock(), kind, "test") for item_id in item_ids])


def count(parts: Parts, *, most: int = 1_000) -> int:
    with parts.db.work() as tx:
        return scan_tasks.count(tx, parts.sealer, parts.clock, most=most)


def inbox(parts: Parts) -> list[sa.Row[Any]]:
    return rows(parts, sa.select(visit_inbox).order_by(visit_inbox.c.id))


def visited(parts: Parts) -> list[sa.Row[Any]]:
    return rows(parts, sa.select(visits).order_by(visits.c.id))


def rows(parts: Parts, query: sa.Select[Any]) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        return list(tx.execute(query).all())


def ids_of(parts: Parts, order: Order) -> list[int]:
    with parts.db.work() as tx:
        return item_ids(tx, order)


@contextmanager
def counting_meanwhile(parts: Parts) -> Iterator[tuple[Tx, Callable[[], None]]]:
    """A transaction, and what begins the count and returns when that waits for it; it has ended with this."""
    with ThreadPoolExecutor(1) as thread:
        begun: list[Future[int]] = []

        def begin() -> None:
            begun.append(thread.submit(count, parts))
            wait_until(lambda: begun[0].done() or _someone_waits(parts))
            assert not begun[0].done(), begun[0].result()

        with parts.db.work() as tx:
            yield tx, begin
        assert begun[0].result() > 0


def _someone_waits(parts: Parts) -> bool:
    with parts.db.work() as tx:
        return bool(tx.execute(sa.text("select count(*) from pg_locks where not granted")).scalar_one())


def kept_lists(parts: Parts) -> list[sa.Row[Any]]:
    names = ("account_id", "sub_account_id", "kept_for", "type", "total_recipients")
    kept = mailing_lists.c.kept_for.is_not(None)
    return rows(
        parts, sa.select(*(mailing_lists.c[n] for n in names)).where(kept).order_by(mailing_lists.c.id)
    )
