-- Words of people lie apart from the people, as those of pieces do: each change of a person wrote them all again.
drop index recipients_search;
drop function recipient_search(bigint, bigint, text, text, text, text, text, text, text, text);

create table recipient_search (
    recipient_id bigint primary key,
    words tsvector not null
);

-- Thousands that come at once wait here until a worker has indexed their words, which takes ten times as long as to
-- write them. A search meanwhile reads them one by one.
create table search_backlog (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('recipients', 'items')),
    account_id bigint not null,
    first_id bigint not null,
    last_id bigint not null,
    ids bigint[] not null
);
create index search_backlog_account on search_backlog (account_id, kind);
grant select on recipient_search, search_backlog to quillpost_worker;

create function recipient_words(
    p_account bigint, p_list bigint, p_name text, p_company text, p_email text, p_address text, p_address2 text,
    p_city text, p_province text, p_postal_code text) returns tsvector
language plpgsql immutable parallel safe cost 1000 as $$
begin
    return public.search_vector(p_account || ':', concat_ws(' ', p_name, p_company, p_email, p_address, p_address2,
                                                            p_city, p_province, p_postal_code))
        || array_to_tsvector(array['@' || p_list]);
end $$;

-- A change or a deletion of what waits to be indexed waits for a worker that has it in hand: the words of what was
-- there before would come after the change.
create function await_search_backlog(p_kind text, p_account bigint, p_first bigint, p_last bigint) returns void
language plpgsql as $$
begin
    perform from search_backlog
      where account_id = p_account and kind = p_kind and first_id <= p_last and last_id >= p_first
      order by id for update;
end $$;

-- With the owner's hands, for tenants write people and pieces, and must not read each other's words.
create function keep_recipient_words() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if exists (select from after offset 100) then
            insert into search_backlog (kind, account_id, first_id, last_id, ids)
            select 'recipients', account_id, min(id), max(id), array_agg(id) from after
             group by account_id, id / 10000;
        else
            insert into recipient_search (recipient_id, words)
            select id, recipient_words(account_id, mailing_list_id, name, company, email, address, address2, city,
                                       province, postal_code)
              from after;
        end if;
    elsif tg_op = 'DELETE' then
        perform await_search_backlog('recipients', account_id, min(id), max(id)) from before group by account_id;
        delete from recipient_search s using before b where s.recipient_id = b.id;
    else
        perform await_search_backlog('recipients', new.account_id, new.id, new.id);
        update recipient_search
           set words = recipient_words(new.account_id, new.mailing_list_id, new.name, new.company, new.email,
                                       new.address, new.address2, new.city, new.province, new.postal_code)
         where recipient_id = new.id;
    end if;
    return null;
end $$;
create or replace function keep_item_words() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        if exists (select from after offset 100) then
            insert into search_backlog (kind, account_id, first_id, last_id, ids)
            select 'items', account_id, min(id), max(id), array_agg(id) from after group by account_id, id / 10000;
        else
            insert into item_search (item_id, order_id, words)
            select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city,
                                            province, postal_code)
              from after;
        end if;
    elsif tg_op = 'DELETE' then
        perform await_search_backlog('items', account_id, min(id), max(id)) from before group by account_id;
        delete from item_search s using before b where s.item_id = b.id;
    else
        perform await_search_backlog('items', new.account_id, new.id, new.id);
        update item_search
           set words = item_words(new.account_id, new.mode, new.order_id, new.name, new.company, new.email,
                                  new.address, new.address2, new.city, new.province, new.postal_code)
         where item_id = new.id;
    end if;
    return null;
end $$;
create trigger recipients_words_kept after insert on recipients
    referencing new table as after for each statement execute function keep_recipient_words();
create trigger recipients_words_gone after delete on recipients
    referencing old table as before for each statement execute function keep_recipient_words();
create trigger recipients_words_changed
    after update of mailing_list_id, name, company, email, address, address2, city, province, postal_code
    on recipients for each row
    when ((old.mailing_list_id, old.name, old.company, old.email, old.address, old.address2, old.city, old.province,
           old.postal_code) is distinct from
          (new.mailing_list_id, new.name, new.company, new.email, new.address, new.address2, new.city, new.province,
           new.postal_code))
    execute function keep_recipient_words();
drop trigger items_words_changed on items;
create trigger items_words_changed
    after update of name, company, email, address, address2, city, province, postal_code on items for each row
    when ((old.name, old.company, old.email, old.address, old.address2, old.city, old.province, old.postal_code)
          is distinct from
          (new.name, new.company, new.email, new.address, new.address2, new.city, new.province, new.postal_code))
    execute function keep_item_words();

-- Index what has waited longest, and say how many rows that were: none when nothing waits, or others have it in hand.
create function index_search_backlog() returns integer
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
    waiting search_backlog;
begin
    select * into waiting from search_backlog order by id limit 1 for update skip locked;
    if not found then
        return 0;
    elsif waiting.kind = 'items' then
        insert into item_search (item_id, order_id, words)
        select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city,
                                        province, postal_code)
          from items where id = any(waiting.ids)
        on conflict (item_id) do nothing;
    else
        insert into recipient_search (recipient_id, words)
        select id, recipient_words(account_id, mailing_list_id, name, company, email, address, address2, city, province,
                                   postal_code)
          from recipients where id = any(waiting.ids)
        on conflict (recipient_id) do nothing;
    end if;
    delete from search_backlog where id = waiting.id;
    return cardinality(waiting.ids);
end $$;
revoke execute on function index_search_backlog() from public;
grant execute on function index_search_backlog() to quillpost_worker;

insert into recipient_search (recipient_id, words)
select id, recipient_words(account_id, mailing_list_id, name, company, email, address, address2, city, province,
                           postal_code)
  from recipients;
create index recipient_search_words on recipient_search using gin (words);
