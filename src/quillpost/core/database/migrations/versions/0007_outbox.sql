-- A table whose rows have an account, perhaps a sub account, and a mode: a tenant sees and writes their own, and
-- the service all of them.
create procedure keep_tenants_apart(p_table regclass)
language plpgsql as $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))'
        ' and ((select nullif(current_setting(''app.mode'', true), '''')) is null or mode = '
        '(select current_setting(''app.mode'', true)))';
begin
    execute format('alter table %s enable row level security', p_table);
    execute format('create policy tenant on %s to quillpost_app using (%s) with check (%s)', p_table, rule, rule);
    execute format('create policy worker on %s to quillpost_worker using (true) with check (true)', p_table);
end $$;
revoke execute on procedure keep_tenants_apart from public;

-- How often the piece had been scanned once this had happened: an event says what was so at its time.
alter table facts add column scans integer not null default 0;
create index facts_at on facts (account_id, at, id);

-- A subscription that changes its secret signs with both for a while. Why it fails, and since when.
alter table webhooks
    add column previous_secret_sealed bytea,
    add column previous_until timestamptz,
    add column failing_since timestamptz,
    add column last_error text;

-- Deliveries in two places: those that wait lie together, few and busy; those that are settled lie by the day
-- of their making, as many as there ever were, and what is too old goes with its day's table, not row by row.
-- No foreign key ties them to their webhook: whoever writes one would wait for whoever deletes a webhook, and
-- that one for a million of its deliveries to go.
alter table deliveries rename to deliveries_before;
alter table deliveries_before rename constraint deliveries_pkey to deliveries_before_pkey;
drop index deliveries_due, deliveries_stream, deliveries_webhook;
create sequence delivery_ids as bigint;
select setval('delivery_ids', coalesce(max(id), 0) + 1, false) from deliveries_before;
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
    status text not null check (status in ('pending', 'delivered', 'failed')),
    attempts integer not null default 0,
    extra_tries integer not null default 0,          -- of them, those beside the schedule: it does not move on
    next_at timestamptz,
    response_status integer,
    response_body text,
    error text,
    created_at timestamptz not null,
    delivered_at timestamptz,
    primary key (id, created_at, status)
) partition by list (status);
create index deliveries_webhook on deliveries (webhook_id, id desc);
create table deliveries_pending partition of deliveries for values in ('pending');
create index deliveries_waiting on deliveries_pending (webhook_id, next_at, id);
create index deliveries_stream on deliveries_pending (webhook_id, stream, id);
create table deliveries_settled partition of deliveries for values in ('delivered', 'failed')
    partition by range (created_at);
create index deliveries_failed on deliveries_settled (webhook_id, id) where status = 'failed';
create table deliveries_other partition of deliveries_settled default;

-- Opens the days from the first to the last, as far as they are not; whether all are as they should be. A day
-- whose rows lie in the default partition, because nobody opened it in time, stays there. Whoever reads the
-- default partition for long, such as a backup, is not waited for: they are opened the next time.
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

-- Drops the days before that one; whether all are gone. Whoever reads one of them for long is not waited for
-- either, as all others who settle deliveries wait behind the one who drops.
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

-- Deletes what lies in no day's table: what still waits, and settled ones whose day nobody opened.
create function forget_deliveries(p_before timestamptz) returns void
language sql security definer set search_path = pg_catalog, public as $$
    delete from deliveries_other where created_at < p_before;
    delete from deliveries_pending where created_at < p_before;
$$;

-- Subscriptions that are no more, until their deliveries are not either.
create table webhooks_gone (
    webhook_id bigint primary key,
    gone_at timestamptz not null default now()
);
create function note_gone_webhook() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into webhooks_gone (webhook_id) values (old.id);
    return null;
end $$;
create trigger webhooks_gone after delete on webhooks for each row execute function note_gone_webhook();

-- Deletes some of what subscriptions that are no more were told, or were to be told; how many that were. One
-- of them is remembered for a day, as whoever saw it just before it went may still have written a delivery.
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

-- What was settled before comes into its day, and is not copied where its day would be dropped at once: each
-- day that is opened later reads the default partition through, which therefore stays as good as empty.
select open_delivery_days(least(min((created_at at time zone 'UTC')::date), (now() at time zone 'UTC')::date),
                          (now() at time zone 'UTC')::date + 7)
  from deliveries_before
 where status <> 'pending' and created_at >= ((now() at time zone 'UTC')::date - 30)::timestamp at time zone 'UTC';
insert into deliveries (id, account_id, sub_account_id, mode, webhook_id, fact_id, event_id, event_type, stream,
                        body, status, attempts, next_at, response_status, response_body, error, created_at,
                        delivered_at)
select id, account_id, sub_account_id, mode, webhook_id, fact_id, event_id, event_type, stream,
       body, status, attempts, next_at, response_status, response_body, error, created_at, delivered_at
  from deliveries_before
 where status = 'pending' or created_at >= ((now() at time zone 'UTC')::date - 30)::timestamp at time zone 'UTC';
drop table deliveries_before;

-- One lane a subscription. Whoever holds a lane sends what waits in it, alone, so no row is claimed by itself.
-- `woken` counts what was put in: whoever leaves an empty lane sees whether more came meanwhile.
create table webhook_lanes (
    webhook_id bigint primary key references webhooks on delete cascade,
    due_at timestamptz,                              -- the next time there is something to do; null: nothing
    woken bigint not null default 0,
    leased_by uuid,
    leased_until timestamptz,
    failures integer not null default 0,             -- one after the other, without a success between
    troubled_since timestamptz,                      -- the first of them
    resting_until timestamptz
) with (fillfactor = 50);
create index webhook_lanes_due on webhook_lanes (due_at) where due_at is not null;

create function open_lane() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into webhook_lanes (webhook_id) values (new.id);
    return null;
end $$;
create trigger webhooks_added after insert on webhooks for each row execute function open_lane();
-- What a paused subscription is to be told lies in its lane, due at once when it is resumed.
update deliveries set next_at = created_at where status = 'pending' and next_at is null;
insert into webhook_lanes (webhook_id, due_at)
select w.id, min(d.next_at) from webhooks w left join deliveries d on d.webhook_id = w.id and d.status = 'pending'
 group by w.id;

-- A tenant has put something in a lane, or let it go on: whoever delivers looks at it at that time.
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

-- Until when nothing goes out in a lane, because its receiver fails.
create function lane_rest(p_webhook bigint) returns timestamptz
language sql stable security definer set search_path = pg_catalog, public as $$
    select l.resting_until from webhook_lanes l join webhooks w on w.id = l.webhook_id
     where l.webhook_id = p_webhook
       and w.account_id = coalesce(nullif(current_setting('app.account_id', true), '')::bigint, w.account_id)
$$;

-- A time range that is told once more, and how far that has come: all up to this fact is in the outbox.
create table webhook_replays (
    id bigint generated always as identity primary key,
    webhook_id bigint not null references webhooks on delete cascade,
    account_id bigint not null,
    sub_account_id bigint,
    mode text not null,
    since timestamptz not null,
    until timestamptz not null,
    reached_at timestamptz not null,
    reached_id bigint not null,
    told bigint not null
);
create index webhook_replays_webhook on webhook_replays (webhook_id);

call keep_tenants_apart('deliveries');
call keep_tenants_apart('webhook_replays');
grant select, insert, update, delete on deliveries to quillpost_app, quillpost_worker;
grant select, insert, update, delete on webhook_replays to quillpost_app, quillpost_worker;
grant select, insert, update, delete on webhook_lanes, webhooks_gone to quillpost_worker;
grant usage, select on sequence delivery_ids to quillpost_app, quillpost_worker;
