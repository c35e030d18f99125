-- A request to erase a person. Who that is, is encrypted, and deleted once nothing is left to do: a call that ran
-- beside the first pass may have written the person once more, so there is a second.
create table erasures (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,                           -- null: the whole account
    mode text,                                       -- null: both; a test token erases in test mode only
    whom_sealed bytea,
    erased jsonb not null,                           -- rows by table, at the first pass
    asked_at timestamptz not null,
    again_at timestamptz not null,
    done_at timestamptz
);
create index erasures_open on erasures (again_at) where done_at is null;

-- Items that a printer has and that are not mailed yet: they keep their recipients until they are.
create table erasing_pieces (
    item_id bigint primary key references items on delete cascade,
    erasure_id bigint not null references erasures on delete cascade
);
create index erasing_pieces_erasure on erasing_pieces (erasure_id);

-- Files to delete from the file storage; a key that ends with a slash is a print job's folder.
create table erasing_files (
    key text primary key,
    since timestamptz not null
);

grant select, insert, update, delete on erasures, erasing_pieces, erasing_files to quillpost_worker;
