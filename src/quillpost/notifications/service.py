"""Scan digests, gift card reports and unsubscribing."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core import outbox
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import notice_refusals, notices
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import NotFound
from quillpost.core.text import to_one_line
from quillpost.notifications import messages
from quillpost.notifications.messages import MAX_LISTED_ITEMS, NotificationReader, ScannedItem, ScanNews
from quillpost.orders.giftcards.service import ClaimState, ClaimView

THREADS_PER_TRANSACTION = 100

CLAIM_DUE_THREADS = sa.text("""
    select t.order_id, t.address, t.since, o.account_id, o.sub_account_id, o.mode,
           exists (select 1 from notice_refusals r
                    where r.account_id = o.account_id and r.address = lower(t.address)) as is_refused
      from news_threads t join orders o on o.id = t.order_id
     where t.due_at <= :now
     order by t.due_at, t.order_id, t.address limit :most
       for update of t skip locked
""")
# Counted once for all addresses that were notified up to the same scan.
COUNT_SCANS = sa.text("""
    select a.order_id, a.since, o.type, c.scans, c.item_count, c.first_at, c.last_at,
           o.total_scans as order_scans, o.multi_scans as order_multi_scans
      from unnest(cast(:orders as bigint[]), cast(:sinces as bigint[])) as a (order_id, since)
      join orders o on o.id = a.order_id
      cross join lateral (
          select count(*) as scans, count(distinct n.item_id) as item_count,
                 min(n.at) as first_at, max(n.at) as last_at
            from scan_news n where n.order_id = a.order_id and n.id >= a.since) c
     where c.scans > 0
""")
READ_SCANNED_ITEMS = sa.text("""
    select a.order_id, a.since, i.id as item_id, coalesce(i.name, i.company) as name, i.city, i.province,
           c.scans, greatest(i.scans, c.scans) as so_far, c.last_at
      from unnest(cast(:orders as bigint[]), cast(:sinces as bigint[])) as a (order_id, since)
      cross join lateral (
          select n.item_id, count(*) as scans, max(n.at) as last_at, min(n.id) as first
            from scan_news n where n.order_id = a.order_id and n.id >= a.since
           group by n.item_id order by min(n.id) limit :named) c
      join items i on i.id = c.item_id
     order by a.order_id, a.since, c.first
""")
MARK_THREADS_NOTIFIED = sa.text("""
    update news_threads t set since = null, due_at = null, quiet_until = :quiet_until
      from unnest(cast(:orders as bigint[]), cast(:addresses as text[])) as a (order_id, address)
     where t.order_id = a.order_id and t.address = a.address
""")
DELETE_NEWS = """
    delete from scan_news n
     where {} not exists (select 1 from news_threads t
                           where t.order_id = n.order_id and t.since <= n.id)
