"""Lists of orders: what a page costs at 1,000,000 orders against the same page at 10,000.

Two accounts in one database. The large one is spread evenly over ten sub accounts. All orders of the small
one are in its first, so that page 400 of a sub account exists in both. The calls go through the whole
application, in this process, over a real PostgreSQL, and the accounts take turns. A call's cost is CPU time:
that of this process, and that of the PostgreSQL backends as the kernel counts it (`/proc/PID/schedstat`).
"""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from benchmarks.harness import client_sending, machine, save
from quillpost.accounts import service
from quillpost.accounts.queries import insert_token
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.core.database import Tenant
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.base import orders
from quillpost.core.paging import PageRequest
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.orders.models import Order
from quillpost.orders.queries import OrderQuery, list_orders
from quillpost.web.application import create_app

FEW, MANY = 10_000, 1_000_000
SUB_ACCOUNTS = 10
DEEP = 400
ROUNDS, WARM_UP = 60, 5
MAX_RATIO = 1.5

SUB_ACCOUNTS_OF = """
    insert into sub_accounts (account_id, title, created_at, updated_at)
    select %s, 'Branch ' || n, now(), now() from generate_series(1, %s) n returning id
"""
FILL = """
    insert into orders (account_id, sub_account_id, mode, type, size, piece, mail_class, status, method,
                        message, style, handwriting_color, handwriting_realism, font_size,
                        total_estimated_recipients, recipient_count, n_delivered, authorization_total,
                        order_total, due_at, created_at, updated_at)
    select %(account)s, (%(sub_accounts)s::bigint[])[1 + n %% cardinality(%(sub_accounts)s)], 'test',
           'postcard', '4x6', 'postcard-4x6', 'first', 'fulfilled', 'api',
           'Hi %%FIRST_NAME%%, see you soon!', 1, 'rgba(31,63,146,1)', true, 'auto',
           1, 1, 1, 109, 109, at, at, at
      from generate_series(1, %(orders)s) n,
           lateral (select now() - make_interval(secs => %(orders)s - n)) as made (at)
"""
COUNT = """
    insert into order_counts (account_id, mode, sub_account_id, type, shard, n)
    select account_id, mode, sub_account_id, type, 0, count(*) from orders group by 1, 2, 3, 4
"""
BACKENDS = """
    select pid from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Sender:
    """An account with its orders."""

    id: int
    sub_account_id: int
    token: str

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.id, mode="test")


def run() -> dict[str, Any]:
    """Both accounts measured in one run; the result is kept with the others."""
    configure_logging(as_json=False, level="warning")
    with new_database() as (home, conninfo):
        container = bootstrap.build_container(Settings(home=home, calls_a_minute=100_000_000), conninfo)
        with psycopg.connect(conninfo, autocommit=True) as admin:
            few, many = (_fill(container, admin, how_many) for how_many in (FEW, MANY))
            admin.execute(COUNT)
            admin.execute("vacuum analyze")
            measure = Meter(admin)
            result = _compared(measure, _calls(container, few, many)) | _limits(measure, container, many)
        container.db.close()
    save(result)
    return result


def show(result: Mapping[str, Any]) -> None:
    print(f"{result['name']} ({result['unit']})")
    for name, call in result["calls"].items():
        print(f"  {name}: at {MANY:,} orders {call['ratio']:.2f} x its cost at {FEW:,} (wanted: {MAX_RATIO})")
    for name, ratio in result["ratios"].items():
        print(f"  page {DEEP} of {MANY:,}, the queries alone: ours takes {ratio:.2f} x {name}")


class Meter:
    """The CPU time that a call takes, in this process and in the database."""

    def __init__(self, admin: psycopg.Connection, *, rounds: int = ROUNDS) -> None:
        self._admin, self._rounds = admin, rounds

    def medians(self, contenders: Mapping[Any, Callable[[], object]]) -> dict[Any, float]:
        """Each contender's median, after a few rounds that open every connection and do not count."""
        for _ in range(WARM_UP):
            for call in contenders.values():
                call()
        backends = [Path(f"/proc/{pid}/schedstat") for (pid,) in self._admin.execute(BACKENDS)]
        spent: dict[Any, list[float]] = {name: [] for name in contenders}
        for _ in range(self._rounds):
            for name, call in contenders.items():
                there, here = _seconds(backends), time.process_time()
                call()
                here_now = time.process_time()
                spent[name].append(here_now - here + _seconds(backends) - there)
        return {name: statistics.median(times) for name, times in spent.items()}


def _seconds(backends: Sequence[Path]) -> float:
    """How long they were on a processor so far."""
    return sum(int(backend.read_text().split()[0]) for backend in backends) / 1e9


