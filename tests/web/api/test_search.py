"""`search` and `type` on listings: each word begins a word of what is found, every name of a piece finds that piece."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.app.tasks import build_tasks
from quillpost.core.database.search import index_backlog, select_matching_recipients
from support.factories import Account, make_live, make_sub_account, person
from support.mailing_lists import ListOwner
from support.rows import execute, scalars

PEOPLE = [
    person(name="José García-Núñez", company="Müller & Söhne", email="jose@example.com", address="12 Straße Rd"),
    person(name="Jane O'Brien", email="jane.doe@acme-mail.com", address="7 North Gate Apt 4", company=None),
    person(name="Bob Stone", email="bob@acme-mail.com", address="100 Jane St", city="Dallas", postal_code="75201"),
    {"email": "no.address@example.org", "name": "100% _Cotton_"},
]
MANY = 120  # are not indexed at once
SEARCHES = {
    "jose": [0], "JOSÉ garc": [0], "nunez": [0], "garcía-nú": [0], "muller": [0], "söhne": [0], "strasse": [0],
    "jane": [1, 2], "ane": [], "Jane O'Brien": [1], "o’brien": [1], "brien": [1], "jane.doe@acme-mail.com": [1],
    "bob@acme-mail.com": [2], "acme-mail.com": [1, 2], "acme": [1, 2], "doe": [1], "gate 7": [1], "12": [0],
    "dallas 75": [2], "tx": [0, 1, 2], "jane jose": [], "Bob, Stone; (Dallas)": [2], "100": [2, 3], "100%": [2, 3],
    "%": [], "_": [], "*": [], "':* | 'jane": [1, 2], "jane | bob": [2], "!jane": [1, 2], "\\": [],
    "no.address@example.org": [3], "example": [0, 3],
}  # fmt: skip
WAITING = sa.text("select count(*) from pg_locks where not granted and :holder = any(pg_blocking_pids(pid))")


def fill(lists: ListOwner, others: int = 0, **fields: Any) -> tuple[int, list[int]]:
    """A list, and the ids of those on it who can be found."""
    list_id = lists.make("Visitors", **fields)
    crowd = [{"email": f"q{number}@quiet.test", "name": f"Quincy x{number}"} for number in range(others)]
    rows = [one | {"mailing_list_id": list_id} for one in (*PEOPLE, *crowd)]
    return list_id, [row["id"] for row in lists.account.post("/recipients_multi", rows).json()][: len(PEOPLE)]


def found(owner: Account, path: str, search: str, **more: Any) -> list[int]:
    answer = owner.call("GET", path, params={"search": search, **more})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    ids = [row["id"] for row in body["data"]]
    assert body.get("meta", body).get("total", len(ids)) == len(ids)
    assert "X-Ignored-Fields" not in answer.headers
    return ids


def assert_everyone_is_found(owner: Account, path: str, ids: list[int]) -> None:
    for search, places in SEARCHES.items():
        assert found(owner, path, search) == [ids[place] for place in places], search


def total(owner: Account, path: str, search: str) -> int:
    body = owner.call("GET", path, params={"search": search}).json()
    return int(body.get("meta", body)["total"])


def counts(container: Container, *tables: str) -> list[int]:
    with container.db.system_transaction() as tx:
        return [int(tx.execute(sa.text(f"select count(*) from {table}")).scalar_one()) for table in tables]


def test_people_are_found_by_the_beginnings_of_their_words(owner: Account, lists: ListOwner) -> None:
    list_id, ids = fill(lists)
    assert_everyone_is_found(owner, f"/mailing-lists/{list_id}/recipients", ids)
    assert found(owner, f"/mailing-lists-utils/recipients/{list_id}", "jane") == ids[1:3]
    for search, places in SEARCHES.items():
        assert found(owner, "/recipients", search) == [ids[place] for place in reversed(places)], search
    owner.put(f"/recipients/{ids[0]}", {"name": "Zelda Quick"})
    assert (found(owner, "/recipients", "zel qui"), found(owner, "/recipients", "garcia")) == ([ids[0]], [])
    owner.delete(f"/recipients/{ids[0]}")
    assert found(owner, "/recipients", "zelda") == []


def test_pages_keep_a_search_that_is_neither_blank_nor_too_long(owner: Account, lists: ListOwner) -> None:
    list_id, ids = fill(lists)
    for path in (
        "/recipients", f"/mailing-lists/{list_id}/recipients", "/orders", "/order-items", "/mailing-lists",
        "/image-templates", "/message-templates", "/sub-accounts",
    ):  # fmt: skip
        everything = owner.get(path).json()["data"]
        for blank in ("", "   "):
            assert owner.call("GET", path, params={"search": blank}).json()["data"] == everything
        for wrong in ("x" * 201, "a " * 21, "jane\x00"):
            refused = owner.call("GET", path, params={"search": wrong})
            assert (refused.status_code, list(refused.json()["errors"])) == (422, ["search"]), path
    assert len(owner.get("/recipients").json()["data"]) == len(ids)
    list_id = lists.make()
    lists.fill(list_id, *(f"{number} Search St" for number in range(1, 8)), "1 Other St")
    for path, sort in (("/recipients", -1), (f"/mailing-lists/{list_id}/recipients", 1)):
        seen, address = [], f"{path}?search=sea+st&items_per_page=3"
        while address:
            page = owner.get(address.partition("/api/v2")[2] or address).json()
            meta = page.get("meta", page)
            assert (meta["total"], meta["last_page"], meta["per_page"]) == (7, 3, 3)
            seen += [row["id"] for row in page["data"]]
            address = page.get("next_page_url") if "links" not in page else page["links"]["next"]
            assert address is None or "search=sea" in address
        assert (seen, len(set(seen))) == (sorted(seen)[::sort], 7)


def test_a_search_is_one_filter_among_others_and_finds_nothing_of_strangers(
    owner: Account, lists: ListOwner, container: Container, stranger: Account
) -> None:
    branch = make_sub_account(container, owner)
    _, ids = fill(lists)
    assert found(owner, "/recipients", "jane", sub_account_id=branch) == []
    other, others = fill(lists, sub_account_id=branch)
    assert found(owner, "/recipients", "jose") == [others[0], ids[0]]
    assert found(owner, "/recipients", "jose", sub_account_id=branch) == [others[0]]
    assert found(owner, "/recipients", "jose", mailing_list_id=other) == [others[0]]
    assert found(owner, "/recipients", "jane", email="bob@acme-mail.com") == [others[2], ids[2]]
    changed = owner.put(f"/recipients/{others[2]}", {"name": "Jane Stone"}).json()["updated_at"]
    assert others[2] in found(owner, f"/mailing-lists/{other}/recipients", "jane", updated_since=changed)
    list_id, _ = fill(lists)
    owner.send(recipients=[person(name="Jane Doe")])
    for path in ("/recipients", "/orders", "/order-items", "/mailing-lists"):
        assert found(stranger, path, "jane") == found(stranger, path, "visitors") == []
    assert stranger.get(f"/mailing-lists/{list_id}/recipients?search=jane").status_code == 404


def test_pieces_and_orders_are_found_by_whom_they_go_to(owner: Account, stranger: Account) -> None:
    both = owner.send(recipients=PEOPLE[:2], message="One").json()["id"]
    bob = owner.send("notecard", recipients=[PEOPLE[2]], message="Two").json()["id"]
    stranger.send(recipients=PEOPLE[:2])
    names = {row["id"]: row["recipient"]["name"] for row in owner.get("/order-items").json()["data"]}

    def pieces(path: str, search: str, **more: Any) -> list[str]:
        return [names[item] for item in found(owner, path, search, **more)]

    assert pieces("/order-items", "jane") == ["Bob Stone", "Jane O'Brien"]
    assert pieces("/order-items", "jane", order_id=both) == ["Jane O'Brien"]
    assert pieces(f"/orders/{both}/items", "garcia") == ["José García-Núñez"]
    assert pieces(f"/orders/{both}/items", "tx") == ["José García-Núñez", "Jane O'Brien"]
    assert pieces(f"/orders/{both}/items", "tx", status="Failed") == []
    assert pieces(f"/orders/{bob}/items", "garcia") == []
    for path in ("/orders", "/orders/list"):
        assert found(owner, path, "jane") == [bob, both]
        assert found(owner, path, "jane jose") == []
        assert found(owner, path, "bob@acme-mail.com") == [bob]
        assert found(owner, path, "jane", type="postcard") == [both]
        assert found(owner, path, str(bob)) == found(owner, path, f"#{bob}") == [bob]
        assert found(owner, path, "99999999999999999999999") == []


def test_lists_templates_and_sub_accounts_are_found_by_their_titles(owner: Account, container: Container) -> None:
    house, openings, cafe = (
        owner.post("/mailing-lists", {"description": text}).json()["id"]
        for text in ("Open house: May", "Openings", "Café visitors")
    )
    spring, winter = (
        owner.post("/message-templates", {"type": "postcard", "name": name, "content": content}).json()["id"]
        for name, content in (("Spring", "Hello %FIRST_NAME%"), ("Winter", "Season's greetings"))
    )
    etoile = make_sub_account(container, owner, "Étoile Realty", return_address="9 Oak Ave", return_city="Dallas")
    north = make_sub_account(container, owner, "North", branding={"company": "Stone & Co", "email": "hi@stone.test"})
    for path, search, expected in (
        ("/mailing-lists", "open", [openings, house]), ("/mailing-lists", "may open", [house]),
        ("/mailing-lists", "cafe", [cafe]), ("/mailing-lists", "pen", []), ("/message-templates", "spr", [spring]),
        ("/message-templates", "winter season's", [winter]), ("/image-templates", "spring", []),
        ("/sub-accounts", "etoile", [etoile]), ("/sub-accounts", "oak dallas", [etoile]),
        ("/sub-accounts", "hi@stone.test", [north]), ("/sub-accounts", "south", []),
    ):  # fmt: skip
        assert found(owner, path, search) == expected, (path, search)
    assert found(owner, "/message-templates", "hello", type="letter") == []


@pytest.mark.usefixtures("clean_database")
class TestIndex:
    """Who came by the hundred is found at once, and just the same when a worker has made the index."""

    def test_people_are_found_indexed_or_not(self, owner: Account, lists: ListOwner, container: Container) -> None:
        list_id, ids = fill(lists, MANY)
        [task] = [task for task in build_tasks(container) if task.name == "search.index_backlog_periodic"]
        assert task.cron == "* * * * *"
        for expected in ([1, 0], [0, len(PEOPLE) + MANY]):
            assert counts(container, "search_backlog", "recipient_search") == expected
            assert_everyone_is_found(owner, f"/mailing-lists/{list_id}/recipients", ids)
            assert total(owner, "/recipients", "quincy") == MANY
            task.run()

    def test_pieces_are_found_before_they_are_indexed_and_after(self, owner: Account, container: Container) -> None:
        others = [person(name=f"Quincy {number}", address=f"{number} Elm St") for number in range(1, MANY)]
        order = owner.send(recipients=[PEOPLE[1], *others]).json()["id"]
        for expected in ([1, 0], [0, MANY]):
            assert counts(container, "search_backlog", "item_search") == expected
            assert found(owner, "/orders", "brien") == found(owner, "/orders", "quincy") == [order]
            assert len(found(owner, f"/orders/{order}/items", "brien")) == 1
            assert total(owner, f"/orders/{order}/items", "quincy elm") == MANY - 1
            index_backlog(container.db)

    def test_people_changed_or_deleted_before_indexing_are_found_as_they_are(
        self, owner: Account, lists: ListOwner, container: Container
    ) -> None:
        _, ids = fill(lists, MANY)
        owner.put(f"/recipients/{ids[0]}", {"name": "Zelda Quick"})
        owner.delete(f"/recipients/{ids[1]}")
        for _ in range(2):
            assert found(owner, "/recipients", "zelda") == [ids[0]]
            assert found(owner, "/recipients", "garcia") == found(owner, "/recipients", "brien") == []
            index_backlog(container.db)
        assert counts(container, "recipient_search") == [len(PEOPLE) + MANY - 1]

    @pytest.mark.parametrize("method", ["PUT", "DELETE"])
    def test_people_changed_while_being_indexed_leave_no_old_words(
        self, owner: Account, lists: ListOwner, container: Container, method: str
    ) -> None:
        jane = fill(lists, MANY)[1][1]
        change = {"json": {"name": "Zelda Quick"}} if method == "PUT" else {}
        with ThreadPoolExecutor(1) as elsewhere:
            with container.db.system_transaction() as worker:
                worker.execute(sa.select(sa.func.index_search_backlog()))
                holder = worker.execute(sa.text("select pg_backend_pid()")).scalar_one()
                changing = elsewhere.submit(owner.call, method, f"/recipients/{jane}", **change)
                while not worker.execute(WAITING, {"holder": holder}).scalar_one():
                    assert not changing.done(), changing.result().text
            assert changing.result().status_code == 200
        assert found(owner, "/recipients", "brien") == []
        assert found(owner, "/recipients", "zelda") == ([jane] if method == "PUT" else [])
        assert "brien" not in "".join(scalars(container, "select words::text from recipient_search"))

    def test_pieces_are_found_in_their_mode_and_not_when_erased(self, owner: Account, container: Container) -> None:
        sent = owner.send(recipients=[PEOPLE[1]]).json()["id"]
        assert found(make_live(container, owner), "/orders", "brien") == []
        assert found(owner, "/orders", "brien") == [sent]
        owner.post("/recipients/erase", {"email": "jane.doe@acme-mail.com"})
        assert found(owner, "/orders", "brien") == found(owner, "/order-items", "jane.doe") == []
        assert "brien" not in "".join(scalars(container, "select words::text from item_search"))

    def test_a_list_just_grown_has_its_index(self, owner: Account, lists: ListOwner, container: Container) -> None:
        """Before anybody has counted its rows: what the words of everybody are is not worked out again."""
        list_id = lists.make()
        many = """
            insert into recipients (account_id, mailing_list_id, name, email, told_apart, created_at, updated_at)
            select :account, :list, 'Person' || n || ' Last' || n % 100, 'p' || n || '@example.com', '',
                   now(), now() from generate_series(1, 5000) n"""
        execute(container, many, account=owner.id, list=list_id)
        index_backlog(container.db)
        with container.db.system_transaction() as tx:
            # Which table is small enough to be read whole is PostgreSQL's to say: this one may seem so.
            tx.execute(sa.text("set local enable_seqscan = off"))
            query = sa.select(select_matching_recipients("person77 last7", owner.id).c.id)
            looked = str(query.compile(dialect=tx.dialect, compile_kwargs={"literal_binds": True}))
            plan = "\n".join(tx.execute(sa.text(f"explain {looked.replace(':', chr(92) + ':')}")).scalars())
        assert "recipient_search_words" in plan
        assert len(found(owner, f"/mailing-lists/{list_id}/recipients", "person77 last77")) == 2


NAMES = {
    "postcard": ["4x6", "6x9", "6x11"], "magnacard": ["magnacard"], "notecard": ["notecard"],
    "giftcard": ["giftcard"], " PostCard6x9 ": ["6x9"], "postcard4x6": ["4x6"], "4x6-postcard": ["4x6"],
    "postcard6x9": ["6x9"], "6x9-postcard": ["6x9"], "postcard6x11": ["6x11"], "6x11-postcard": ["6x11"],
    "letter": ["letter"], "windowedletter": ["letter"], "windowed-letter": ["letter"],
    "windowlessletter": ["windowlessletter"], "windowless-letter": ["windowlessletter"],
}  # fmt: skip


def test_types_are_found_by_every_name_and_one_without_a_match_is_an_empty_page(owner: Account) -> None:
    for path in ("/orders", "/image-templates", "/message-templates"):
        for name in NAMES:
            page = owner.call("GET", path, params={"type": name})
            assert (page.status_code, page.json()["data"], page.json()["meta"]["total"]) == (200, [], 0)
        for unknown in ("postcard9x9", "letter/windowed", "%", "postcard\x00"):
            refused = owner.call("GET", path, params={"type": unknown})
            [error] = refused.json()["errors"]["type"]
            assert (refused.status_code, "postcard6x9" in error, "windowlessletter" in error) == (422, True, True)
        assert owner.call("GET", path, params={"type": " "}).status_code == 200
    sent = {size: owner.send("postcard", size=size) for size in NAMES["postcard"]}
    sent |= {name: owner.send(name) for name in ("letter", "notecard", "giftcard", "magnacard")}
    sent["windowlessletter"] = owner.send("windowless-letter")
    ids = {name: answer.json()["id"] for name, answer in sent.items()}
    for name, expected in NAMES.items():
        listed = owner.call("GET", "/orders", params={"type": name}).json()
        assert {order["id"] for order in listed["data"]} == {ids[each] for each in expected}, name
        assert listed["meta"]["total"] == len(expected), name
    dated = {"type": "postcard6x9", "created_after": "2000-01-01"}
    assert owner.call("GET", "/orders/list", params=dated).json()["meta"]["total"] == 1


def test_templates_are_found_by_every_name_of_their_type(owner: Account) -> None:
    for kind in ("postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "magnacard"):
        owner.post("/message-templates", {"type": kind, "name": kind, "content": "Hi"})
    for name, expected in {
        "postcard": {"postcard", "postcard6x11"}, "6x11-postcard": {"postcard6x11"}, "postcard6x9": set(),
        "windowed-letter": {"letter"}, "windowlessletter": {"windowlessletter"}, "magnacard": {"magnacard"},
    }.items():  # fmt: skip
        page = owner.call("GET", "/message-templates", params={"type": name}).json()["data"]
        assert {each["type"] for each in page} == expected, name
