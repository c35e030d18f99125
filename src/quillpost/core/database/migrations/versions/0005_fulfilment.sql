-- Orders. Why one waits for an operator, when its pieces may be pooled, and how many of them stay for good
-- where they stand: printed for abroad, or re-routed and never seen again.
alter table orders
    add column hold_reasons text[] not null default '{}',
    add column lowest_dpi integer,                   -- of its softest picture, as printed; null: none is soft
    add column rush boolean not null default false,
    add column pool_at timestamptz,                  -- null: no piece waits for a batch
    add column n_over integer not null default 0;
create index orders_pool on orders (pool_at) where pool_at is not null;
create index orders_paused on orders (mode, id) where status = 'paused';

-- What operators decided about orders, and why.
create table order_verdicts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    order_id bigint not null references orders on delete cascade,
    verdict text not null check (verdict in ('released', 'refused', 'rushed')),
    reasons text[] not null,                         -- for which it was held, then
    reason text not null,                            -- the operator's own
    operator_id bigint references accounts on delete set null,
    at timestamptz not null
);
create index order_verdicts_order on order_verdicts (order_id, id);

alter table batches
    add column stock text not null default '',
    add column rush boolean not null default false,
    add column reprint_of bigint references batches,
    add column mailer_id text,
    add column first_serial bigint,                  -- in its mailer's count; null: no piece has a barcode
    add column indicia text[],                       -- what composing took from the settings is kept:
    add column qr_base text,                         -- composed again, the files have the same bytes
    add column partner text,                         -- to whom it was handed
    add column acknowledged_at timestamptz,
    add column trouble text,                         -- why its present step does not succeed
    add column trouble_at timestamptz,
    add column settled_at timestamptz,               -- no piece of it is on its way any more
    drop column print_sha256;
drop index batches_open;
create index batches_unsettled on batches (mode, id) where settled_at is null;
create index batches_reprint on batches (reprint_of) where reprint_of is not null;
create index batches_serials on batches (mailer_id, first_serial) where first_serial is not null;

create table batch_files (
    batch_id bigint not null references batches on delete cascade,
    name text not null,
    size bigint not null,
    sha256 bytea not null,
    primary key (batch_id, name)
);

-- What lies on paper: an item, in a batch, under a barcode of its own. A reprint is a further edition.
-- No foreign keys: checked row by row, they would take longer than all the rest of pooling, and the statement
-- that writes here has just read the items and made the batch.
create table prints (
    batch_id bigint not null,
    position integer not null,
    item_id bigint not null,
    edition integer not null default 0,
    superseded boolean not null default false,       -- a later edition counts
    tracking text,                                   -- 20 digits of the barcode; null outside the US
    primary key (batch_id, position),
    unique (item_id, edition)                        -- nobody prints a piece twice
);
create index prints_tracking on prints (tracking) where tracking is not null;
insert into prints (batch_id, position, item_id, tracking)
select batch_id, batch_position, id, tracking from items where batch_id is not null;

-- The digests of files that were composed before are not known: what no printer has yet is composed again.
update batches set status = 'new', composed_at = null where status = 'composed';

drop index items_batch;
drop index items_tracking;
alter table items
    drop column batch_id,
    drop column batch_position,
    drop column tracking,
    add column delivery_inferred boolean not null default false,
    add column is_over boolean not null default false;

-- What is printed for abroad has come to its end, and with it perhaps its order.
update items set is_over = true where status = 'Printed' and country <> 'US';
update orders o set n_over = c.over
  from (select order_id, count(*) as over from items where is_over group by order_id) c
 where o.id = c.order_id;
with ended as (
    update orders o set status = 'fulfilled', updated_at = now()
      from orders was
     where was.id = o.id and o.n_over > 0 and o.status in ('processing', 'printing')
       and o.recipient_count = o.n_delivered + o.n_returned_to_sender + o.n_failed + o.n_over
    returning o.id, o.account_id, o.sub_account_id, o.mode, was.status as previous),
told as (
    insert into facts (account_id, sub_account_id, mode, kind, order_id, order_status, previous, current, at)
    select account_id, sub_account_id, mode, 'order.status', id, 'fulfilled', previous, 'fulfilled', now()
      from ended order by id
    returning id)
insert into fact_queue (fact_id) select id from told;

-- A mailer's barcodes are counted without end; a serial is what is left of the count in its six or nine
-- digits. So it is known which counts are still in the mail, and none returns before its time.
create table mailers (
    mailer_id text primary key,
    next_serial bigint not null
);
do $$
declare
    last constant bigint := (select last_value from mail_serials);
    further bigint := 0;
begin
    -- What is not in the mail yet, or not for long, keeps its serials: each goes back to the last count that
    -- gave it. The postal service gives mailer ids of nine digits a 9 in front; the one of testing has six.
    with coded as (
        select p.batch_id, right(p.tracking, 15) as rest,
               case when b.mode = 'live' and substr(p.tracking, 6, 1) = '9' then 9 else 6 end as digits
          from prints p join batches b on b.id = p.batch_id
         where p.tracking is not null
           and (b.mailed_at is null or b.mailed_at > now() - interval '45 days')),
    split as (
        select batch_id, left(rest, digits) as mailer_id, substr(rest, digits + 1)::bigint as serial,
               cast(10 ^ (15 - digits) as bigint) as serials
          from coded),
    counted as (
        select batch_id, min(mailer_id) as mailer_id,
               min(last - ((last - serial) % serials + serials) % serials) as first_serial
          from split group by batch_id)
    update batches b set mailer_id = c.mailer_id, first_serial = c.first_serial
      from counted c where b.id = c.batch_id;
    -- The sequence began anew at its end; the count goes on.
    if exists (select 1 from batches where first_serial < 0) then
        further := 1000000000;
        update batches set first_serial = first_serial + further where first_serial is not null;
    end if;
    execute format('alter table mailers alter column next_serial set default %s', last + 1 + further);
end $$;
drop sequence mail_serials;

-- A fact that a carrier told of: when and where the piece was seen, why it came back or went elsewhere; or
-- that nobody told of: a delivery that was inferred.
alter table facts
    add column seen_at timestamptz,
    add column place text,
    add column reason text,
    add column inferred boolean not null default false;
alter table carrier_scans
    add column place text;
-- Most pieces are never re-routed: whether one was is asked of every scan.
create index carrier_scans_rerouted on carrier_scans (item_id, scanned_at) where phase in ('pars', 'fpars');
-- Pieces whose time may run out where they stand are looked for every hour, among all that ever were.
create index items_waiting on items (id)
    where status in ('Processed for Delivery', 'Re-routed') and not is_over;

-- Operators' tables: closed to the app role.
grant select, insert, update, delete on order_verdicts, batch_files, prints, mailers to quillpost_worker;

-- The 20 digits of a piece's barcode: a mailer id of nine digits leaves six for the serial.
create function barcode_of(service_type text, mailer_id text, serial bigint) returns text
language sql immutable parallel safe as $$
    select '00' || service_type || mailer_id
           || lpad((serial % cast(10 ^ (15 - length(mailer_id)) as bigint))::text, 15 - length(mailer_id), '0')
$$;

-- Whether a step is booked already is asked for each batch, among all jobs of three days.
create index procrastinate_jobs_alike on procrastinate_jobs (task_name, args)
    where status in ('todo', 'doing', 'failed');
