"""Whoever holds a token of one sub account makes everything there, sees that alone, and reaches no other."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import metadata, sub_accounts
from support import factories
from support.automations import SEND, plan
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate, person, postcard, run_jobs_for
from support.leads import make_address, radius_search, store_addresses
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, Importer, ListOwner, message
from support.rows import scalar
from support.traces import unchanged
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("clean_database")

PIECES = ("postcard", "windowed-letter", "windowless-letter", "notecard", "magnacard")
BY_NOBODY = {"sub_accounts", "tokens", "account_credit", "account_spending", "hourly_counts"}
"""Not made by the calls of this page, or of the whole account: its money."""
HOOK = {"url": "https://hooks.example.com/a", "type": "*"}
AROUND = {"message": "Hi!", "radius_search": radius_search(3)}
BUY = "/mailing-lists-utils/buy-radius-search"
LISTED = (
    "/orders/list", "/mailing-lists", "/image-templates", "/message-templates", "/webhooks", "/automations",
)  # fmt: skip
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

    @property
    def lists(self) -> ListOwner:
        return ListOwner(self.teammate)

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
    store_addresses(container, [make_address(number) for number in range(100, 120)])
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner, "Other")
    return House(owner, make_teammate(container, owner, mine), mine, other, container, clock)


def send_stored(h: House) -> Response:
    url = h.teammate.post("/stored_send/postcard", postcard()).json()["stored_send_url"]
    return h.teammate.post(urlsplit(url).path.removeprefix("/api/v2"))


def send_to_list(h: House) -> Response:
    h.lists.fill(visitors := h.lists.make(), "1 Main St", "2 Main St")
    return h.teammate.post("/send/postcard", {"message": "Hi!", "mailing_list_ids": [visitors]})


def replay(h: House) -> Response:
    order_id = h.teammate.send().json()["id"]
    run_jobs_for(h.container, h.clock, seconds=15)
    return h.teammate.post(f"/orders/{order_id}/replay", {"allow_duplicates": True})


def welcome(h: House) -> Response:
    """An automation, and somebody whom it mails."""
    made = h.teammate.post("/automations", plan(visitors := h.lists.make()))
    h.lists.fill(visitors, "1 Main St")
    return made


Call = Callable[[House], Response]

CREATE: dict[str, Call] = {
    "a list": lambda h: h.teammate.post("/mailing-lists", {"description": "Visitors"}),
    "a suppression list": lambda h: h.teammate.post(
        "/mailing-lists", {"description": "Not these", "is_suppression_list": True}
    ),
    "somebody on a list": lambda h: h.lists.add(h.lists.make()),
    "several people": lambda h: h.teammate.post("/recipients_multi", [person(mailing_list_id=h.lists.make())]),
    "a file of people": lambda h: Importer(h.lists, h.container).upload(h.lists.make()),
    "a picture": lambda h: upload(h.teammate),
    "a message": lambda h: h.teammate.post("/message-templates", MESSAGE),
    "a subscription": lambda h: h.teammate.post("/webhooks", HOOK),
    "an automation": welcome,
    "an automation of scans": lambda h: h.teammate.post("/automations", plan(trigger="scan")),
    "a purchase": lambda h: h.teammate.post(BUY, radius_search(3)),
    "a send to those around": lambda h: h.teammate.post("/send/postcard", AROUND),
    "a send to a list": send_to_list,
    "a stored send that is sent": send_stored,
    "a replay": replay,
    "a postcard": lambda h: h.teammate.send(),
    "a preview": lambda h: h.teammate.send(preview=True),
    "an estimate": lambda h: h.teammate.post("/estimate/postcard", postcard()),
    "somebody who is erased": lambda h: h.teammate.post("/recipients/erase", {"email": "jane@example.com"}),
}


def test_what_it_makes_and_what_comes_of_it_is_in_its_sub_account(branches: House, subtests: pytest.Subtests) -> None:
    sends = {f"a {piece}": lambda h, piece=piece: h.teammate.send(piece) for piece in PIECES[1:]}
    stored = {
        f"a stored {piece}": lambda h, piece=piece: h.teammate.post(f"/stored_send/{piece}", postcard())
        for piece in PIECES
    }
    for what, make in (CREATE | sends | stored).items():
        with subtests.test(what):
            made = make(branches)
            assert made.status_code < 300, made.text
            factories.run_due_jobs(branches.container)
            assert {name: homes for name, homes in branches.homes().items() if homes != {branches.mine}} == {}
    run_jobs_for(branches.container, branches.clock, seconds=15)
    homes = branches.homes()
    assert {"orders", "items", "facts", "ledger_moves", "webhooks", "audit_log"} <= homes.keys()
    assert set().union(*homes.values()) == {branches.mine}


def answers_of(h: House) -> dict[str, tuple[int, str]]:
    """What calls that name the other sub account are answered, if it is refused."""
    there, account = {"sub_account_id": h.other}, h.teammate
    mine = h.lists.make()
    answers = {
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
        "radius": account.post("/send/postcard", AROUND | there),
        **{path: account.get(f"{path}?sub_account_id={h.other}") for path in (*LISTED[:5], "/orders/stats")},
    }
    return {what: message(answer) for what, answer in answers.items() if not answer.is_success}


def test_no_sub_account_but_its_own_may_be_named_whether_or_not_it_exists(branches: House) -> None:
    other, unknown = answers_of(branches), answers_of(replace(branches, other=10**6))
    assert (set(other.values()), other, len(other)) == ({(400, NO_SUB_ACCOUNT)}, unknown, 2 * len(PIECES) + 15)
    assert answers_of(replace(branches, other=branches.mine)) == {}


PATHS: dict[str, str] = {
    "list": "/mailing-lists/{}", "recipient": "/recipients/{}", "shared list": "/mailing-lists/{}",
    "picture": "/image-templates/{}", "message": "/message-templates/{}", "webhook": "/webhooks/{}",
    "automation": "/automations/{}", "order": "/orders/{}", "whole account's order": "/orders/{}",
}  # fmt: skip


def make_theirs(h: House) -> dict[str, int]:
    """What the other branch has, and the account as a whole."""
    owner, there = h.owner, {"sub_account_id": h.other}
    visitors = ListOwner(owner).make(sub_account_id=h.other)
    return {
        "list": visitors, "recipient": ListOwner(owner).add(visitors).json()["id"],
        "shared list": ListOwner(owner).make(), "picture": upload(owner, sub_account_id=h.other).json()["id"],
        "message": owner.post("/message-templates", MESSAGE | there).json()["id"],
        "webhook": owner.post("/webhooks", HOOK | there).json()["id"],
        "automation": owner.post("/automations", plan(visitors, send=SEND | there)).json()["id"],
        "order": owner.send(**there).json()["id"], "whole account's order": owner.send().json()["id"],
    }  # fmt: skip


def test_what_belongs_to_others_is_neither_found_nor_listed_and_cannot_be_used(branches: House) -> None:
    theirs, account = make_theirs(branches), branches.teammate
    with unchanged(branches.container):
        for what, path in PATHS.items():
            assert branches.owner.get(path.format(theirs[what])).status_code == 200, what
            for method in ("GET", "PUT") if path.startswith("/orders") else ("GET", "PUT", "DELETE"):
                answer = account.call(method, path.format(theirs[what]), json={} if method == "PUT" else None)
                assert message(answer) == (404, "Not Found"), (method, what)
        for method, act in (("POST", "cancel"), ("POST", "replay"), ("GET", "track"), ("GET", "items")):
            assert account.call(method, f"/orders/{theirs['order']}/{act}").status_code == 404, act
        for what in ("list", "shared list"):
            for refused in (
                account.post("/send/postcard", {"message": "Hi!", "mailing_list_ids": [theirs[what]]}),
                account.post("/webhooks", HOOK | {"mailing_list_id": theirs[what]}),
                account.post("/automations", plan(theirs[what])),
                branches.lists.add(theirs[what]),
            ):
                assert message(refused) == (400, NO_LIST), what
        for field, what in (("image_template_id", "picture"), ("message_template_id", "message")):
            assert account.send(**{field: theirs[what]}).status_code == 400, what
    for path in LISTED:
        assert branches.owner.get(path).json()["meta"]["total"] > 0, path
        assert account.get(path).json()["data"] == [], path
    for what in ("a postcard", "a list", "a picture", "a message", "a subscription", "an automation of scans"):
        assert CREATE[what](branches).status_code < 300
    for path in LISTED:
        assert {row["sub_account_id"] for row in account.get(path).json()["data"]} == {branches.mine}, path
    assert account.get("/orders/stats").json()["total_requests"] == 1


def test_it_sees_its_own_sub_account_alone_and_ends_with_it(branches: House) -> None:
    account, mine = branches.teammate, f"/sub-accounts/{branches.mine}"
    assert [each["id"] for each in account.get("/sub-accounts").json()["data"]] == [branches.mine]
    assert account.get(f"/sub-accounts/{branches.other}").status_code == 404
    assert account.put(f"/sub-accounts/{branches.other}", {"title": "Mine"}).status_code == 404
    assert account.post("/sub-accounts", {"title": "Third"}).status_code == 403
    assert account.delete(mine).status_code == 403
    assert scalar(branches.container, sa.select(sa.func.count()).select_from(sub_accounts)) == 2
    assert account.get("/ping").status_code == 200
    assert branches.owner.delete(mine).status_code == 200
    assert account.get("/ping").status_code == 401
    # One with a history is kept, its tokens are not.
    other = make_teammate(branches.container, branches.owner, branches.other)
    order = other.send().json()["id"]
    live = make_teammate(branches.container, make_live(branches.container, branches.owner), branches.other, mode="live")
    assert live.get("/orders/list").json()["data"] == [], "it is of one mode as any other"
    assert other.post(f"/orders/{order}/cancel").status_code == 200
    assert branches.owner.delete(f"/sub-accounts/{branches.other}").status_code == 200
    assert other.get("/ping").status_code == 401
