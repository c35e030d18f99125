"""An account that has mailed a million pieces: half of them in one order, the others five at a time."""

from dataclasses import dataclass

import psycopg
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.users.sessions import create_session
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people

ITEMS, PEOPLE, SMALL_ORDERS, EACH = 1_000_000, 1_000_000, 100_000, 5
LARGE = ITEMS - SMALL_ORDERS * EACH
BATCHES, DELIVERIES = 20_000, 200_000

ORDER = """
    insert into orders (account_id, mode, type, size, piece, mail_class, status, method, message, style,
                        handwriting_color, handwriting_realism, font_size, total_estimated_recipients,
                        recipient_count, n_delivered, total_scans, authorization_total, order_total, due_at,
                        created_at, updated_at)
    select %(account)s, 'test', 'postcard', '4x6', 'postcard-4x6', 'first', 'fulfilled', 'api',
           'Hi %%FIRST_NAME%%, see you soon!', 1, 'rgba(31,63,146,1)', true, 'auto', %(each)s, %(each)s,
           %(each)s, %(each)s / 5, %(each)s * 109, %(each)s * 109, at, at, at
      from generate_series(1, %(orders)s) n,
           lateral (select now() - make_interval(secs => 60 * (%(orders)s - n))) as made (at)
"""
ITEM = """
    insert into items (account_id, mode, order_id, status, scans, price_cents, name, address, city, province,
                       postal_code, country, address_key, delivery_date, delivery_inferred, is_over,
                       gift_cents, created_at, updated_at)
    select o.account_id, o.mode, o.id, 'Delivered', 0, 109, 'Person ' || n, n || ' Main St', 'Austin', 'TX',
           (array['78701', '10001', '60601', '94105', '33101'])[1 + n %% 5], 'US', o.id || ':' || n,
           current_date, false, true, 0, o.created_at, o.created_at
      from orders o, generate_series(1, o.recipient_count) n where o.account_id = %(account)s
"""
FACT = """
    insert into facts (account_id, mode, kind, order_id, item_id, order_status, previous, current, event_id,
                       at, place, inferred, scans)
    select account_id, mode, 'item.status', order_id, id, 'fulfilled', 'Processed for Delivery', 'Delivered',
           gen_random_uuid(), created_at, 'AUSTIN, TX 78701', false, 0
      from items where account_id = %(account)s
"""
LIST = """
    insert into mailing_lists (account_id, type, description, is_suppression_list, processed,
                               total_recipients, total_sends, total_scans, unique_scans, created_at,
                               updated_at, suppress_by)
    values (%(account)s, 'csv', 'Customers', false, true, %(people)s, 0, 0, 0, now(), now(), 'address')
    returning id
"""
PERSON = """
    insert into recipients (account_id, mailing_list_id, name, address, city, province, postal_code, country,
                            email, address_key, created_at, updated_at, told_apart)
    select %(account)s, %(list)s, 'Person ' || n, n || ' Main St', 'Austin', 'TX', '78701', 'US',
           'person' || n || '@example.com', 'key:' || n, now(), now(), ''
      from generate_series(1, %(people)s) n
"""
MONEY = """
    insert into ledger_moves (account_id, mode, order_id, kind, source, target, cents, key, at)
    select o.account_id, o.mode, o.id, k.kind, k.source, k.target, o.order_total, k.kind || ':' || o.id,
           o.created_at
      from orders o,
           (values ('authorise', 'credit', 'held'), ('capture', 'held', 'earned')) k (kind, source, target)
     where o.account_id = %(account)s
"""
HOURS = """
    insert into hourly_counts (account_id, mode, sub_account_id, hour, what, shard, n)
    select %(account)s, 'test', 0, date_trunc('hour', now(), 'UTC') - make_interval(hours => h), w, s, 10
      from generate_series(0, 90 * 24) h, unnest(array['sent', 'delivered', 'scans']) w,
           generate_series(0, 3) s
"""
COUNTS = """
    insert into order_counts (account_id, mode, sub_account_id, type, shard, n)
    select account_id, mode, 0, type, 0, count(*) from orders group by 1, 2, 4
"""
CREDIT = """
    insert into account_credit (account_id, mode, sub_account_id, shard, cents)
    values (%(account)s, 'test', 0, 0, 100000)
"""
WEBHOOK = """
    insert into webhooks (account_id, mode, url, type, verb, secret_sealed, status, invoke_count, created_at,
                          updated_at)
    values (%(account)s, 'test', 'https://example.com/hook', 'order_item.status_update', 'post', '', 'active',
            0, now(), now()) returning id
"""
DELIVERY = """
    insert into deliveries (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, status, body,
                            attempts, response_status, created_at, delivered_at)
    select %(account)s, 'test', %(webhook)s, n, gen_random_uuid(), 'order_item.status_update', n::text,
           'delivered', '{}', 1, 200, now() - make_interval(secs => n), now()
      from generate_series(1, %(deliveries)s) n
"""
BATCH = """
    insert into batches (mode, piece, mail_class, status, item_count, created_at, composed_at, handed_at,
                         printed_at, mailed_at, stock, rush, settled_at)
    select 'test', 'postcard-4x6', 'first', 'mailed', 50, at, at, at, at, at, 'postcard-4x6', false, at
      from generate_series(1, %(batches)s) n, lateral (select now() - make_interval(mins => n)) as made (at)
"""


