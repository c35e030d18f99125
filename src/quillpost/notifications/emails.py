"""Letters to a sender: whoever has one of their pieces says that something is wrong with its gift card."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.text import to_one_line
from quillpost.orders.giftcards.claims import ClaimState, ClaimView

MAX_TITLE_LENGTH = 80

LOCKED_CARD_TEXT = (
    "Its code was shown to nobody, and is not shown any more until you decide. To take the card back, its "
    "value returned to your credit, call:\n\n"
    "PUT /order-items/{item}/invalidate-giftcard\n\n"
    'With {{"reissue": true}} in the body, a new piece with another card goes to the same recipient.'
)
SHOWN_CARD_TEXT = (
    "Its code has been shown already, so the card cannot be taken back here: PUT "
    "/order-items/{item}/invalidate-giftcard would refuse it. Get in touch with the recipient."
)

# The owners; where nobody signs in, the account itself. Whoever wants to hear no more of the account's scans
# is not told by way of an order's addresses either.
FIND_ADDRESSES = sa.text(
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
READ_ORDER_OWNER = sa.text("select account_id, sub_account_id, mode from orders where id = :order_id")


def notify_of_giftcard_report(tx: Tx, card: ClaimView, *, now: datetime) -> None:
    """Each of those who look after the order hears of it once, as the notice's key has it, however often an
    address is named. Takes the transaction of the report."""
    order = tx.execute(READ_ORDER_OWNER, {"order_id": card.order_id}).one()
    addresses = tx.execute(FIND_ADDRESSES, {"account_id": order.account_id, "order_id": card.order_id}).scalars()
    outbox.enqueue_notifications(tx, [_build_notification(card, order, address) for address in addresses], now=now)


def _build_notification(card: ClaimView, order: Any, address: str) -> dict[str, Any]:
    is_text = outbox.channel_for_address(address) == "text"
    return {
        "key": f"gift-report:{card.item_id}:{address.lower()}",
        "kind": outbox.GIFTCARDS_KIND,
        "account_id": order.account_id,
        "sub_account_id": order.sub_account_id,
        "mode": order.mode,
        "address": address,
        "subject": f"A gift card of order {card.order_id} was reported",
        "words": _text_message(card) if is_text else _email_text(card),
    }


def _email_text(card: ClaimView) -> str:
    instructions = LOCKED_CARD_TEXT if card.state is ClaimState.LOCKED else SHOWN_CARD_TEXT
    return (
        f"Whoever has piece {card.item_id} of your order {card.order_id} reports its gift card, "
        f"{_card_label(card)}:\n\n- {card.report}\n\n" + instructions.format(item=card.item_id)
    )


def _text_message(card: ClaimView) -> str:
    return f"Gift card reported: order {card.order_id}, piece {card.item_id}, {_card_label(card)}. {card.report}."


def _card_label(card: ClaimView) -> str:
    return f"{to_one_line(card.title, max_length=MAX_TITLE_LENGTH)} over {format_dollars(card.cents)}"
