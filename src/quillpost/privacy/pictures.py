"""The pictures and PDFs of orders that have ended: what nobody else uses goes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.database import Tx

OF_ORDERS = sa.text(
    """
    select distinct f from orders o cross join lateral (
        values (o.front_file_id), (o.background_file_id), (o.pages_file_id), (o.logo_file_id)) p (f)
     where o.id = any(:orders) and f is not null
    union
    select f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.order_id = any(:orders) and f is not null
    """
)
OF_ITEMS = sa.text(
    """
    select distinct f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.id = any(:items) and f is not null
    """
)
LET_GO = sa.text(
    """
    update orders set front_file_id = null, background_file_id = null, pages_file_id = null,
                      logo_file_id = null, pictures_gone_at = :now
     where id = any(:orders)
    """
)
LET_GO_OF_ITEMS = sa.text(
    """
    update items set front_file_id = null, background_file_id = null
     where order_id = any(:orders) and (front_file_id is not null or background_file_id is not null)
    """
)
# A picture that came with a template, or that another order carries, is one file.
REMOVE = sa.text(
    """
    with gone as (
        delete from files f
         where f.id = any(:files)
           and not exists (select from items where front_file_id = f.id)
           and not exists (select from items where background_file_id = f.id)
           and not exists (select from orders where front_file_id = f.id)
           and not exists (select from orders where background_file_id = f.id)
           and not exists (select from orders where pages_file_id = f.id)
           and not exists (select from orders where logo_file_id = f.id)
           and not exists (select from image_templates where image_file_id = f.id)
           and not exists (select from sub_accounts s
                            where s.account_id = f.account_id
                              and strpos(s.branding::text || s.backgrounds::text, f.id::text) > 0)
        returning key)
    insert into erasing_files (key, since) select key, :now from gone on conflict do nothing
    """
)


def of_items(tx: Tx, item_ids: Sequence[int]) -> list[Any]:
    """The pictures that pieces have of their own."""
    return list(tx.execute(OF_ITEMS, {"items": list(item_ids)}).scalars())


def remove_unused(tx: Tx, file_ids: Sequence[Any], *, now: datetime) -> int:
    """How many of the files nobody uses any more: they go."""
    return tx.execute(REMOVE, {"files": list(file_ids), "now": now}).rowcount if file_ids else 0


def forget(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> int:
    """The orders' pictures and PDFs. From here on they cannot be sent again as they were."""
    these = {"orders": list(order_ids), "now": now}
    found = list(tx.execute(OF_ORDERS, these).scalars())
    tx.execute(LET_GO, these)
    tx.execute(LET_GO_OF_ITEMS, these)
    return remove_unused(tx, found, now=now)
