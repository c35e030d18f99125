create table mailing_lists (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    type text not null default 'manual',
    description text not null,
    qrcode_url text,
    kept_for text check (kept_for in ('test', 'live')),  -- the mode for which the service itself fills the list
    is_suppression_list boolean not null default false,
    -- Whom an entry of a suppression list suppresses: everyone at the address, one family there, or an email.
    suppress_by text not null default 'address'
        check (suppress_by in ('address', 'household', 'email') and (is_suppression_list or suppress_by = 'address')),
    processed boolean not null default true,
    total_recipients integer not null default 0,
    total_sends integer not null default 0,
    total_scans integer not null default 0,
    unique_scans integer not null default 0,
    key_digest bytea unique,                         -- the inbound hook's key, to find the list by
    key_sealed bytea,                                -- and encrypted, to show it again
    last_send timestamptz,
    last_scan timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index mailing_lists_account on mailing_lists (account_id, id desc);
create index mailing_lists_sub_account on mailing_lists (account_id, sub_account_id, id desc);
create index mailing_lists_suppression on mailing_lists (account_id) where is_suppression_list;
-- The service fills two lists: who scanned a code, and who wants no more mail. There is one of each for an account or
-- sub account and for a mode: nobody from a test comes upon a list that is mailed to.
create unique index mailing_lists_kept
    on mailing_lists (account_id, coalesce(sub_account_id, 0), kept_for, is_suppression_list)
    where kept_for is not null;

-- Lists that were merged into others: an item that came from one counts for the list it became.
create table merged_lists (
    from_id bigint primary key,
    into_id bigint not null references mailing_lists on delete cascade
);
create index merged_lists_into on merged_lists (into_id);

-- No foreign keys to the account and the sub account: they are those of the list, whose own keys vouch for them.
-- Checking them again for a million rows takes a fifth of the time of an import.
create table recipients (
    id bigint generated always as identity primary key,
    account_id bigint not null,
    sub_account_id bigint,
    mailing_list_id bigint not null references mailing_lists on delete cascade,
    name text, company text,
    surname text,                                    -- tells households at one address apart
    address text, address2 text, city text, province text, postal_code text, country text,
    absentee_address text,                           -- the house it is about, where its owner lives elsewhere
    email text, phone text, dob date, anniversary date,
    -- Under row-level security a tenant can use an index only over a plain column: lower() is not leakproof.
    email_key text generated always as (lower(email)) stored,
    custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
    custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
    standard text[],                                 -- address, address2, city, province, postal_code as printed
    deliverability text,
    reasons text[],                                  -- why it may not be deliverable
    address_key text,
    told_apart text not null default '',             -- what else identifies an entry: see told_apart()
    moved_key text,                                  -- the key of the new address of someone who has moved
    is_sample boolean not null default false,        -- a sample lead: mailed in test mode only
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index recipients_list on recipients (mailing_list_id, id);
-- Ascending, though the newest are read first: an index that grows at its end has fuller pages.
create index recipients_account on recipients (account_id, id);
create index recipients_updated on recipients (mailing_list_id, updated_at, id);
-- An address is on a list once; it is also found by its beginning, whatever the collation.
create unique index recipients_address on recipients (mailing_list_id, address_key text_pattern_ops, told_apart)
    where address_key is not null;
create index recipients_name on recipients (mailing_list_id, lower(name) text_pattern_ops) where name is not null;
create index recipients_key on recipients (account_id, address_key) where address_key is not null;
create index recipients_email on recipients (account_id, email_key) where email_key is not null;
create index recipients_moved on recipients (account_id, moved_key) where moved_key is not null;
-- Birthdays are found by their day in any year: 229 is February 29.
create index recipients_dob on recipients
    (mailing_list_id, ((extract(month from dob) * 100 + extract(day from dob))::integer)) where dob is not null;
create index recipients_anniversary on recipients
    (mailing_list_id, ((extract(month from anniversary) * 100 + extract(day from anniversary))::integer))
    where anniversary is not null;

-- A file of recipients on its way into a list. After a crash the import goes on after `rows_read`.
create table imports (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts,
    sub_account_id bigint references sub_accounts,
    mailing_list_id bigint not null references mailing_lists on delete cascade,
    status text not null check (status in ('waiting', 'running', 'done', 'failed', 'cancelled')),
    file_name text not null,
    file_key text,                                   -- in the file storage; null once the file is deleted
    file_bytes bigint not null,
    layout jsonb not null,                           -- how the file is read
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
create index imports_ended on imports (account_id, finished_at) where finished_at is not null;

-- The rows of a file that were rejected, and why. Their content is read from the file again.
create table import_rejects (
    import_id bigint not null references imports on delete cascade,
    place bigint not null,                           -- the row's number in the file
    line bigint not null,                            -- the line where it begins
    reason text not null,
    primary key (import_id, place)
);

-- How far the pass over all recipients has come that verifies their addresses.
create table address_passes (
    name text primary key check (name = 'verify'),
    last_id bigint not null,
    begun_at timestamptz,
    done_at timestamptz,
    leased_until timestamptz,                        -- only one worker at a time calls the verifier
    trouble text,
    trouble_at timestamptz
);

-- The verifier's responses. They are the operator's, no tenant's: an address is checked once, however many lists
-- have it. A key that begins with @ is an email, and stands for the address that was found for it.
create table address_verdicts (
    address_key text not null,
    mover bytea not null,                            -- see mover_of()
    dpv text check (dpv in ('Y', 'D', 'S', 'N')),
    deliverability text check (deliverability in ('deliverable', 'doubtful', 'undeliverable')),  -- null: no response
    standard text[],                                 -- where mail goes; null: as we had it
    reasons text[] not null,
    moved_key text,
    answered_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (address_key, mover)
);
create index address_verdicts_expiry on address_verdicts (expires_at);

-- Recipients whose address changed after the verifier's pass.
create table recipients_to_verify (
    recipient_id bigint primary key references recipients on delete cascade
);

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

-- Every write of recipients updates the list's total.
create function count_recipients() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        update mailing_lists l set total_recipients = l.total_recipients + c.n
          from (select mailing_list_id, count(*) as n from after group by 1) c where l.id = c.mailing_list_id;
    elsif tg_op = 'DELETE' then
        update mailing_lists l set total_recipients = l.total_recipients - c.n
          from (select mailing_list_id, count(*) as n from before group by 1) c where l.id = c.mailing_list_id;
    else
        update mailing_lists l set total_recipients = l.total_recipients + c.n
          from (select mailing_list_id, sum(one) as n
                  from (select mailing_list_id, 1 as one from after
                        union all select mailing_list_id, -1 from before) moved
                 group by 1 having sum(one) <> 0) c
         where l.id = c.mailing_list_id;
    end if;
    return null;
end $$;
create trigger recipients_added after insert on recipients
    referencing new table as after for each statement execute function count_recipients();
create trigger recipients_removed after delete on recipients
    referencing old table as before for each statement execute function count_recipients();
create trigger recipients_moved after update on recipients
    referencing old table as before new table as after for each statement execute function count_recipients();

-- Two families at one address, or two emails, are two entries of a list that suppresses by them.
create function told_apart(p_suppress_by text, p_surname text, p_email text) returns text
language sql immutable as $$
    select case p_suppress_by when 'household' then coalesce(p_surname, '')
                              when 'email' then coalesce(lower(p_email), '')
                              else '' end
$$;

-- Any writer but the verifier that changes the printed address knows of no move.
create function forget_move() returns trigger language plpgsql as $$
begin
    new.moved_key := null;
    return new;
end $$;
create trigger recipients_unmoved before update of standard, address_key on recipients
    for each row when (old.moved_key is not null and current_setting('app.verifying', true) is distinct from 'yes'
                       and (old.standard, old.address_key) is distinct from (new.standard, new.address_key))
    execute function forget_move();

-- A response may depend on the person, as a move does. Only a digest of the name is stored.
create function mover_of(p_name text, p_company text) returns bytea language sql immutable as $$
    select sha256(convert_to(lower(regexp_replace(coalesce(p_name, '') || '|' || coalesce(p_company, ''),
                                                  '[[:space:]]+', ' ', 'g')), 'UTF8'))
$$;

create function note_readdressed() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into recipients_to_verify (recipient_id)
    select new.id from address_passes where name = 'verify' and last_id >= new.id
    on conflict do nothing;
    return null;
end $$;
create trigger recipients_readdressed after update of address_key on recipients
    for each row when (old.address_key is distinct from new.address_key)
    execute function note_readdressed();

-- Each import has its own staging table until all its rows go onto the list at once. It is unlogged: after a crash of
-- the server it is empty, and the file is read again. Workers own no table, so these functions create and drop it.
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

-- Lists are shared by both modes, and so are recipients and imports.
do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    name text;
begin
    foreach name in array array['mailing_lists', 'recipients', 'imports'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)', name, rule, rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', name);
    end loop;
end $$;

grant select, insert, update, delete on mailing_lists, recipients, imports to quillpost_app, quillpost_worker;
grant select, insert, update, delete on merged_lists, import_rejects, address_passes, address_verdicts,
    recipients_to_verify to quillpost_worker;
