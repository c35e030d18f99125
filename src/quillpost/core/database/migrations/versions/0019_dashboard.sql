-- What happened, hour by hour: a reader's day begins when it does in their own zone, and hours add up to every
-- zone's days. Kept with the facts, in as many rows as those who write them rarely meet in.
create table hourly_counts (
    account_id bigint not null references accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    sub_account_id bigint not null,                  -- 0: of none
    hour timestamptz not null,
    what text not null check (what in ('sent', 'delivered', 'scans')),
    shard integer not null,
    n bigint not null,
    primary key (account_id, mode, hour, sub_account_id, what, shard)   -- some days of an account lie together
);
call keep_tenants_apart('hourly_counts');
grant select on hourly_counts to quillpost_app;
grant select, insert, update, delete on hourly_counts to quillpost_worker;

-- What a fact is counted as, if it is. A piece is sent when it is printed: the mail has it from there.
create function counted_as(p_kind text, p_current text) returns text
language sql immutable parallel safe as $$
    select case when p_kind = 'item.scan' then 'scans'
                when p_kind = 'item.status' and p_current = 'Printed' then 'sent'
                when p_kind = 'item.status' and p_current = 'Delivered' then 'delivered' end
$$;

-- With the owner's hands, for tenants write facts too, and must not write what they add up to. What happened has
-- happened: facts that are forgotten later, or moved to another sub account, are counted where they were.
create function count_hours() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    insert into hourly_counts as c (account_id, mode, sub_account_id, hour, what, shard, n)
    select account_id, mode, coalesce(sub_account_id, 0), date_trunc('hour', at, 'UTC'),
           counted_as(kind, current), pg_backend_pid() % 32, count(*)
      from after where counted_as(kind, current) is not null
     group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    on conflict (account_id, mode, hour, sub_account_id, what, shard) do update set n = c.n + excluded.n;
    return null;
end $$;
create trigger facts_counted after insert on facts
    referencing new table as after for each statement execute function count_hours();

insert into hourly_counts (account_id, mode, sub_account_id, hour, what, shard, n)
select account_id, mode, coalesce(sub_account_id, 0), date_trunc('hour', at, 'UTC'),
       counted_as(kind, current), 0, count(*)
  from facts where counted_as(kind, current) is not null
 group by 1, 2, 3, 4, 5;

-- The sites that may show the composer within their own pages, as browsers name them: scheme, host and port.
alter table accounts add column embed_origins text[] not null default '{}';
grant update (embed_origins) on accounts to quillpost_app;

-- What needs an account's attention is looked for with every visit to its first page.
create index giftcards_reported on giftcards (account_id, mode, reported_at) where reported_at is not null;
create index imports_ended on imports (account_id, finished_at) where finished_at is not null;

-- Somebody is looked for on a list of a million: by how their name begins, or their street. The second index is
-- there already, and finds beginnings from now on, whatever the collation of the database.
create index recipients_name on recipients (mailing_list_id, lower(name) text_pattern_ops) where name is not null;
drop index recipients_address;
create unique index recipients_address on recipients (mailing_list_id, address_key text_pattern_ops, told_apart)
    where address_key is not null;

-- The ledger is read the newest first: of an account, of a kind of move, or of a sub account, from any day on.
drop index ledger_moves_account;
create index ledger_moves_account on ledger_moves (account_id, mode, at desc, id desc) include (sub_account_id);
create index ledger_moves_kind on ledger_moves (account_id, mode, kind, at desc, id desc) include (sub_account_id);
create index ledger_moves_sub_account on ledger_moves (sub_account_id, mode, at desc, id desc)
    where sub_account_id is not null;

-- The print room looks at all batches of a mode, of a day or a product, and at those that are not in the mail; at
-- orders that wait to be pooled, and at subscriptions that cannot be delivered to, whosever they are.
create index batches_made on batches (mode, created_at, id) include (status, piece);
create index batches_open on batches (mode, status, id) where status <> 'mailed';
drop index orders_pool;
create index orders_pool on orders (mode, pool_at) where pool_at is not null;
create index webhooks_unwell on webhooks (mode, id) where status in ('failing', 'disabled');

-- What has become of an order itself, among the facts of its pieces, which may be millions.
create index facts_order_states on facts (order_id, id) where kind = 'order.status';

-- How many pieces of a batch count no more: spoiled, or printed again in another. Today's figures are sums over
-- batches, and a piece is one piece however often it is printed.
alter table batches add column void_count integer not null default 0;
update batches b set void_count = p.pieces
  from (select p.batch_id, count(*) as pieces from prints p join items i on i.id = p.item_id
         where p.superseded or i.status = 'Failed' group by p.batch_id) p
 where p.batch_id = b.id;

-- How many pieces of an order were lost in the mail. What is spoiled or stopped before has failed too, and was
-- never mailed.
alter table orders add column n_lost integer not null default 0;
update orders o set n_lost = f.pieces
  from (select order_id, count(*) as pieces from facts
         where kind = 'item.status' and current = 'Failed'
           and (previous not in ('Processing', 'Printed') or seen_at is not null)
         group by order_id) f
 where f.order_id = o.id;
