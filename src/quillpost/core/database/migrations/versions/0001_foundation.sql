-- The first schema. Frozen: a change is a new revision.
-- Run as quillpost_owner, which owns everything and logs in nowhere.

create table accounts (
    id bigint generated always as identity primary key,
    email text not null,
    name text not null,
    company text,
    is_operator boolean not null default false,
    test_mode boolean not null default false,
    return_name text, return_address text, return_address2 text,
    return_city text, return_state text, return_postal_code text,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index accounts_email on accounts (lower(email));

create table sub_accounts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    title text not null,
    return_name text, return_address text, return_address2 text,
    return_city text, return_state text, return_postal_code text,
    branding jsonb not null default '{}',
    backgrounds jsonb not null default '{}',
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index sub_accounts_account on sub_accounts (account_id, id desc);

create table tokens (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    name text not null,
    mode text not null check (mode in ('test', 'live')),
    digest bytea not null unique,
    scopes text[],                                   -- null: everything
    created_at timestamptz not null,
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
);
create index tokens_account on tokens (account_id, id desc);

create table mailing_lists (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    type text not null default 'manual',
    description text not null,
    qrcode_url text,
    is_suppression_list boolean not null default false,
    processed boolean not null default true,
    total_recipients integer not null default 0,
    total_sends integer not null default 0,
    total_scans integer not null default 0,
    unique_scans integer not null default 0,
    last_send timestamptz,
    last_scan timestamptz,
    key_digest bytea unique,                         -- the inbound hook's key, for finding
    key_sealed bytea,                                -- and for showing
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index mailing_lists_account on mailing_lists (account_id, id desc);
create index mailing_lists_sub_account on mailing_lists (account_id, sub_account_id, id desc);

create table recipients (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mailing_list_id bigint not null references mailing_lists on delete cascade,
    name text, company text,
    address text, address2 text, city text, province text, postal_code text, country text,
    email text, phone text, dob date, anniversary date,
    custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
    custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
    address_key text,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index recipients_list on recipients (mailing_list_id, id);
create index recipients_account on recipients (account_id, id desc);

create table files (
    id uuid primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    purpose text not null,
    key text not null unique,
    content_type text not null,
    size bigint not null,
    sha256 bytea not null,
    created_at timestamptz not null,
    expires_at timestamptz
);
create index files_account on files (account_id, created_at desc);
create index files_content on files (account_id, sha256);
create index files_expiry on files (expires_at) where expires_at is not null;

create table image_templates (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    type text not null,
    name text not null,
    image_file_id uuid references files,
    design_tool_id text,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index image_templates_account on image_templates (account_id, id desc);

create table message_templates (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    type text not null,
    name text not null,
    content text not null default '',
    settings jsonb not null default '{}',
    share_uuid uuid not null default gen_random_uuid(),
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index message_templates_account on message_templates (account_id, id desc);

-- Anything that jsonb cannot hold (a NUL, an absurd exponent) is kept as text and simply not filterable.
create function jsonb_or_null(source text) returns jsonb language plpgsql immutable as $$
begin
    return source::jsonb;
exception when others then
    return null;
end $$;

create table orders (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    type text not null,
    size text,
    piece text not null,                             -- what is printed: a key of composition's pieces
    mail_class text not null check (mail_class in ('first', 'standard')),
    status text not null check (status in
        ('reviewing', 'processing', 'printing', 'fulfilled', 'cancelled', 'paused', 'error')),
    method text not null,
    message text not null,
    message_template_id bigint,
    image_template_id bigint,
    style integer not null,
    handwriting_color text not null,
    handwriting_realism boolean not null,
    font_size text not null,
    front_image_url text,
    front_file_id uuid references files,
    background_url text,
    background_file_id uuid references files,
    qrcode_url text,
    return_name text, return_address text, return_address2 text,
    return_city text, return_province text, return_postal_code text,
    sender_name text, sender_company text,           -- as they were: a later rename changes no piece
    append_or_current_resident boolean not null default false,
    allow_duplicates boolean not null default false,
    mailing_list_ids bigint[] not null default '{}',
    notification_emails text[] not null default '{}',
    metadata text,                                   -- as it was sent, to the letter
    metadata_index jsonb generated always as (jsonb_or_null(metadata)) stored,
    total_estimated_recipients integer not null,
    recipient_count integer not null default 0,
    authorization_total bigint not null,
    order_total bigint not null,
    leads_fee bigint not null default 0,
    n_processing integer not null default 0,
    n_printed integer not null default 0,
    n_in_transit integer not null default 0,
    n_in_local_area integer not null default 0,
    n_processed_for_delivery integer not null default 0,
    n_delivered integer not null default 0,
    n_re_routed integer not null default 0,
    n_returned_to_sender integer not null default 0,
    n_failed integer not null default 0,
    total_scans integer not null default 0,
    multi_scans integer not null default 0,
    warnings text[] not null default '{}',
    schedule_for timestamptz,
    due_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index orders_account on orders (account_id, mode, id desc);
create index orders_sub_account on orders (account_id, mode, sub_account_id, id desc);
create index orders_due on orders (due_at) where status = 'reviewing';

-- Production batches pool pieces of many accounts: an operator's table, closed to the app role.
create table batches (
    id bigint generated always as identity primary key,
    mode text not null check (mode in ('test', 'live')),
    piece text not null,
    mail_class text not null,
    status text not null check (status in ('new', 'composed', 'handed', 'printed', 'mailed')),
    item_count integer not null,
    print_sha256 bytea,
    created_at timestamptz not null,
    composed_at timestamptz,
    handed_at timestamptz,
    printed_at timestamptz,
    mailed_at timestamptz
);
create index batches_open on batches (mode, id) where status <> 'mailed';

-- Nine digits of an Intelligent Mail barcode; wraps long after the 45 days a code must stay unique.
create sequence mail_serials as bigint minvalue 1 maxvalue 999999999 cycle;

create table items (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint not null references orders on delete cascade,
    status text not null check (status in
        ('Processing', 'Printed', 'In Transit', 'In Local Area', 'Processed for Delivery',
         'Delivered', 'Re-routed', 'Returned to Sender', 'Failed')),
    delivery_date date,
    failure text,
    scans integer not null default 0,
    price_cents integer not null,                    -- nothing for a refused piece
    name text, company text,
    address text, address2 text, city text, province text, postal_code text, country text not null,
    absentee_address text,
    email text, phone text, dob date, anniversary date,
    custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
    custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
    address_key text,
    code text unique,                                -- the QR code's short code
    tracking text,                                   -- 20 digits of the barcode
    batch_id bigint references batches,
    batch_position integer,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index items_order on items (order_id, id);
create index items_account on items (account_id, mode, id desc);
create index items_batch on items (batch_id, batch_position) where batch_id is not null;
create index items_tracking on items (tracking) where tracking is not null;

-- What happened, append-only, written in the transaction that made it happen.
create table facts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    kind text not null,
    order_id bigint not null,
    item_id bigint,
    order_status text not null,
    previous text,
    current text not null,
    event_id uuid not null default gen_random_uuid(),
    at timestamptz not null
);
create index facts_item on facts (item_id, id) where item_id is not null;
create index facts_order on facts (order_id, id);

-- Facts that no listener has seen yet. A cursor over facts.id would miss one that commits late.
create table fact_queue (
    fact_id bigint primary key
);

create table prices (
    id bigint generated always as identity primary key,
    type text not null,
    size text not null default '',
    mail_class text not null,
    country text not null,                           -- ISO code, or * for every other
    unit_cents integer not null check (unit_cents >= 0),
    valid_from date not null,
    unique (type, size, mail_class, country, valid_from)
);

-- Each row moves cents from one book to another: what leaves one arrives in the other, always balanced.
create table ledger_moves (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint references orders on delete cascade,
    kind text not null check (kind in ('authorise', 'capture', 'release', 'refund')),
    source text not null,
    target text not null check (target <> source),
    cents bigint not null check (cents > 0),
    key text not null unique,                        -- one effect, one key: a repeat is refused
    at timestamptz not null
);
create index ledger_moves_order on ledger_moves (order_id);
create index ledger_moves_account on ledger_moves (account_id, mode, id desc);

create table carrier_scans (
    id bigint generated always as identity primary key,
    digest bytea not null unique,
    tracking text not null,
    phase text not null,
    scanned_at timestamptz not null,
    raw jsonb not null,
    item_id bigint,
    received_at timestamptz not null
);
create index carrier_scans_item on carrier_scans (item_id) where item_id is not null;

create table webhooks (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mailing_list_id bigint references mailing_lists on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    url text not null,
    type text not null,
    verb text not null check (verb in ('post', 'get')),
    description text,
    secret_sealed bytea not null,
    status text not null check (status in ('active', 'paused', 'failing', 'disabled')),
    invoke_count bigint not null default 0,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index webhooks_account on webhooks (account_id, id desc);

create table deliveries (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    mode text not null,
    webhook_id bigint not null references webhooks on delete cascade,
    fact_id bigint not null,
    event_id uuid not null,
    event_type text not null,
    stream text not null,                            -- deliveries of one stream keep their order
    body text,                                       -- as it was first sent
    status text not null check (status in ('pending', 'delivered', 'failed')),
    attempts integer not null default 0,
    next_at timestamptz,
    response_status integer,
    response_body text,
    error text,
    created_at timestamptz not null,
    delivered_at timestamptz,
    unique (webhook_id, fact_id, event_type)
);
create index deliveries_due on deliveries (next_at) where status = 'pending';
create index deliveries_stream on deliveries (webhook_id, stream, id) where status = 'pending';
create index deliveries_webhook on deliveries (webhook_id, id desc);

create table idempotency_keys (
    account_id bigint not null references accounts on delete cascade,
    mode text not null,
    path text not null,
    key text not null,
    request_digest bytea not null,
    answer_status integer,                           -- null while the first call runs
    answer_type text,
    answer_headers jsonb,
    answer_body bytea,
    sealed boolean not null default false,
    leased_until timestamptz not null,
    expires_at timestamptz not null,
    primary key (account_id, mode, path, key)
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);

create unlogged table rate_windows (
    key text primary key,
    started_at timestamptz not null,
    used integer not null
);

-- What the receiver page of a first run has been sent.
create table received_events (
    id bigint generated always as identity primary key,
    received_at timestamptz not null,
    event_id text not null,
    event_type text not null,
    verified boolean not null,
    body text not null
);

-- Counts one call in the key's current minute and says how many that makes.
create function count_call(p_key text, p_seconds integer, out used integer, out resets_in integer)
language sql security definer set search_path = pg_catalog, public as $$
    insert into rate_windows as w (key, started_at, used) values (p_key, clock_timestamp(), 1)
    on conflict (key) do update set
        used = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                    then 1 else w.used + 1 end,
        started_at = case when w.started_at <= clock_timestamp() - make_interval(secs => p_seconds)
                          then clock_timestamp() else w.started_at end
    returning w.used,
        greatest(1, ceil(extract(epoch from
            w.started_at + make_interval(secs => p_seconds) - clock_timestamp()))::integer)
$$;

-- Who holds this token, counted against its limit: one round trip, before any account is known.
create function authenticate(p_digest bytea, p_seconds integer)
returns table (token_id bigint, account_id bigint, sub_account_id bigint, mode text, scopes text[],
               used integer, resets_in integer)
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    found_id bigint;
begin
    select t.id, t.account_id, t.sub_account_id,
           case when a.test_mode then 'test' else t.mode end, t.scopes
      into found_id, account_id, sub_account_id, mode, scopes
      from tokens t join accounts a on a.id = t.account_id
     where t.digest = p_digest and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > clock_timestamp());
    if found_id is null then
        return;
    end if;
    token_id := found_id;
    update tokens set last_used_at = clock_timestamp()
     where id = found_id
       and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute');
    select c.used, c.resets_in into used, resets_in from count_call('token:' || found_id, p_seconds) c;
    return next;
end $$;

-- Tenancy. A transaction names an account, and for a limited caller a sub account and a mode;
-- rows of anyone else do not exist for it. Unset means no rows.
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
    tenant record;
    rule text;
begin
    for tenant in
        select * from (values
            ('accounts', replace(account, 'account_id =', 'id =')),
            ('sub_accounts', account || ' and ' || replace(sub_account, 'or sub_account_id =', 'or id =')),
            ('tokens', account || ' and ' || sub_account),
            ('mailing_lists', account || ' and ' || sub_account),
            ('recipients', account || ' and ' || sub_account),
            ('files', account || ' and ' || sub_account),
            ('image_templates', account || ' and ' || sub_account),
            ('message_templates', account || ' and ' || sub_account),
            ('orders', account || ' and ' || sub_account || ' and ' || its_mode),
            ('items', account || ' and ' || sub_account || ' and ' || its_mode),
            ('facts', account || ' and ' || sub_account || ' and ' || its_mode),
            ('ledger_moves', account || ' and ' || sub_account || ' and ' || its_mode),
            ('webhooks', account || ' and ' || sub_account || ' and ' || its_mode),
            ('deliveries', account || ' and ' || sub_account || ' and ' || its_mode),
            ('idempotency_keys', account)
        ) as t (name, rule)
    loop
        execute format('alter table %I enable row level security', tenant.name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)',
                       tenant.name, tenant.rule, tenant.rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)',
                       tenant.name);
    end loop;
end $$;

grant usage on schema public to quillpost_app, quillpost_worker;
grant select, insert, update, delete on all tables in schema public to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;

grant select on accounts to quillpost_app;
-- Not who is an operator: that is the service's to say, never a tenant's.
grant update (name, company, return_name, return_address, return_address2, return_city, return_state,
              return_postal_code, updated_at) on accounts to quillpost_app;
grant select, insert, update, delete on
    sub_accounts, tokens, mailing_lists, recipients, files, image_templates, message_templates,
    orders, items, webhooks, deliveries, idempotency_keys to quillpost_app;
grant select, insert on facts, ledger_moves to quillpost_app;
grant insert on fact_queue to quillpost_app;
grant select on prices to quillpost_app;
