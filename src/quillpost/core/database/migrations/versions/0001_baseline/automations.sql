create table automations (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    name text not null,
    trigger text not null check (trigger in ('list_entry', 'scan', 'date')),
    mailing_list_id bigint,                          -- null only for scans: of any list, or none
    date_field text check (date_field in ('dob', 'anniversary')),
    days_offset integer not null,                    -- days after the date; negative: before it
    piece text not null,
    send text not null,                              -- the send request's body without an audience, exactly as sent
    message_template_id bigint,                      -- the templates that the send uses, to protect them from deletion
    image_template_id bigint,
    daily_limit integer not null,
    enabled boolean not null,
    enabled_on date,                                 -- the day of enabled_at in the service's time zone
    tries integer not null default 0,                -- failures in a row
    sent_count bigint not null default 0,
    last_order_id bigint,                            -- its latest order
    last_error text,
    enabled_at timestamptz,                          -- nothing before this counts
    next_at timestamptz not null,                    -- lease and backoff in one: no worker sends for it before
    held_until timestamptz,                          -- the daily limit is reached; the next day begins then
    failing_since timestamptz,
    last_sent_at timestamptz,
    last_error_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    check (trigger = 'scan' or mailing_list_id is not null),
    check ((trigger = 'date') = (date_field is not null))
);
create index automations_account on automations (account_id, id desc);
create index automations_list on automations (mailing_list_id);
create index automations_scan on automations (account_id, mode) where enabled and trigger = 'scan';
create index automations_date on automations (date_field, days_offset) where enabled and trigger = 'date';

-- Whom an automation is to mail: a recipient of its list, or the recipient of a scanned item.
create table automation_due (
    id bigint generated always as identity primary key,
    automation_id bigint not null references automations on delete cascade,
    recipient_id bigint references recipients on delete cascade,
    item_id bigint references items on delete cascade,
    since timestamptz not null,
    year integer,                                    -- of the date that is celebrated; null: the year of `since`
    check ((recipient_id is null) <> (item_id is null))
);
-- Recipients and items first: deleting one looks here for references.
create unique index automation_due_recipient on automation_due (recipient_id, automation_id)
    where recipient_id is not null;
create unique index automation_due_item on automation_due (item_id, automation_id) where item_id is not null;
create index automation_due_turn on automation_due (automation_id, id);

-- One mailing per person and year, whatever came of it: the row is written with the order. A person is identified by
-- the address, or by the email where there is none; and by the recipient, in case the address changes.
create table automation_sent (
    automation_id bigint not null references automations on delete cascade,
    person_key text not null,
    year integer not null,
    recipient_id bigint,                             -- may be gone
    order_id bigint not null references orders on delete cascade,
    at timestamptz not null,
    primary key (automation_id, person_key, year)
);
create index automation_sent_recipient on automation_sent (automation_id, recipient_id, year)
    where recipient_id is not null;
create index automation_sent_at on automation_sent (automation_id, at);
create index automation_sent_order on automation_sent (order_id);

-- Whether an address has all that mail needs: `lacks_address_parts_sql` in orders/audience/queries.py says the same.
create function is_whole(address text, city text, province text, postal_code text, country text) returns boolean
language sql immutable as $$
    select address is not null and city is not null
       and (coalesce(country, 'US') <> 'US' or province is not null and postal_code is not null)
$$;

-- A recipient who is added to a list, in any way, is due for its automations once the address is complete.
create function note_list_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, r.id, r.created_at
      from automations a join after r on r.mailing_list_id = a.mailing_list_id
     where a.enabled and a.trigger = 'list_entry'
       and is_whole(r.address, r.city, r.province, r.postal_code, r.country)
     order by a.id, r.id
    on conflict do nothing;
    return null;
end $$;
create trigger recipients_entered after insert on recipients
    referencing new table as after for each statement execute function note_list_entry();

