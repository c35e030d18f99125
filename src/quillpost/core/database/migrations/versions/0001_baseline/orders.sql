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
create index image_templates_file on image_templates (image_file_id) where image_file_id is not null;

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

create table orders (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    type text not null,
    size text,
    piece text not null,                             -- the product that is printed
    mail_class text not null check (mail_class in ('first', 'standard')),
    -- Mailed: every item that will be mailed was handed to the carrier, or seen by it.
    status text not null check (status in
        ('reviewing', 'processing', 'printing', 'mailed', 'fulfilled', 'cancelled', 'paused', 'error')),
    hold_reasons jsonb not null default '[]',        -- why it waits for an operator
    warnings jsonb not null default '[]',
    rush boolean not null default false,
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
    pages_url text,                                  -- what a letter carries besides its cover
    pages_file_id uuid references files,
    pdf_only boolean not null default false,
    branding jsonb,                                  -- the sub account's at the time of the order
    logo_file_id uuid references files,
    lowest_dpi integer,                              -- of its softest image as printed; null: none is soft
    lowest_contrast double precision,                -- of its handwriting; null: all of it is easy to read
    creative_key uuid,                               -- by content: one creative reaches an address once in 36 hours
    qrcode_url text,
    return_name text, return_address text, return_address2 text,
    return_city text, return_province text, return_postal_code text,
    sender_name text, sender_company text,           -- at the time of the order: a later rename changes no item
    append_or_current_resident boolean not null default false,
    allow_duplicates boolean not null default false,
    mailing_list_ids bigint[] not null default '{}',
    audience_pending boolean not null default false, -- its lists are yet to become items
    notification_emails text[] not null default '{}',
    metadata text,                                   -- exactly as it was sent
    metadata_index jsonb generated always as (jsonb_or_null(metadata)) stored,
    giftcard_brand text,
    giftcard_title text,
    giftcard_accent text,
    giftcard_amount integer check (giftcard_amount > 0),
    landing_page_url text,
    total_estimated_recipients integer not null,
    recipient_count integer not null default 0,
    authorization_total bigint not null,
    order_total bigint not null,
    leads_fee bigint not null default 0,
    gift_total bigint not null default 0,            -- held for gift cards, plus the value of those that are good
    n_processing integer not null default 0,
    n_printed integer not null default 0,
    n_in_transit integer not null default 0,
    n_in_local_area integer not null default 0,
    n_processed_for_delivery integer not null default 0,
    n_delivered integer not null default 0,
    n_re_routed integer not null default 0,
    n_returned_to_sender integer not null default 0,
    n_failed integer not null default 0,
    n_mailed integer not null default 0,             -- items with is_mailed
    n_over integer not null default 0,               -- items with is_over
    n_lost integer not null default 0,               -- failed in the mail; spoiled or stopped items never got there
    total_scans integer not null default 0,
    multi_scans integer not null default 0,
    schedule_for timestamptz,
    due_at timestamptz not null,
    pool_at timestamptz,                             -- when its items go into batches; null: none waits
    verified_at timestamptz,                         -- when all its addresses had a response, or will get none
    pictures_gone_at timestamptz,                    -- its images were deleted by retention: it cannot be sent again
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index orders_account on orders (account_id, mode, id desc) include (sub_account_id);
create index orders_sub_account on orders (account_id, mode, sub_account_id, id desc);
create index orders_type on orders (account_id, mode, type, id desc) include (sub_account_id);
create index orders_size on orders (account_id, mode, size, id desc) include (sub_account_id) where size is not null;
create index orders_status on orders (account_id, mode, status, id desc) include (sub_account_id);
create index orders_created on orders (account_id, mode, created_at desc, id desc) include (sub_account_id);
create index orders_metadata on orders using gin (metadata_index jsonb_path_ops) where metadata_index is not null;
create index orders_due on orders (due_at) where status = 'reviewing';
create index orders_pending on orders (id) where audience_pending;
create index orders_paused on orders (mode, id) where status = 'paused';
create index orders_unverified on orders (due_at, id) where verified_at is null and status in ('reviewing', 'paused');
create index orders_pool on orders (mode, pool_at) where pool_at is not null;
create index orders_gifts on orders (mode, giftcard_brand, giftcard_amount)
    where giftcard_brand is not null and status in ('processing', 'printing');
create index orders_pictures on orders (updated_at)
    where pictures_gone_at is null and status in ('fulfilled', 'cancelled', 'error');
-- Before a file is deleted, these show whether anything still needs it.
create index orders_front_file on orders (front_file_id) where front_file_id is not null;
create index orders_background_file on orders (background_file_id) where background_file_id is not null;
create index orders_pages_file on orders (pages_file_id) where pages_file_id is not null;
create index orders_logo_file on orders (logo_file_id) where logo_file_id is not null;

-- One mailing to one recipient.
create table items (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint not null references orders on delete cascade,
    mailing_list_id bigint,                          -- the list it came from, which may be gone
    status text not null check (status in
        ('Processing', 'Printed', 'In Transit', 'In Local Area', 'Processed for Delivery',
         'Delivered', 'Re-routed', 'Returned to Sender', 'Failed')),
    is_mailed boolean not null default false,        -- the carrier has it, or had it
    is_over boolean not null default false,          -- keeps its status: mailed abroad, or re-routed and not seen
    delivery_date date,
    delivery_inferred boolean not null default false,
    failure text,
    scans integer not null default 0,
    price_cents integer not null,                    -- zero for a rejected item
    -- `giftcard_brand` is set while the item has a good card; until that is issued, `gift_cents` are held for it.
    giftcard_brand text,
    gift_cents integer not null default 0,
    name text, company text,
    surname text,                                    -- from here to moved_key as in recipients
    address text, address2 text, city text, province text, postal_code text, country text not null,
    absentee_address text,
    email text, phone text, dob date, anniversary date,
    custom1 text, custom2 text, custom3 text, custom4 text, custom5 text,
    custom6 text, custom7 text, custom8 text, custom9 text, custom10 text,
    standard text[],
    deliverability text,
    reasons text[],
    address_key text,
    moved_key text,
    -- A digest of the address, for a reader who wants no more mail after the recipient was erased.
    door_digest bytea,
    code text unique,                                -- the QR code's short code
    creative_key uuid,
    front_file_id uuid references files,             -- an image for this recipient only; null: the order's
    background_file_id uuid references files,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    person_gone_at timestamptz                       -- the recipient was erased; status, money and counts stay
);
create index items_order on items (order_id, id) include (account_id, mode, sub_account_id, status);
create index items_account on items (account_id, mode, id desc) include (sub_account_id);
create index items_address on items (account_id, mode, address_key text_pattern_ops, creative_key)
    where address_key is not null;
create index items_moved on items (account_id, moved_key) where moved_key is not null;
create index items_name on items (account_id, mode, lower(name) text_pattern_ops) where name is not null;
create index items_email on items (account_id, mode, lower(email)) where email is not null;
create index items_code_as_read on items (code_as_read(code)) where code is not null;
create index items_front_file on items (front_file_id) where front_file_id is not null;
create index items_background_file on items (background_file_id) where background_file_id is not null;
-- Items whose time may run out in their status: an hourly job looks for them among all that ever were.
create index items_waiting on items (id) where status in ('Processed for Delivery', 'Re-routed') and not is_over;
-- Items that have ended and still name somebody, for retention; those in the mail are not in it.
create index items_people on items (updated_at)
    where person_gone_at is null and (is_over or status in ('Delivered', 'Returned to Sender', 'Failed'));

-- The number of orders, in shards: senders rarely meet in one row, so none waits for another's commit.
create table order_counts (
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint not null,                  -- 0: none
    mode text not null,
    type text not null,
    shard integer not null,
    n bigint not null,
    primary key (account_id, mode, sub_account_id, type, shard)
);

-- A send that waits until somebody opens its URL. The response is stored with the order, in one transaction.
create table stored_sends (
    id uuid primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    piece text not null,
    body text not null,                              -- empty once it is sent, as it holds recipients
    answer_headers jsonb,
    answer_body bytea,
    created_at timestamptz not null,
    sent_at timestamptz,
    expires_at timestamptz not null
);
create index stored_sends_account on stored_sends (account_id, created_at desc);
create index stored_sends_expires on stored_sends (expires_at);

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

-- The files of an order that a caller may see. It runs with the owner's rights, for one account: some files belong to
-- the account or came with a template, and a caller limited to a sub account does not see those.
create function files_of_order(p_order bigint) returns table (id uuid, key text, sha256 bytea)
language sql stable security definer set search_path = pg_catalog, public as $$
    select f.id, f.key, f.sha256
      from orders o
      join files f on f.id in (o.front_file_id, o.background_file_id, o.pages_file_id, o.logo_file_id)
     where o.id = p_order and f.account_id = o.account_id
       and o.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$$;

do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    name text;
begin
    foreach name in array array['image_templates', 'message_templates'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)', name, rule, rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', name);
    end loop;
end $$;
call keep_tenants_apart('orders');
call keep_tenants_apart('items');
call keep_tenants_apart('order_counts');
call keep_tenants_apart('stored_sends');

grant select, insert, update, delete on image_templates, message_templates, orders, items, order_counts, stored_sends
    to quillpost_app, quillpost_worker;
