"""Letters to a sender: whoever has one of their pieces says that something is wrong with its gift card."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.billing.rules import dollars
from quillpost.core import outbox
from quillpost.core import outbox as rules
from quillpost.core.database import Tx
from quillpost.core.text import one_line
from quillpost.orders.giftcards.claims import Held, State

LONGEST_TITLE = 80

LOCKED = (
    "Its code was shown to nobody, and is not shown any more until you decide. To take the card back, its "
    "value returned to your credit, call:\n\n"
    "PUT /order-items/{item}/invalidate-giftcard\n\n"
    'With {{"reissue": true}} in the body, a new piece with another card goes to the same recipient.'
)
SHOWN = (
    "Its code has been shown already, so the card cannot be taken back here: PUT "
    "/order-items/{item}/invalidate-giftcard would refuse it. Get in touch with the recipient."
)

# The owners; where nobody signs in, the account itself. Whoever wants to hear no more of the account's scans
# is not told by way of an order's addresses either.
WHOM = sa.text(
    """
    with owners as (
        select p.email as address from memberships m join people p on p.id = m.person_id
         where m.account_id = :account_id and m.role = 'owner'),
    everyone as (
        select address, 1 as place from owners
        union all
        select email, 2 from accounts where id = :account_id and not exists (select 1 from owners)
        union all
        select e.address, 3 from orders o cross join lateral unnest(o.notification_emails) as e (address)
         where o.id = :order_id and not exists (
               select 1 from notice_refusals r
                where r.account_id = o.account_id and r.address = lower(e.address)))
    select address from everyone order by place, address
    """
)
WHOSE = sa.text("select account_id, sub_account_id, mode from orders where id = :order_id")


def tell(tx: Tx, held: Held, *, now: datetime) -> None:
    """Each of those who look after the order hears of it once, as the notice's key has it, however often an
    address is named. Takes the transaction of the report."""
    whose = tx.execute(WHOSE, {"order_id": held.order_id}).one()
    whom = tx.execute(WHOM, {"account_id": whose.account_id, "order_id": held.order_id}).scalars()
    outbox.post_all(tx, [_notice(held, whose, address) for address in whom], now=now)


def _notice(held: Held, whose: Any, address: str) -> dict[str, Any]:
    is_text = rules.channel(address) == "text"
    return {
        "key": f"gift-report:{held.item_id}:{address.lower()}",
        "kind": rules.GIFTS,
        "account_id": whose.account_id,
        "sub_account_id": whose.sub_account_id,
        "mode": whose.mode,
        "address": address,
        "subject": f"A gift card of order {held.order_id} was reported",
        "words": _short(held) if is_text else _letter(held),
    }


def _letter(held: Held) -> str:
    what_now = LOCKED if held.state is State.LOCKED else SHOWN
    return (
        f"Whoever has piece {held.item_id} of your order {held.order_id} reports its gift card, "
        f"{_card(held)}:\n\n- {held.report}\n\n" + what_now.format(item=held.item_id)
    )


def _short(held: Held) -> str:
    return f"Gift card reported: order {held.order_id}, piece {held.item_id}, {_card(held)}. {held.report}."


def _card(held: Held) -> str:
    return f"{one_line(held.title, most=LONGEST_TITLE)} over {dollars(held.cents)}"
