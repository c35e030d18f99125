-- quillpost_owner runs these scripts and owns everything; nobody logs in with that role.
-- quillpost_app works for one tenant at a time, under row-level security; quillpost_worker works for all of them.

grant usage on schema public to quillpost_app, quillpost_worker;
grant select, insert, update, delete on alembic_version to quillpost_worker;

-- Tenancy. A transaction names an account, and for a limited caller a sub account and a mode; it sees no rows of
-- anyone else. Without a name it sees no rows at all. This is the rule of tables that have all three columns; the
-- workers see every row.
create procedure keep_tenants_apart(p_table regclass)
language plpgsql as $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))'
        ' and ((select nullif(current_setting(''app.mode'', true), '''')) is null or mode = '
        '(select current_setting(''app.mode'', true)))';
begin
    execute format('alter table %s enable row level security', p_table);
    execute format('create policy tenant on %s to quillpost_app using (%s) with check (%s)', p_table, rule, rule);
    execute format('create policy worker on %s to quillpost_worker using (true) with check (true)', p_table);
end $$;
revoke execute on procedure keep_tenants_apart from public;

-- What jsonb cannot hold (a NUL, an absurd exponent) is stored as text and cannot be filtered by. Strict, as most
-- orders have no metadata and need no attempt.
create function jsonb_or_null(source text) returns jsonb language plpgsql immutable strict as $$
begin
    return source::jsonb;
exception when others then
    return null;
end $$;

-- The texts of a JSON array, nulls included; null for null. A query takes many arrays at once in this form.
create function texts_of(p_json text) returns text[] language sql immutable as $$
    select case jsonb_typeof(cast(p_json as jsonb))
           when 'array' then array(select t from jsonb_array_elements_text(cast(p_json as jsonb))
                                   with ordinality as each (t, place) order by place) end
$$;

-- Eight letters and digits that a person can copy from paper. They come from base64, where each is as likely as any
-- other; a loop over single letters cost as much as the row that gets the code.
create function new_short_code() returns text language plpgsql volatile as $$
declare
    code text := '';
    random bytea;
begin
    while length(code) < 8 loop
        random := uuid_send(gen_random_uuid());      -- the bytes between these say that it is a UUID
        code := code || translate(encode(substring(random, 1, 6) || substring(random, 11), 'base64'), '+/01OIl', '');
    end loop;
    return left(code, 8);
end $$;

-- A code as people copy it from paper: capitals do not matter, nor does an i, an l or a 1.
create function code_as_read(p_code text) returns text language sql immutable parallel safe as $$
    select translate(lower(p_code), '01l', 'oii')
$$;
