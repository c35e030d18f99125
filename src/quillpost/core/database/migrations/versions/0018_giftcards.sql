-- What can be given. The operator's own, like prices: every account sees the same.
create table giftcard_brands (
    code text primary key check (code ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    title text not null check (title <> ''),
    section text not null,                           -- the group that it is shown in: orders/giftcards/rules.py
    amounts integer[] not null check (cardinality(amounts) > 0 and 0 < all (amounts)),
    accent text not null check (accent ~ '^#[0-9a-f]{6}$'),
    issuer_code text,                                -- what a live issuer calls it, where that is not our code
    position integer not null,
    is_offered boolean not null default true,        -- a brand that is offered no more stays for what was sent
    updated_at timestamptz not null
);

-- One piece's card. Whoever reads the database reads no secret: what the piece's QR code holds is a digest to
-- find it by, and sealed to print it again; the card itself is sealed. Seals are bound to the item's id.
create table giftcards (
    item_id bigint primary key references items on delete cascade,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint not null references orders on delete cascade,
    brand text not null,
    cents integer not null check (cents > 0),
    status text not null check (status in ('asked', 'issued', 'void', 'refused')),
    reference uuid not null unique default gen_random_uuid(),  -- the issuer knows it by this, and gives it once
    issuer text,
    claim_digest bytea unique,
    claim_sealed bytea,
    card_sealed bytea,
    asked_at timestamptz not null,
    issued_at timestamptz,
    opened_at timestamptz,                           -- its page was first seen
    visited_at timestamptz,                          -- its landing page was first visited
    claimed_at timestamptz,                          -- its code was first shown
    reported_at timestamptz,
    report text,                                     -- what whoever has the piece says is wrong
    voided_at timestamptz,
    void_reason text,
    given_back_at timestamptz,                       -- the issuer has been told that it is void
    reissued_as bigint references orders on delete set null,  -- the order that brings another in its place
    check (status <> 'issued' or (issued_at, claim_digest, card_sealed) is not null),
    check (status <> 'void' or voided_at is not null),
    check (claimed_at is null or status = 'issued'),
    check (reissued_as is null or status = 'void')
);
create index giftcards_order on giftcards (order_id);
create index giftcards_account on giftcards (account_id);
create index giftcards_sub_account on giftcards (sub_account_id) where sub_account_id is not null;
create index giftcards_reissued_as on giftcards (reissued_as) where reissued_as is not null;
create index giftcards_asked on giftcards (item_id) where status = 'asked';
create index giftcards_to_give_back on giftcards (item_id)
    where status = 'void' and issuer is not null and given_back_at is null;
call keep_tenants_apart('giftcards');

-- Cards that an operator has bought and loaded, and those that testing mode makes up as it needs them.
create table giftcard_stock (
    id bigint generated always as identity primary key,
    mode text not null check (mode in ('test', 'live')),
    brand text not null references giftcard_brands,
    cents integer not null check (cents > 0),
    card_sealed bytea not null,                      -- bound to this row's id
    expires_on date,                                 -- in clear, too: one that expires soon is not given
    source text not null,                            -- the file that it was loaded from
    loaded_at timestamptz not null,
    taken_by uuid unique,                            -- the reference of the card that it became
    taken_at timestamptz,
    set_aside_at timestamptz                         -- it was restored, and may be somebody's: it waits for release
);
create index giftcard_stock_free on giftcard_stock (mode, brand, cents, expires_on, id) where taken_by is null;

alter table orders
    add column giftcard_brand text,
    add column giftcard_title text,
    add column giftcard_accent text,
    add column giftcard_amount integer check (giftcard_amount > 0),
    add column landing_page_url text,
    add column gift_total bigint not null default 0;  -- what is held for cards, and what those hold that are good
create index orders_gifts on orders (mode, giftcard_brand, giftcard_amount)
    where giftcard_brand is not null and status in ('processing', 'printing');
-- `giftcard_brand` is set while the piece has a good card; until it is issued `gift_cents` are held for it.
alter table items
    add column gift_cents integer not null default 0,
    add column giftcard_brand text;

-- A batch's file with claims on it is sealed in the file store, and goes earlier than others.
alter table batch_files add column is_secret boolean not null default false;
create index batch_files_secret on batch_files (batch_id) where is_secret;
create index giftcards_printable on giftcards (item_id) where claim_sealed is not null;

-- Money that became a card is in a book of its own: held -> gifts (issue), gifts -> credit (return). Both checks
-- are one look at every row while the table is held. To add them unchecked and look later would hold it as long: a
-- migration is one transaction.
alter table ledger_moves
    drop constraint ledger_moves_kind_check,
    add constraint ledger_moves_kind_check check (kind in
        ('authorise', 'capture', 'release', 'refund', 'deposit', 'withdrawal', 'issue', 'return')),
    add constraint ledger_moves_gift_check check (
        case kind when 'issue' then (source, target) = ('held', 'gifts')
                  when 'return' then (source, target) = ('gifts', 'credit')
                  else 'gifts' not in (source, target) end);

-- As it was, and a card is money spent, too.
create or replace function keep_credit() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op in ('UPDATE', 'DELETE') then
        -- Of whole accounts that go, their credit has gone before.
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case source when 'credit' then cents else -cents end)
          from before m
         where 'credit' in (source, target) and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case when kind in ('refund', 'return') then cents else -cents end)
          from before m
         where kind in ('capture', 'refund', 'issue', 'return')
           and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case target when 'credit' then cents else -cents end)
          from after where 'credit' in (source, target)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case when kind in ('capture', 'issue') then cents else -cents end)
          from after where kind in ('capture', 'refund', 'issue', 'return')
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    return null;
end $$;

-- A tenant reads its cards, and none of their secrets.
grant select on giftcard_brands to quillpost_app;
grant select (item_id, account_id, sub_account_id, mode, order_id, brand, cents, status, asked_at, issued_at, opened_at,
              visited_at, claimed_at, reported_at, report, voided_at, void_reason, reissued_as)
    on giftcards to quillpost_app;
grant update (status, voided_at, void_reason, reissued_as) on giftcards to quillpost_app;
grant select, insert, update, delete on giftcard_brands, giftcards, giftcard_stock to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;