def _compared(measure: Meter, calls: Mapping[str, tuple[Callable[[], object], Callable[[], object]]]) -> dict[str, Any]:
    contenders = {(name, size): call for name, pair in calls.items() for size, call in enumerate(pair)}
    medians = measure.medians(contenders)
    return {
        "name": "paging",
        "unit": "seconds of CPU a call, of this process and of PostgreSQL's backends",
        "machine": machine(),
        "wanted": MAX_RATIO,
        "calls": {
            name: {
                f"{FEW:,}": medians[name, 0],
                f"{MANY:,}": medians[name, 1],
                "ratio": round(medians[name, 1] / medians[name, 0], 2),
            }
            for name in calls
        },
    }


def _calls(
    container: Container, few: Sender, many: Sender
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """The four pages, each for the small account and for the large one."""
    get = _getter(container)

    def call(sender: Sender, page: int, *, by_sub_account: bool) -> Callable[[], object]:
        query = f"page={page}" + (f"&sub_account_id={sender.sub_account_id}" if by_sub_account else "")
        return lambda: get(query, sender.token)

    return {
        f"page {page}{', by sub account' if by_sub_account else ''}": (
            call(few, page, by_sub_account=by_sub_account),
            call(many, page, by_sub_account=by_sub_account),
        )
        for by_sub_account in (False, True)
        for page in (1, DEEP)
    }


def _limits(measure: Meter, container: Container, many: Sender) -> dict[str, Any]:
    """The queries of a deep page beside what most services do, and beside reading 25 known rows."""
    page_request = PageRequest(DEEP)
    with container.db.transaction(many.tenant) as tx:
        known = [order.id for order in list_orders(container.db, tx, many.tenant, page_request, OrderQuery()).rows]

    def ours() -> None:
        with container.db.transaction(many.tenant) as tx:
            list_orders(container.db, tx, many.tenant, page_request, OrderQuery())

    def offset_and_count() -> None:
        with container.db.transaction(many.tenant) as tx:
            newest = sa.select(orders).order_by(orders.c.id.desc())
            rows = tx.execute(newest.offset(page_request.offset).limit(page_request.per_page))
            [Order.of(row) for row in rows]
            tx.execute(sa.select(sa.func.count()).select_from(orders)).scalar_one()

    def by_primary_key() -> None:
        with container.db.transaction(many.tenant) as tx:
            [Order.of(row) for row in tx.execute(sa.select(orders).where(orders.c.id.in_(known)))]

    medians = measure.medians({"ours": ours, "peer": offset_and_count, "limit": by_primary_key})
    peer, limit = "OFFSET, LIMIT and count(*)", "25 rows by primary key"
    return {
        "ours": medians["ours"],
        "peers": {peer: medians["peer"]},
        "limit": medians["limit"],
        "ratios": {
            peer: round(medians["ours"] / medians["peer"], 2),
            limit: round(medians["ours"] / medians["limit"], 2),
        },
    }


def _getter(container: Container) -> Callable[[str, str], None]:
    """Calls the application as its server does, with no client's work around it."""
    app, loop = create_app(container), asyncio.new_event_loop()

    def get(query: str, token: str) -> None:
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/api/v2/orders/list",
            "raw_path": b"/api/v2/orders/list",
            "query_string": query.encode(),
            "headers": [(b"host", b"quillpost.test"), (b"authorization", f"Bearer {token}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("quillpost.test", 80),
        }
        loop.run_until_complete(app(scope, client_sending(), send))
        assert messages[0]["status"] == 200, messages
        assert b'"id":' in messages[1]["body"], "the page is empty"

    return get


def _fill(container: Container, admin: psycopg.Connection, how_many: int) -> Sender:
    with container.db.system_transaction() as tx:
        now = container.clock()
        account = service.create_account(tx, email=f"{how_many}@example.com", name="Bench", now=now)
        token = insert_token(tx, account, mode="test", name="bench", now=now)[1]
    made = [number for (number,) in admin.execute(SUB_ACCOUNTS_OF, (account, SUB_ACCOUNTS))]
    # Neither the references are checked nor the orders counted, one statement for all: see `COUNT`.
    admin.execute("set session_replication_role = replica")
    spread = made if how_many == MANY else made[:1]
    admin.execute(FILL, {"account": account, "sub_accounts": spread, "orders": how_many})
    admin.execute("reset session_replication_role")
    return Sender(account, made[0], token)


@contextmanager
def new_database() -> Iterator[tuple[Path, str]]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
    home.chmod(0o755)
    # A worker of a parallel plan is gone before its time could be read.
    server = EmbeddedPostgres(home, settings={"max_parallel_workers_per_gather": "0"})
    server.start()
    try:
        upgrade_database(server.conninfo())
        yield home, server.conninfo()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
