"""Pieces that the carrier has: handed to it with their batch, or seen by it.

What the carrier has not scanned yet still stands as Printed; `is_mailed` tells it from what lies in the print
room. Abroad nobody scans it: there its way is over once it is mailed.
"""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.orders.order_steps import advance_orders, print_again
from quillpost.orders.turns import take_turns_of
from quillpost.postal.judging import HOME

_MAIL = f"""
    with wanted as ({{source}}),
    mailed as (
        update items i set is_mailed = true, is_over = i.country <> '{HOME}', updated_at = :now
          from wanted w join items was on was.id = w.item_id
         where i.id = was.id and i.status = 'Printed' and not i.is_mailed
        returning i.order_id, i.is_over::integer - was.is_over::integer as over),
    changed as (select order_id, count(*) as mailed, sum(over) as over from mailed group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed + d.mailed, n_over = o.n_over + d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id, mailed from changed
    """

# An order that has ended is not taken up again: a piece of it that is printed again changes nothing there.
_RETRIEVE = """
    with wanted as ({source}),
    back as (
        update items i set is_mailed = false, is_over = false, updated_at = :now
          from wanted w join items was on was.id = w.item_id join orders o on o.id = was.order_id
         where i.id = was.id and i.status = 'Printed' and i.is_mailed and o.status <> 'fulfilled'
        returning i.order_id, was.is_over::integer as over),
    changed as (select order_id, count(*) as pieces, sum(over) as over from back group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed - d.pieces, n_over = o.n_over - d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id from changed
    """


class Mailing:
    """A statement that hands the printed items of a source, which it names by `item_id`, to the carrier."""

    def __init__(self, source: str) -> None:
        self._take_turns = take_turns_of(source)
        self._mail = sa.text(_MAIL.replace("{source}", source))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> int:
        """How many the carrier has now that it had not; their orders move on."""
        asked = {**values, "now": now}
        tx.execute(self._take_turns, asked)
        touched = tx.execute(self._mail, asked).all()
        advance_orders(tx, [row.order_id for row in touched], now=now)
        return sum(row.mailed for row in touched)


class Retrieval:
    """A statement that takes the items of a source back from the carrier: they are printed again."""

    def __init__(self, source: str) -> None:
        self._take_turns = take_turns_of(source)
        self._retrieve = sa.text(_RETRIEVE.replace("{source}", source))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> None:
        asked = {**values, "now": now}
        tx.execute(self._take_turns, asked)
        print_again(tx, list(tx.execute(self._retrieve, asked).scalars()), now=now)
