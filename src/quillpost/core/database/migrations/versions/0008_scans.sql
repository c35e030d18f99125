-- A scan before it is counted: an append, committed before the scan is answered, that nothing waits for.
create table visit_inbox (
    id bigint generated always as identity primary key,
    item_id bigint not null,
    at timestamptz not null,
    kind text not null check (kind in ('person', 'bot', 'preview')),
    agent text not null                              -- the start of what it called itself
);

-- Counted scans, and the visits of machines, which count for nothing.
create table visits (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    order_id bigint not null references orders on delete cascade,
    item_id bigint not null references items on delete cascade,
    mailing_list_id bigint,                          -- the list that the piece came from
    at timestamptz not null,
    kind text not null check (kind in ('person', 'bot', 'preview')),
    agent text not null
);
create index visits_item on visits (item_id, id);
create index visits_order on visits (order_id, id);
create index visits_person on visits (account_id, mode, id) where kind = 'person';

-- The list of everyone whose piece was scanned is kept by the service: one for each home, which is the account or
-- a sub account, and for each mode, so that nobody who is only tried out comes upon a list that is mailed to.
alter table mailing_lists add column kept_for text check (kept_for in ('test', 'live'));
create unique index mailing_lists_kept on mailing_lists (account_id, coalesce(sub_account_id, 0), kept_for)
    where kept_for is not null;

-- Lists that were merged into others. A piece knows the list that it came from, and counts for what that became.
create table merged_lists (
    from_id bigint primary key,
    into_id bigint not null references mailing_lists on delete cascade
);
create index merged_lists_into on merged_lists (into_id);
create function list_now(p_list bigint) returns bigint
language sql stable security definer set search_path = pg_catalog, public as $$
    select coalesce((select into_id from merged_lists where from_id = p_list), p_list)
$$;
create function note_merged_list(p_from bigint, p_into bigint) returns void
language sql security definer set search_path = pg_catalog, public as $$
    update merged_lists set into_id = p_into
     where into_id = p_from and (select count(*) from mailing_lists
                                  where id in (p_from, p_into)
                                    and account_id = current_setting('app.account_id')::bigint) = 2;
    insert into merged_lists (from_id, into_id)
    select p_from, p_into from mailing_lists f join mailing_lists i on i.account_id = f.account_id
     where f.id = p_from and i.id = p_into and f.account_id = current_setting('app.account_id')::bigint;
$$;

call keep_tenants_apart('visits');
grant select on visits to quillpost_app;
grant select, insert, update, delete on visits, visit_inbox, merged_lists to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_worker;
