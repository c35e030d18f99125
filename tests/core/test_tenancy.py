"""Whose rows a transaction sees, tried on every table of the schema."""

from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database import Database, Tenant
from quillpost.core.database.engine import Tx, create_admin_engine
from quillpost.core.database.schema import APP_ROLE, OWNER_ROLE
from quillpost.core.database.tables.base import metadata
from support.orders import open_account
from support.tenant_rows import TENANT_TABLES, account_column, insert_least, insert_one_of_each, least_row

WITHOUT_POLICY = {
    "prices": "a public price list, read only",
    "fact_queue": "numbers of facts, which the app role may add and never read",
    "procrastinate_jobs": "task names and numbers of batches; no one's words",
    "procrastinate_events": "written by the job table's trigger, never read",
    "leads": "the operator's addresses for sale, read only",
    "lead_sources": "what the operator calls them, read only",
    "lead_density": "how many of them there are where, read only",
    "giftcard_brands": "the operator's catalog, read only",
}
CLOSED = (
    "batches", "address_passes", "address_verdicts", "recipients_to_verify", "webhook_lanes", "webhooks_gone",
    "visit_inbox", "do_not_mail_inbox", "import_rejects", "merged_lists", "notices", "scan_news",
    "news_threads", "notice_refusals", "automation_due", "automation_sent", "deliveries_other",
    "carrier_scans", "received_events", "rate_windows", "lead_files", "procrastinate_workers",
    "procrastinate_periodic_defers", "alembic_version", "sessions", "recovery_codes", "password_resets",
    "oauth_codes", "refresh_tokens", "giftcard_stock", "recipient_search",
    "item_search", "search_backlog",
)  # fmt: skip
SEEN_BESIDES = {("people", "tenant"): "memberships", ("oauth_clients", "connected"): "oauth_grants"}
"""What an account may read that is not its own: it is tied to rows that are, which have their own policy."""
WITH_MODE = (
    "orders", "items", "facts", "ledger_moves", "webhooks", "deliveries", "webhook_replays", "order_counts",
    "stored_sends", "account_credit", "account_spending", "hourly_counts", "visits", "automations",
    "lead_purchases", "giftcards",
)  # fmt: skip
WRITTEN_ONCE = ("facts", "ledger_moves", "lead_purchases", "audit_log")
"""A tenant adds to them, and changes nothing that is there."""
NEVER_DELETED = ("accounts", "own_hands", "signatures")
"""A tenant hides them; the service deletes what nothing needs any more."""
READ_ONLY = ("account_credit", "account_spending", "hourly_counts", "visits", "giftcards")
"""A tenant sees them; the ledger, or the service, writes them. Of a gift card it may say that it is void."""
TABLES = [metadata.tables[name] for name in TENANT_TABLES]
WITH_SUB_ACCOUNT = [table for table in TABLES if "sub_account_id" in table.c]

TOUCHABLE = sa.text(
    """
    select c.relname, c.relrowsecurity from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
       and (has_any_column_privilege(:app, c.oid, 'select, insert, update, references')
            or has_table_privilege(:app, c.oid, 'delete, truncate, trigger'))
     order by c.relname
    """
)
POLICIES = sa.text(
    """
    select tablename, policyname, permissive, roles::text[] as roles, cmd, qual, with_check
      from pg_policies where :app = any(roles) or 'public' = any(roles)
    """
)


@pytest.fixture
def stranger(container: Container) -> int:
    return open_account(container, "stranger@example.com").account_id


def attempt(tx: Tx, statement: sa.Executable) -> int | str:
    """How many rows it changed, or the word for why it was refused; nothing of it stays."""
    attempted = tx.begin_nested()
    try:
        return tx.execute(statement, execution_options={"preserve_rowcount": True}).rowcount
    except sa.exc.ProgrammingError as refused:
        reason = str(refused.orig)
        return "policy" if "row-level security policy" in reason else reason.splitlines()[0]
    finally:
        attempted.rollback()


def denied(table: sa.Table) -> str:
    return f"permission denied for table {table.name}"


def count_rows_of(tx: Tx, account_id: int) -> set[int]:
    """How many rows of theirs there are in each table."""
    counting = (sa.select(sa.func.count()).where(account_column(table) == account_id) for table in TABLES)
    return {tx.execute(counted).scalar_one() for counted in counting}


def fill(container: Container, account_id: int, **whose: Any) -> dict[str, object]:
    with container.db.system_transaction() as tx:
        return insert_one_of_each(tx, account_id=account_id, **whose)


