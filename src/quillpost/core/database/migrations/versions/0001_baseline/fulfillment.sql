-- Operators' tables: the app role has no grants on any of them.

-- What operators decided about orders, and why.
create table order_verdicts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    order_id bigint not null references orders on delete cascade,
    verdict text not null check (verdict in ('released', 'refused', 'rushed')),
    reasons text[] not null,                         -- why it was held at the time
    reason text not null,                            -- the operator's
    operator_id bigint references accounts on delete set null,
    at timestamptz not null
);
create index order_verdicts_order on order_verdicts (order_id, id);

-- A batch has items of many accounts.
create table batches (
    id bigint generated always as identity primary key,
    mode text not null check (mode in ('test', 'live')),
    piece text not null,
    stock text not null default '',
    mail_class text not null,
    rush boolean not null default false,
    reprint_of bigint references batches,
    status text not null check (status in ('new', 'composed', 'handed', 'printed', 'mailed')),
    item_count integer not null,
    void_count integer not null default 0,           -- items spoiled, or reprinted in another batch
    mailer_id text,
    first_serial bigint,                             -- in its mailer's count; null: no item has a barcode
    indicia text[],                                  -- these three are what composing took from the settings:
    qr_base text,                                    -- composed again, the files have the same bytes
    opt_out text,                                    -- the text before the code that stops mail; null: no such line
    partner text,                                    -- the print partner that has it
    trouble text,                                    -- why its current step fails
    created_at timestamptz not null,
    composed_at timestamptz,
    handed_at timestamptz,
    acknowledged_at timestamptz,
    printed_at timestamptz,
    mailed_at timestamptz,
    settled_at timestamptz,                          -- no item of it is in the mail anymore
    trouble_at timestamptz
);
create index batches_unsettled on batches (mode, id) where settled_at is null;
create index batches_reprint on batches (reprint_of) where reprint_of is not null;
create index batches_serials on batches (mailer_id, first_serial) where first_serial is not null;
create index batches_made on batches (mode, created_at, id) include (status, piece);
create index batches_open on batches (mode, status, id) where status <> 'mailed';

create table batch_files (
    batch_id bigint not null references batches on delete cascade,
    name text not null,
    size bigint not null,
    sha256 bytea not null,
    is_secret boolean not null default false,        -- has gift card claims: encrypted, and deleted earlier than others
    primary key (batch_id, name)
);
create index batch_files_secret on batch_files (batch_id) where is_secret;

-- An item on paper, in a batch, with a barcode of its own. A reprint is a further edition.
-- No foreign keys: checked row by row, they would take longer than the rest of batching, and the statement that
-- writes here has just read the items and created the batch.
create table prints (
    batch_id bigint not null,
    position integer not null,
    item_id bigint not null,
    edition integer not null default 0,
    superseded boolean not null default false,       -- a later edition counts
    tracking text,                                   -- the barcode's 20 digits; null outside the US
    primary key (batch_id, position),
    unique (item_id, edition)                        -- no item is printed twice by mistake
);
create index prints_tracking on prints (tracking) where tracking is not null;

-- A mailer's barcodes are counted without end; a serial is the count's last six or nine digits. So it is known which
-- counts are still in the mail, and no serial returns too early.
create table mailers (
    mailer_id text primary key,
    next_serial bigint not null default 2            -- where a new mailer's count begins: a restore raises it
);

create table carrier_scans (
    id bigint generated always as identity primary key,
    digest bytea not null unique,
    tracking text not null,
    item_id bigint,
    phase text not null,
    place text,
    raw jsonb not null,
    scanned_at timestamptz not null,
    received_at timestamptz not null
);
create index carrier_scans_item on carrier_scans (item_id) where item_id is not null;
-- Every scan checks whether its item was re-routed; most never are.
create index carrier_scans_rerouted on carrier_scans (item_id, scanned_at) where phase in ('pars', 'fpars');
create index carrier_scans_time on carrier_scans using brin (received_at);

-- The 20 digits of an item's barcode: a mailer id of nine digits leaves six for the serial.
create function barcode_of(service_type text, mailer_id text, serial bigint) returns text
language sql immutable parallel safe as $$
    select '00' || service_type || mailer_id
           || lpad((serial % cast(10 ^ (15 - length(mailer_id)) as bigint))::text, 15 - length(mailer_id), '0')
$$;

grant select, insert, update, delete on order_verdicts, batches, batch_files, prints, mailers, carrier_scans
    to quillpost_worker;
