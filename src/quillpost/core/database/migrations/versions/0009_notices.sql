-- An e-mail or a text message to one address. Its key is what it tells: the same twice is one notice.
create table notices (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    key text not null unique,
    kind text not null,
    channel text not null check (channel in ('mail', 'text')),
    address text not null,                           -- an e-mail address, or +number@sms
    subject text not null,
    words text not null,
    status text not null check (status in ('pending', 'sent', 'failed', 'unwanted')),
    attempts integer not null default 0,
    next_at timestamptz,                             -- the lease and the back-off in one
    error text,
    created_at timestamptz not null,
    sent_at timestamptz
);
create index notices_due on notices (channel, next_at) where status = 'pending';
create index notices_reader on notices (account_id, lower(address)) where status = 'pending';
create index notices_created on notices (created_at);

-- Scans of which somebody is yet to be told: one row for each, however many are told of it.
create table scan_news (
    id bigint generated always as identity primary key,
    order_id bigint not null references orders on delete cascade,
    item_id bigint not null references items on delete cascade,
    at timestamptz not null
);
create index scan_news_order on scan_news (order_id, id);

-- What one address has been told of an order's scans. Its row is locked before news of the order is numbered,
-- so that the numbers from `since` on are all that it has not heard, whoever writes beside it.
create table news_threads (
    order_id bigint not null references orders on delete cascade,
    address text not null,
    since bigint,                                    -- the first news that it has not heard; null: none
    due_at timestamptz,                              -- when it is told of that
    quiet_until timestamptz,                         -- told before; more is told together after this
    primary key (order_id, address)
);
create index news_threads_due on news_threads (due_at) where due_at is not null;

-- Who wants to hear no more of an account's scans.
create table notice_refusals (
    account_id bigint not null references accounts on delete cascade,
    address text not null,                           -- in small letters
    at timestamptz not null,
    primary key (account_id, address)
);

grant select, insert, update, delete on notices, scan_news, news_threads, notice_refusals to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_worker;
