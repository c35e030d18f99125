-- A style made from a sheet that a person of the account wrote. Its id is the number of the style: shipped styles have
-- lower ones. The forms never change: who wants others makes another style.
create table own_hands (
    id bigint generated always as identity (start with 1000) primary key check (id >= 1000),
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    name text not null,
    letters bytea not null,                          -- what was read from the sheet, compressed
    forms bytea,                                     -- null until the letters are accepted
    sample bytea,                                    -- a line in this hand, as a PNG
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz
);
create index own_hands_account on own_hands (account_id, id desc);
create index own_hands_deleted on own_hands (deleted_at) where deleted_at is not null;

create table signatures (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    name text not null,
    outlines bytea not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz
);
create index signatures_account on signatures (account_id, id desc);
create index signatures_deleted on signatures (deleted_at) where deleted_at is not null;

do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    name text;
begin
    foreach name in array array['own_hands', 'signatures'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)', name, rule, rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', name);
    end loop;
end $$;
grant select, insert, update on own_hands, signatures to quillpost_app;
grant select, insert, update, delete on own_hands, signatures to quillpost_worker;

alter table orders add column handwriting_manner text check (handwriting_manner in ('neat', 'natural', 'lively'));
update orders set handwriting_manner = case when handwriting_realism then 'natural' else 'neat' end;
alter table orders alter column handwriting_manner set not null;
alter table orders drop column handwriting_realism;

-- Both may be deleted once what is waiting is mailed, so nothing refers to their rows by key.
alter table orders add column signature_id bigint;
create index orders_signature on orders (signature_id) where signature_id is not null;
create index orders_own_hand on orders (style) where style >= 1000;

-- What an order is written with. It runs with the owner's rights, for one account: a caller limited to a sub account
-- does not see what belongs to the whole account, and may change or repeat an order that has it.
create function handwriting_of_order(p_order bigint) returns table (forms bytea, outlines bytea)
language sql stable security definer set search_path = pg_catalog, public as $$
    select (select h.forms from own_hands h where h.id = o.style and h.account_id = o.account_id),
           (select s.outlines from signatures s where s.id = o.signature_id and s.account_id = o.account_id)
      from orders o
     where o.id = p_order and o.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$$;
