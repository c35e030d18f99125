create table files (
    id uuid primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    purpose text not null,
    key text not null unique,
    content_type text not null,
    size bigint not null,
    sha256 bytea not null,
    created_at timestamptz not null,
    expires_at timestamptz
);
create index files_account on files (account_id, created_at desc);
create index files_content on files (account_id, sha256);
create index files_expiry on files (expires_at) where expires_at is not null;

-- The responses of calls that came with an idempotency key. While a call runs, a session lock holds its key, so every
-- row has a response.
create table idempotency_keys (
    account_id bigint not null references accounts on delete cascade,
    mode text not null,
    path text not null,
    key text not null,
    request_digest bytea not null,
    answer_status integer not null,
    answer_type text,
    answer_headers jsonb not null,
    answer_body bytea not null,
    sealed boolean not null default false,           -- the body is encrypted
    expires_at timestamptz not null,
    primary key (account_id, mode, path, key)
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);

create unlogged table rate_windows (
    key text primary key,
    started_at timestamptz not null,
    used integer not null
);

-- What the demo receiver of a first run has been sent.
create table received_events (
    id bigint generated always as identity primary key,
    event_id text not null,
    event_type text not null,
    verified boolean not null,
    body text not null,
    received_at timestamptz not null
);

-- Counts one call in the key's current window and returns how many there are.
create function count_call(p_key text, p_seconds integer, out used integer, out resets_in integer)
language sql security definer set search_path = pg_catalog, public as $$
    insert into rate_windows as w (key, started_at, used) values (p_key, clock_timestamp(), 1)
    on conflict (key) do update set
        used = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                    then 1 else w.used + 1 end,
        started_at = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                          then clock_timestamp() else w.started_at end
    returning w.used,
        greatest(1, ceil(extract(epoch from
            w.started_at + make_interval(secs => p_seconds) - clock_timestamp()))::integer)
$$;

do $$
declare
    account constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)';
    sub_account constant text :=
        '((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    tenant record;
begin
    for tenant in
        select * from (values
            ('files', account || ' and ' || sub_account),
            ('idempotency_keys', account)            -- mode is part of the key
        ) as t (name, rule)
    loop
        execute format('alter table %I enable row level security', tenant.name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)',
                       tenant.name, tenant.rule, tenant.rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', tenant.name);
    end loop;
end $$;

grant select, insert, update, delete on files, idempotency_keys to quillpost_app, quillpost_worker;
grant select, insert, update, delete on rate_windows, received_events to quillpost_worker;
