"""Sub accounts that go: not while they are needed, never with their history, and then for good."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.accounts.sub_accounts.queries import read_sub_account, require_sub_account
from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import metadata, orders, sub_accounts, tokens
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import Refused
from support.factories import Account, make_sub_account, make_teammate
from support.tenant_rows import insert_least
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


def remove(account: Account, sub_account: int) -> Any:
    return account.call("DELETE", f"/sub-accounts/{sub_account}")


def give(container: Container, owner: Account, branch: int | None, table: str, **columns: object) -> int:
    """Some row that belongs to the sub account."""
    known = {"account_id": owner.id, "sub_account_id": branch, "mode": "test"} | columns
    with container.db.system_transaction() as tx:
        made = insert_least(tx, metadata.tables[table], known)
        if "status" in columns:
            tx.execute(sa.update(orders).where(orders.c.id == made).values(status=columns["status"]))
        return made  # type: ignore[no-any-return]


def rows_of(container: Container, table: sa.Table) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(table)).all())


@pytest.fixture
def branch(container: Container, owner: Account) -> int:
    return make_sub_account(container, owner)


def test_one_without_history_goes_with_all_that_acts_for_it(owner: Account, container: Container, branch: int) -> None:
    teammate = make_teammate(container, owner, branch)
    hook = owner.post("/webhooks", {"url": "https://example.com/", "type": "*", "sub_account_id": branch})
    assert hook.status_code == 201
    assert (remove(owner, branch).status_code, remove(owner, branch).status_code) == (200, 404)
    assert rows_of(container, sub_accounts) == rows_of(container, webhooks) == []
    assert len(rows_of(container, tokens)) == 1
    assert teammate.get("/ping").status_code == 401


@pytest.mark.parametrize("table", ["orders", "files", "ledger_moves"])
def test_one_with_history_is_unknown_from_then_on_and_its_history_stays(
    owner: Account, container: Container, branch: int, table: str
) -> None:
    teammate = make_teammate(container, owner, branch)
    for sub_account in (branch, None):
        hook = {"url": "https://example.com/", "type": "*", "sub_account_id": sub_account}
        assert owner.post("/webhooks", hook).status_code == 201
    give(container, owner, branch, table, **({"status": "fulfilled"} if table == "orders" else {}))
    give(container, owner, branch, "stored_sends")
    give(container, owner, branch, "stored_sends", sent_at=container.clock())
    assert remove(owner, branch).json() == {"message": "success"}
    [kept] = rows_of(container, sub_accounts)
    assert kept.deleted_at == container.clock()
    assert [row.sub_account_id for row in rows_of(container, metadata.tables[table])] == [branch]
    assert [row.sub_account_id for row in rows_of(container, webhooks)] == [None]
    assert [row.sent_at for row in rows_of(container, metadata.tables["stored_sends"])] == [container.clock()]
    assert teammate.get("/ping").status_code == 401
    assert owner.get("/ping").status_code == 200
    assert owner.get("/sub-accounts").json() == {"data": []}
    for method in ("GET", "DELETE", "PUT"):
        assert owner.call(method, f"/sub-accounts/{branch}", json={}).status_code == 404
    assert owner.get(f"/webhooks?sub_account_id={branch}").status_code == 400
    again = {"url": "https://example.com/", "type": "*", "sub_account_id": branch}
    assert owner.post("/webhooks", again).json() == {"message": "Sub Account ID does not exist"}
    with container.db.system_transaction() as tx:
        assert read_sub_account(tx, branch) is None
        with pytest.raises(Refused):
            require_sub_account(tx, branch)


@pytest.mark.parametrize("mode", ["test", "live"])
@pytest.mark.parametrize("status", ["reviewing", "paused"])
def test_not_while_an_order_of_it_is_held_back_in_either_mode(
    owner: Account, container: Container, branch: int, status: str, mode: str
) -> None:
    order = give(container, owner, branch, "orders", status=status, mode=mode)
    refused = remove(owner, branch)
    assert (refused.status_code, refused.json()) == (
        400,
        {"message": f"Order {order} is still held back for this sub account: cancel first, or wait."},
    )
    others = [give(container, owner, branch, "orders", status=status, mode=mode) for _ in range(5)]
    named = ", ".join(map(str, [order, *others[:4]]))
    assert remove(owner, branch).json()["message"].startswith(f"Orders {named} and others are still held back")
    assert owner.get(f"/sub-accounts/{branch}").status_code == 200


@pytest.mark.parametrize("status", ["processing", "printing", "mailed", "fulfilled", "cancelled", "error"])
def test_orders_that_nobody_can_hold_back_do_not_keep_it(
    owner: Account, container: Container, branch: int, status: str
) -> None:
    give(container, owner, branch, "orders", status=status, mode="live")
    give(container, owner, None, "orders", status="reviewing")
    assert remove(owner, branch).status_code == 200


def test_not_while_lists_or_templates_of_it_remain(owner: Account, container: Container, branch: int) -> None:
    for table in ("mailing_lists", "image_templates", "message_templates"):
        give(container, owner, None, table)
    give(container, owner, branch, "image_templates")
    assert remove(owner, branch).json() == {
        "message": "This sub account still has 1 image template: delete or move them first."
    }
    for table in ("mailing_lists", "mailing_lists", "message_templates"):
        give(container, owner, branch, table)
    refused = remove(owner, branch)
    assert refused.status_code == 400
    assert refused.json()["message"] == (
        "This sub account still has 2 mailing lists, 1 image template and 1 message template:"
        " delete or move them first."
    )
    assert owner.get(f"/sub-accounts/{branch}").status_code == 200


def test_a_test_token_removes_what_has_mailed_for_real_without_its_history(
    owner: Account, container: Container, branch: int
) -> None:
    with container.db.system_transaction() as tx:
        token = insert_token(tx, owner.id, mode="live", name="live", now=container.clock())[1]
    live = replace(owner, token=token)
    hook = {"url": "https://example.com/", "type": "*", "sub_account_id": branch}
    assert live.post("/webhooks", hook).status_code == 201
    order = give(container, owner, branch, "orders", status="fulfilled", mode="live")
    assert remove(owner, branch).status_code == 200
    assert [row.id for row in rows_of(container, orders)] == [order]
    assert rows_of(container, webhooks) == []


def test_whoever_uses_it_at_that_moment_is_waited_for(owner: Account, container: Container, branch: int) -> None:
    def remove_it() -> None:
        with container.db.transaction(Tenant(owner.id)) as tx:
            remove_sub_account(tx, branch, now=container.clock())

    with ThreadPoolExecutor(1) as pool:
        with container.db.transaction(Tenant(owner.id)) as using:
            require_sub_account(using, branch)
            removal = pool.submit(remove_it)
            wait_until(lambda: is_somebody_waiting(container))
            known: dict[str, object] = {"account_id": owner.id, "sub_account_id": branch}
            insert_least(using, metadata.tables["mailing_lists"], known)
        with pytest.raises(Refused, match="still has 1 mailing list"):
            removal.result()


def is_somebody_waiting(container: Container) -> bool:
    """Whether a transaction waits for another's lock."""
    with container.db.system_transaction() as tx:
        waiting = "select count(*) from pg_locks where not granted"
        return bool(tx.execute(sa.text(waiting)).scalar_one() > 0)
