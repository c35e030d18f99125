create table accounts (
    id bigint generated always as identity primary key,
    email text not null,
    name text not null,
    company text,
    is_operator boolean not null default false,
    test_mode boolean not null default false,
    return_name text, return_address text, return_address2 text,
    return_city text, return_state text, return_postal_code text,
    embed_origins text[] not null default '{}',      -- sites that may frame the composer: scheme, host and port
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index accounts_email on accounts (lower(email));

create table sub_accounts (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    title text not null,
    return_name text, return_address text, return_address2 text,
    return_city text, return_state text, return_postal_code text,
    branding jsonb not null default '{}',
    backgrounds jsonb not null default '{}',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz                           -- one that has mailed stays for its history, hidden
);
create index sub_accounts_account on sub_accounts (account_id, id desc);

-- People who sign in. One person may belong to several accounts.
create table people (
    id bigint generated always as identity primary key,
    email text not null,
    name text not null,
    password_hash text,                              -- null: cannot sign in yet
    totp_sealed bytea,                               -- the second factor's secret, encrypted
    totp_step bigint,                                -- the last half minute whose code was used
    password_changed_at timestamptz,
    totp_begun_at timestamptz,                       -- when a secret was shown that still waits for its first code
    totp_since timestamptz,                          -- null: no second factor, or one that is being set up
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index people_email on people (lower(email));

create table memberships (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,  -- null: the whole account
    person_id bigint not null references people on delete cascade,
    role text not null check (role in ('owner', 'member', 'operator')),
    created_at timestamptz not null,
    unique (person_id, account_id),
    check (sub_account_id is null or role = 'member')
);
create index memberships_account on memberships (account_id, id);

-- A signed-in browser, found by the digest of its cookie. While it waits for the second factor it opens only the
-- page that asks for the code.
create table sessions (
    id bigint generated always as identity primary key,
    digest bytea not null unique,
    person_id bigint not null references people on delete cascade,
    membership_id bigint references memberships on delete set null,  -- the account on display
    mode text not null default 'test' check (mode in ('test', 'live')),
    awaits_code boolean not null default false,
    network text,
    browser text,
    created_at timestamptz not null,
    confirmed_at timestamptz not null,               -- when the password was last entered
    seen_at timestamptz not null,
    expires_at timestamptz not null
);
create index sessions_person on sessions (person_id, id desc);
create index sessions_expiry on sessions (expires_at);

create table recovery_codes (
    person_id bigint not null references people on delete cascade,
    digest bytea not null,
    used_at timestamptz,
    primary key (person_id, digest)
);

create table password_resets (
    digest bytea primary key,
    person_id bigint not null references people on delete cascade,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
);
create index password_resets_person on password_resets (person_id);

create table invitations (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    email text not null,
    role text not null check (role in ('owner', 'member', 'operator')),
    digest bytea not null unique,
    person_id bigint references people on delete set null,  -- who invited; null: the command line
    created_at timestamptz not null,
    expires_at timestamptz not null,
    accepted_at timestamptz,
    revoked_at timestamptz,
    check (sub_account_id is null or role = 'member')
);
create unique index invitations_waiting on invitations (account_id, lower(email))
    where accepted_at is null and revoked_at is null;

create table oauth_clients (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    client_id text not null unique,
    name text not null,
    website text,
    is_public boolean not null,                      -- cannot keep a secret: has none, and must use PKCE
    secret_digest bytea,
    secret_hint text,
    redirect_uris text[] not null check (cardinality(redirect_uris) > 0),
    scopes text[],                                   -- the most that it may request; null: everything
    person_id bigint references people on delete set null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    check (is_public = (secret_digest is null))
);
create index oauth_clients_account on oauth_clients (account_id, id desc);

-- One person's consent, and the family of all tokens that come from it. It is a connected app from the exchange of
-- its code until it ends.
create table oauth_grants (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    client_id bigint not null references oauth_clients on delete cascade,
    person_id bigint not null references people on delete cascade,
    scopes text[],                                   -- null: everything
    created_at timestamptz not null,
    connected_at timestamptz,
    refreshed_at timestamptz,
    lapses_at timestamptz,                           -- no token of it lasts longer
    ended_at timestamptz,
    ended_by text check (ended_by in ('person', 'app', 'replay', 'reuse', 'membership', 'leak')),
    check ((ended_at is null) = (ended_by is null))
);
create index oauth_grants_account on oauth_grants (account_id, id desc);
create index oauth_grants_client on oauth_grants (client_id);
create index oauth_grants_person on oauth_grants (person_id);

create table oauth_codes (
    digest bytea primary key,
    grant_id bigint not null references oauth_grants on delete cascade,
    redirect_uri text not null,
    challenge text,                                  -- PKCE, S256
    asked text[],                                    -- the scopes that the app named; null: none
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
);
create index oauth_codes_grant on oauth_codes (grant_id);
create index oauth_codes_expiry on oauth_codes (expires_at);

create table refresh_tokens (
    digest bytea primary key,
    grant_id bigint not null references oauth_grants on delete cascade,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz                              -- good for one use; a second use ends its family
);
create index refresh_tokens_grant on refresh_tokens (grant_id);
create index refresh_tokens_expiry on refresh_tokens (expires_at);

-- An API token: an app's (grant_id), a page's while its reader is signed in (session_id), or else a person's own.
create table tokens (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint references sub_accounts on delete cascade,
    mode text not null check (mode in ('test', 'live')),
    name text not null,
    digest bytea not null unique,
    hint text,                                       -- its last characters, to recognize it by
    scopes text[],                                   -- null: everything
    person_id bigint references people on delete set null,  -- who made it; null: the command line
    grant_id bigint references oauth_grants on delete cascade,
    session_id bigint references sessions on delete cascade,
    created_at timestamptz not null,
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz,
    check (grant_id is null or session_id is null)
);
create index tokens_account on tokens (account_id, id desc);
create index tokens_grant on tokens (grant_id) where grant_id is not null;
create index tokens_session on tokens (session_id) where session_id is not null;
create index tokens_expiry on tokens (expires_at) where expires_at is not null;

-- Every sensitive action. Nobody changes an entry; entries go only by retention.
create table audit_log (
    id bigint generated always as identity primary key,
    account_id bigint not null references accounts on delete cascade,
    sub_account_id bigint,
    act text not null,
    actor text not null,                             -- as text: an email, a token's name, the command line
    person_id bigint,
    token_id bigint,
    about jsonb not null default '{}',
    network text,
    at timestamptz not null
);
create index audit_log_account on audit_log (account_id, id desc);
create index audit_log_time on audit_log (at);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'The audit log is written once.';
end $$;
create trigger audit_log_written_once before update on audit_log
    for each row execute function refuse_change();

-- Finds a token's owner and counts the call against its rate limit: one round trip, before any account is known.
-- Tokens that are easy to renew share one count: those of an app by grant, those of pages by person and account.
-- An operator's rights never come with an app's token, a sub account's, or a page's of someone without the role.
create function authenticate(p_digest bytea, p_seconds integer, p_now timestamptz)
returns table (token_id bigint, account_id bigint, sub_account_id bigint, mode text, scopes text[], person_id bigint,
               grant_id bigint, is_operator boolean, used integer, resets_in integer)
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    found_id bigint;
    counted_as text;
begin
    select t.id,
           coalesce('grant:' || t.grant_id,
                    case when t.session_id is not null then 'page:' || t.person_id || ':' || t.account_id end,
                    'token:' || t.id),
           t.account_id, t.sub_account_id,
           case when a.test_mode then 'test' else t.mode end, t.scopes, t.person_id, t.grant_id,
           a.is_operator and t.sub_account_id is null and t.grant_id is null
               and (t.session_id is null
                    or exists (select from sessions s join memberships m using (person_id)
                                where s.id = t.session_id and m.account_id = t.account_id
                                  and m.role in ('owner', 'operator')))
      into found_id, counted_as, account_id, sub_account_id, mode, scopes, person_id, grant_id, is_operator
      from tokens t join accounts a on a.id = t.account_id
     where t.digest = p_digest and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > p_now);
    if found_id is null then
        return;
    end if;
    token_id := found_id;
    update tokens set last_used_at = p_now
     where id = found_id
       and (last_used_at is null or last_used_at < p_now - interval '1 minute');
    select c.used, c.resets_in into used, resets_in from count_call(counted_as, p_seconds) c;
    return next;
end $$;

do $$
declare
    account constant text :=
        'account_id = (select nullif(current_setting(''app.account_id'', true), '''')::bigint)';
    sub_account constant text :=
        '((select nullif(current_setting(''app.sub_account_id'', true), '''')) is null or sub_account_id = '
        '(select nullif(current_setting(''app.sub_account_id'', true), '''')::bigint))';
    whole_account constant text :=
        account || ' and (select nullif(current_setting(''app.sub_account_id'', true), '''')) is null';
    tenant record;
begin
    for tenant in
        select * from (values
            ('accounts', replace(account, 'account_id =', 'id =')),
            ('sub_accounts', account || ' and ' || replace(sub_account, 'or sub_account_id =', 'or id =')),
            ('memberships', account || ' and ' || sub_account),
            ('invitations', account || ' and ' || sub_account),
            ('oauth_clients', whole_account),        -- a caller limited to a sub account registers no apps
            ('oauth_grants', account || ' and ' || sub_account),
            ('tokens', account || ' and ' || sub_account),
            ('audit_log', account || ' and ' || sub_account)
        ) as t (name, rule)
    loop
        execute format('alter table %I enable row level security', tenant.name);
        execute format('create policy tenant on %I to quillpost_app using (%s) with check (%s)',
                       tenant.name, tenant.rule, tenant.rule);
        execute format('create policy worker on %I to quillpost_worker using (true) with check (true)', tenant.name);
    end loop;
end $$;

-- An account reads the apps that are connected to it, too.
create policy connected on oauth_clients for select to quillpost_app using (
    exists (select from oauth_grants g where g.client_id = oauth_clients.id));

-- An account sees only the people who are its members.
alter table people enable row level security;
create policy tenant on people for select to quillpost_app using (
    exists (select from memberships m where m.person_id = people.id));
create policy worker on people to quillpost_worker using (true) with check (true);

grant select, insert, update, delete on accounts, sub_accounts, people, memberships, sessions, recovery_codes,
    password_resets, invitations, oauth_clients, oauth_grants, oauth_codes, refresh_tokens, tokens to quillpost_worker;
grant select, insert, delete on audit_log to quillpost_worker;
grant select on accounts to quillpost_app;
-- Not is_operator or test_mode: no tenant decides those.
grant update (name, company, return_name, return_address, return_address2, return_city, return_state,
              return_postal_code, embed_origins, updated_at) on accounts to quillpost_app;
grant select (id, email, name, totp_since, created_at) on people to quillpost_app;
grant select, insert, update, delete on sub_accounts, memberships, invitations, oauth_grants, tokens to quillpost_app;
grant select (id, account_id, client_id, name, website, is_public, secret_hint, redirect_uris, scopes, person_id,
              created_at, updated_at), insert, update, delete on oauth_clients to quillpost_app;
grant select, insert on audit_log to quillpost_app;
