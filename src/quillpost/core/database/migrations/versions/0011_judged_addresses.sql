-- What we find out about an address: its form as the post wants it, in the order address, address2, city, province,
-- postal_code; how sure it is that mail arrives there, and why not. Null: an older release wrote the row, and
-- nobody has looked at it since. The family's name tells households at one address apart.
alter table recipients
    add column surname text,
    add column deliverability text,
    add column standard text[],
    add column reasons text[];
alter table items
    add column surname text,
    add column deliverability text,
    add column standard text[],
    add column reasons text[];

-- The texts of a JSON array, nulls among them; nothing for null. Many arrays at once travel so.
create function texts_of(p_json text) returns text[] language sql immutable as $$
    select case jsonb_typeof(cast(p_json as jsonb))
           when 'array' then array(select t from jsonb_array_elements_text(cast(p_json as jsonb))
                                   with ordinality as each (t, place) order by place) end
$$;
