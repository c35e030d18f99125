"""Whoever holds a token of one sub account makes everything there, sees that alone, and reaches no other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import metadata, sub_accounts
from support.automations import SEND, plan
from support.factories import (
    Account,
    Clock,
    make_live,
    make_sub_account,
    make_teammate,
    person,
    postcard,
    run_due_jobs,
    run_jobs_for,
)
from support.imports import Importer
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, ListOwner, message
from support.radius_addresses import make_address, radius_search, store_addresses
from support.traces import traces
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("clean_database")

PIECES = (
    "postcard", "windowed-letter", "windowedletter", "letter", "windowless-letter", "windowlessletter",
    "notecard", "magnacard",
)  # fmt: skip
BY_NOBODY = {"sub_accounts", "tokens", "account_credit", "account_spending", "hourly_counts"}
"""Not made by the calls of this page, or of the whole account: its money."""
HOOK = {"url": "https://hooks.example.com/a", "type": "*"}
BUY = "/mailing-lists-utils/buy-radius-search"
MESSAGE = {"type": "postcard", "name": "Thanks", "content": "Hi %FIRST_NAME%!"}


@dataclass(frozen=True)
class House:
    """An account with two branches, and a token for one of them."""

    owner: Account
    teammate: Account
    mine: int
    other: int
    container: Container
    clock: Clock

    def list_of(self, account: Account, **fields: Any) -> int:
        return ListOwner(account).make(**fields)

    def homes(self) -> dict[str, set[int | None]]:
        """Of every table that knows sub accounts, those whose rows are in it."""
        with self.container.db.system_transaction() as tx:
            return {
                name: found
                for name, table in metadata.tables.items()
                if "sub_account_id" in table.c and name not in BY_NOBODY
                if (found := set(tx.execute(sa.select(table.c.sub_account_id).distinct()).scalars()))
            }


@pytest.fixture
def branches(owner: Account, container: Container, clock: Clock) -> House:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner, "Other")
    return House(owner, make_teammate(container, owner, mine), mine, other, container, clock)


def send_stored(h: House) -> Response:
    url = h.teammate.post("/stored_send/postcard", postcard()).json()["stored_send_url"]
    return h.teammate.post(urlsplit(url).path.removeprefix("/api/v2"))


def send_to_list(h: House) -> Response:
    lists = ListOwner(h.teammate)
    lists.fill(visitors := lists.make(), "1 Main St", "2 Main St")
    return h.teammate.post("/send/postcard", {"message": "Hi!", "mailing_list_ids": [visitors]})


def replay(h: House) -> Response:
    order_id = h.teammate.send().json()["id"]
    run_jobs_for(h.container, h.clock, seconds=15)
    return h.teammate.post(f"/orders/{order_id}/replay", {"allow_duplicates": True})


def welcome(h: House) -> Response:
    """An automation, and somebody whom it mails."""
    lists = ListOwner(h.teammate)
    made = h.teammate.post("/automations", plan(visitors := lists.make()))
    lists.fill(visitors, "1 Main St")
    return made


def bought(h: House, **more: Any) -> Response:
    store_addresses(h.container, [make_address(number) for number in range(100, 106)])
    return h.teammate.post(BUY, radius_search(3, **more))


def radius_send(h: House) -> Response:
    store_addresses(h.container, [make_address(number) for number in range(100, 106)])
    return h.teammate.post("/send/postcard", {"message": "Hi!", "radius_search": radius_search(3)})


Call = Callable[[House], Response]

CREATE: dict[str, Call] = {
    "a list": lambda h: h.teammate.post("/mailing-lists", {"description": "Visitors"}),
    "a suppression list": lambda h: h.teammate.post(
        "/mailing-lists", {"description": "Not these", "is_suppression_list": True}
    ),
    "somebody on a list": lambda h: ListOwner(h.teammate).add(h.list_of(h.teammate)),
    "several people": lambda h: h.teammate.post("/recipients_multi", [person(mailing_list_id=h.list_of(h.teammate))]),
    "a file of people": lambda h: Importer(ListOwner(h.teammate), h.container).upload(h.list_of(h.teammate)),
    "a picture": lambda h: upload(h.teammate),
    "a message": lambda h: h.teammate.post("/message-templates", MESSAGE),
    "a subscription": lambda h: h.teammate.post("/webhooks", HOOK),
    "an automation": welcome,
    "an automation of scans": lambda h: h.teammate.post("/automations", plan(trigger="scan")),
    "a purchase": bought,
    "a send to those around": radius_send,
    "a send to a list": send_to_list,
    "a stored send that is sent": send_stored,
    "a replay": replay,
    "a preview": lambda h: h.teammate.send(preview=True),
    "an estimate": lambda h: h.teammate.post("/estimate/postcard", postcard()),
    "somebody who is erased": lambda h: h.teammate.post("/recipients/erase", {"email": "jane@example.com"}),
    **{f"a {piece}": lambda h, piece=piece: h.teammate.send(piece) for piece in PIECES},  # type: ignore[misc]
    **{
        f"a stored {piece}": lambda h, piece=piece: h.teammate.post(  # type: ignore[misc]
            f"/stored_send/{piece}", postcard()
        )
        for piece in PIECES
    },
}


@pytest.mark.parametrize("what", CREATE)
def test_everything_that_it_makes_lands_in_its_sub_account(branches: House, what: str) -> None:
    made = CREATE[what](branches)
    assert made.status_code < 300, made.text
    run_due_jobs(branches.container)
    assert {name: homes for name, homes in branches.homes().items() if homes != {branches.mine}} == {}


def test_what_comes_of_it_later_lands_there_too(branches: House) -> None:
    assert branches.teammate.post("/webhooks", HOOK).status_code == 201
    assert branches.teammate.send().status_code == 200
    run_jobs_for(branches.container, branches.clock, seconds=15)
    homes = branches.homes()
    assert {"orders", "items", "facts", "ledger_moves", "webhooks", "audit_log"} <= homes.keys()
    assert set().union(*homes.values()) == {branches.mine}


def elsewhere(h: House) -> dict[str, Response]:
    """Calls that name another sub account."""
    there = {"sub_account_id": h.other}
    account = h.teammate
    store_addresses(h.container, [make_address(number) for number in range(100, 106)])
    mine = h.list_of(account)
    return {
        **{piece: account.send(piece, **there) for piece in PIECES},
        **{f"stored {piece}": account.post(f"/stored_send/{piece}", postcard(**there)) for piece in PIECES},
        "estimate": account.post("/estimate/postcard", postcard(**there)),
        "list": account.post("/mailing-lists", {"description": "Visitors", **there}),
        "changed list": account.put(f"/mailing-lists/{mine}", there),
        "picture": upload(account, sub_account_id=h.other),
        "message": account.post("/message-templates", MESSAGE | there),
        "subscription": account.post("/webhooks", HOOK | there),
        "automation": account.post("/automations", plan(mine, send=SEND | there)),
        "purchase": account.post(BUY, radius_search(3, **there)),
        "radius": account.post(
            "/send/postcard", {"message": "Hi!", "radius_search": radius_search(3), "sub_account_id": h.other}
        ),
        "orders": account.get(f"/orders/list?sub_account_id={h.other}"),
        "lists": account.get(f"/mailing-lists?sub_account_id={h.other}"),
        "pictures": account.get(f"/image-templates?sub_account_id={h.other}"),
        "messages": account.get(f"/message-templates?sub_account_id={h.other}"),
        "subscriptions": account.get(f"/webhooks?sub_account_id={h.other}"),
        "stats": account.get(f"/orders/stats?sub_account_id={h.other}"),
    }


def test_another_sub_account_is_unknown_to_it(branches: House) -> None:
    found = {what: message(answer) for what, answer in elsewhere(branches).items()}
    assert {what: response for what, response in found.items() if response != (400, NO_SUB_ACCOUNT)} == {}


def test_a_sub_account_that_does_not_exist_is_answered_alike(branches: House) -> None:
    unknown = House(branches.owner, branches.teammate, branches.mine, 10**6, branches.container, branches.clock)
    found = {what: message(answer) for what, answer in elsewhere(unknown).items()}
    assert set(found.values()) == {(400, NO_SUB_ACCOUNT)}


def test_its_own_sub_account_may_be_named(branches: House) -> None:
    own = House(branches.owner, branches.teammate, branches.mine, branches.mine, branches.container, branches.clock)
    statuses = {what: answer.status_code for what, answer in elsewhere(own).items()}
    assert {what: status for what, status in statuses.items() if status >= 300} == {}


@pytest.fixture
def theirs(branches: House) -> dict[str, int]:
    """What the other branch has, and the account as a whole."""
    owner, there = branches.owner, {"sub_account_id": branches.other}
    visitors = branches.list_of(owner, **there)
    return {
        "list": visitors,
        "recipient": ListOwner(owner).add(visitors).json()["id"],
        "shared list": branches.list_of(owner),
        "picture": upload(owner, sub_account_id=branches.other).json()["id"],
        "message": owner.post("/message-templates", MESSAGE | there).json()["id"],
        "webhook": owner.post("/webhooks", HOOK | there).json()["id"],
        "automation": owner.post("/automations", plan(visitors, send=SEND | there)).json()["id"],
        "order": owner.send(**there).json()["id"],
        "whole account's order": owner.send().json()["id"],
    }


PATHS: dict[str, str] = {
    "list": "/mailing-lists/{}",
    "recipient": "/recipients/{}",
    "shared list": "/mailing-lists/{}",
    "picture": "/image-templates/{}",
    "message": "/message-templates/{}",
    "webhook": "/webhooks/{}",
    "automation": "/automations/{}",
    "order": "/orders/{}",
    "whole account's order": "/orders/{}",
}


def test_what_belongs_to_others_is_not_found(branches: House, theirs: dict[str, int]) -> None:
    before = traces(branches.container)
    for what, path in PATHS.items():
        assert branches.owner.get(path.format(theirs[what])).status_code == 200, what
        for method in ("GET", "PUT", "DELETE"):
            if path.startswith("/orders") and method == "DELETE":
                continue
            answer = branches.teammate.call(method, path.format(theirs[what]), json={} if method == "PUT" else None)
            assert message(answer) == (404, "Not Found"), (method, what)
    for act in ("cancel", "replay", "track", "items"):
        method = "GET" if act in ("track", "items") else "POST"
        assert branches.teammate.call(method, f"/orders/{theirs['order']}/{act}").status_code == 404, act
    assert traces(branches.container) == before


def test_what_belongs_to_others_cannot_be_used(branches: House, theirs: dict[str, int]) -> None:
    account = branches.teammate
    for what in ("list", "shared list"):
        answer = account.post("/send/postcard", {"message": "Hi!", "mailing_list_ids": [theirs[what]]})
        assert message(answer) == (400, NO_LIST), what
        assert message(account.post("/webhooks", HOOK | {"mailing_list_id": theirs[what]})) == (400, NO_LIST)
        assert message(account.post("/automations", plan(theirs[what]))) == (400, NO_LIST)
        assert message(ListOwner(account).add(theirs[what])) == (400, NO_LIST)
    for field, what in (("image_template_id", "picture"), ("message_template_id", "message")):
        assert account.send(**{field: theirs[what]}).status_code == 400, what


LISTED = (
    "/orders/list", "/mailing-lists", "/image-templates", "/message-templates", "/webhooks", "/automations",
)  # fmt: skip


def test_what_it_lists_is_its_own(branches: House, theirs: dict[str, int]) -> None:
    for path in LISTED:
        assert branches.owner.get(path).json()["meta"]["total"] > 0, path
        assert branches.teammate.get(path).json()["data"] == [], path
    for what in ("a postcard", "a list", "a picture", "a message", "a subscription", "an automation of scans"):
        assert CREATE[what](branches).status_code < 300
    for path in LISTED:
        rows = branches.teammate.get(path).json()["data"]
        assert {row["sub_account_id"] for row in rows} == {branches.mine}, path
    assert branches.teammate.get("/orders/stats").json()["total_requests"] == 1


def test_of_sub_accounts_it_sees_its_own_and_makes_and_removes_none(branches: House) -> None:
    account = branches.teammate
    assert [each["id"] for each in account.get("/sub-accounts").json()["data"]] == [branches.mine]
    assert account.get(f"/sub-accounts/{branches.other}").status_code == 404
    assert account.put(f"/sub-accounts/{branches.other}", {"title": "Mine"}).status_code == 404
    assert account.post("/sub-accounts", {"title": "Third"}).status_code == 403
    assert account.delete(f"/sub-accounts/{branches.mine}").status_code == 403
    with branches.container.db.system_transaction() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(sub_accounts)) == 2


def test_with_its_sub_account_it_ends(branches: House, container: Container) -> None:
    assert branches.teammate.get("/ping").status_code == 200
    assert branches.owner.delete(f"/sub-accounts/{branches.mine}").status_code == 200
    assert branches.teammate.get("/ping").status_code == 401


def test_with_a_sub_account_that_has_a_history_it_ends_too(branches: House, clock: Clock) -> None:
    order = branches.teammate.send().json()["id"]
    assert branches.teammate.post(f"/orders/{order}/cancel").status_code == 200
    assert branches.owner.delete(f"/sub-accounts/{branches.mine}").status_code == 200
    assert branches.teammate.get("/ping").status_code == 401


def test_it_is_of_one_mode_as_any_other(branches: House, container: Container) -> None:
    live = make_teammate(container, make_live(container, branches.owner), branches.mine, mode="live")
    assert CREATE["a postcard"](branches).status_code == 200
    assert live.get("/orders/list").json()["data"] == []
