-- Whom a list keeps from being mailed to: everyone at an address, one family there, or whoever has an e-mail. A
-- list that is no suppression list has the first, which says nothing of it.
alter table mailing_lists add column suppress_by text not null default 'address'
    check (suppress_by in ('address', 'household', 'email') and (is_suppression_list or suppress_by = 'address'));

-- The service keeps two kinds of lists: whoever scanned a code, and whoever wants no more mail.
drop index mailing_lists_kept;
create unique index mailing_lists_kept
    on mailing_lists (account_id, coalesce(sub_account_id, 0), kept_for, is_suppression_list)
    where kept_for is not null;

-- An address is on a list once; but two families of one address, or two e-mails, are two entries of a list that
-- bars by them.
alter table recipients add column told_apart text not null default '';
create function told_apart(p_suppress_by text, p_surname text, p_email text) returns text
language sql immutable as $$
    select case p_suppress_by when 'household' then coalesce(p_surname, '')
                              when 'email' then coalesce(lower(p_email), '')
                              else '' end
$$;
drop index recipients_address;
create unique index recipients_address on recipients (mailing_list_id, address_key, told_apart)
    where address_key is not null;

-- Where somebody has moved, mail goes to another address than the one that was given: `moved_key` is that one's key.
-- What bars it bars them, too. Whoever writes another printed address beside the verifier knows of no move.
alter table recipients add column moved_key text;
alter table items add column moved_key text;
create index recipients_moved on recipients (account_id, moved_key) where moved_key is not null;
create index items_moved on items (account_id, moved_key) where moved_key is not null;
create function forget_move() returns trigger language plpgsql as $$
begin
    new.moved_key := null;
    return new;
end $$;
create trigger recipients_unmoved before update of standard, address_key on recipients
    for each row when (old.moved_key is not null and current_setting('app.verifying', true) is distinct from 'yes'
                       and (old.standard, old.address_key) is distinct from (new.standard, new.address_key))
    execute function forget_move();

-- A family at one address, as one text. Nobody where one of both is not known.
create function household_key(p_address_key text, p_surname text) returns text language sql immutable as $$
    select p_address_key || '||' || p_surname
$$;

-- Every entry of a suppression list, with the one thing that it bars. Without a door that is its e-mail; and
-- where it names nobody, its whole address. `mode` is set where it holds in one mode alone.
create view bars as
select entry.*, case entry.kind when 'email' then entry.email_key
                                when 'household' then household_key(entry.address_key, entry.surname)
                                else entry.address_key end as key
  from (select r.account_id, l.sub_account_id, l.kept_for as mode, l.id as mailing_list_id, r.id as recipient_id,
               r.address_key, r.surname, r.email_key,
               case when l.suppress_by = 'email' or bars_email(r.address_key) then 'email'
                    when l.suppress_by = 'household' and r.surname is not null then 'household'
                    else 'address' end as kind
          from mailing_lists l join recipients r on r.mailing_list_id = l.id
         where l.is_suppression_list) entry;
grant select on bars to quillpost_worker;

-- People who were forgotten and stay barred, though nobody knows any more who they are.
create table barred_digests (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,                           -- null: all of the account
    kind text not null check (kind in ('address', 'household', 'email')),
    digest bytea not null,
    at timestamptz not null
);
create unique index barred_digests_once on barred_digests (account_id, kind, digest, coalesce(sub_account_id, 0));
create function bar_digest(p_account bigint, p_kind text, p_key text) returns bytea language sql stable as $$
    select sha256(convert_to(p_account || ':' || p_kind || ':' || p_key, 'UTF8'))
$$;

do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
begin
    execute 'alter table barred_digests enable row level security';
    execute format('create policy tenant on barred_digests to quillpost_app using (%s) with check (%s)', rule, rule);
    execute 'create policy worker on barred_digests to quillpost_worker using (true) with check (true)';
end $$;
grant select, insert, update, delete on barred_digests to quillpost_app, quillpost_worker;

-- Whom this account must not mail to. A caller who is limited to a sub account does not see the account's own
-- suppression lists, and yet they hold: so these look with the owner's eyes, at this account alone. An order of
-- no sub account heeds the lists of all.
drop function suppressions(bigint);
drop function suppressed_places(bigint, text[], text[]);

