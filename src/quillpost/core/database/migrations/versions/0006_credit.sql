-- Credit. Money comes in and goes out beside the orders, too, and what an account has is kept with each move.
alter table ledger_moves
    add column note text,                            -- the operator's own
    drop constraint ledger_moves_kind_check,
    add constraint ledger_moves_kind_check check (kind in
        ('authorise', 'capture', 'release', 'refund', 'deposit', 'withdrawal')),
    add constraint ledger_moves_payment_check check (
        case kind when 'deposit' then (source, target) = ('paid', 'credit') and order_id is null
                  when 'withdrawal' then (source, target) = ('credit', 'paid') and order_id is null
                  else true end);

-- In as many rows as those who move money rarely meet in, as orders are counted: none waits for another.
create table account_credit (
    account_id bigint not null references accounts on delete cascade,
    mode text not null,
    sub_account_id bigint not null,                  -- 0: of none
    shard integer not null,
    cents bigint not null,
    primary key (account_id, mode, sub_account_id, shard)
);
create table account_spending (
    account_id bigint not null references accounts on delete cascade,
    mode text not null,
    sub_account_id bigint not null,
    month date not null,                             -- its first day, in UTC
    shard integer not null,
    cents bigint not null,
    primary key (account_id, mode, sub_account_id, month, shard)
);

-- Always in one order: of two that move the money of several accounts neither waits for the other in a circle.
-- With the owner's hands, for a tenant must not write what it has.
create function keep_credit() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
    if tg_op in ('UPDATE', 'DELETE') then
        -- Of whole accounts that go, their credit has gone before.
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case source when 'credit' then cents else -cents end)
          from before m
         where 'credit' in (source, target) and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case kind when 'refund' then cents else -cents end)
          from before m
         where kind in ('capture', 'refund') and exists (select 1 from accounts a where a.id = m.account_id)
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        insert into account_credit as c (account_id, mode, sub_account_id, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0), pg_backend_pid() % 32,
               sum(case target when 'credit' then cents else -cents end)
          from after where 'credit' in (source, target)
         group by 1, 2, 3 order by 1, 2, 3
        on conflict (account_id, mode, sub_account_id, shard) do update set cents = c.cents + excluded.cents;
        insert into account_spending as s (account_id, mode, sub_account_id, month, shard, cents)
        select account_id, mode, coalesce(sub_account_id, 0),
               date_trunc('month', at at time zone 'UTC')::date, pg_backend_pid() % 32,
               sum(case kind when 'capture' then cents else -cents end)
          from after where kind in ('capture', 'refund')
         group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (account_id, mode, sub_account_id, month, shard) do update set cents = s.cents + excluded.cents;
    end if;
    return null;
end $$;
create trigger ledger_moves_added after insert on ledger_moves
    referencing new table as after for each statement execute function keep_credit();
create trigger ledger_moves_changed after update on ledger_moves
    referencing old table as before new table as after for each statement execute function keep_credit();
create trigger ledger_moves_removed after delete on ledger_moves
    referencing old table as before for each statement execute function keep_credit();

insert into account_credit (account_id, mode, sub_account_id, shard, cents)
select account_id, mode, coalesce(sub_account_id, 0), 0,
       sum(case target when 'credit' then cents else -cents end)
  from ledger_moves where 'credit' in (source, target) group by 1, 2, 3;
insert into account_spending (account_id, mode, sub_account_id, month, shard, cents)
select account_id, mode, coalesce(sub_account_id, 0), date_trunc('month', at at time zone 'UTC')::date, 0,
       sum(case kind when 'capture' then cents else -cents end)
  from ledger_moves where kind in ('capture', 'refund') group by 1, 2, 3, 4;

do $$
declare
    rule constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)'
        ' and ((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))'
        ' and ((select nullif(current_setting(''app.mode'', true), '''')) is null or mode = '
        '(select current_setting(''app.mode'', true)))';
    name text;
begin
    foreach name in array array['account_credit', 'account_spending'] loop
        execute format('alter table %I enable row level security', name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)',
                       name, rule, rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', name);
    end loop;
end $$;
grant select on account_credit, account_spending to quillpost_app;
grant select, insert, update, delete on account_credit, account_spending to quillpost_worker;

-- What the whole account has. A caller who is limited to a sub account spends it too, and does not see it:
-- so this looks with the owner's eyes, at this account alone.
create function credit_of_account(p_mode text) returns bigint
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $$
    select coalesce(sum(cents), 0)::bigint from account_credit
     where account_id = nullif(current_setting('app.account_id', true), '')::bigint and mode = p_mode
$$;