-- So is one who moves over from another list; not those of a merged list, who were all there before.
create function note_list_move() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    delete from automation_due d using automations a
     where d.recipient_id = new.id and a.id = d.automation_id and a.mailing_list_id = old.mailing_list_id;
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, new.id, new.updated_at from automations a
     where a.mailing_list_id = new.mailing_list_id and a.enabled and a.trigger = 'list_entry'
       and is_whole(new.address, new.city, new.province, new.postal_code, new.country)
    on conflict do nothing;
    return null;
end $$;
create trigger recipients_changed_list after update of mailing_list_id on recipients
    for each row when (old.mailing_list_id <> new.mailing_list_id
                       and current_setting('app.merging', true) is distinct from 'yes')
    execute function note_list_move();

-- And one whose address becomes complete later. Not recipients from before the automation was enabled, nor those
-- it has mailed before.
create function note_address() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into automation_due (automation_id, recipient_id, since)
    select a.id, new.id, new.updated_at from automations a
     where a.mailing_list_id = new.mailing_list_id and a.enabled and a.trigger = 'list_entry'
       and a.enabled_at <= new.created_at
       and not exists (select from automation_sent s where s.automation_id = a.id and s.recipient_id = new.id)
    on conflict do nothing;
    return null;
end $$;
create trigger recipients_found_address
    after update of address, city, province, postal_code, country on recipients
    for each row when (not is_whole(old.address, old.city, old.province, old.postal_code, old.country)
                       and is_whole(new.address, new.city, new.province, new.postal_code, new.country))
    execute function note_address();

-- The recipient of an item that a person scanned is due for the automations on scans.
create function note_scan() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into automation_due (automation_id, item_id, since)
    select a.id, v.item_id, min(v.at)
      from automations a
      join after v on v.account_id = a.account_id and v.mode = a.mode and v.kind = 'person'
                  and (a.sub_account_id is null or a.sub_account_id = v.sub_account_id)
                  and (a.mailing_list_id is null or a.mailing_list_id = v.mailing_list_id)
     where a.enabled and a.trigger = 'scan' and v.at >= a.enabled_at
     group by a.id, v.item_id
     order by a.id, v.item_id
    on conflict do nothing;
    return null;
end $$;
create trigger visits_counted after insert on visits
    referencing new table as after for each statement execute function note_scan();

-- Only the service sees who is due: a tenant asks for the number, and has them deleted.
create function automations_waiting(p_automations bigint[]) returns table (automation_id bigint, people bigint)
language sql stable security definer set search_path = pg_catalog, public as $$
    select d.automation_id, count(*)
      from automation_due d join automations a on a.id = d.automation_id
     where d.automation_id = any(p_automations)
       and a.account_id = nullif(current_setting('app.account_id', true), '')::bigint
     group by 1
$$;
-- Someone due on a merged list, who is on the other list too, stays due as the recipient there.
create function keep_waiting_there(p_from bigint, p_into bigint) returns void
language sql security definer set search_path = pg_catalog, public as $$
    update automation_due d set recipient_id = there.id
      from recipients r join recipients there on there.address_key = r.address_key
     where d.recipient_id = r.id and r.mailing_list_id = p_from and there.mailing_list_id = p_into
       and r.account_id = nullif(current_setting('app.account_id', true), '')::bigint
       and there.account_id = r.account_id
       and not exists (select from automation_due o
                        where o.recipient_id = there.id and o.automation_id = d.automation_id)
$$;
create function forget_automation_due(p_automation bigint) returns void
language sql security definer set search_path = pg_catalog, public as $$
    delete from automation_due d using automations a
     where a.id = p_automation and d.automation_id = a.id
       and a.account_id = nullif(current_setting('app.account_id', true), '')::bigint
$$;

-- An erased person was still mailed this year, without a record of who it is.
create function erased_key(p_automation bigint, p_key text) returns text language sql immutable as $$
    select 'erased ' || encode(sha256(convert_to(p_automation || ' ' || p_key, 'UTF8')), 'hex')
$$;

call keep_tenants_apart('automations');

grant select, insert, update, delete on automations to quillpost_app, quillpost_worker;
grant select, insert, update, delete on automation_due, automation_sent to quillpost_worker;