@dataclass(frozen=True)
class FilledDatabase:
    """Whose it is, and where in it to look."""

    account_id: int
    large_order: int
    item: int
    list_id: int
    recipient: int
    webhook: int
    delivery: int
    batch: int


def fill(container: Container, admin: psycopg.Connection) -> FilledDatabase:
    """One account with all of it, who also runs the service."""
    with container.db.system_transaction() as tx:
        account = service.create_account(tx, email="bench@example.com", name="Bench", now=container.clock())
    given = {"account": account, "people": PEOPLE, "deliveries": DELIVERIES, "batches": BATCHES}

    def one(statement: str, **more: int) -> int:
        row = admin.execute(statement, given | more).fetchone()
        assert row is not None
        return int(row[0])

    # Neither the references are checked nor the rows counted: that is done once, for all of them.
    admin.execute("set session_replication_role = replica")
    admin.execute("update accounts set is_operator = true where id = %(account)s", given)
    admin.execute(ORDER, given | {"orders": SMALL_ORDERS, "each": EACH})
    admin.execute(ORDER, given | {"orders": 1, "each": LARGE})
    large = one("select max(id) from orders")
    for statement in (ITEM, FACT, MONEY, HOURS, COUNTS, CREDIT, BATCH):
        admin.execute(statement, given)
    list_id, webhook = one(LIST), one(WEBHOOK)
    admin.execute(PERSON, given | {"list": list_id})
    admin.execute(DELIVERY, given | {"webhook": webhook})
    admin.execute("reset session_replication_role")
    admin.execute("vacuum analyze")
    return FilledDatabase(
        account_id=account,
        large_order=large,
        item=one("select max(id) from items"),
        list_id=list_id,
        recipient=one("select max(id) from recipients"),
        webhook=webhook,
        delivery=one("select max(id) from deliveries"),
        batch=one("select max(id) from batches"),
    )


def sign_in(container: Container, account_id: int) -> str:
    """An owner's cookie."""
    now = container.clock()
    with container.db.system_transaction() as tx:
        made = sa.insert(people).values(email="dana@example.com", name="Dana", created_at=now, updated_at=now)
        person_id = tx.execute(made.returning(people.c.id)).scalar_one()
        tx.execute(
            sa.insert(memberships).values(account_id=account_id, person_id=person_id, role="owner", created_at=now)
        )
        return create_session(tx, person_id, awaits_code=False, address=None, browser=None, now=now)
