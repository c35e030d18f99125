-- By which rules an address was judged. Null: by none, or by those of an older release, and a job looks at the row
-- again; below zero: judged, but another of the same list is known by the door, and this one is told apart by its id.
alter table recipients add column address_rules integer;
alter table recipients alter column address_rules set default 1;
alter table items add column address_rules integer;
alter table items alter column address_rules set default 1;
create index recipients_doubles on recipients (mailing_list_id) where address_rules < 0;

-- How far those are who go through the people of all lists, and through all pieces; each makes its row when it begins.
-- What comes after `until_id` was written by this release. Only one at a time asks the verifier: `leased_until` says until when.
create table address_passes (
    name text primary key check (name in ('recipients', 'items', 'verify')),
    rules integer not null,
    last_id bigint not null,
    until_id bigint not null,
    begun_at timestamptz,
    done_at timestamptz,
    leased_until timestamptz,
    trouble text,
    trouble_at timestamptz
);
-- Where nobody is, nobody is to be judged again.
insert into address_passes (name, rules, last_id, until_id, done_at)
select name, 1, 0, 0, now() from (values ('recipients'), ('items')) as pass (name)
 where not exists (select from recipients) and not exists (select from items);

-- Whom an answer is about beside the address: a move is somebody's. Of the name no more is kept than tells it apart.
create function mover_of(p_name text, p_company text) returns bytea language sql immutable as $$
    select sha256(convert_to(lower(regexp_replace(coalesce(p_name, '') || '|' || coalesce(p_company, ''),
                                                  '[[:space:]]+', ' ', 'g')), 'UTF8'))
$$;

-- What the verifier said, the operator's and no tenant's: an address is asked once, however many lists have it. An
-- e-mail, with @ before it, stands for the address that was found for it.
create table address_verdicts (
    address_key text not null,
    mover bytea not null,
    dpv text check (dpv in ('Y', 'D', 'S', 'N')),
    deliverability text check (deliverability in ('deliverable', 'doubtful', 'undeliverable')),  -- null: no answer
    standard text[],                                 -- where mail goes; null: as we had it
    reasons text[] not null,
    moved_key text,                                  -- where somebody has moved: the key of the new address
    answered_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (address_key, mover)
);
create index address_verdicts_expiry on address_verdicts (expires_at);

-- People who changed their address after the verifier's pass had come by.
create table recipients_to_verify (recipient_id bigint primary key references recipients on delete cascade);
create function note_readdressed() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into recipients_to_verify (recipient_id)
    select new.id from address_passes where name = 'verify' and last_id >= new.id
    on conflict do nothing;
    return null;
end $$;
create trigger recipients_readdressed after update of address_key on recipients
    for each row when (old.address_key is distinct from new.address_key
                       and current_setting('app.rejudging', true) is distinct from 'yes')
    execute function note_readdressed();

-- When all addresses of an order had their answer, or were found to get none.
alter table orders add column verified_at timestamptz;
create index orders_unverified on orders (due_at, id)
    where verified_at is null and status in ('reviewing', 'paused');

grant select, insert, update, delete on address_passes, address_verdicts, recipients_to_verify to quillpost_worker;
