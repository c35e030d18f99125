"""Whose rows a transaction sees, tried on every table of the schema."""

from contextlib import ExitStack

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
READ_ONLY = ("account_credit", "account_spending", "hourly_counts", "visits", "giftcards")
"""A tenant sees them; the ledger, or the service, writes them. Of a gift card it may say that it is void."""
TABLES = [metadata.tables[name] for name in TENANT_TABLES]
WITH_SUB_ACCOUNT = [table for table in TABLES if "sub_account_id" in table.c]

TOUCHABLE = sa.text(
    """
    select c.relname, c.relrowsecurity
      from pg_class c
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
def owner(container: Container) -> int:
    return open_account(container).account_id


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


def count_rows_of(tx: Tx, account_id: int) -> dict[str, int]:
    return {
        table.name: tx.execute(
            sa.select(sa.func.count()).select_from(table).where(account_column(table) == account_id)
        ).scalar_one()
        for table in TABLES
    }


def some_column(table: sa.Table) -> str:
    """A column that can be set to itself."""
    return next(column.name for column in table.c if column.name in ("account_id", "name"))


def test_every_table_that_the_app_role_can_touch_has_a_policy(container: Container) -> None:
    with container.db.system_transaction() as tx:
        touchable = {row.relname: row.relrowsecurity for row in tx.execute(TOUCHABLE, {"app": APP_ROLE})}
    assert {name for name, has_policy in touchable.items() if not has_policy} == set(WITHOUT_POLICY)
    guarded = {name for name, has_policy in touchable.items() if has_policy}
    assert guarded == {*TENANT_TABLES, *(table for table, _ in SEEN_BESIDES)}


def test_a_table_without_a_policy_would_be_noticed(conninfo: str) -> None:
    with create_admin_engine(conninfo).connect() as tx:
        tx.execute(sa.text("create table forgotten (id bigint)"))
        tx.execute(sa.text(f"grant select (id) on forgotten to {APP_ROLE}"))
        assert ("forgotten", False) in tx.execute(TOUCHABLE, {"app": APP_ROLE}).all()
        tx.rollback()


def test_the_policy_guards_what_is_read_and_what_is_written(container: Container) -> None:
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


def test_the_app_role_stands_under_the_policies(container: Container) -> None:
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


@pytest.mark.parametrize("own_logins", [True, False])
@pytest.mark.parametrize("way_out", ["reset role", "reset session authorization", "reset all"])
def test_a_reset_leads_back_to_the_app_role(conninfo: str, owner: int, way_out: str, own_logins: bool) -> None:
    db = Database(conninfo, has_own_logins=own_logins)
    with db.transaction(Tenant(owner)) as tx:
        tx.execute(sa.text(way_out))
        assert tx.execute(sa.text("select current_user")).scalar_one() == APP_ROLE
    db.close()


@pytest.mark.parametrize("other", ["quillpost_worker", "quillpost_owner", "postgres"])
def test_the_app_role_cannot_become_another_where_it_has_its_own_login(
    container: Container, owner: int, other: str
) -> None:
    with (
        pytest.raises(sa.exc.ProgrammingError, match="permission denied to set role"),
        container.db.transaction(Tenant(owner)) as tx,
    ):
        tx.execute(sa.text(f"set role {other}"))


def test_the_app_role_cannot_make_an_operator_of_itself(container: Container, owner: int) -> None:
    accounts = metadata.tables["accounts"]
    with container.db.transaction(Tenant(owner)) as tx:
        outcome = attempt(tx, sa.update(accounts).values(is_operator=True))
    assert outcome == "permission denied for table accounts"


def test_without_an_account_nothing_is_seen(container: Container, owner: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
    with container.db.anonymous_transaction() as tx:
        assert set(count_rows_of(tx, owner).values()) == {0}


def test_the_account_does_not_stay_with_the_connection(container: Container, owner: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
    with container.db.transaction(Tenant(owner)) as tx:
        session = tx.execute(sa.text("select pg_backend_pid()")).scalar_one()
        assert set(count_rows_of(tx, owner).values()) == {1}
    with ExitStack() as transactions:
        # The pool may have others as well: each that is in use is not given again.
        for _ in range(20):
            tx = transactions.enter_context(container.db.anonymous_transaction())
            if tx.execute(sa.text("select pg_backend_pid()")).scalar_one() == session:
                break
        else:
            pytest.fail("the connection did not come again")
        assert set(count_rows_of(tx, owner).values()) == {0}


def test_a_stranger_sees_no_row(container: Container, owner: int, stranger: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
        assert set(count_rows_of(tx, owner).values()) == {1}
    with container.db.transaction(Tenant(stranger)) as tx:
        assert set(count_rows_of(tx, owner).values()) == {0}


def test_a_stranger_changes_no_row(container: Container, owner: int, stranger: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
    no_update = {*WRITTEN_ONCE, *READ_ONLY}
    with container.db.transaction(Tenant(stranger)) as tx:
        for table in TABLES:
            column = some_column(table)
            touch = sa.update(table).where(account_column(table) == owner).values({column: table.c[column]})
            expected = f"permission denied for table {table.name}" if table.name in no_update else 0
            assert attempt(tx, touch) == expected, table.name
    with container.db.transaction(Tenant(owner)) as tx:
        orders = metadata.tables["orders"]
        touch = sa.update(orders).values(account_id=orders.c.account_id)
        assert attempt(tx, touch) == 1


def test_a_stranger_deletes_no_row(container: Container, owner: int, stranger: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
    no_delete = {"accounts", *WRITTEN_ONCE, *READ_ONLY}
    with container.db.transaction(Tenant(stranger)) as tx:
        for table in TABLES:
            remove = sa.delete(table).where(account_column(table) == owner)
            expected = f"permission denied for table {table.name}" if table.name in no_delete else 0
            assert attempt(tx, remove) == expected, table.name
    with container.db.transaction(Tenant(owner)) as tx:
        assert attempt(tx, sa.delete(metadata.tables["webhooks"])) == 1


def test_nobody_writes_a_row_for_another_account(container: Container, owner: int, stranger: int) -> None:
    with container.db.system_transaction() as tx:
        of_owner = insert_one_of_each(tx, account_id=owner)
        of_stranger = insert_one_of_each(tx, account_id=stranger)
    with container.db.transaction(Tenant(stranger)) as tx:
        for table in TABLES[1:]:
            own, others = (sa.insert(table).values(**least_row(table, k)) for k in (of_stranger, of_owner))
            denied = f"permission denied for table {table.name}" if table.name in READ_ONLY else None
            assert attempt(tx, own) == (denied or 1), table.name
            assert attempt(tx, others) == (denied or "policy"), table.name
        newcomer = sa.insert(TABLES[0]).values(**least_row(TABLES[0], {}))
        assert attempt(tx, newcomer) == "permission denied for table accounts"


def test_nobody_gives_a_row_away(container: Container, owner: int, stranger: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=stranger)
    with container.db.transaction(Tenant(stranger)) as tx:
        for table in TABLES[1:]:
            if table.name not in (*WRITTEN_ONCE, *READ_ONLY):
                give = sa.update(table).values(account_id=owner)
                assert attempt(tx, give) == "policy", table.name


def test_a_caller_limited_to_a_sub_account_sees_that_one_alone(container: Container, owner: int) -> None:
    mine, other = open_sub_accounts(container, owner)
    with container.db.system_transaction() as tx:
        for sub_account_id in (mine, other, None):
            insert_one_of_each(tx, account_id=owner, sub_account_id=sub_account_id)
    with container.db.transaction(Tenant(owner, mine)) as tx:
        for table in WITH_SUB_ACCOUNT:
            assert tx.execute(sa.select(table.c.sub_account_id)).scalars().all() == [mine], table.name
        assert tx.execute(sa.select(metadata.tables["sub_accounts"].c.id)).scalars().all() == [mine]


def test_a_caller_limited_to_a_sub_account_writes_there_alone(container: Container, owner: int) -> None:
    mine, other = open_sub_accounts(container, owner)
    with container.db.system_transaction() as tx:
        known = insert_one_of_each(tx, account_id=owner, sub_account_id=mine)
    with container.db.transaction(Tenant(owner, mine)) as tx:
        for table in WITH_SUB_ACCOUNT:
            if table.name in READ_ONLY:
                continue
            for sub_account_id, outcome in ((mine, 1), (other, "policy"), (None, "policy")):
                row = least_row(table, known | {"sub_account_id": sub_account_id})
                write = sa.insert(table).values(**row)
                assert attempt(tx, write) == outcome, table.name


def test_a_limited_caller_opens_no_sub_account(container: Container, owner: int) -> None:
    mine, _ = open_sub_accounts(container, owner)
    with container.db.transaction(Tenant(owner, mine)) as tx, pytest.raises(sa.exc.ProgrammingError):
        insert_least(tx, metadata.tables["sub_accounts"], {"account_id": owner})


def test_a_limited_caller_registers_no_client(container: Container, owner: int) -> None:
    mine, _ = open_sub_accounts(container, owner)
    clients = metadata.tables["oauth_clients"]
    with container.db.transaction(Tenant(owner, mine)) as tx:
        assert attempt(tx, sa.insert(clients).values(**least_row(clients, {"account_id": owner}))) == "policy"


def test_an_account_sees_only_its_own_members(container: Container, owner: int, stranger: int) -> None:
    mine, other = open_sub_accounts(container, owner)
    with container.db.system_transaction() as tx:
        for sub_account_id in (mine, other, None):
            insert_one_of_each(tx, account_id=owner, sub_account_id=sub_account_id)
        insert_one_of_each(tx, account_id=stranger)
    assert len(people_seen(container, Tenant(owner))) == 3
    assert len(people_seen(container, Tenant(owner, mine))) == 1
    assert len(people_seen(container, Tenant(stranger))) == 1
    assert not people_seen(container, Tenant(owner)) & people_seen(container, Tenant(stranger))


def test_nobody_s_password_is_read_or_written_by_the_app_role(container: Container, owner: int) -> None:
    with container.db.transaction(Tenant(owner)) as tx:
        for how in (
            "select password_hash from people",
            "select totp_sealed from people",
            "select * from people",
            "update people set name = 'Mallory'",
            "delete from people",
            "insert into people default values",
        ):
            assert attempt(tx, sa.text(how)) == "permission denied for table people", how


def test_no_tenant_reads_what_its_gift_cards_are_claimed_or_redeemed_with(container: Container, owner: int) -> None:
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
    secret = ("claim_digest", "claim_sealed", "card_sealed", "reference", "issuer", "given_back_at")
    with container.db.transaction(Tenant(owner)) as tx:
        assert attempt(tx, sa.text("select item_id, status, claimed_at, void_reason from giftcards")) == 1
        for how in (
            "select * from giftcards",
            "update giftcards set status = 'void', voided_at = now() returning claim_sealed",
            "update giftcards set claimed_at = null",
            "update giftcards set cents = 1",
            *(f"select {column} from giftcards" for column in secret),
            *(f"select 1 from giftcards where {column} is not null" for column in secret),
            *(f"update giftcards set {column} = null" for column in secret),
        ):
            assert attempt(tx, sa.text(how)) == "permission denied for table giftcards", how
        void = "update giftcards set status = 'void', voided_at = now(), void_reason = 'Lost'"
        assert attempt(tx, sa.text(void)) == 1


def test_an_account_reads_the_clients_that_are_connected_to_it_and_no_others(
    container: Container, owner: int, stranger: int
) -> None:
    clients, grants = metadata.tables["oauth_clients"], metadata.tables["oauth_grants"]
    with container.db.system_transaction() as tx:
        known = insert_one_of_each(tx, account_id=stranger)
        insert_least(tx, clients, {"account_id": stranger})
        insert_least(tx, grants, known | {"account_id": owner})
    with container.db.transaction(Tenant(owner)) as tx:
        assert tx.execute(sa.select(clients.c.id)).scalars().all() == [known["client_id"]]
        assert attempt(tx, sa.delete(clients)) == 0
        assert attempt(tx, sa.update(clients).values(name="Mine")) == 0


def test_a_line_of_the_audit_log_is_never_changed_even_by_the_service(container: Container, owner: int) -> None:
    log = metadata.tables["audit_log"]
    with container.db.system_transaction() as tx:
        insert_one_of_each(tx, account_id=owner)
        refused = attempt(tx, sa.update(log).values(actor="somebody else"))
    assert refused == "permission denied for table audit_log"


@pytest.mark.parametrize(("mode", "other"), [("test", "live"), ("live", "test")])
def test_test_and_live_do_not_see_each_other(container: Container, owner: int, mode: str, other: str) -> None:
    with container.db.system_transaction() as tx:
        for each in (mode, other):
            insert_one_of_each(tx, account_id=owner, mode=each)
    with container.db.transaction(Tenant(owner, mode=mode)) as tx:
        for name in WITH_MODE:
            assert tx.execute(sa.select(metadata.tables[name].c.mode)).scalars().all() == [mode], name
    with container.db.transaction(Tenant(owner)) as tx:
        for name in WITH_MODE:
            found = tx.execute(sa.select(metadata.tables[name].c.mode)).scalars().all()
            assert sorted(found) == ["live", "test"], name


def test_the_service_s_own_tables_are_closed(container: Container, owner: int) -> None:
    with container.db.transaction(Tenant(owner)) as tx:
        for name in CLOSED:
            for how in (f"select 1 from {name}", f"delete from {name}", f"insert into {name} default values"):
                outcome = attempt(tx, sa.text(how))
                assert outcome == f"permission denied for table {name}"
        outcome = attempt(tx, sa.text("select 1 from fact_queue"))
        assert outcome == "permission denied for table fact_queue"


def people_seen(container: Container, tenant: Tenant) -> set[int]:
    with container.db.transaction(tenant) as tx:
        return set(tx.execute(sa.select(metadata.tables["people"].c.id)).scalars())


def open_sub_accounts(container: Container, owner: int) -> tuple[int, int]:
    with container.db.system_transaction() as tx:
        table = metadata.tables["sub_accounts"]
        return insert_least(tx, table, {"account_id": owner}), insert_least(tx, table, {"account_id": owner})