"""
DELETE_NEWS_OF_ORDERS = sa.text(DELETE_NEWS.format("n.order_id = any(cast(:orders as bigint[])) and"))
DELETE_ALL_NEWS = sa.text(DELETE_NEWS.format(""))


def write_due_digests(tx: Tx, *, window: timedelta, zone: tzinfo, now: datetime) -> int:
    """Write the notifications that are due; how many threads were. Later scans wait until the window ends."""
    due_threads = tx.execute(CLAIM_DUE_THREADS, {"now": now, "most": THREADS_PER_TRANSACTION}).all()
    if not due_threads:
        return 0
    news = _read_news(tx, sorted({(row.order_id, row.since) for row in due_threads if row.since is not None}))
    new_notifications = [
        _build_digest(row, news[row.order_id, row.since], zone)
        for row in due_threads
        if not row.is_refused and (row.order_id, row.since) in news
    ]
    outbox.enqueue_notifications(tx, new_notifications, now=now)
    orders = [row.order_id for row in due_threads]
    addresses = [row.address for row in due_threads]
    tx.execute(MARK_THREADS_NOTIFIED, {"orders": orders, "addresses": addresses, "quiet_until": now + window})
    tx.execute(DELETE_NEWS_OF_ORDERS, {"orders": sorted(set(orders))})
    return len(due_threads)


def _read_news(tx: Tx, thread_keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ScanNews]:
    params = {"orders": [order for order, _ in thread_keys], "sinces": [since for _, since in thread_keys]}
    rows = tx.execute(READ_SCANNED_ITEMS, {**params, "named": MAX_LISTED_ITEMS})
    items_by_thread = {
        key: [ScannedItem(*row[2:]) for row in group]
        for key, group in groupby(rows, key=lambda row: (row.order_id, row.since))
    }
    return {
        (row.order_id, row.since): ScanNews(
            items=items_by_thread[row.order_id, row.since],
            **{name: value for name, value in row._mapping.items() if name != "since"},
        )
        for row in tx.execute(COUNT_SCANS, params)
    }


def _build_digest(thread: Any, news: ScanNews, zone: tzinfo) -> dict[str, Any]:
    is_text = outbox.channel_for_address(thread.address) == "text"
    return {
        "key": f"scans:{thread.order_id}:{thread.since}:{thread.address}",
        "kind": outbox.SCANS_KIND,
        "account_id": thread.account_id,
        "sub_account_id": thread.sub_account_id,
        "mode": thread.mode,
        "address": thread.address,
        "subject": messages.build_subject(news),
        "words": messages.build_text_message(news) if is_text else messages.build_email_text(news, zone=zone),
    }


def delete_expired_notifications(
    db: Database, *, retention_days: int = outbox.DELETE_AFTER.days, now: datetime
) -> None:
    """A job: give up what waited for too long, and delete what was settled so many days ago."""
    with db.system_transaction() as tx:
        outbox.give_up_old_notifications(tx, now=now)
        tx.execute(DELETE_ALL_NEWS)  # two concurrent digests of one order may leave news that all were notified of
        is_settled = notices.c.status != "pending"
        tx.execute(sa.delete(notices).where(is_settled, notices.c.created_at < now - timedelta(days=retention_days)))


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

# The owners; without any, the account's own address. Addresses of the order that unsubscribed are left out.
FIND_ADDRESSES = sa.text("""
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
""")
READ_ORDER_OWNER = sa.text("select account_id, sub_account_id, mode from orders where id = :order_id")


def notify_of_giftcard_report(tx: Tx, card: ClaimView, *, now: datetime) -> None:
    """Notify each address of the order once, by the notification's key. Takes the transaction of the report."""
    order = tx.execute(READ_ORDER_OWNER, {"order_id": card.order_id}).one()
    addresses = tx.execute(FIND_ADDRESSES, {"account_id": order.account_id, "order_id": card.order_id}).scalars()
    outbox.enqueue_notifications(tx, [_build_giftcard_report(card, order, address) for address in addresses], now=now)


def _build_giftcard_report(card: ClaimView, order: Any, address: str) -> dict[str, Any]:
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


TOKEN_CONTEXT = "unsubscribe"
MAX_TOKEN_LENGTH = 1_000


def encode_token(encryptor: Encryptor, reader: NotificationReader) -> str:
    encrypted = encryptor.encrypt(orjson.dumps([reader.account_id, reader.address]), context=TOKEN_CONTEXT)
    return urlsafe_b64encode(encrypted).rstrip(b"=").decode("ascii")


def decode_token(encryptor: Encryptor, token: str) -> NotificationReader:
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        raise NotFound
    try:
        encrypted = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        account_id, address = orjson.loads(encryptor.decrypt(encrypted, context=TOKEN_CONTEXT))
    except (ValueError, DecryptionFailed):  # ValueError: not base64
        raise NotFound from None
    return NotificationReader(account_id, address)


def read_sender_name(tx: Tx, reader: NotificationReader) -> str:
    name = tx.execute(sa.select(accounts.c.name).where(accounts.c.id == reader.account_id)).scalar()
    if name is None:
        raise NotFound
    return str(name)


def has_unsubscribed(tx: Tx, reader: NotificationReader) -> bool:
    return tx.execute(sa.select(sa.literal(1)).where(*_refusal_conditions(reader))).first() is not None


def unsubscribe(tx: Tx, reader: NotificationReader, *, now: datetime) -> None:
    """Also drops what waits to be sent. Idempotent."""
    refusal = {"account_id": reader.account_id, "address": reader.address.lower(), "at": now}
    tx.execute(insert(notice_refusals).values(refusal).on_conflict_do_nothing())
    tx.execute(
        sa.update(notices)
        .where(
            notices.c.account_id == reader.account_id,
            sa.func.lower(notices.c.address) == reader.address.lower(),
            notices.c.status == "pending",
            notices.c.kind == outbox.SCANS_KIND,
        )
        .values(status="unwanted", next_at=None)
    )


def resubscribe(tx: Tx, reader: NotificationReader) -> None:
    tx.execute(sa.delete(notice_refusals).where(*_refusal_conditions(reader)))


def _refusal_conditions(reader: NotificationReader) -> tuple[sa.ColumnElement[bool], ...]:
    return (notice_refusals.c.account_id == reader.account_id, notice_refusals.c.address == reader.address.lower())
