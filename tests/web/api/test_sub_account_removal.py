"""Sub accounts that go: not while they are needed, never with their history, and then for good."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.sub_accounts.queries import read_sub_account, require_sub_account
from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import metadata, orders, sub_accounts, tokens
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import Refused
from support.factories import Account, make_live, make_sub_account, make_teammate
from support.tenant_rows import insert_least
from support.waiting import is_lock_awaited, wait_until

STORED_SENDS = metadata.tables["stored_sends"]


def remove(account: Account, sub_account: int) -> Any:
    return account.delete(f"/sub-accounts/{sub_account}")


def refusal(account: Account, sub_account: int) -> str:
    refused = remove(account, sub_account)
    assert (refused.status_code, list(refused.json())) == (400, ["message"])
    assert account.get(f"/sub-accounts/{sub_account}").status_code == 200
    return str(refused.json()["message"])


def subscribe(account: Account, branch: int | None) -> Any:
    return account.post("/webhooks", {"url": "https://example.com/", "type": "*", "sub_account_id": branch})


def give(container: Container, owner: Account, branch: int | None, table: str, **columns: object) -> int:
    """Some row that belongs to the sub account."""
    known = {"account_id": owner.id, "sub_account_id": branch, "mode": "test"} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, metadata.tables[table], known)
        if "status" in columns:
            tx.execute(sa.update(orders).where(orders.c.id == made).values(status=columns["status"]))
        return made  # type: ignore[no-any-return]


def rows_of(container: Container, table: sa.Table, branch: int) -> list[sa.Row[Any]]:
    whose = table.c.id if table is sub_accounts else table.c.sub_account_id
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(table).where(whose == branch)).all())


@pytest.fixture
def branch(container: Container, owner: Account) -> int:
    return make_sub_account(container, owner)


def test_one_without_history_goes_with_all_that_acts_for_it(owner: Account, container: Container, branch: int) -> None:
    teammate = make_teammate(container, owner, branch)
    assert subscribe(owner, branch).status_code == 201
    assert (remove(owner, branch).status_code, remove(owner, branch).status_code) == (200, 404)
    assert [rows_of(container, table, branch) for table in (sub_accounts, webhooks, tokens)] == [[], [], []]
    assert (teammate.get("/ping").status_code, owner.get("/ping").status_code) == (401, 200)


def test_one_with_history_is_unknown_from_then_on_and_its_history_stays(
    subtests: pytest.Subtests, owner: Account, container: Container
) -> None:
    for table in ("orders", "files", "ledger_moves"):
        with subtests.test(table):
            branch = make_sub_account(container, owner)
            teammate = make_teammate(container, owner, branch)
            for sub_account in (branch, None):
                assert subscribe(owner, sub_account).status_code == 201
            give(container, owner, branch, table, **({"status": "fulfilled"} if table == "orders" else {}))
            give(container, owner, branch, "stored_sends")
            give(container, owner, branch, "stored_sends", sent_at=container.clock())
            assert remove(owner, branch).json() == {"message": "success"}
            assert [row.deleted_at for row in rows_of(container, sub_accounts, branch)] == [container.clock()]
            assert [row.sent_at for row in rows_of(container, STORED_SENDS, branch)] == [container.clock()]
            assert len(rows_of(container, metadata.tables[table], branch)) == 1
            assert (teammate.get("/ping").status_code, owner.get("/ping").status_code) == (401, 200)
            assert owner.get("/sub-accounts").json() == {"data": []}
            for method in ("GET", "DELETE", "PUT"):
                assert owner.call(method, f"/sub-accounts/{branch}", json={}).status_code == 404
            assert owner.get(f"/webhooks?sub_account_id={branch}").status_code == 400
            assert subscribe(owner, branch).json() == {"message": "Sub Account ID does not exist"}
            with container.db.system_transaction() as tx:
                assert read_sub_account(tx, branch) is None
                with pytest.raises(Refused):
                    require_sub_account(tx, branch)


def test_not_while_an_order_of_it_is_held_back_in_either_mode(owner: Account, container: Container) -> None:
    for status, mode in (("reviewing", "test"), ("paused", "test"), ("reviewing", "live"), ("paused", "live")):
        branch = make_sub_account(container, owner)
        order = give(container, owner, branch, "orders", status=status, mode=mode)
        held = f"Order {order} is still held back for this sub account: cancel first, or wait."
        assert refusal(owner, branch) == held
        others = [give(container, owner, branch, "orders", status=status, mode=mode) for _ in range(5)]
        named = ", ".join(map(str, [order, *others[:4]]))
        assert refusal(owner, branch).startswith(f"Orders {named} and others are still held back")


def test_orders_that_nobody_can_hold_back_do_not_keep_it(owner: Account, container: Container) -> None:
    """Also a test token removes what has mailed for real, without its history."""
    give(container, owner, None, "orders", status="reviewing")
    for status in ("processing", "printing", "mailed", "fulfilled", "cancelled", "error"):
        branch = make_sub_account(container, owner)
        assert subscribe(make_live(container, owner), branch).status_code == 201
        order = give(container, owner, branch, "orders", status=status, mode="live")
        assert remove(owner, branch).status_code == 200
        assert [row.id for row in rows_of(container, orders, branch)] == [order]
        assert rows_of(container, webhooks, branch) == []


def test_not_while_lists_or_templates_of_it_remain(owner: Account, container: Container, branch: int) -> None:
    for table in ("mailing_lists", "image_templates", "message_templates"):
        give(container, owner, None, table)
    give(container, owner, branch, "image_templates")
    assert refusal(owner, branch) == "This sub account still has 1 image template: delete or move them first."
    for table in ("mailing_lists", "mailing_lists", "message_templates"):
        give(container, owner, branch, table)
    assert refusal(owner, branch) == (
        "This sub account still has 2 mailing lists, 1 image template and 1 message template:"
        " delete or move them first."
    )


def test_whoever_uses_it_at_that_moment_is_waited_for(owner: Account, container: Container, branch: int) -> None:
    def remove_it() -> None:
        with container.db.transaction(Tenant(owner.id)) as tx:
            remove_sub_account(tx, branch, now=container.clock())

    with ThreadPoolExecutor(1) as pool:
        with container.db.transaction(Tenant(owner.id)) as using:
            require_sub_account(using, branch)
            removal = pool.submit(remove_it)
            wait_until(lambda: is_lock_awaited(container))
            known: dict[str, object] = {"account_id": owner.id, "sub_account_id": branch}
            insert_least(using, metadata.tables["mailing_lists"], known)
        with pytest.raises(Refused, match="still has 1 mailing list"):
            removal.result()
