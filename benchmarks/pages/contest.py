"""Each page against a bare one of the same server, in turns: CPU time of this process and of PostgreSQL."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from benchmarks.harness import client_sending, machine, save
from benchmarks.pages import typing
from benchmarks.pages.filled_database import FilledDatabase, fill, sign_in
from benchmarks.paging import Meter, new_database
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.telemetry import configure_logging
from quillpost.web.application import create_app
from quillpost.web.security import SESSION

MAX_RATIO = 10
BARE = "/sign-in/confirm"
"""Nothing but the head of all pages, and a field."""


def run() -> dict[str, Any]:
    """All pages measured in one run; the result is kept with the others."""
    configure_logging(as_json=False, level="warning")
    with new_database() as (home, conninfo):
        container = bootstrap.build_container(typing.settings(home), conninfo)
        with psycopg.connect(conninfo, autocommit=True) as admin:
            runtime = fill(container, admin)
            cookie = sign_in(container, runtime.account_id)
            medians = Meter(admin, rounds=15).medians(_calls(_getter(container, cookie), runtime))
            typed = typing.measure(container, runtime.account_id, cookie)
        container.db.close()
    bare = medians.pop(BARE)
    result = {
        "name": "pages",
        "unit": "seconds of CPU a page, of this process and of PostgreSQL's backends",
        "machine": machine(),
        "wanted": MAX_RATIO,
        "ours": max(medians.values()),
        "peers": {},
        "limit": bare,
        "pages": {page: round(seconds, 5) for page, seconds in medians.items()},
        "ratios": {page: round(seconds / bare, 2) for page, seconds in medians.items()},
        "typing": typed,
    }
    save(result)
    return result


def show(result: Mapping[str, Any]) -> None:
    print(f"{result['name']}: times a bare page with 1,000,000 pieces in the database (wanted: under {MAX_RATIO})")
    for page, ratio in sorted(result["ratios"].items(), key=lambda each: -each[1]):
        print(f"  {ratio:6.2f} x  {page}")
    typing.show(result["typing"])


def addresses(g: FilledDatabase) -> list[str]:
    """The pages that show something of which there is much."""
    order, room = f"/orders/{g.large_order}", "/print-room"
    return [
        "/",
        "/?days=90",
        "/orders",
        "/orders?page=2000",
        "/orders?status=fulfilled",
        "/orders?q=Person+4711",
        "/orders?q=nobody",
        "/orders?q=4711+Main+St",
        order,
        f"{order}/items",
        f"{order}/items?page=9000",
        f"{order}/items?status=Delivered",
        f"{order}/items?q=Person+4711",
        f"{order}/items/{g.item}",
        f"{order}/map",
        f"{order}/again",
        "/compose",
        "/lists",
        f"/lists/{g.list_id}",
        f"/lists/{g.list_id}?page=20000",
        f"/lists/{g.list_id}?q=Person+47",
        f"/lists/{g.list_id}?q=nobody",
        f"/lists/{g.list_id}/people/{g.recipient}",
        "/lists/suppression",
        "/templates",
        "/automations",
        "/webhooks",
        f"/webhooks/{g.webhook}",
        f"/webhooks/{g.webhook}?page=4000",
        f"/webhooks/{g.webhook}/deliveries/{g.delivery}",
        "/money",
        "/money/ledger",
        "/money/ledger?page=4000",
        "/money/prices",
        "/sub-accounts",
        "/settings",
        "/settings/tokens",
        "/settings/audit",
        room,
        f"{room}/batches",
        f"{room}/batches?page=400",
        f"{room}/batches/{g.batch}",
        f"{room}/held",
        f"{room}/feeds",
        f"{room}/webhooks",
        f"{room}/jobs",
        f"{room}/accounts",
        f"{room}/brands",
        f"{room}/prices",
    ]


def _calls(get: Callable[[str], None], runtime: FilledDatabase) -> dict[str, Callable[[], object]]:
    def call(address: str) -> Callable[[], object]:
        return lambda: get(address)

    return {address: call(address) for address in (BARE, *addresses(runtime))}


def _getter(container: Container, cookie: str) -> Callable[[str], None]:
    """Calls the application as its server does, with no client's work around it."""
    app, loop = create_app(container), asyncio.new_event_loop()

    def get(address: str) -> None:
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        path, _, query = address.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (b"host", b"quillpost.test"),
                (b"accept", b"text/html"),
                (b"cookie", f"{SESSION}={cookie}; quillpost_zone=America/Chicago".encode()),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("quillpost.test", 80),
        }
        loop.run_until_complete(app(scope, client_sending(), send))
        assert messages[0]["status"] == 200, (address, messages)

    return get
