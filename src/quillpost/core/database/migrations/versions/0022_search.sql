-- Search by the beginnings of words. What is looked for and what is looked through are read by the same functions:
-- in lower case, without accents, at every beginning of a word. PostgreSQL's own parser takes e-mails, hosts and
-- signed numbers for words of a kind, which nobody who types a part of one expects.

-- The words of a text, one space between them and around them. Signs within a word stay: an e-mail is one word.
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

-- What can be found in a text: its words, what is on both sides of an @, and the words within words. Each is marked
-- with the scope in which it is looked for, so that a search reads nothing of other accounts.
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

-- A search for all words of a text, each as the beginning of one; null where there is no word in it.
create function search_query(p_scope text, p_text text) returns tsquery
language sql immutable strict parallel safe as $$
    select cast(string_agg(distinct '''' || replace(replace(p_scope || word, '\', '\\'), '''', '''''') || ''':*',
                           ' & ') as tsquery)
      from unnest(string_to_array(public.search_text(p_text), ' ')) as found (word) where word <> ''
$$;

-- Beside the words of someone on a list stands the list: one of a million is searched like a small one.
create function recipient_search(
    p_account bigint, p_list bigint, p_name text, p_company text, p_email text, p_address text, p_address2 text,
    p_city text, p_province text, p_postal_code text) returns tsvector
language plpgsql immutable parallel safe cost 1000 as $$
begin
    return public.search_vector(p_account || ':', concat_ws(' ', p_name, p_company, p_email, p_address, p_address2,
                                                            p_city, p_province, p_postal_code))
        || array_to_tsvector(array['@' || p_list]);
end $$;
create index recipients_search on recipients using gin (
    recipient_search(account_id, mailing_list_id, name, company, email, address, address2, city, province, postal_code));

-- A piece is written once and changes its status often, and whom it is for hardly ever. Its words lie apart, so that
-- a status that changes writes none of them again.
create table item_search (
    item_id bigint primary key,
    order_id bigint not null,
    words tsvector not null
);
grant select on item_search to quillpost_worker;

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

-- With the owner's hands, for tenants write pieces, and must not read each other's words.
create function keep_item_words() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        insert into item_search (item_id, order_id, words)
        select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city,
                                        province, postal_code)
          from after;
    elsif tg_op = 'DELETE' then
        delete from item_search s using before b where s.item_id = b.id;
    else
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
    after update of name, company, email, address, address2, city, province, postal_code on items
    for each row execute function keep_item_words();

insert into item_search (item_id, order_id, words)
select id, order_id, item_words(account_id, mode, order_id, name, company, email, address, address2, city, province,
                                postal_code)
  from items;
create index item_search_words on item_search using gin (words);

-- Postcards of one size, page by page.
create index orders_size on orders (account_id, mode, size, id desc) include (sub_account_id) where size is not null;