def test_every_table_that_the_app_role_touches_has_a_policy_for_reads_and_writes(container: Container) -> None:
    with create_admin_engine(container.db.conninfo).connect() as tx:
        touchable = {row.relname: row.relrowsecurity for row in tx.execute(TOUCHABLE, {"app": APP_ROLE})}
        assert {name for name, has_policy in touchable.items() if not has_policy} == set(WITHOUT_POLICY)
        guarded = {name for name, has_policy in touchable.items() if has_policy}
        assert guarded == {*TENANT_TABLES, *(table for table, _ in SEEN_BESIDES)}
        tx.execute(sa.text("create table forgotten (id bigint)"))
        tx.execute(sa.text(f"grant select (id) on forgotten to {APP_ROLE}"))
        assert ("forgotten", False) in tx.execute(TOUCHABLE, {"app": APP_ROLE}).all()
        tx.rollback()
    with container.db.system_transaction() as tx:
        policies = tx.execute(POLICIES, {"app": APP_ROLE}).all()
    besides = [policy for policy in policies if (policy.tablename, policy.policyname) in SEEN_BESIDES]
    assert len(besides) == len(SEEN_BESIDES)
    for policy in besides:
        assert (policy.cmd, policy.roles, policy.with_check) == ("SELECT", [APP_ROLE], None)
        assert f"FROM {SEEN_BESIDES[policy.tablename, policy.policyname]}" in policy.qual
    policies = [policy for policy in policies if policy not in besides]
    assert {policy.tablename for policy in policies} == set(TENANT_TABLES)
    assert len(policies) == len(TENANT_TABLES), "a second policy would widen the first"
    for policy in policies:
        assert (policy.policyname, policy.cmd, policy.roles) == ("tenant", "ALL", [APP_ROLE])
        assert "app.account_id" in policy.qual
        assert policy.with_check == policy.qual


def test_the_app_role_cannot_leave_its_policies(container: Container, account: int, subtests: pytest.Subtests) -> None:
    with container.db.system_transaction() as tx:
        role = tx.execute(
            sa.text("select rolsuper, rolbypassrls, rolcreaterole from pg_roles where rolname = :app"),
            {"app": APP_ROLE},
        ).one()
        memberships = sa.text("select 1 from pg_auth_members where member = cast(:app as regrole)")
        assert tx.execute(memberships, {"app": APP_ROLE}).all() == []
        owners = sa.text("select distinct tableowner from pg_tables where schemaname = 'public'")
        assert tx.execute(owners).scalars().all() == [OWNER_ROLE]
    assert tuple(role) == (False, False, False)
    for has_own_logins in (True, False):
        db = Database(container.db.conninfo, has_own_logins=has_own_logins)
        for way_out in ("reset role", "reset session authorization", "reset all"):
            with subtests.test(way_out, has_own_logins=has_own_logins), db.transaction(Tenant(account)) as tx:
                tx.execute(sa.text(way_out))
                assert tx.execute(sa.text("select current_user")).scalar_one() == APP_ROLE
        db.close()
    for other in ("quillpost_worker", "quillpost_owner", "postgres"):
        with subtests.test(other), container.db.transaction(Tenant(account)) as tx:
            assert str(attempt(tx, sa.text(f"set role {other}"))).startswith("permission denied to set role")
    with container.db.transaction(Tenant(account)) as tx:
        accounts = metadata.tables["accounts"]
        assert attempt(tx, sa.update(accounts).values(is_operator=True)) == denied(accounts)


def test_a_row_is_seen_by_its_account_alone(container: Container, account: int, stranger: int) -> None:
    fill(container, account)
    for tenant in (Tenant(stranger), None):
        with container.db.transaction(tenant) if tenant else container.db.anonymous_transaction() as tx:
            assert count_rows_of(tx, account) == {0}
    with container.db.transaction(Tenant(account)) as tx:
        session = tx.execute(sa.text("select pg_backend_pid()")).scalar_one()
        assert count_rows_of(tx, account) == {1}
    with ExitStack() as transactions:
        # The account does not stay with the connection. The pool may have others: each in use is not given again.
        for _ in range(20):
            tx = transactions.enter_context(container.db.anonymous_transaction())
            if tx.execute(sa.text("select pg_backend_pid()")).scalar_one() == session:
                break
        else:
            pytest.fail("the connection did not come again")
        assert count_rows_of(tx, account) == {0}


def test_nobody_writes_rows_of_others_or_gives_one_away(container: Container, account: int, stranger: int) -> None:
    of_account, of_stranger = fill(container, account), fill(container, stranger)
    with container.db.transaction(Tenant(stranger)) as tx:
        for table in TABLES:
            is_kept = table.name in (*WRITTEN_ONCE, *READ_ONLY)
            column = next(column.name for column in table.c if column.name in ("account_id", "name"))
            theirs = account_column(table) == account
            touch = sa.update(table).where(theirs).values({column: table.c[column]})
            assert attempt(tx, touch) == (denied(table) if is_kept else 0), table.name
            remove = sa.delete(table).where(theirs)
            expected = denied(table) if is_kept or table.name in NEVER_DELETED else 0
            assert attempt(tx, remove) == expected, table.name
        for table in TABLES[1:]:
            own, others = (sa.insert(table).values(**least_row(table, known)) for known in (of_stranger, of_account))
            refusal = denied(table) if table.name in READ_ONLY else None
            assert attempt(tx, own) == (refusal or 1), table.name
            assert attempt(tx, others) == (refusal or "policy"), table.name
            if table.name not in (*WRITTEN_ONCE, *READ_ONLY):
                assert attempt(tx, sa.update(table).values(account_id=account)) == "policy", table.name
        newcomer = sa.insert(TABLES[0]).values(**least_row(TABLES[0], {}))
        assert attempt(tx, newcomer) == "permission denied for table accounts"
    with container.db.transaction(Tenant(account)) as tx:
        orders = metadata.tables["orders"]
        assert attempt(tx, sa.update(orders).values(account_id=orders.c.account_id)) == 1
        assert attempt(tx, sa.delete(metadata.tables["webhooks"])) == 1


