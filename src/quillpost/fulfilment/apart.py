"""Pieces that cannot be drawn at present wait in a batch of their own, so that the others go on."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.fulfilment import store
from quillpost.fulfilment.press import Press
from quillpost.fulfilment.steps import COMPOSE, book
from quillpost.kit.tokens import hide_secrets

# With the serials that it was made with, as they are in use: no barcode changes.
PUT_APART = sa.text(
    """
    with apart as (
        insert into batches (mode, piece, mail_class, stock, rush, status, item_count, reprint_of, mailer_id,
                             first_serial, trouble, trouble_at, created_at)
        select mode, piece, mail_class, stock, rush, 'new', cardinality(cast(:items as bigint[])), reprint_of,
               mailer_id, first_serial, :trouble, coalesce(trouble_at, :now), :now
          from batches where id = :batch
        returning id),
    moved as (
        update prints p set batch_id = apart.id from apart
         where p.batch_id = :batch and p.item_id = any(cast(:items as bigint[]))),
    counted as (
        update batches set item_count = item_count - cardinality(cast(:items as bigint[])) where id = :batch)
    select id from apart
    """
)


def put_apart(
    tx: Tx, press: Press, batch: store.Batch, item_ids: Sequence[int], trouble: str, *, now: datetime
) -> int | None:
    """The batch in which these pieces wait from here on, and say for what; None, where they are all that
    there is: the batch itself waits.

    Whoever calls holds the batch, and has turns at its orders; none of these pieces has ended.
    """
    store.take_out_ended(tx, batch.id)
    if store.read_batch(tx, batch.id).item_count == len(item_ids):
        return None
    values = {"batch": batch.id, "items": list(item_ids), "trouble": hide_secrets(trouble), "now": now}
    apart = int(tx.execute(PUT_APART, values).scalar_one())
    book(tx, COMPOSE, apart, at=now + press.worlds[batch.mode].poll_every, is_urgent=batch.rush)
    return apart
