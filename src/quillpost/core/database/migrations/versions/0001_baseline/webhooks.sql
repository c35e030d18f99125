create table webhooks (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    mailing_list_id bigint references mailing_lists on delete cascade,
    url text not null,
    type text not null,
    verb text not null check (verb in ('post', 'get')),
    description text,
    secret_sealed bytea not null,
    previous_secret_sealed bytea,                    -- after a change of the secret, both sign until previous_until
    status text not null check (status in ('active', 'paused', 'failing', 'disabled')),
    invoke_count bigint not null default 0,
    last_error text,
    previous_until timestamptz,
    failing_since timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index webhooks_account on webhooks (account_id, id desc);
create index webhooks_unwell on webhooks (mode, id) where status in ('failing', 'disabled');

-- Deleted subscriptions, until their deliveries are deleted, too.
create table webhooks_gone (
    webhook_id bigint primary key,
    gone_at timestamptz not null default now()
);

-- Pending deliveries are few and busy, and lie together. Settled ones are many, and lie in a partition for each day:
-- what is too old goes with its day, not row by row. No foreign key to the webhook: a writer would wait for a
-- delete of the webhook, and that one for a million of its deliveries.
create sequence delivery_ids as bigint;
create table deliveries (
    id bigint not null default nextval('delivery_ids'),
    account_id bigint not null,
    sub_account_id bigint,
    mode text not null,
    webhook_id bigint not null,
    fact_id bigint not null,
    event_id uuid not null,
    event_type text not null,
    stream text not null,                            -- deliveries of one stream keep their order
    body text,                                       -- as it was first sent
    status text not null constraint deliveries_status_check1 check (status in ('pending', 'delivered', 'failed')),
    attempts integer not null default 0,
    extra_tries integer not null default 0,          -- attempts beside the schedule, which they do not advance
    response_status integer,
    response_body text,
    error text,
    next_at timestamptz,
    created_at timestamptz not null,
    delivered_at timestamptz,
    primary key (id, created_at, status)
) partition by list (status);
create table deliveries_pending partition of deliveries for values in ('pending');
create table deliveries_settled partition of deliveries for values in ('delivered', 'failed')
    partition by range (created_at);
create table deliveries_other partition of deliveries_settled default;
create index deliveries_webhook on deliveries (webhook_id, id desc);
-- For erasure, which finds deliveries by their events. A block range index costs writers almost nothing, and
-- deliveries lie nearly in the order of their events.
create index deliveries_facts on deliveries using brin (fact_id) with (pages_per_range = 16);
create index deliveries_waiting on deliveries_pending (webhook_id, next_at, id);
create index deliveries_stream on deliveries_pending (webhook_id, stream, id);
create index deliveries_failed on deliveries_settled (webhook_id, id) where status = 'failed';

-- The queue of a subscription. One dispatcher at a time leases it and sends what waits in it, so no delivery is
-- claimed by itself. `woken` counts what was put in: a dispatcher that leaves an empty queue sees whether more came.
create table webhook_lanes (
    webhook_id bigint primary key references webhooks on delete cascade,
    woken bigint not null default 0,
    failures integer not null default 0,             -- in a row
    leased_by uuid,
    leased_until timestamptz,
    due_at timestamptz,                              -- the next time there is something to do; null: nothing
    troubled_since timestamptz,                      -- the first of the failures
    resting_until timestamptz                        -- the backoff's end
) with (fillfactor = 50);
create index webhook_lanes_due on webhook_lanes (due_at) where due_at is not null;

-- A time range whose events are sent again; all up to this event have their deliveries.
create table webhook_replays (
    id bigint generated always as identity primary key,
    account_id bigint not null,
    sub_account_id bigint,
    mode text not null,
    webhook_id bigint not null references webhooks on delete cascade,
    since timestamptz not null,
    until timestamptz not null,
    reached_at timestamptz not null,
    reached_id bigint not null,
    told bigint not null
);
create index webhook_replays_webhook on webhook_replays (webhook_id);

-- Creates the partitions of these days; false where that could not be done now. A day whose rows lie in the default
-- partition already, because it was created too late, stays there. It does not wait for a long read of the default
-- partition, such as a backup: the next run creates the day.
create function open_delivery_days(p_first date, p_last date) returns boolean
language plpgsql security definer set search_path = pg_catalog, public set lock_timeout = '2s' as $$
declare
    opened date;
    name text;
begin
    for opened in select d::date from generate_series(p_first, p_last, interval '1 day') d loop
        name := 'deliveries_' || to_char(opened, 'YYYYMMDD');
        if to_regclass('public.' || name) is null and not exists (
            select from deliveries_other
             where created_at >= opened::timestamp at time zone 'UTC'
               and created_at < (opened + 1)::timestamp at time zone 'UTC') then
            execute format('create table public.%I (like deliveries_settled including defaults including constraints)',
                           name);
            execute format('alter table deliveries_settled attach partition public.%I for values from (%L) to (%L)',
                           name, opened::timestamp at time zone 'UTC', (opened + 1)::timestamp at time zone 'UTC');
        end if;
    end loop;
    return true;
exception when lock_not_available then
    return false;
end $$;
-- The first days, until the daily job takes over.
select open_delivery_days((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 7);

-- Drops the days before this one; false where some are left. It does not wait for a long read either, as everyone
-- who settles deliveries would wait behind the drop.
create function drop_delivery_days(p_before date) returns boolean
language plpgsql security definer set search_path = pg_catalog, public set lock_timeout = '2s' as $$
declare
    old record;
begin
    for old in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'deliveries_settled'::regclass and c.relname ~ '^deliveries_\d{8}$'
           and to_date(right(c.relname, 8), 'YYYYMMDD') < p_before
    loop
        execute format('drop table public.%I', old.relname);
    end loop;
    return true;
exception when lock_not_available then
    return false;
end $$;

-- Deletes old rows that are in no day's partition: pending ones, and those in the default partition.
create function forget_deliveries(p_before timestamptz) returns void
language sql security definer set search_path = pg_catalog, public as $$
    delete from deliveries_other where created_at < p_before;
    delete from deliveries_pending where created_at < p_before;
$$;

-- Deletes some deliveries of deleted subscriptions and returns how many. A deleted subscription is remembered for a
-- day, as a writer that saw it just before may still have added a delivery.
create function forget_gone_deliveries(p_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    forgotten bigint;
begin
    delete from deliveries d
     using (select id, created_at, status from deliveries
             where webhook_id = any(array(select webhook_id from webhooks_gone)) limit p_most) old
     where (d.id, d.created_at, d.status) = (old.id, old.created_at, old.status);
    get diagnostics forgotten = row_count;
    if forgotten = 0 then
        -- Another run may have these rows in hand: then none is left for this one, and they are still there.
        delete from webhooks_gone g
         where g.gone_at < now() - interval '1 day'
           and not exists (select from deliveries d where d.webhook_id = g.webhook_id);
    end if;
    return forgotten;
end $$;
revoke execute on function open_delivery_days, drop_delivery_days, forget_deliveries, forget_gone_deliveries
    from public;
grant execute on function open_delivery_days, drop_delivery_days, forget_deliveries, forget_gone_deliveries
    to quillpost_worker;

create function note_gone_webhook() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into webhooks_gone (webhook_id) values (old.id);
    return null;
end $$;
create trigger webhooks_gone after delete on webhooks for each row execute function note_gone_webhook();

create function open_lane() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into webhook_lanes (webhook_id) values (new.id);
    return null;
end $$;
create trigger webhooks_added after insert on webhooks for each row execute function open_lane();

-- A tenant has added a delivery, or resumed the subscription: a dispatcher looks at its queue at that time.
create function wake_lane(p_webhook bigint, p_at timestamptz, p_afresh boolean) returns void
language sql security definer set search_path = pg_catalog, public as $$
    update webhook_lanes
       set due_at = least(due_at, p_at), woken = woken + 1,
           resting_until = case when p_afresh then null else resting_until end,
           troubled_since = case when p_afresh then null else troubled_since end,
           failures = case when p_afresh then 0 else failures end
     where webhook_id = p_webhook
       and exists (select from webhooks w
                    where w.id = p_webhook
                      and w.account_id = coalesce(nullif(current_setting('app.account_id', true), '')::bigint,
                                                  w.account_id)
                      and (nullif(current_setting('app.sub_account_id', true), '') is null
                           or w.sub_account_id = nullif(current_setting('app.sub_account_id', true), '')::bigint)
                      and w.mode = coalesce(nullif(current_setting('app.mode', true), ''), w.mode))
$$;

-- Until when a queue sends nothing, because its receiver fails.
create function lane_rest(p_webhook bigint) returns timestamptz
language sql stable security definer set search_path = pg_catalog, public as $$
    select l.resting_until from webhook_lanes l join webhooks w on w.id = l.webhook_id
     where l.webhook_id = p_webhook
       and w.account_id = coalesce(nullif(current_setting('app.account_id', true), '')::bigint, w.account_id)
$$;

call keep_tenants_apart('webhooks');
call keep_tenants_apart('deliveries');
call keep_tenants_apart('webhook_replays');

grant select, insert, update, delete on webhooks, deliveries, webhook_replays to quillpost_app, quillpost_worker;
grant select, insert, update, delete on webhooks_gone, webhook_lanes to quillpost_worker;
