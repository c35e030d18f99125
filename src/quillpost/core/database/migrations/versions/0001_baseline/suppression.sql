-- People who were erased and stay suppressed, without a record of who they are.
create table barred_digests (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,                           -- null: the whole account
    kind text not null check (kind in ('address', 'household', 'email')),
    digest bytea not null,
    at timestamptz not null
);
create unique index barred_digests_once on barred_digests (account_id, kind, digest, coalesce(sub_account_id, 0));

-- Readers who want no more mail, by the code on their item. An unknown code is a row, too, so that the response does
-- not tell which codes exist. A job then puts the item's address on a suppression list.
create table do_not_mail_inbox (
    id bigint generated always as identity primary key,
    code text not null,
    at timestamptz not null
);

-- An entry of a suppression list suppresses its email only where it has no exact address. The key of a street that
-- may be in many places ends with |?.
create function bars_email(address_key text) returns boolean language sql immutable as $$
    select address_key is null or address_key like '%|?'
$$;

-- A family at one address, as one text; null where either is unknown.
create function household_key(p_address_key text, p_surname text) returns text language sql immutable as $$
    select p_address_key || '||' || p_surname
$$;

create function bar_digest(p_account bigint, p_kind text, p_key text) returns bytea language sql stable as $$
    select sha256(convert_to(p_account || ':' || p_kind || ':' || p_key, 'UTF8'))
$$;

-- Every entry of a suppression list, with the one thing that it suppresses: its email where it has no exact address,
-- the whole address where it has no surname. `mode` is set where it holds in one mode only.
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

-- Who is suppressed among the people of a request, of lists, and of items that wait. The three functions differ in
-- their people (someone who has moved is two rows); what suppresses them is written once. They join whole sets, so the
-- plan must know the sizes. The first two run with the owner's rights, for one account: a caller limited to a sub
-- account does not see the account's own suppression lists, and yet those hold. Such a caller, or one limited to a
-- mode, asks for no other. An order without a sub account obeys the lists of all.
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
    -- Digests are computed before the join, and only of kinds that the account has erased somebody by.
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

do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
begin
    alter table barred_digests enable row level security;
    execute format('create policy tenant on barred_digests to quillpost_app using (%s) with check (%s)', rule, rule);
    create policy worker on barred_digests to quillpost_worker using (true) with check (true);
end $$;

grant select, insert, update, delete on barred_digests to quillpost_app, quillpost_worker;
grant select, insert, update, delete on do_not_mail_inbox to quillpost_worker;
grant select on bars to quillpost_worker;
