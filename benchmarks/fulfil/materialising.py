"""Lists become items: the job in a worker of its own, against the same rows written without our rules."""

import time
from statistics import median
from typing import Any
from uuid import uuid4

from benchmarks.fulfil.office import Office
from quillpost.orders.audience.queries import PERSON_COLUMNS
from quillpost.orders.rules import MATERIALIZE_TASK

_PEOPLE = ", ".join(name for name in PERSON_COLUMNS)

# The same columns of the same tables from the same list, nobody looked at; then each one's fact and its place
# in the queue, as whoever needs them must write them.
_BARE_ITEMS = f"""
    insert into items (account_id, sub_account_id, mode, order_id, creative_key, mailing_list_id,
                       status, failure, scans, price_cents, code, {_PEOPLE}, created_at, updated_at)
    select account_id, sub_account_id, 'test', %(order)s, cast(%(creative)s as uuid), mailing_list_id,
           'Processing', null, 0, 109, new_short_code(), {_PEOPLE}, now(), now()
      from recipients where mailing_list_id = %(list)s order by id
"""
_BARE_FACTS = """
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at)
        select account_id, sub_account_id, mode, 'item.status', order_id, id, 'reviewing', null, status, now()
          from items where order_id = %(order)s order by id
        returning id)
    insert into fact_queue (fact_id) select id from fact
"""
_EMPTY_ORDER = """
    insert into orders (account_id, mode, type, size, piece, mail_class, status, method, message, style,
                        handwriting_color, handwriting_realism, font_size, total_estimated_recipients,
                        authorization_total, order_total, due_at, created_at, updated_at)
    select account_id, mode, type, size, piece, mail_class, 'cancelled', method, message, style,
           handwriting_color, handwriting_realism, font_size, 0, 0, 0, due_at, created_at, updated_at
      from orders order by id limit 1
    returning id
"""


def send(office: Office, list_id: int, words: str) -> int:
    """Order a postcard for everyone on the list; words of its own make it a creative of its own."""
    body = {"mailing_list_ids": [list_id], "message": f"Hi %FIRST_NAME%, {words}!"}
    return int(office.call("POST", "/api/v2/send/postcard", body)["id"])


def ours(office: Office, list_id: int, words: str, rows: int) -> float:
    """Seconds of the job, from its start to its end; the worker was started for it."""
    before = office.last_job()
    order_id = send(office, list_id, words)
    office.tidy()
    with office.running("work", "--queues", "default"):
        seconds = office.span(MATERIALIZE_TASK, before)
    _require(office, order_id, rows)
    return seconds


def bare(office: Office, list_id: int, rows: int) -> float:
    order_id, creative = int(office.one(_EMPTY_ORDER)), uuid4()
    office.tidy()
    started = time.perf_counter()
    with office.admin.transaction():
        for statement in (_BARE_ITEMS, _BARE_FACTS):
            office.admin.execute(statement, {"order": order_id, "list": list_id, "creative": creative})
    seconds = time.perf_counter() - started
    _require(office, order_id, rows)
    return seconds


def compared(office: Office, list_id: int, rows: int, *, rounds: int) -> dict[str, Any]:
    """Both in turns, each first as often as the other; what share of the bare rate ours has."""
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(rounds):
        words = f"round {number} of {rows}"
        for name in ("ours", "bare") if number % 2 == 0 else ("bare", "ours"):
            is_ours = name == "ours"
            taken_now = ours(office, list_id, words, rows) if is_ours else bare(office, list_id, rows)
            found[name].append(taken_now)
    taken = {name: median(seconds) for name, seconds in found.items()}
    return {
        "rows": rows,
        "rounds": rounds,
        "rows a second": {name: round(rows / seconds) for name, seconds in taken.items()},
        "share of the bare rate": round(taken["bare"] / taken["ours"], 2),
    }


def _require(office: Office, order_id: int, rows: int) -> None:
    counts = [
        office.one(f"select count(*) from {table} where order_id = %s{more}", order_id)
        for table, more in (("items", " and status = 'Processing'"), ("facts", " and item_id is not null"))
    ]
    if counts != [rows, rows]:
        raise RuntimeError(f"Not {rows} items and facts, but {counts}.")
