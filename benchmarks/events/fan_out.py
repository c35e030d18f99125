"""Facts become rows of the outbox, against the same rows written without asking who is to be told."""

import time
from statistics import median
from typing import Any

from benchmarks.events.scenario import subscribe
from benchmarks.fulfil.office import Office
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.dispatcher import FACTS_PER_TRANSACTION

_HAPPEN = """
    insert into facts (account_id, mode, kind, order_id, item_id, order_status, previous, current, at)
    select i.account_id, i.mode, 'item.status', i.order_id, i.id, 'printing', 'Printed', 'In Transit', now()
      from items i, generate_series(1, %(times)s) order by 1 limit %(facts)s
"""
_QUEUE = "insert into fact_queue select id from facts where current = 'In Transit'"
_BARE = """
    insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id, event_type,
                            stream, status, next_at, created_at)
    select f.account_id, f.sub_account_id, f.mode, w.id, f.id, f.event_id, 'order_item.status_update',
           'item:' || f.item_id, 'pending', now(), now()
      from facts f cross join webhooks w where f.current = 'In Transit'
"""


def compared(office: Office, *, facts: int, rounds: int) -> dict[str, Any]:
    """Both in turns; what share of the bare rate ours has."""
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    subscribe(office, ["http://127.0.0.1/nobody"], kind="order_item.status_update")
    items = int(office.one("select count(*) from items"))
    office.admin.execute(_HAPPEN, {"times": facts // items + 1, "facts": facts})
    office.admin.execute("vacuum analyze facts")
    for number in range(rounds):
        for name in found if number % 2 == 0 else reversed(found):
            office.admin.execute("truncate deliveries, fact_queue")
            office.admin.execute(_QUEUE)
            office.admin.execute("vacuum analyze fact_queue")
            office.admin.execute("checkpoint")
            started = time.perf_counter()
            if name == "ours":
                _ours(office)
            else:
                office.admin.execute(_BARE)
            found[name].append(time.perf_counter() - started)
            if office.one("select count(*) from deliveries") != facts:
                raise RuntimeError(f"Not {facts} deliveries.")
    office.admin.execute("truncate deliveries, fact_queue")
    typical = {name: median(seconds) for name, seconds in found.items()}
    return {
        "facts": facts,
        "rounds": rounds,
        "facts a second": {name: round(facts / seconds) for name, seconds in typical.items()},
        "share of the bare rate": round(typical["bare"] / typical["ours"], 2),
    }


def _ours(office: Office) -> None:
    """As the pump does it, a transaction for each of some thousand facts."""
    while True:
        with office.parts.db.system_transaction() as tx:
            if not webhook_tasks.fan_out_facts(tx, limit=FACTS_PER_TRANSACTION, now=office.parts.clock()):
                return
