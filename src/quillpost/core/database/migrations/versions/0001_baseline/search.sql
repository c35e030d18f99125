-- Search by the beginnings of words. The same functions read the query and the text: in lower case, without accents,
-- at every beginning of a word. PostgreSQL's own parser treats emails, hosts and signed numbers as words of a kind,
-- which nobody who types a part of one expects.

-- The words of recipients and items lie apart from them, so that a change of an address or a status does not write
-- them again. Only functions with the owner's rights write here, so nobody has more than select.
create table recipient_search (
    recipient_id bigint primary key,
    words tsvector not null
);
create index recipient_search_words on recipient_search using gin (words);

create table item_search (
    item_id bigint primary key,
    order_id bigint not null,
    words tsvector not null
);
create index item_search_words on item_search using gin (words);

-- When thousands come at once they wait here for a worker, as indexing takes ten times as long as writing them. Until
-- then a search reads them one by one.
create table search_backlog (
    id bigint generated always as identity primary key,
    account_id bigint not null,
    kind text not null check (kind in ('recipients', 'items')),
    first_id bigint not null,
    last_id bigint not null,
    ids bigint[] not null
);
create index search_backlog_account on search_backlog (account_id, kind);

-- The words of a text, with one space between and around them. Signs within a word stay: an email is one word.
create function search_text(p_text text) returns text
language plpgsql immutable strict parallel safe as $$
declare
    found text := p_text;
begin
    if octet_length(found) > char_length(found) then
        found := regexp_replace(normalize(found, NFKD), '[\u0300-\u036f]', '', 'g');
        found := replace(replace(replace(found, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe');
        found := translate(found, 'øØłŁđĐðı’', 'oOlLdDdi''');
    end if;
    found := regexp_replace(' ' || lower(found) || ' ',
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]*'
        '[\u0001-\u0020,;/|()<>"\[\]{}]'
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]*', ' ', 'g');
    if octet_length(found) > 500 then
        -- What no index can hold is no word that anybody types.
        found := regexp_replace(found, '([^ ]{100})[^ ]+', '\1', 'g');
    end if;
    return found;
end $$;

-- What can be found in a text: its words, both sides of an @, and the words within words. Each is prefixed with the
-- scope of the search, so that a search reads nothing of other accounts.
create function search_vector(p_scope text, p_text text) returns tsvector
language plpgsql immutable strict parallel safe cost 1000 as $$
declare
    words text := public.search_text(p_text);
begin
    if words ~ '[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]' then
        words := words || translate(words, '@', ' ') || regexp_replace(words,
            '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]+', ' ', 'g');
    end if;
    return array_to_tsvector(array_remove(
        string_to_array(p_scope || replace(words, ' ', ' ' || p_scope), ' '), p_scope));
end $$;

-- A query for all words of a text, each as the beginning of a word; null where the text has none.
create function search_query(p_scope text, p_text text) returns tsquery
language sql immutable strict parallel safe as $$
    select cast(string_agg(distinct '''' || replace(replace(p_scope || word, '\', '\\'), '''', '''''') || ''':*',
                           ' & ') as tsquery)
      from unnest(string_to_array(public.search_text(p_text), ' ')) as found (word) where word <> ''
$$;

-- With its words goes a recipient's list, and an item's order: a search of one reads nothing of the others.
create function recipient_words(
    p_account bigint, p_list bigint, p_name text, p_company text, p_email text, p_address text, p_address2 text,
    p_city text, p_province text, p_postal_code text) returns tsvector
language plpgsql immutable parallel safe cost 1000 as $$
begin
    return public.search_vector(p_account || ':', concat_ws(' ', p_name, p_company, p_email, p_address, p_address2,
                                                            p_city, p_province, p_postal_code))
        || array_to_tsvector(array['@' || p_list]);
end $$;

create function item_words(
    p_account bigint, p_mode text, p_order bigint, p_name text, p_company text, p_email text, p_address text,
    p_address2 text, p_city text, p_province text, p_postal_code text) returns tsvector
language plpgsql immutable parallel safe cost 1000 as $$
begin
    return public.search_vector(p_account || p_mode || ':',
                                concat_ws(' ', p_name, p_company, p_email, p_address, p_address2, p_city, p_province,
                                          p_postal_code))
        || array_to_tsvector(array['#' || p_order]);
end $$;

-- A change or a delete of rows in the backlog waits for a worker that is indexing them; otherwise the old words would
-- be written after the change.
create function await_search_backlog(p_kind text, p_account bigint, p_first bigint, p_last bigint) returns void
language plpgsql as $$
begin
    perform from search_backlog
      where account_id = p_account and kind = p_kind and first_id <= p_last and last_id >= p_first
      order by id for update;
end $$;

-- With the owner's rights: tenants write recipients and items, and must not read each other's words.
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

create function keep_item_words() returns trigger
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
create trigger items_words_kept after insert on items
    referencing new table as after for each statement execute function keep_item_words();
create trigger items_words_gone after delete on items
    referencing old table as before for each statement execute function keep_item_words();
create trigger items_words_changed
    after update of name, company, email, address, address2, city, province, postal_code on items for each row
    when ((old.name, old.company, old.email, old.address, old.address2, old.city, old.province, old.postal_code)
          is distinct from
          (new.name, new.company, new.email, new.address, new.address2, new.city, new.province, new.postal_code))
    execute function keep_item_words();

-- Indexes the oldest rows of the backlog and returns how many; 0 when nothing waits, or others are indexing it.
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

grant select on recipient_search, item_search, search_backlog to quillpost_worker;