def test_sub_account_callers_see_and_write_only_there(container: Container, account: int, stranger: int) -> None:
    table = metadata.tables["sub_accounts"]
    with container.db.system_transaction() as tx:
        mine, other = (insert_least(tx, table, {"account_id": account}) for _ in range(2))
    known = {each: fill(container, account, sub_account_id=each) for each in (mine, other, None)}[mine]
    fill(container, stranger)
    clients, sub_accounts = metadata.tables["oauth_clients"], metadata.tables["sub_accounts"]
    with container.db.transaction(Tenant(account, mine)) as tx:
        for table in WITH_SUB_ACCOUNT:
            assert tx.execute(sa.select(table.c.sub_account_id)).scalars().all() == [mine], table.name
            if table.name in READ_ONLY:
                continue
            for sub_account_id, outcome in ((mine, 1), (other, "policy"), (None, "policy")):
                write = sa.insert(table).values(**least_row(table, known | {"sub_account_id": sub_account_id}))
                assert attempt(tx, write) == outcome, table.name
        assert tx.execute(sa.select(sub_accounts.c.id)).scalars().all() == [mine]
        for table in (clients, sub_accounts):
            assert attempt(tx, sa.insert(table).values(**least_row(table, {"account_id": account}))) == "policy"
    seen: list[set[int]] = []
    for tenant in (Tenant(account), Tenant(account, mine), Tenant(stranger)):
        with container.db.transaction(tenant) as tx:
            seen.append(set(tx.execute(sa.select(metadata.tables["people"].c.id)).scalars()))
    everyone, of_branch, strangers = seen
    assert (len(everyone), len(of_branch), len(strangers)) == (3, 1, 1)
    assert not everyone & strangers


def test_an_account_reads_only_clients_connected_to_it(container: Container, account: int, stranger: int) -> None:
    clients, grants = metadata.tables["oauth_clients"], metadata.tables["oauth_grants"]
    known = fill(container, stranger)
    with container.db.system_transaction() as tx:
        insert_least(tx, clients, {"account_id": stranger})
        insert_least(tx, grants, known | {"account_id": account})
    with container.db.transaction(Tenant(account)) as tx:
        assert tx.execute(sa.select(clients.c.id)).scalars().all() == [known["client_id"]]
        assert attempt(tx, sa.delete(clients)) == 0
        assert attempt(tx, sa.update(clients).values(name="Mine")) == 0


def test_test_and_live_do_not_see_each_other(container: Container, account: int) -> None:
    for mode in ("test", "live"):
        fill(container, account, mode=mode)
    for seen in ("test", "live", None):
        with container.db.transaction(Tenant(account, mode=seen)) as tx:
            for name in WITH_MODE:
                found = tx.execute(sa.select(metadata.tables[name].c.mode)).scalars().all()
                assert sorted(found) == ([seen] if seen else ["live", "test"]), name


CARD_SECRETS = ("claim_digest", "claim_sealed", "card_sealed", "reference", "issuer", "given_back_at")
DENIED: dict[str, tuple[str, ...]] = {
    **{name: (f"select 1 from {name}", f"delete from {name}", f"insert into {name} default values") for name in CLOSED},
    "fact_queue": ("select 1 from fact_queue",),
    "people": (
        "select password_hash from people", "select totp_sealed from people", "select * from people",
        "update people set name = 'Mallory'", "delete from people", "insert into people default values",
    ),
    "giftcards": (
        "select * from giftcards", "update giftcards set claimed_at = null", "update giftcards set cents = 1",
        "update giftcards set status = 'void', voided_at = now() returning claim_sealed",
        *(f"select {column} from giftcards" for column in CARD_SECRETS),
        *(f"select 1 from giftcards where {column} is not null" for column in CARD_SECRETS),
        *(f"update giftcards set {column} = null" for column in CARD_SECRETS),
    ),
}  # fmt: skip


def test_what_is_the_service_s_own_or_redeems_cards_is_closed_to_tenants(container: Container, account: int) -> None:
    log = metadata.tables["audit_log"]
    fill(container, account)
    with container.db.transaction(Tenant(account)) as tx:
        for table, statements in DENIED.items():
            for statement in statements:
                assert attempt(tx, sa.text(statement)) == f"permission denied for table {table}", statement
        assert attempt(tx, sa.text("select item_id, status, claimed_at, void_reason from giftcards")) == 1
        void = "update giftcards set status = 'void', voided_at = now(), void_reason = 'Lost'"
        assert attempt(tx, sa.text(void)) == 1
    with container.db.system_transaction() as tx:
        assert attempt(tx, sa.update(log).values(actor="somebody else")) == denied(log)
