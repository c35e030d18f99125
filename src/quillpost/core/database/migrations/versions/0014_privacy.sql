-- A piece whose recipient was erased, or kept for as long as is set: its row, status, money and counts stay.
-- Its reader may still ask for no more mail: of the address that it was mailed to a digest is kept, as of those who
-- are barred.
alter table items add column person_gone_at timestamptz;
alter table items add column door_digest bytea;
-- Pieces that have ended and still name somebody, the oldest end first; those in the mail are not in it.
create index items_people on items (updated_at)
    where person_gone_at is null and (is_over or status in ('Delivered', 'Returned to Sender', 'Failed'));

-- Somebody's wish to be forgotten. Whom it is about is sealed, and forgotten itself once nothing is left to do:
-- a call that ran beside the first pass may have written them once more, so there is a second.
create table erasures (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,                           -- null: the whole account
    mode text,                                       -- null: both; whoever is testing erases in testing alone
    asked_at timestamptz not null,
    again_at timestamptz not null,
    whom_sealed bytea,
    done_at timestamptz,
    erased jsonb not null                            -- rows by table, at the first pass
);
create index erasures_open on erasures (again_at) where done_at is null;

-- Pieces that a printer has, and that are not in the mail yet: they keep their recipients until they are.
create table erasing_pieces (
    item_id bigint primary key references items on delete cascade,
    erasure_id bigint not null references erasures on delete cascade
);
create index erasing_pieces_erasure on erasing_pieces (erasure_id);

-- Files to be removed from the store; a key that ends with a slash is a print job's folder.
create table erasing_files (
    key text primary key,
    since timestamptz not null
);

-- What was told of a piece is found by its facts. A block range index costs whoever writes next to nothing, and
-- what is told lies nearly in the order in which it happened.
create index deliveries_facts on deliveries using brin (fact_id) with (pages_per_range = 16);
create index notices_order on notices (split_part(key, ':', 2)) where kind = 'scans';
-- What is too old is looked for among all that ever was.
create index facts_time on facts using brin (at);
create index visits_time on visits using brin (at);
create index carrier_scans_time on carrier_scans using brin (received_at);

-- Who was mailed to this year stays known when they are erased, without telling who it is.
create function erased_key(p_automation bigint, p_key text) returns text language sql immutable as $$
    select 'erased ' || encode(sha256(convert_to(p_automation || ' ' || p_key, 'UTF8')), 'hex')
$$;

grant select, insert, update, delete on erasures, erasing_pieces, erasing_files to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_worker;

-- Orders whose pictures were kept for as long as is set: they cannot be sent again as they were.
alter table orders add column pictures_gone_at timestamptz;
create index orders_pictures on orders (updated_at)
    where pictures_gone_at is null and status in ('fulfilled', 'cancelled', 'error');
