create table prices (
    id bigint generated always as identity primary key,
    type text not null,
    size text not null default '',
    mail_class text not null,
    country text not null,                           -- ISO code, or * for every other
    unit_cents integer not null check (unit_cents >= 0),
    valid_from date not null,
    unique (type, size, mail_class, country, valid_from)
);

-- Each row moves cents from one book to another, so the books always balance.
create table ledger_moves (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts,
    mode text not null check (mode in ('test', 'live')),
    order_id bigint references orders on delete cascade,
    kind text not null check (kind in
        ('authorise', 'capture', 'release', 'refund', 'deposit', 'withdrawal', 'issue', 'return')),
    source text not null,
    target text not null check (target <> source),
    cents bigint not null check (cents > 0),
    key text not null unique,                        -- one effect, one key: a repeat is rejected
    note text,                                       -- the operator's
    at timestamptz not null,
    constraint ledger_moves_payment_check check (
        case kind when 'deposit' then (source, target) = ('paid', 'credit') and order_id is null
                  when 'withdrawal' then (source, target) = ('credit', 'paid') and order_id is null
                  else true end),
    -- The value of gift cards is in a book of its own.
    constraint ledger_moves_gift_check check (
        case kind when 'issue' then (source, target) = ('held', 'gifts')
                  when 'return' then (source, target) = ('gifts', 'credit')
                  else 'gifts' not in (source, target) end)
);
create index ledger_moves_order on ledger_moves (order_id);
-- The ledger is read newest first: of an account, of a kind of move, or of a sub account.
create index ledger_moves_account on ledger_moves (account_id, mode, at desc, id desc) include (sub_account_id);
create index ledger_moves_kind on ledger_moves (account_id, mode, kind, at desc, id desc) include (sub_account_id);
create index ledger_moves_sub_account on ledger_moves (sub_account_id, mode, at desc, id desc)
    where sub_account_id is not null;

-- The balance and the spending of an account, in shards: writers rarely meet in one row, so none waits for another.
create table account_credit (
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint not null,                  -- 0: none
    mode text not null,
    shard integer not null,
    cents bigint not null,
    primary key (account_id, mode, sub_account_id, shard)
);
create table account_spending (
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint not null,                  -- 0: none
    mode text not null,
    month date not null,                             -- its first day, in UTC
    shard integer not null,
    cents bigint not null,
    primary key (account_id, mode, sub_account_id, month, shard)
);

-- Rows are locked in one order, so that two writers that move money of several accounts do not deadlock. With the
-- owner's rights: a tenant must not write its own balance.
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
               sum(case when kind in ('refund', 'return') then cents else -cents end)
          from before m
         where kind in ('capture', 'refund', 'issue', 'return')
           and exists (select 1 from accounts a where a.id = m.account_id)
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
               sum(case when kind in ('capture', 'issue') then cents else -cents end)
          from after where kind in ('capture', 'refund', 'issue', 'return')
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

-- The balance of the whole account, with the owner's rights: a caller limited to a sub account spends it, but does
-- not see its rows.
create function credit_of_account(p_mode text) returns bigint
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $$
    select coalesce(sum(cents), 0)::bigint from account_credit
     where account_id = nullif(current_setting('app.account_id', true), '')::bigint and mode = p_mode
$$;

call keep_tenants_apart('ledger_moves');
call keep_tenants_apart('account_credit');
call keep_tenants_apart('account_spending');

grant select on prices, account_credit, account_spending to quillpost_app;
grant select, insert on ledger_moves to quillpost_app;
grant select, insert, update, delete on prices, ledger_moves, account_credit, account_spending to quillpost_worker;
