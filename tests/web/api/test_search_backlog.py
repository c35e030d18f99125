"""Who came by the hundred is found at once, and just the same when a worker has made the index."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from test_search import PEOPLE, SEARCHES, found

from quillpost.app.container import Container
from quillpost.app.tasks import build_tasks
from quillpost.core.database.search import index_backlog
from support.factories import Account, person
from support.mailing_lists import ListOwner

pytestmark = pytest.mark.usefixtures("clean_database")

MANY = 120
WAITING = sa.text("select count(*) from pg_locks where not granted and :holder = any(pg_blocking_pids(pid))")


@pytest.fixture
def lister(owner: Account) -> ListOwner:
    return ListOwner(owner)


def fill(lister: ListOwner) -> tuple[int, list[int]]:
    """A list of many, and the ids of those who can be found."""
    list_id = lister.make("Visitors")
    others = [{"email": f"q{number}@quiet.test", "name": f"Quincy x{number}"} for number in range(MANY)]
    rows = [one | {"mailing_list_id": list_id} for one in (*PEOPLE, *others)]
    ids = [row["id"] for row in lister.account.post("/recipients_multi", rows).json()]
    return list_id, ids[: len(PEOPLE)]


def count(container: Container, table: str) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.text(f"select count(*) from {table}")).scalar_one())


def total(owner: Account, path: str, search: str) -> int:
    body = owner.call("GET", path, params={"search": search}).json()
    return int(body.get("meta", body)["total"])


def test_people_are_found_before_they_are_indexed_and_after(lister: ListOwner, container: Container) -> None:
    owner = lister.account
    list_id, ids = fill(lister)
    assert (count(container, "search_backlog"), count(container, "recipient_search")) == (1, 0)
    before = _searches(owner, list_id, ids)
    index_backlog(container.db)
    assert (count(container, "search_backlog"), count(container, "recipient_search")) == (0, len(PEOPLE) + MANY)
    assert _searches(owner, list_id, ids) == before
    assert total(owner, "/recipients", "quincy") == MANY


def _searches(owner: Account, list_id: int, ids: list[int]) -> dict[str, list[int]]:
    everything = {}
    for search, places in SEARCHES.items():
        everything[search] = found(owner, f"/mailing-lists/{list_id}/recipients", search)
        assert everything[search] == [ids[place] for place in places], search
    return everything


def test_pieces_are_found_before_they_are_indexed_and_after(owner: Account, container: Container) -> None:
    others = [person(name=f"Quincy {number}", address=f"{number} Elm St") for number in range(1, MANY)]
    order = owner.send(recipients=[PEOPLE[1], *others]).json()["id"]
    assert (count(container, "search_backlog"), count(container, "item_search")) == (1, 0)
    for _ in range(2):
        assert found(owner, "/orders", "brien") == found(owner, "/orders", "quincy") == [order]
        assert len(found(owner, f"/orders/{order}/items", "brien")) == 1
        assert total(owner, f"/orders/{order}/items", "quincy elm") == MANY - 1
        index_backlog(container.db)
    assert (count(container, "search_backlog"), count(container, "item_search")) == (0, MANY)


def test_people_changed_or_deleted_before_indexing_are_found_as_they_are(
    lister: ListOwner, container: Container
) -> None:
    owner, (_, ids) = lister.account, fill(lister)
    owner.put(f"/recipients/{ids[0]}", {"name": "Zelda Quick"})
    owner.call("DELETE", f"/recipients/{ids[1]}")
    for _ in range(2):
        assert found(owner, "/recipients", "zelda") == [ids[0]]
        assert found(owner, "/recipients", "garcia") == found(owner, "/recipients", "brien") == []
        index_backlog(container.db)
    assert count(container, "recipient_search") == len(PEOPLE) + MANY - 1


@pytest.mark.parametrize("change", ["renamed", "deleted"])
def test_people_changed_while_being_indexed_leave_no_old_words(
    lister: ListOwner, container: Container, change: str
) -> None:
    owner, (_, ids) = lister.account, fill(lister)
    requests: dict[str, Any] = {
        "renamed": ("PUT", f"/recipients/{ids[1]}", {"json": {"name": "Zelda Quick"}}),
        "deleted": ("DELETE", f"/recipients/{ids[1]}", {}),
    }
    method, path, more = requests[change]
    with ThreadPoolExecutor(1) as elsewhere:
        with container.db.system_transaction() as worker:
            worker.execute(sa.select(sa.func.index_search_backlog()))
            holder = worker.execute(sa.text("select pg_backend_pid()")).scalar_one()
            changing = elsewhere.submit(owner.call, method, path, **more)
            while not worker.execute(WAITING, {"holder": holder}).scalar_one():
                assert not changing.done(), changing.result().text
        assert changing.result().status_code == 200
    assert found(owner, "/recipients", "brien") == []
    assert found(owner, "/recipients", "zelda") == ([ids[1]] if change == "renamed" else [])
    with container.db.system_transaction() as tx:
        words = tx.execute(sa.text("select words::text from recipient_search")).scalars().all()
    assert "brien" not in "".join(words)


def test_a_worker_indexes_what_waits_every_minute(lister: ListOwner, container: Container) -> None:
    fill(lister)
    [task] = [task for task in build_tasks(container) if task.name == "search.index_backlog_periodic"]
    assert task.cron == "* * * * *"
    task.run()
    assert count(container, "search_backlog") == 0
