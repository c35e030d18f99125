-- The operator's catalog: every account sees the same brands.
create table giftcard_brands (
    code text primary key check (code ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    title text not null check (title <> ''),
    section text not null,                           -- the group it is shown in: orders/giftcards/rules.py
    amounts integer[] not null check (cardinality(amounts) > 0 and 0 < all (amounts)),
    accent text not null check (accent ~ '^#[0-9a-f]{6}$'),
    issuer_code text,                                -- the live issuer's code, where it is not ours
    position integer not null,
    is_offered boolean not null default true,        -- a brand that is no longer offered stays for what was sent
    updated_at timestamptz not null
);

-- One item's card. No secret is in clear: the claim in the item's QR code is a digest to find the card by, and
-- encrypted to print it again; the card itself is encrypted. Encryption is bound to the item's id.
create table giftcards (
    item_id bigint primary key references items on delete cascade,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint not null references orders on delete cascade,
    brand text not null,
    cents integer not null check (cents > 0),
    status text not null check (status in ('asked', 'issued', 'void', 'refused')),
    reference uuid not null unique default gen_random_uuid(),  -- the issuer issues one card for it
    issuer text,
    claim_digest bytea unique,
    claim_sealed bytea,
    card_sealed bytea,
    report text,                                     -- what its holder says is wrong
    void_reason text,
    reissued_as bigint references orders on delete set null,  -- the order that brings a replacement
    asked_at timestamptz not null,
    issued_at timestamptz,
    opened_at timestamptz,                           -- its page was first opened
    visited_at timestamptz,                          -- its landing page was first visited
    claimed_at timestamptz,                          -- its code was first shown
    reported_at timestamptz,
    voided_at timestamptz,
    given_back_at timestamptz,                       -- the issuer knows that it is void
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
create index giftcards_printable on giftcards (item_id) where claim_sealed is not null;
create index giftcards_reported on giftcards (account_id, mode, reported_at) where reported_at is not null;

-- Cards that an operator has bought and loaded; test mode makes up its own.
create table giftcard_stock (
    id bigint generated always as identity primary key,
    mode text not null check (mode in ('test', 'live')),
    brand text not null references giftcard_brands,
    cents integer not null check (cents > 0),
    card_sealed bytea not null,                      -- encrypted, bound to this row's id
    expires_on date,                                 -- in clear: a card that expires soon is not issued
    source text not null,                            -- the file it was loaded from
    taken_by uuid unique,                            -- the reference of the card it became
    loaded_at timestamptz not null,
    taken_at timestamptz,
    set_aside_at timestamptz                         -- restored, and maybe issued since: it waits for release
);
create index giftcard_stock_free on giftcard_stock (mode, brand, cents, expires_on, id) where taken_by is null;

call keep_tenants_apart('giftcards');

-- A tenant reads its cards, but none of their secrets.
grant select on giftcard_brands to quillpost_app;
grant select (item_id, account_id, sub_account_id, mode, order_id, brand, cents, status, asked_at, issued_at, opened_at,
              visited_at, claimed_at, reported_at, report, voided_at, void_reason, reissued_as)
    on giftcards to quillpost_app;
grant update (status, voided_at, void_reason, reissued_as) on giftcards to quillpost_app;
grant select, insert, update, delete on giftcard_brands, giftcards, giftcard_stock to quillpost_worker;
