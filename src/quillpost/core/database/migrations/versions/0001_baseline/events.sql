-- What happened, append-only, written in the transaction that made it happen.
create table facts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    event_id uuid not null default gen_random_uuid(),
    kind text not null,
    order_id bigint not null,
    item_id bigint,
    order_status text not null,
    previous text,
    current text not null,
    scans integer not null default 0,                -- of the item at that time
    place text,                                      -- where the carrier saw the item
    reason text,                                     -- why it came back or was re-routed
    inferred boolean not null default false,         -- a delivery that no carrier reported
    seen_at timestamptz,                             -- when the carrier saw it
    at timestamptz not null
);
create index facts_item on facts (item_id, id) where item_id is not null;
create index facts_order on facts (order_id, id);
-- An order's own statuses among the events of its items, which may be millions.
create index facts_order_states on facts (order_id, id) where kind = 'order.status';
create index facts_at on facts (account_id, at, id);
create index facts_time on facts using brin (at);

-- Events that no listener has seen. A cursor over facts.id would miss one that commits late.
create table fact_queue (
    fact_id bigint primary key
);

-- Events by the hour, as hours add up to the days of every time zone; in shards, as writers rarely meet in one row.
create table hourly_counts (
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint not null,                  -- 0: none
    mode text not null check (mode in ('test', 'live')),
    hour timestamptz not null,
    what text not null check (what in ('sent', 'delivered', 'scans')),
    shard integer not null,
    n bigint not null,
    primary key (account_id, mode, hour, sub_account_id, what, shard)   -- the days of an account lie together
);

-- What an event counts as, if anything. An item is sent when it is printed.
create function counted_as(p_kind text, p_current text) returns text
language sql immutable parallel safe as $$
    select case when p_kind = 'item.scan' then 'scans'
                when p_kind = 'item.status' and p_current = 'Printed' then 'sent'
                when p_kind = 'item.status' and p_current = 'Delivered' then 'delivered' end
$$;

-- With the owner's rights: tenants write events, and must not write the counts. Events that are deleted later, or
-- moved to another sub account, stay counted where they were.
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

call keep_tenants_apart('facts');
call keep_tenants_apart('hourly_counts');

grant select, insert on facts to quillpost_app;
grant insert on fact_queue to quillpost_app;
grant select on hourly_counts to quillpost_app;
grant select, insert, update, delete on facts, fact_queue, hourly_counts to quillpost_worker;
