"""Pieces lose their recipients, and everything that was written down beside them loses them too.

The rows stay, with their status, their money and their counts. It is done for a person who is erased, and for
pieces that have ended as long ago as is set.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import CUSTOM_COLUMNS, PERSON_COLUMNS, items
from quillpost.core.database.tables.print_room import prints
from quillpost.orders.giftcards.returns import ITEM_FAILED
from quillpost.orders.pricing import DOUBT_WARNING_TEXT
from quillpost.privacy import files

PERSONAL_COLUMNS = (
    *PERSON_COLUMNS, "absentee_address", "email", "phone", "dob", "anniversary", *CUSTOM_COLUMNS, "address_key",
    "surname",
    "moved_key", "deliverability", "standard", "reasons", "front_file_id", "background_file_id",
)  # fmt: skip
"""What a piece knows of its recipient. The country stays: it decides how far a piece is followed."""

REDACTED_DOUBT = DOUBT_WARNING_TEXT.rstrip(": ") + "."

LOCK_ORDERS = sa.text(
    """
    select id from orders where id in (select order_id from items where id = any(:items))
     order by id for no key update
    """
)

_ADDRESS_KEY = sa.func.coalesce(items.c.moved_key, items.c.address_key)
_CAN_STILL_OPT_OUT = sa.and_(
    items.c.mode == "live", sa.exists().where(prints.c.item_id == items.c.id), sa.not_(sa.func.bars_email(_ADDRESS_KEY))
)
"""Whoever holds the piece may ask for no more mail yet: what it takes to bar the address is kept."""

_ITEM_FACTS = "array(select id from facts where item_id = any(:items))"

RELATED_STATEMENTS = {
    # What waits is put in words again when it is sent, from a piece that names nobody.
    "deliveries": f"""
        update deliveries set body = null, response_body = null, error = null
         where fact_id = any({_ITEM_FACTS})
           and (body is not null or response_body is not null or error is not null)
    """,
    "facts": """
        update facts set place = null, reason = null
         where item_id = any(:items) and (place is not null or reason is not null)
    """,
    "visits": "update visits set agent = '' where item_id = any(:items) and agent <> ''",
    "visit_inbox": "update visit_inbox set agent = '' where item_id = any(:items) and agent <> ''",
    "carrier_scans": """
        update carrier_scans set raw = '{}', place = null where item_id = any(:items) and raw <> '{}'
    """,
    # Notices name whoever scanned an order's pieces. What is yet to be sent says less.
    "notices": """
        update notices n
           set subject = 'Scans of order ' || o.id,
               words = case n.status when 'pending' then 'Pieces of order ' || o.id || ' were scanned.'
                                     else '' end
          from (select distinct order_id as id from items where id = any(:items) and scans > 0) o
         where n.kind = 'scans' and split_part(n.key, ':', 2) = o.id::text and n.words not in (
               '', 'Pieces of order ' || o.id || ' were scanned.')
    """,
    # What is doubtful of an address is said to the sender, and names the city.
    "orders": f"""
        update orders o
           set warnings = array(select regexp_replace(w, '{DOUBT_WARNING_TEXT}.*$', '{REDACTED_DOUBT}')
                                  from unnest(o.warnings) with ordinality as told (w, place) order by place)
         where o.id in (select order_id from items where id = any(:items))
           and exists (select from unnest(o.warnings) w where strpos(w, '{DOUBT_WARNING_TEXT}') > 0)
    """,
    # Why a card was taken back may tell of whoever it was for. A good one stays: who has the piece claims it.
    "giftcards": f"""
        with turn as materialized (
            select item_id from giftcards where item_id = any(:items) and void_reason <> '{ITEM_FAILED}'
             order by item_id for no key update)
        update giftcards g set void_reason = null from turn where g.item_id = turn.item_id
    """,
    "automation_due": "delete from automation_due where item_id = any(:items)",
    "received_events": """
        delete from received_events
         where event_id in (select unnest(array[event_id::text, md5(event_id::text)::uuid::text])
                              from facts where item_id = any(:items))
    """,
}
"""By table, what is done about all that tells of these pieces' recipients."""

_STATEMENTS = {table: sa.text(statement) for table, statement in RELATED_STATEMENTS.items()}


def erase_items(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> dict[str, int]:
    """How many rows of which table it was. Done again, it finds what was written since."""
    params: dict[str, Any] = {"items": list(item_ids), "now": now}
    file_ids = files.list_item_files(tx, item_ids)
    counts = {table: tx.execute(statement, params).rowcount for table, statement in _STATEMENTS.items()}
    update = (
        sa.update(items)
        .where(items.c.id.in_(item_ids), items.c.person_gone_at.is_(None))
        .values(
            **dict.fromkeys(PERSONAL_COLUMNS),
            person_gone_at=now,
            door_digest=sa.case((_CAN_STILL_OPT_OUT, sa.func.bar_digest(items.c.account_id, "address", _ADDRESS_KEY))),
        )
    )
    counts["items"] = tx.execute(update).rowcount
    counts["files"] = files.delete_item_print_files(tx, item_ids, now=now)
    # A picture that only these pieces carried may show their recipient.
    counts["files"] += files.delete_unused_files(tx, file_ids, now=now)
    return counts


def erase_ended_items(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> None:
    """The same for pieces that were only looked up: their orders are taken first, as everyone does."""
    tx.execute(LOCK_ORDERS, {"items": list(item_ids)})
    erase_items(tx, item_ids, now=now)
