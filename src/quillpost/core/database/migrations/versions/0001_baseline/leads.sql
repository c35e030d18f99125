-- Addresses for radius searches that an operator has bought or gathered. No tenant owns any: a purchase copies them
-- onto one of the tenant's lists.
create table lead_sources (
    id integer generated always as identity primary key,
    name text not null unique,
    is_sample boolean not null,
    records bigint not null,
    updated_at timestamptz not null
);

-- Importing a file again changes nothing.
create table lead_files (
    source_id integer not null references lead_sources on delete cascade,
    digest bytea not null,
    name text not null,
    records bigint not null,
    refused bigint not null,
    imported_at timestamptz not null,
    primary key (source_id, digest)
);

create table leads (
    id bigint generated always as identity primary key,
    source_id integer not null references lead_sources on delete cascade,
    grid integer not null,                           -- cells of 0.01 degrees, row by row from the south pole
    latitude double precision not null check (latitude between -90 and 90),
    longitude double precision not null check (longitude between -180 and 180),
    tags integer not null,                           -- recipients/leads/rules.py
    address_key text not null,
    name text, company text,
    address text not null, address2 text, city text, province text, postal_code text,  -- as imported
    country text not null,
    standard text[],                                 -- the same parts as printed
    deliverability text not null,
    reasons text[] not null,
    owner jsonb                                      -- an owner who lives elsewhere, with that address
);
-- A search reads only this index, in whose order rows lie; the table is read just for what it finds.
create index leads_place on leads (grid, latitude, longitude, tags) include (id);
create unique index leads_door on leads (address_key, source_id);

-- Records per cell of 0.1 degrees: from this a search guesses its first radius.
create table lead_density (
    cell integer primary key,
    records bigint not null
);

-- Records of another owner are reported to that owner once: until then `lead_ids` is set.
create table lead_purchases (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    mailing_list_id bigint references mailing_lists on delete set null,
    order_id bigint references orders on delete set null,
    records integer not null check (records > 0),
    cents bigint not null check (cents >= 0),
    reference uuid not null unique,
    lead_ids text[],
    told_at timestamptz,
    created_at timestamptz not null
);
create index lead_purchases_list on lead_purchases (mailing_list_id) where mailing_list_id is not null;
create index lead_purchases_order on lead_purchases (order_id) where order_id is not null;
create index lead_purchases_account on lead_purchases (account_id);
create index lead_purchases_untold on lead_purchases (id) where lead_ids is not null;

call keep_tenants_apart('lead_purchases');

grant select on lead_sources, leads, lead_density to quillpost_app;
grant select, insert on lead_purchases to quillpost_app;
grant select, insert, update, delete on lead_sources, lead_files, leads, lead_density, lead_purchases
    to quillpost_worker;
