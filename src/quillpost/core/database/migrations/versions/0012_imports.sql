-- A file of people on its way into a list. `file_key` is where it lies in the file store, null once it is
-- forgotten; `layout` is how it is read; `rows_read` how many of its rows are staged, so that whoever goes on
-- after a crash knows where.
create table imports (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts,
    sub_account_id bigint references sub_accounts,
    mailing_list_id bigint not null references mailing_lists on delete cascade,
    status text not null check (status in ('waiting', 'running', 'done', 'failed', 'cancelled')),
    file_name text not null,
    file_key text,
    file_bytes bigint not null,
    layout jsonb not null,
    columns jsonb not null,
    rows_total bigint,
    rows_read bigint not null default 0,
    bytes_read bigint not null default 0,
    rows_imported bigint not null default 0,
    rows_rejected bigint not null default 0,
    duplicates bigint not null default 0,
    error text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz
);
create index imports_list on imports (mailing_list_id, id desc);
create index imports_unfinished on imports (id) where status in ('waiting', 'running');
create index imports_kept on imports (created_at) where file_key is not null;

-- Which rows of a file were not taken, and why. What was in them is read from the file again.
create table import_rejects (
    import_id bigint not null references imports on delete cascade,
    place bigint not null,                           -- the row's number among those of the file
    line bigint not null,                            -- where in the file it begins
    reason text not null,
    primary key (import_id, place)
);

-- A recipient's account and sub account are those of its list, which the list's own keys vouch for. Asking for
-- them again for each of a million rows takes a fifth of the time in which they are put on the list.
alter table recipients
    drop constraint recipients_account_id_fkey,
    drop constraint recipients_sub_account_id_fkey;

-- The newest first are read from the end just as well; an index that grows at its end has fuller pages.
drop index recipients_account;
create index recipients_account on recipients (account_id, id);

-- Lists are shared by both modes, and so are imports into them.
do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
begin
    alter table imports enable row level security;
    execute format('create policy tenant on imports to quillpost_app using (%s) with check (%s)', rule, rule);
    create policy worker on imports to quillpost_worker using (true) with check (true);
end $$;
grant select, insert, update, delete on imports to quillpost_app, quillpost_worker;
grant select, insert, update, delete on import_rejects to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;

-- People wait in a table of their own for each import until all of them are put on the list at once. It is not
-- logged: after a crash of the server it is empty, and the file is read anew. Workers own no table, so these
-- functions make and drop it for them.
create function make_import_staging(p_import bigint) returns void
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    execute format('create unlogged table if not exists public.%I (
        place bigint not null, line bigint not null,
        name text, company text, address text, address2 text, city text, province text, postal_code text,
        country text, email text, phone text, dob date, anniversary date,
        custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
        custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
        surname text, address_key text, standard text[], deliverability text, reasons text[], told_apart text
        ) with (autovacuum_enabled = false)', 'import_staging_' || p_import);
    execute format('grant select, insert, delete, truncate on public.%I to quillpost_worker',
                   'import_staging_' || p_import);
end $$;
create function drop_import_staging(p_import bigint) returns void
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    execute format('drop table if exists public.%I', 'import_staging_' || p_import);
end $$;
revoke execute on function make_import_staging, drop_import_staging from public;
grant execute on function make_import_staging, drop_import_staging to quillpost_worker;
