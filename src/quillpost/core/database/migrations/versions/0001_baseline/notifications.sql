-- An email or a text message to one address. The key says what it is about: the same key twice is one message.
create table notices (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    key text not null unique,
    kind text not null,
    channel text not null check (channel in ('mail', 'text')),
    address text not null,                           -- an email address, or +number@sms
    subject text not null,
    words text not null,
    secret_sealed bytea,                             -- such as a sign-in link: encrypted until it is sent
    status text not null check (status in ('pending', 'sent', 'failed', 'unwanted')),
    attempts integer not null default 0,
    error text,
    next_at timestamptz,                             -- lease and backoff in one
    ends_at timestamptz,                             -- not sent after this: its link has expired
    created_at timestamptz not null,
    sent_at timestamptz
);
create index notices_due on notices (channel, next_at) where status = 'pending';
create index notices_reader on notices (account_id, lower(address)) where status = 'pending';
create index notices_order on notices (split_part(key, ':', 2)) where kind = 'scans';
create index notices_created on notices (created_at);

-- Scans that somebody is yet to hear of: one row each, however many addresses there are.
create table scan_news (
    id bigint generated always as identity primary key,
    order_id bigint not null references orders on delete cascade,
    item_id bigint not null references items on delete cascade,
    at timestamptz not null
);
create index scan_news_order on scan_news (order_id, id);

-- What one address has heard of an order's scans. Its row is locked before rows of scan_news get their ids: so all
-- ids from `since` on are new to it, whoever writes at the same time.
create table news_threads (
    order_id bigint not null references orders on delete cascade,
    address text not null,
    since bigint,                                    -- the first row that is new to it; null: none
    due_at timestamptz,                              -- when the next message goes out
    quiet_until timestamptz,                         -- what comes before this waits for one message
    primary key (order_id, address)
);
create index news_threads_due on news_threads (due_at) where due_at is not null;

-- Addresses that unsubscribed from an account's scan messages.
create table notice_refusals (
    account_id bigint not null references accounts on delete cascade,
    address text not null,                           -- in lower case
    at timestamptz not null,
    primary key (account_id, address)
);

grant select, insert, update, delete on notices, scan_news, news_threads, notice_refusals to quillpost_worker;