-- Three ask who is barred: of people whom a call names, of lists, and of pieces that wait. Each says who its
-- people are, those who have moved twice; what bars them is written once, here. Whole sets are joined, so the plan
-- must see their sizes. A caller who is limited to a sub account, or to a mode, asks for no other.
do $make$
declare
    barred constant text := $sql$
        select p.id from people p join bars b on b.account_id = p.account_id and b.address_key = p.address_key
         where (b.kind = 'address' or b.kind = 'household' and b.surname = p.surname)
           and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from people p join bars b on b.account_id = p.account_id and b.email_key = p.email
         where b.kind = 'email' and (b.mode is null or b.mode = p.mode)
           and (p.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = p.sub_account_id)
        union
        select p.id from digested p join barred_digests d
            on d.account_id = p.account_id and d.kind = p.kind and d.digest = p.digest
         where p.sub_account_id is null or d.sub_account_id is null or d.sub_account_id = p.sub_account_id
    $sql$;
    -- Made before they are compared, and only of kinds that somebody was forgotten by.
    digested constant text := $sql$
        select p.id, p.account_id, p.sub_account_id, own.kind, bar_digest(p.account_id, own.kind, own.key) as digest
          from people p
         cross join lateral (values ('address', p.address_key), ('email', p.email),
                                    ('household', household_key(p.address_key, p.surname))) as own (kind, key)
         where own.key is not null
           and own.kind = any(array(
               select kind from (values ('address'), ('household'), ('email')) as known (kind)
                where exists (select from barred_digests d
                               where d.account_id = any(accounts) and d.kind = known.kind)))
    $sql$;
    shape constant text := $sql$
        create function %s returns setof bigint
        language plpgsql stable security %s
        set search_path = pg_catalog, public set plan_cache_mode = force_custom_plan as $body$
        declare
            accounts constant bigint[] := %s;
            own_mode constant text := nullif(current_setting('app.mode', true), '');
            own_sub_account constant bigint := nullif(current_setting('app.sub_account_id', true), '')::bigint;
        begin
            if exists (select from mailing_lists where account_id = any(accounts) and is_suppression_list)
               or exists (select from barred_digests where account_id = any(accounts)) then
                return query with people as (%s), digested as materialized (%s) %s;
            end if;
        end $body$
    $sql$;
    own_account constant text := $sql$array[nullif(current_setting('app.account_id', true), '')::bigint]$sql$;
begin
    execute format(shape,
        'suppressed_places(p_sub_account bigint, p_mode text, p_keys text[], p_surnames text[], p_emails text[])',
        'definer', own_account,
        $sql$select place as id, accounts[1] as account_id,
                    coalesce(own_sub_account, p_sub_account) as sub_account_id, coalesce(own_mode, p_mode) as mode,
                    address_key, surname, lower(email) as email
               from unnest(p_keys, p_surnames, p_emails) with ordinality
                    as asked (address_key, surname, email, place)$sql$,
        digested, barred);
    execute format(shape,
        'suppressed_recipients(p_sub_account bigint, p_mode text, p_lists bigint[])',
        'definer', own_account,
        $sql$select r.id, r.account_id,
                    coalesce(own_sub_account, p_sub_account) as sub_account_id, coalesce(own_mode, p_mode) as mode,
                    r.address_key, r.surname, r.email_key as email
               from recipients r where r.mailing_list_id = any(p_lists) and r.account_id = accounts[1]
                and (own_sub_account is null or r.sub_account_id = own_sub_account)
              union all
             select r.id, r.account_id,
                    coalesce(own_sub_account, p_sub_account), coalesce(own_mode, p_mode),
                    r.moved_key, r.surname, null
               from recipients r where r.mailing_list_id = any(p_lists) and r.account_id = accounts[1]
                and (own_sub_account is null or r.sub_account_id = own_sub_account)
                and r.moved_key is not null$sql$,
        digested, barred);
    execute format(shape,
        'suppressed_items(p_orders bigint[])',
        'invoker', 'array(select distinct account_id from orders where id = any(p_orders))',
        $sql$select i.id, i.account_id, i.sub_account_id, i.mode, i.address_key, i.surname, lower(i.email) as email
               from items i where i.order_id = any(p_orders) and i.status = 'Processing'
              union all
             select i.id, i.account_id, i.sub_account_id, i.mode, i.moved_key, i.surname, null
               from items i where i.order_id = any(p_orders) and i.status = 'Processing' and i.moved_key is not null
                and i.account_id = any(accounts)$sql$,
        digested, barred);
end $make$;
revoke execute on function suppressed_items from public;
grant execute on function suppressed_items to quillpost_worker;

-- What is put before a piece's code on the line that says how to get no more mail. Null: the batch was composed
-- without such a line, and has none when it is made again.
alter table batches add column opt_out text;

-- Readers who ask for no more mail, by the code on their piece, known to us or not: a row, whichever it is, so that
-- the answer does not tell. Soon after, the address of the piece is on a suppression list.
create table do_not_mail_inbox (
    id bigint generated always as identity primary key,
    code text not null,
    at timestamptz not null
);
grant select, insert, update, delete on do_not_mail_inbox to quillpost_worker;

-- A code as people copy it from paper, who mind neither capitals nor whether a stroke is an i, an l or a 1.
create function code_as_read(p_code text) returns text language sql immutable parallel safe as $$
    select translate(lower(p_code), '01l', 'oii')
$$;
create index items_code_as_read on items (code_as_read(code)) where code is not null;

-- Every piece has a code now, and a loop over letters cost as much as the row itself. Of 64 letters that are each as
-- likely as any other, those that nobody could copy from paper are left out.
create or replace function new_short_code() returns text language plpgsql volatile as $$
declare
    code text := '';
    random bytea;
begin
    while length(code) < 8 loop
        random := uuid_send(gen_random_uuid());      -- the bytes between these say that it is a UUID
        code := code || translate(encode(substring(random, 1, 6) || substring(random, 11), 'base64'), '+/01OIl', '');
    end loop;
    return left(code, 8);
end $$;
