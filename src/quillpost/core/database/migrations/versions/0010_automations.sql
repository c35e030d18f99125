create table automations (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    name text not null,
    trigger text not null check (trigger in ('list_entry', 'scan', 'date')),
    mailing_list_id bigint,                          -- whose people; null only for scans: of any list, or none
    date_field text check (date_field in ('dob', 'anniversary')),
    days_offset integer not null,                    -- so many days after the day itself; before it, negative
    piece text not null,
    send text not null,                              -- the send call's body, without an audience, to the letter
    message_template_id bigint,                      -- what the send uses, for whoever would delete it
    image_template_id bigint,
    daily_limit integer not null,
    enabled boolean not null,
    enabled_at timestamptz,                          -- what happened before does not count
    enabled_on date,                                 -- the same as a day where the service is
    next_at timestamptz not null,                    -- lease and back-off in one: nobody sends for it before
    tries integer not null default 0,                -- that failed, one after the other
    failing_since timestamptz,
    sent_count bigint not null default 0,
    last_sent_at timestamptz,
    last_order_id bigint,                            -- what it made last, for whoever looks for its orders
    held_until timestamptz,                          -- its limit for a day is reached, and the next begins then
    last_error text,
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

-- Who an automation is to mail: someone on the list, or whoever a scanned piece went to.
create table automation_due (
    id bigint generated always as identity primary key,
    automation_id bigint not null references automations on delete cascade,
    recipient_id bigint references recipients on delete cascade,
    item_id bigint references items on delete cascade,
    since timestamptz not null,
    year integer,                                    -- of the birthday or the like; else that of `since`
    check ((recipient_id is null) <> (item_id is null))
);
-- People and pieces first: whoever removes one asks whether anything still speaks of it.
create unique index automation_due_recipient on automation_due (recipient_id, automation_id)
    where recipient_id is not null;
create unique index automation_due_item on automation_due (item_id, automation_id) where item_id is not null;
create index automation_due_turn on automation_due (automation_id, id);

-- Once a year, whatever came of it: the row is written with the order. Someone is known by the address, or by
-- the e-mail where there is none; and by their place on the list, should they move meanwhile.
create table automation_sent (
    automation_id bigint not null references automations on delete cascade,
    person_key text not null,
    year integer not null,
    recipient_id bigint,                             -- who may be gone
    order_id bigint not null references orders on delete cascade,
    at timestamptz not null,
    primary key (automation_id, person_key, year)
);
create index automation_sent_recipient on automation_sent (automation_id, recipient_id, year)
    where recipient_id is not null;
create index automation_sent_at on automation_sent (automation_id, at);
create index automation_sent_order on automation_sent (order_id);

-- Birthdays are found by their day in any year: 229 is the 29th of February.
create index recipients_dob on recipients
    (mailing_list_id, ((extract(month from dob) * 100 + extract(day from dob))::integer)) where dob is not null;
create index recipients_anniversary on recipients
    (mailing_list_id, ((extract(month from anniversary) * 100 + extract(day from anniversary))::integer))
    where anniversary is not null;

-- Whether mail can go there: `lacks_parts` in orders/audience.py says the same.
create function is_whole(address text, city text, province text, postal_code text, country text) returns boolean
language sql immutable as $$
    select address is not null and city is not null
       and (coalesce(country, 'US') <> 'US' or province is not null and postal_code is not null)
$$;

-- Whoever is put on a list, in whatever way, is due for its automations, once there is an address to mail to.
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

-- So is whoever is moved there from another list; not those of a list that is merged, who all were there.
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

-- And whoever came without an address that mail can go to, when there is one. Not who was there before it was
-- switched on: they do not count, whatever becomes known of them. Nor whoever was mailed to once: they came then.
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

-- Whoever's piece a person scanned is due for the automations on scans.
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

-- Who waits is the service's to know; a tenant asks how many they are, and has them forgotten.
create function automations_waiting(p_automations bigint[]) returns table (automation_id bigint, people bigint)
language sql stable security definer set search_path = pg_catalog, public as $$
    select d.automation_id, count(*)
      from automation_due d join automations a on a.id = d.automation_id
     where d.automation_id = any(p_automations)
       and a.account_id = nullif(current_setting('app.account_id', true), '')::bigint
     group by 1
$$;
-- Whoever waits on a list that is merged into another, and is there already, waits as who they are there.
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

call keep_tenants_apart('automations');
grant select, insert, update, delete on automations to quillpost_app, quillpost_worker;
grant select, insert, update, delete on automation_due, automation_sent to quillpost_worker;
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;
