-- A scan before it is counted: an append that is committed before the scan gets its response, and waits for nothing.
create table visit_inbox (
    id bigint generated always as identity primary key,
    item_id bigint not null,
    kind text not null check (kind in ('person', 'bot', 'preview')),
    agent text not null,                             -- the beginning of its user agent
    at timestamptz not null
);

-- Counted scans of people, and the visits of bots and previews, which do not count.
create table visits (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    order_id bigint not null references orders on delete cascade,
    item_id bigint not null references items on delete cascade,
    mailing_list_id bigint,                          -- the list the item came from
    kind text not null check (kind in ('person', 'bot', 'preview')),
    agent text not null,
    at timestamptz not null
);
create index visits_item on visits (item_id, id);
create index visits_order on visits (order_id, id);
create index visits_person on visits (account_id, mode, id) where kind = 'person';
create index visits_time on visits using brin (at);

call keep_tenants_apart('visits');

grant select on visits to quillpost_app;
grant select, insert, update, delete on visit_inbox, visits to quillpost_worker;
