-- Lists. An address is on a list once; whoever asks what changed since then pages by time.
create unique index recipients_address on recipients (mailing_list_id, address_key)
    where address_key is not null;
create index recipients_updated on recipients (mailing_list_id, updated_at, id);
create index recipients_key on recipients (account_id, address_key) where address_key is not null;
-- Under row-level security only an index over a plain column is open to a tenant: lower() might tell.
alter table recipients add column email_key text generated always as (lower(email)) stored;
create index recipients_email on recipients (account_id, email_key) where email_key is not null;
create index mailing_lists_suppression on mailing_lists (account_id) where is_suppression_list;

-- Whoever writes recipients need not think of their list's total.
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

-- Orders. What a letter carries besides its cover, the sub account's branding as it was, and which creative
-- it is, by its content: the same creative reaches an address once in 36 hours.
alter table orders
    add column pages_url text,
    add column pages_file_id uuid references files,
    add column pdf_only boolean not null default false,
    add column branding jsonb,
    add column logo_file_id uuid references files,
    add column creative_key uuid,
    add column audience_pending boolean not null default false;  -- its lists are yet to become items
alter table items
    add column creative_key uuid,
    add column mailing_list_id bigint;               -- the list it came from; the list may be gone

drop index orders_account;
create index orders_account on orders (account_id, mode, id desc) include (sub_account_id);
create index orders_type on orders (account_id, mode, type, id desc) include (sub_account_id);
create index orders_status on orders (account_id, mode, status, id desc) include (sub_account_id);
create index orders_created on orders (account_id, mode, created_at desc, id desc) include (sub_account_id);
create index orders_metadata on orders using gin (metadata_index jsonb_path_ops)
    where metadata_index is not null;
drop index items_order;
create index items_order on items (order_id, id) include (account_id, mode, sub_account_id, status);
drop index items_account;
create index items_account on items (account_id, mode, id desc) include (sub_account_id);
create index items_address on items (account_id, mode, address_key text_pattern_ops, creative_key)
    where address_key is not null;
create index items_name on items (account_id, mode, lower(name) text_pattern_ops) where name is not null;
create index items_email on items (account_id, mode, lower(email)) where email is not null;
-- Whoever removes a file asks whether anything still needs it.
create index orders_front_file on orders (front_file_id) where front_file_id is not null;
create index orders_background_file on orders (background_file_id) where background_file_id is not null;
create index orders_pages_file on orders (pages_file_id) where pages_file_id is not null;
create index orders_logo_file on orders (logo_file_id) where logo_file_id is not null;
create index image_templates_file on image_templates (image_file_id) where image_file_id is not null;
create index orders_pending on orders (id) where audience_pending;

-- Most orders have no metadata: none of them needs to be tried.
alter function jsonb_or_null(text) strict;

-- How many orders there are, kept in as many rows as senders rarely meet in: none waits for another's commit.
create table order_counts (
    account_id bigint not null references accounts on delete cascade,
    mode text not null,
    sub_account_id bigint not null,                  -- 0: of none
    type text not null,
    shard integer not null,
    n bigint not null,
    primary key (account_id, mode, sub_account_id, type, shard)
);
create function count_orders() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into order_counts as c (account_id, mode, sub_account_id, type, shard, n)
        select account_id, mode, coalesce(sub_account_id, 0), type, pg_backend_pid() % 32, count(*)
          from after group by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, type, shard) do update set n = c.n + excluded.n;
    else
        -- Of whole accounts that go, the counts have gone before.
        insert into order_counts as c (account_id, mode, sub_account_id, type, shard, n)
        select account_id, mode, coalesce(sub_account_id, 0), type, pg_backend_pid() % 32, -count(*)
          from before where exists (select 1 from accounts a where a.id = before.account_id)
         group by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, type, shard) do update set n = c.n + excluded.n;
    end if;
    return null;
end $$;
create trigger orders_added after insert on orders
    referencing new table as after for each statement execute function count_orders();
create trigger orders_removed after delete on orders
    referencing old table as before for each statement execute function count_orders();
insert into order_counts (account_id, mode, sub_account_id, type, shard, n)
select account_id, mode, coalesce(sub_account_id, 0), type, 0, count(*) from orders group by 1, 2, 3, 4;

