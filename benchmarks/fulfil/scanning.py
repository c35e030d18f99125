"""The carrier's scans are taken in, against a bare COPY and a set-based UPDATE of the same tables."""

import hashlib
import io
import json
import time
from statistics import median
from typing import Any

from benchmarks.fulfil.office import Office
from quillpost.fulfillment.tracking.service import import_scan_file

# Pieces that nobody has scanned yet, of one order; from here on they count as handed over and printed.
_PRINT = """
    with chosen as (
        select p.item_id, p.tracking, p.batch_id from prints p join items i on i.id = p.item_id
         where i.status = 'Processing' and i.order_id = %(order)s
         order by p.batch_id, p.position limit %(most)s),
    printed as (
        update items i set status = 'Printed' from chosen c where i.id = c.item_id returning i.id),
    handed as (
        update batches set handed_at = now()
         where handed_at is null and id in (select batch_id from chosen)),
    counted as (
        update orders set n_processing = n_processing - %(most)s, n_printed = n_printed + %(most)s
         where id = %(order)s)
    select tracking, item_id from chosen
"""
_COPY = """
    copy carrier_scans (digest, tracking, phase, scanned_at, raw, place, item_id, received_at) from stdin
"""
_UPDATE = """
    with moved as (
        update items i set status = 'In Local Area', updated_at = now()
          from carrier_scans s
         where i.id = s.item_id and i.order_id = %(order)s and i.status = 'Printed'
        returning i.id, i.account_id, i.order_id, i.mode),
    fact as (
        insert into facts (account_id, mode, kind, order_id, item_id, order_status, previous, current, at,
                           seen_at, place)
        select account_id, mode, 'item.status', order_id, id, 'processing', 'Printed', 'In Local Area', now(),
               now(), 'AUSTIN'
          from moved returning id),
    queued as (insert into fact_queue select id from fact)
    update orders o set n_printed = n_printed - c.n, n_in_local_area = n_in_local_area + c.n
      from (select order_id, count(*) as n from moved group by 1) c where o.id = c.order_id
"""
_STAND = "select count(*) from items where order_id = %s and status = 'In Local Area'"


def compared(office: Office, order_id: int, scans: int, *, rounds: int) -> dict[str, Any]:
    """Both in turns, each on pieces of its own; what share of the bare rate ours has."""
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(rounds):
        for name in ("ours", "bare") if number % 2 == 0 else ("bare", "ours"):
            rows = office.admin.execute(_PRINT, {"order": order_id, "most": scans}).fetchall()
            events = [_event(office, tracking) for tracking, _ in rows]
            items = [item for _, item in rows]
            office.tidy()
            before = office.one(_STAND, order_id)
            taken = _ours(office, events) if name == "ours" else _bare(office, order_id, events, items)
            found[name].append(taken)
            _require(office, order_id, scans, before)
    typical = {name: median(seconds) for name, seconds in found.items()}
    return {
        "scans": scans,
        "rounds": rounds,
        "scans a second": {name: round(scans / seconds) for name, seconds in typical.items()},
        "share of the bare rate": round(typical["bare"] / typical["ours"], 2),
    }


def by_command(office: Office, order_id: int, scans: int) -> None:
    """The same as an operator would have it done, in a process whose memory is watched."""
    rows = office.admin.execute(_PRINT, {"order": order_id, "most": scans}).fetchall()
    file = office.home / "scans.json"
    file.write_bytes(_file([_event(office, tracking) for tracking, _ in rows]))
    before = office.one(_STAND, order_id)
    office.run("tracking", "ingest", str(file), name="quillpost tracking ingest")
    _require(office, order_id, scans, before)


def _require(office: Office, order_id: int, scans: int, before: int) -> None:
    if office.one(_STAND, order_id) - before != scans:
        raise RuntimeError(f"Not all of {scans} pieces moved.")


def _file(events: list[dict[str, str]]) -> bytes:
    return json.dumps({"events": events}).encode()


def _ours(office: Office, events: list[dict[str, str]]) -> float:
    """From the bytes of the carrier's file to the last commit."""
    source = _file(events)
    started = time.perf_counter()
    import_scan_file(office.parts.db, io.BytesIO(source), now=office.parts.clock())
    return time.perf_counter() - started


def _bare(office: Office, order_id: int, events: list[dict[str, str]], items: list[int]) -> float:
    """The rows lie ready: nothing is read, nobody looks whether a scan was there before or what it says."""
    now = office.parts.clock().isoformat()
    lines = "".join(
        f"\\\\x{hashlib.sha256(event['imb'].encode()).hexdigest()}\t{event['imb'][:20]}\t2a"
        f"\t{event['scanDatetime']}\t{json.dumps(event)}\tAUSTIN\t{item}\t{now}\n"
        for event, item in zip(events, items, strict=True)
    )
    started = time.perf_counter()
    with office.admin.transaction():
        with office.admin.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.write(lines)
        office.admin.execute("analyze carrier_scans (item_id)")
        office.admin.execute(_UPDATE, {"order": order_id})
    return time.perf_counter() - started


def _event(office: Office, tracking: str) -> dict[str, str]:
    return {
        "eventId": f"e{tracking}",
        "imb": tracking + "78701123499",
        "handlingEventType": "L",
        "scanDatetime": office.parts.clock().isoformat(),
        "scanEventCode": "893",
        "mailPhase": "Phase 2a - Destination MMP Processing",
        "machineName": "DBCS-12",
        "scanFacilityName": "AUSTIN P&DC",
        "scanFacilityCity": "AUSTIN",
        "scanFacilityState": "TX",
        "scanFacilityZip": "78710",
        "scanLocaleKey": "X1",
    }
