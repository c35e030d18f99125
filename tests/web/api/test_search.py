"""`search` on listings: each word begins a word of what is found, and nobody else is answered."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.search import index_backlog, select_matching_recipients
from support.factories import Account, make_live, make_sub_account, person
from support.mailing_lists import ListOwner

PEOPLE = [
    person(name="José García-Núñez", company="Müller & Söhne", email="jose@example.com", address="12 Straße Rd"),
    person(name="Jane O'Brien", email="jane.doe@acme-mail.com", address="7 North Gate Apt 4", company=None),
    person(name="Bob Stone", email="bob@acme-mail.com", address="100 Jane St", city="Dallas", postal_code="75201"),
    {"email": "no.address@example.org", "name": "100% _Cotton_"},
]


@pytest.fixture
def lister(owner: Account) -> ListOwner:
    return ListOwner(owner)


def fill(lister: ListOwner, **fields: Any) -> tuple[int, list[int]]:
    list_id = lister.make("Visitors", **fields)
    rows = [one | {"mailing_list_id": list_id} for one in PEOPLE]
    return list_id, [row["id"] for row in lister.account.post("/recipients_multi", rows).json()]


def found(owner: Account, path: str, search: str, **more: Any) -> list[int]:
    answer = owner.call("GET", path, params={"search": search, **more})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    ids = [row["id"] for row in body["data"]]
    assert body.get("meta", body).get("total", len(ids)) == len(ids)
    assert "X-Ignored-Fields" not in answer.headers
    return ids


SEARCHES = {
    "jose": [0],
    "JOSÉ garc": [0],
    "nunez": [0],
    "garcía-nú": [0],
    "muller": [0],
    "söhne": [0],
    "strasse": [0],
    "jane": [1, 2],
    "ane": [],
    "Jane O'Brien": [1],
    "o’brien": [1],
    "brien": [1],
    "jane.doe@acme-mail.com": [1],
    "bob@acme-mail.com": [2],
    "acme-mail.com": [1, 2],
    "acme": [1, 2],
    "doe": [1],
    "gate 7": [1],
    "12": [0],
    "dallas 75": [2],
    "tx": [0, 1, 2],
    "jane jose": [],
    "Bob, Stone; (Dallas)": [2],
    "100": [2, 3],
    "100%": [2, 3],
    "%": [],
    "_": [],
    "*": [],
    "':* | 'jane": [1, 2],
    "jane | bob": [2],
    "!jane": [1, 2],
    "\\": [],
    "no.address@example.org": [3],
    "example": [0, 3],
}


def test_people_are_found_by_the_beginnings_of_their_words(lister: ListOwner) -> None:
    owner = lister.account
    list_id, ids = fill(lister)
    for search, places in SEARCHES.items():
        expected = [ids[place] for place in places]
        assert found(owner, "/recipients", search) == expected[::-1], search
        for path in (f"/mailing-lists/{list_id}/recipients", f"/mailing-lists-utils/recipients/{list_id}"):
            assert found(owner, path, search) == expected, search


def test_a_blank_search_is_none_and_one_that_is_too_long_is_refused(lister: ListOwner) -> None:
    owner, (list_id, ids) = lister.account, fill(lister)
    paths = (
        "/recipients",
        f"/mailing-lists/{list_id}/recipients",
        "/orders",
        "/order-items",
        "/mailing-lists",
        "/image-templates",
        "/message-templates",
        "/sub-accounts",
    )
    for path in paths:
        everything = owner.get(path).json()["data"]
        for blank in ("", "   "):
            assert owner.call("GET", path, params={"search": blank}).json()["data"] == everything
        for wrong in ("x" * 201, "a " * 21, "jane\x00"):
            refused = owner.call("GET", path, params={"search": wrong})
            assert (refused.status_code, list(refused.json()["errors"])) == (422, ["search"]), path
    assert len(owner.get("/recipients").json()["data"]) == len(ids)


def test_pages_and_their_links_keep_the_search(lister: ListOwner) -> None:
    owner, list_id = lister.account, lister.make()
    lister.fill(list_id, *(f"{number} Search St" for number in range(1, 8)))
    lister.fill(list_id, "1 Other St")
    for path, sort in (("/recipients", -1), (f"/mailing-lists/{list_id}/recipients", 1)):
        seen, address = [], f"{path}?search=sea+st&items_per_page=3"
        while address:
            page = owner.get(address.partition("/api/v2")[2] or address).json()
            meta = page.get("meta", page)
            assert (meta["total"], meta["last_page"], meta["per_page"]) == (7, 3, 3)
            seen += [row["id"] for row in page["data"]]
            address = page.get("next_page_url") if "links" not in page else page["links"]["next"]
            assert address is None or "search=sea" in address
        assert seen == sorted(seen)[::sort]
        assert len(set(seen)) == 7


def test_a_search_is_one_filter_among_others(lister: ListOwner, container: Container) -> None:
    owner = lister.account
    branch = make_sub_account(container, owner)
    _, ids = fill(lister)
    other, others = fill(lister, sub_account_id=branch)
    assert found(owner, "/recipients", "jose") == [others[0], ids[0]]
    assert found(owner, "/recipients", "jose", sub_account_id=branch) == [others[0]]
    assert found(owner, "/recipients", "jose", mailing_list_id=other) == [others[0]]
    assert found(owner, "/recipients", "jane", email="bob@acme-mail.com") == [others[2], ids[2]]
    changed = owner.put(f"/recipients/{others[2]}", {"name": "Jane Stone"}).json()["updated_at"]
    since = {"updated_since": changed}
    assert others[2] in found(owner, f"/mailing-lists/{other}/recipients", "jane", **since)


def test_what_changes_is_found_as_it_is_now(lister: ListOwner) -> None:
    owner, (_, ids) = lister.account, fill(lister)
    owner.put(f"/recipients/{ids[0]}", {"name": "Zelda Quick"})
    assert found(owner, "/recipients", "zel qui") == [ids[0]]
    assert found(owner, "/recipients", "garcia") == []
    owner.call("DELETE", f"/recipients/{ids[0]}")
    assert found(owner, "/recipients", "zelda") == []


def test_nobody_finds_what_is_another_accounts(
    lister: ListOwner, stranger: Account, owner: Account, container: Container
) -> None:
    list_id, _ = fill(lister)
    owner.send(recipients=[person(name="Jane Doe")])
    for path in ("/recipients", "/orders", "/order-items", "/mailing-lists"):
        assert found(stranger, path, "jane") == found(stranger, path, "visitors") == []
    assert stranger.get(f"/mailing-lists/{list_id}/recipients?search=jane").status_code == 404
    branch = make_sub_account(container, owner)
    assert found(owner, "/recipients", "jane", sub_account_id=branch) == []


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


@pytest.mark.usefixtures("clean_database")
def test_a_piece_is_found_in_its_own_mode_and_not_once_its_person_is_erased(
    owner: Account, container: Container
) -> None:
    live = make_live(container, owner)
    sent = owner.send(recipients=[PEOPLE[1]]).json()["id"]
    assert found(live, "/orders", "brien") == []
    assert found(owner, "/orders", "brien") == [sent]
    owner.post("/recipients/erase", {"email": "jane.doe@acme-mail.com"})
    assert found(owner, "/orders", "brien") == found(owner, "/order-items", "jane.doe") == []
    with container.db.system_transaction() as tx:
        kept = tx.execute(sa.text("select words::text from item_search")).scalars().all()
        assert "brien" not in "".join(kept)


def test_lists_templates_and_sub_accounts_are_found_by_their_titles(owner: Account, container: Container) -> None:
    lists = [
        owner.post("/mailing-lists", {"description": text}).json()["id"]
        for text in ("Open house: May", "Openings", "Café visitors")
    ]
    assert found(owner, "/mailing-lists", "open") == [lists[1], lists[0]]
    assert found(owner, "/mailing-lists", "may open") == [lists[0]]
    assert found(owner, "/mailing-lists", "cafe") == [lists[2]]
    assert found(owner, "/mailing-lists", "pen") == []
    messages = [
        owner.post("/message-templates", {"type": "postcard", "name": name, "content": content}).json()["id"]
        for name, content in (("Spring", "Hello %FIRST_NAME%"), ("Winter", "Season's greetings"))
    ]
    assert found(owner, "/message-templates", "spr") == [messages[0]]
    assert found(owner, "/message-templates", "winter season's") == [messages[1]]
    assert found(owner, "/message-templates", "hello", type="letter") == []
    assert found(owner, "/image-templates", "spring") == []
    branches = [
        make_sub_account(container, owner, "Étoile Realty", return_address="9 Oak Ave", return_city="Dallas"),
        make_sub_account(container, owner, "North", branding={"company": "Stone & Co", "email": "hi@stone.test"}),
    ]
    assert found(owner, "/sub-accounts", "etoile") == [branches[0]]
    assert found(owner, "/sub-accounts", "oak dallas") == [branches[0]]
    assert found(owner, "/sub-accounts", "hi@stone.test") == [branches[1]]
    assert found(owner, "/sub-accounts", "south") == []


def test_a_list_that_has_just_grown_is_searched_on_an_index(
    owner: Account, lister: ListOwner, container: Container
) -> None:
    """Before anybody has counted its rows: what the words of everybody are is not worked out again."""
    list_id = lister.make()
    many = """
        insert into recipients (account_id, mailing_list_id, name, email, told_apart, created_at, updated_at)
        select :account, :list, 'Person' || n || ' Last' || n % 100, 'p' || n || '@example.com', '',
               now(), now() from generate_series(1, 5000) n"""
    with container.db.system_transaction() as tx:
        tx.execute(sa.text(many), {"account": owner.id, "list": list_id})
    index_backlog(container.db)
    with container.db.system_transaction() as tx:
        # Which table is small enough to be read whole is PostgreSQL's to say: this one may seem so.
        tx.execute(sa.text("set local enable_seqscan = off"))
        query = sa.select(select_matching_recipients("person77 last7", owner.id).c.id)
        looked = str(query.compile(dialect=tx.dialect, compile_kwargs={"literal_binds": True}))
        plan = "\n".join(tx.execute(sa.text(f"explain {looked.replace(':', chr(92) + ':')}")).scalars())
    assert "recipient_search_words" in plan
    assert len(found(owner, f"/mailing-lists/{list_id}/recipients", "person77 last77")) == 2