-- A send that waits for whoever opens its address; the answer is kept with the order, in one transaction.
create table stored_sends (
    id uuid primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    piece text not null,
    body text not null,                              -- empty once it is sent: it holds recipients
    answer_headers jsonb,
    answer_body bytea,
    created_at timestamptz not null,
    sent_at timestamptz,
    expires_at timestamptz not null
);
create index stored_sends_expires on stored_sends (expires_at);
create index stored_sends_account on stored_sends (account_id, created_at desc);

do $$
declare
    account constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)';
    sub_account constant text :=
        '((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    its_mode constant text :=
        '((select nullif(current_setting(''app.mode'', true), '''')) is null or mode = '
        '(select current_setting(''app.mode'', true)))';
    name text;
    rule constant text := account || ' and ' || sub_account || ' and ' || its_mode;
begin
    foreach name in array array['order_counts', 'stored_sends'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)',
                       name, rule, rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', name);
    end loop;
end $$;
grant select, insert, update, delete on order_counts, stored_sends to quillpost_app, quillpost_worker;

-- Whether an entry of a suppression list bars its e-mail: it does where it names no door. The key of a street
-- that may be in many places ends so.
create function bars_email(address_key text) returns boolean language sql immutable as $$
    select address_key is null or address_key like '%|?'
$$;

-- Whom this account must not mail to. A caller who is limited to a sub account does not see the account's
-- own suppression lists, and yet they hold: so these two look with the owner's eyes, at this account alone.
create function suppressions(p_sub_account bigint) returns table (address_key text, email text)
language sql stable security definer set search_path = pg_catalog, public as $$
    select r.address_key, case when bars_email(r.address_key) then r.email_key end
      from mailing_lists l join recipients r on r.mailing_list_id = l.id
     where l.account_id = nullif(current_setting('app.account_id', true), '')::bigint
       and l.is_suppression_list
       and (p_sub_account is null or l.sub_account_id is null or l.sub_account_id = p_sub_account)
$$;

create function suppressed_places(p_sub_account bigint, p_keys text[], p_emails text[])
returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, public as $$
declare
    account constant bigint := nullif(current_setting('app.account_id', true), '')::bigint;
    lists constant bigint[] := array(
        select id from mailing_lists
         where account_id = account and is_suppression_list
           and (p_sub_account is null or sub_account_id is null or sub_account_id = p_sub_account));
begin
    if cardinality(lists) = 0 then
        return;
    end if;
    return query
    select p.place
      from unnest(p_keys, p_emails) with ordinality as p (key, email, place)
     where exists (select 1 from recipients r
                    where r.account_id = account and r.address_key = p.key and r.mailing_list_id = any(lists))
        or exists (select 1 from recipients r
                    where r.account_id = account and bars_email(r.address_key)
                      and r.email_key = lower(p.email) and r.mailing_list_id = any(lists));
end $$;

-- The files of an order that a caller may see: some of them may belong to the account as a whole, or have
-- come with a template, and a caller who is limited to a sub account does not see those by themselves.
create function files_of_order(p_order bigint) returns table (id uuid, key text, sha256 bytea)
language sql stable security definer set search_path = pg_catalog, public as $$
    select f.id, f.key, f.sha256
      from orders o
      join files f on f.id in (o.front_file_id, o.background_file_id, o.pages_file_id, o.logo_file_id)
     where o.id = p_order and f.account_id = o.account_id
       and o.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$$;

-- Eight letters and digits that a person can copy from paper, as the service itself mints them.
create function new_short_code() returns text language plpgsql volatile as $$
declare
    letters constant text := '23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
    number bigint := ('x' || left(md5(gen_random_uuid()::text || gen_random_uuid()), 15))::bit(60)::bigint;
    code text := '';
begin
    for place in 1 .. 8 loop
        code := code || substr(letters, (number % 57)::integer + 1, 1);
        number := number / 57;
    end loop;
    return code;
end $$;

-- A sub account that has mailed keeps its history: it is marked, and from then on nobody finds it.
alter table sub_accounts add column deleted_at timestamptz;
