"""The lock that everyone takes who changes pieces: their orders, before the items."""

import sqlalchemy as sa


def take_turns_of(source: str) -> sa.TextClause:
    """Lock the orders of the items that `source` names by `item_id`, in the order of their ids: whoever holds
    one never waits for a lower one."""
    return sa.text(
        f"""
        with wanted as ({source})
        select id from orders
         where id in (select i.order_id from items i join wanted w on w.item_id = i.id)
         order by id for no key update
        """
    )
