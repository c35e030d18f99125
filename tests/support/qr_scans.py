"""Printed codes, those who scan them, and what is known of it afterwards."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx, driver_connection
from quillpost.core.database.tables.base import items, mailing_lists
from quillpost.core.database.tables.notifications import visit_inbox, visits
from quillpost.fulfillment.qr_scans import tasks as scan_tasks
from quillpost.fulfillment.qr_scans.queries import NewScan, insert_scans
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.orders.models import Order
from support.factories import people
from support.orders import create_order
from support.rows import execute, scalars
from support.test_client import TestClient
from support.waiting import is_lock_awaited, wait_until

PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.5 Mobile/15E148 Safari/604.1"
)
PAGE = "https://shop.example.com/hi"


class ManualTimer:
    """A desk's watch, which stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def order_with_codes(
    container: Container, caller: Caller, pieces: int = 1, *, list_id: int | None = None, **order_request: Any
) -> Order:
    """An order whose pieces carry codes: the letters of their ids."""
    order = create_order(container, caller, people(pieces), qrcode_url=PAGE, **order_request)
    codes = {"code": sa.func.lpad(sa.cast(items.c.id, sa.Text), 8, "A"), "mailing_list_id": list_id}
    execute(container, sa.update(items).where(items.c.order_id == order.id).values(codes))
    return order


def codes_of(container: Container, order_id: int) -> list[str]:
    return scalars(container, sa.select(items.c.code).where(items.c.order_id == order_id).order_by(items.c.id))


def scan(http: TestClient, code: str, method: str = "GET", agent: str = PHONE, **headers: str) -> Response:
    return http.request(method, f"/q/{code}", headers={"User-Agent": agent} | headers, follow_redirects=False)


def record_scans(container: Container, *item_ids: int, kind: VisitorKind = "person") -> None:
    """These pieces are scanned, one after the other, and nobody has counted it yet."""
    with container.db.system_transaction() as tx:
        insert_scans(driver_connection(tx), [NewScan(item_id, container.clock(), kind, "test") for item_id in item_ids])


def count_scans(container: Container, *, most: int = 1_000) -> int:
    with container.db.system_transaction() as tx:
        return scan_tasks.count_scans(tx, container.encryptor, container.clock, limit=most)


def inbox_rows(container: Container) -> list[sa.Row[Any]]:
    return execute(container, sa.select(visit_inbox).order_by(visit_inbox.c.id))


def visit_rows(container: Container) -> list[sa.Row[Any]]:
    return execute(container, sa.select(visits).order_by(visits.c.id))


@contextmanager
def count_during_transaction(container: Container) -> Iterator[tuple[Tx, Callable[[], None]]]:
    """A transaction, and what begins the count and returns when that waits for it; it has ended with this."""
    with ThreadPoolExecutor(1) as thread:
        begun: list[Future[int]] = []

        def begin() -> None:
            begun.append(thread.submit(count_scans, container))
            wait_until(lambda: begun[0].done() or is_lock_awaited(container))
            assert not begun[0].done(), begun[0].result()

        with container.db.system_transaction() as tx:
            yield tx, begin
        assert begun[0].result() > 0


def scanner_lists(container: Container) -> list[sa.Row[Any]]:
    names = ("account_id", "sub_account_id", "kept_for", "type", "total_recipients")
    kept = mailing_lists.c.kept_for.is_not(None)
    return execute(container, sa.select(*(mailing_lists.c[n] for n in names)).where(kept).order_by(mailing_lists.c.id))
