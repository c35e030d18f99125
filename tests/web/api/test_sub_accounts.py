"""Sub accounts: made, changed, shown and removed."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import read_sender
from quillpost.accounts.sub_accounts.queries import BACKGROUND_FIELDS, read_sub_account, require_sub_account
from quillpost.accounts.sub_accounts.service import MAX_SUB_ACCOUNTS, remove_sub_account
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import metadata, orders, sub_accounts, tokens
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import Refused
from quillpost.web.api.sub_accounts.schemas import Branding
from support.factories import Account, Clock, make_live, make_sub_account, make_teammate
from support.rows import execute, run, run_as
from support.tenant_rows import insert_least
from support.traces import FORM, unchanged
from support.waiting import is_lock_awaited, wait_until

HOME = {
    "return_name": "Dana", "return_address": "9 Branch Rd", "return_address2": "Unit 2", "return_city": "Waco",
    "return_state": "TX", "return_postal_code": "76701",
}  # fmt: skip
NO_BRANDING = dict.fromkeys(Branding.model_fields)


def create(account: Account, **body: Any) -> Any:
    return account.post("/sub-accounts", {"title": "Branch"} | body)


def change(account: Account, sub_account: object, **body: Any) -> Any:
    return account.put(f"/sub-accounts/{sub_account}", body)


def listed(account: Account) -> list[int]:
    return [each["id"] for each in account.get("/sub-accounts").json()["data"]]


def test_a_title_is_enough_and_all_that_is_given_comes_back(owner: Account) -> None:
    body = create(owner).json()
    assert body == {
        "id": body["id"], "user_id": owner.id, "title": "Branch", "name": "Branch",
        **dict.fromkeys(HOME), **dict.fromkeys(BACKGROUND_FIELDS), "branding_fields": NO_BRANDING,
        "created_at": "2026-05-04 12:00:00", "updated_at": "2026-05-04 12:00:00",
    }  # fmt: skip
    assert owner.get(f"/sub-accounts/{body['id']}").json() == body
    branding = {name: f"some {name}" for name in Branding.model_fields}
    given: dict[str, Any] = HOME | {name: f"https://example.com/{name}.png" for name in BACKGROUND_FIELDS}
    given |= {"branding_fields": branding | {"accentColor": "#1f4e79", "logo": "https://example.com/logo.png"}}
    made = create(owner, **given)
    assert (made.status_code, {name: made.json()[name] for name in given}) == (201, given)
    assert owner.get("/sub-accounts").json() == {"data": [body, made.json()]}
    for mark in ("modern", "", True, False, 0, -7, 2**63 - 1, None):
        kept = create(owner, branding_fields={"set": mark}).json()["branding_fields"]["set"]
        assert (kept, type(kept)) == (mark, type(mark))


def test_fields_have_second_names_a_form_will_do_and_what_is_ignored_is_named(owner: Account) -> None:
    form = b"name=Branch&return_address=9+Branch+Rd&return_province=TX&colour=red"
    made = owner.call("POST", "/sub-accounts", content=form, headers={"Content-Type": FORM})
    assert (made.status_code, made.json()["title"], made.json()["return_state"]) == (201, "Branch", "TX")
    assert made.headers["X-Ignored-Fields"] == "colour"
    made = create(owner, colour="red", branding_fields={"accent_color": "red", "logo": "a lion"})
    assert made.headers["X-Ignored-Fields"] == "branding_fields.accent_color, colour"
    assert made.json()["branding_fields"]["logo"] == "a lion"
    changed = change(owner, made.json()["id"], branding_fields={"font": "Arial"})
    assert changed.headers["X-Ignored-Fields"] == "branding_fields.font"
    assert changed.json()["branding_fields"] == made.json()["branding_fields"]


def test_what_cannot_be_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    """`None` stands for any sentence."""
    half = "Give the street as well, or none of it: the account's is used then."
    private, no_url = "127.0.0.1 is not a public address.", "The URL must start with http:// or https://."
    cases: list[tuple[dict[str, Any], Mapping[str, str | None]]] = [
        ({"title": None}, {"title": "This must be a string."}),
        ({"title": "  "}, {"title": "Give the sub account a title."}),
        ({"title": 5}, {"title": "This must be a string."}),
        ({"title": "x" * 301}, {"title": "At most 300 characters, please."}),
        ({"return_name": ["Dana"]}, {"return_name": "This must be a string."}),
        *(({name: HOME[name]}, {"return_address": half}) for name in list(HOME)[2:]),
        *(({name: "http://127.0.0.1/x.png"}, {name: private}) for name in BACKGROUND_FIELDS),
        ({"message_background_url": "x.png"}, {"message_background_url": no_url}),
        ({"branding_fields": "red"}, {"branding_fields": None}),
        ({"return_city": "Waco", "notecard_background_url": "x.png", "branding_fields": {"logo": "ftp://x"}},
         {"notecard_background_url": None, "branding_fields.logo": None, "return_address": None}),
    ]  # fmt: skip
    branding: list[tuple[str, object, str | None]] = [
        ("accentColor", "mauve-ish", None), ("name", "a\x00b", None), ("set", 1.5, None), ("set", 2**63, None),
        ("set", "x" * 301, None), ("set", [], None),
        *((name, "http://127.0.0.1/x.png", private) for name in ("symbol", "logo", "headshot")),
    ]  # fmt: skip
    cases += [({"branding_fields": {name: wrong}}, {f"branding_fields.{name}": why}) for name, wrong, why in branding]
    known = create(owner).json()["id"]
    with unchanged(container):
        for body, expected in cases:
            with subtests.test(str(body)[:99]):
                for refused in (create(owner, **body), change(owner, known, **body)):
                    errors = refused.json()["errors"]
                    assert (refused.status_code, set(errors)) == (422, set(expected))
                    assert [name for name, why in expected.items() if why and errors[name] != [why]] == []
        refused = owner.post("/sub-accounts", HOME)
        assert (refused.status_code, refused.json()["errors"]) == (422, {"title": ["This field is required."]})


def test_a_change_touches_what_it_names_alone(owner: Account, clock: Clock) -> None:
    a, b, c = (f"https://example.com/{letter}.png" for letter in "abc")
    branding = {"company": "Whitfield Homes", "phone": "555-0100", "set": False}
    backgrounds = {"message_background_url": a, "notecard_background_url": b}
    made = create(owner, **HOME, **backgrounds, branding_fields=branding).json()
    clock.advance(minutes=1)
    changes = {"return_address2": None, "message_background_url": None, "windowedletter_background_url": c}
    new = {"phone": None, "email": "b@example.com"}
    changed = change(owner, made["id"], name="New name", return_province="OK", branding_fields=new, **changes)
    assert changed.status_code == 200
    assert changed.json() == made | changes | {
        "title": "New name", "name": "New name", "return_state": "OK", "updated_at": "2026-05-04 12:01:00",
        "branding_fields": made["branding_fields"] | new,
    }  # fmt: skip
    assert owner.get(f"/sub-accounts/{made['id']}").json() == changed.json()
    cleared = change(owner, made["id"], branding_fields=None, return_name="").json()
    assert (cleared["branding_fields"], cleared["return_name"]) == (NO_BRANDING, None)
    # The return address is checked as it is after the change.
    assert change(owner, made["id"], return_city="Dallas").status_code == 200
    assert list(change(owner, made["id"], return_address=None).json()["errors"]) == ["return_address"]
    assert change(owner, made["id"], **dict.fromkeys(HOME)).status_code == 200
    assert list(change(owner, made["id"], return_city="Dallas").json()["errors"]) == ["return_address"]


def test_another_accounts_sub_account_looks_like_none(owner: Account, stranger: Account) -> None:
    mine = create(owner).json()
    for method in ("GET", "PUT", "DELETE"):
        for number in (mine["id"], mine["id"] + 99, "x", 2**63, "9" * 5_000):
            body = {"title": "Mine"} if method == "PUT" else None
            answer = stranger.call(method, f"/sub-accounts/{number}", json=body)
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}')
    assert stranger.get("/sub-accounts").json() == {"data": []}
    assert owner.get(f"/sub-accounts/{mine['id']}").json() == mine


def test_a_token_of_one_sub_account_sees_and_changes_that_one_alone(owner: Account, container: Container) -> None:
    mine, other = create(owner, title="Mine").json()["id"], create(owner, title="Other").json()["id"]
    teammate = make_teammate(container, owner, mine)
    assert (listed(teammate), listed(owner)) == ([mine], [mine, other])
    assert teammate.get(f"/sub-accounts/{other}").status_code == 404
    assert change(teammate, other, title="Taken").status_code == 404
    assert change(teammate, mine, title="Still mine").json()["title"] == "Still mine"
    refused = create(teammate, title="Third")
    assert refused.status_code == 403
    assert refused.json() == {"message": "This token is limited to one sub account: it cannot make others."}
    assert teammate.delete(f"/sub-accounts/{mine}").status_code == 403
    assert listed(owner) == [mine, other]


def test_an_account_has_so_many_and_no_more(owner: Account, container: Container) -> None:
    many = """insert into sub_accounts (account_id, title, created_at, updated_at)
              select :account, 'Branch', now(), now() from generate_series(2, :most)"""
    execute(container, many, account=owner.id, most=MAX_SUB_ACCOUNTS)
    assert create(owner).status_code == 201
    refused = create(owner)
    assert (refused.status_code, refused.json()["message"]) == (400, "An account has at most 10,000 sub accounts.")


def test_mail_is_from_the_name_and_company_of_the_branding(owner: Account, container: Container) -> None:
    for branding, expected in (
        (None, ("Dana Whitfield", None)),
        ({"name": "Max", "company": "Whitfield Homes"}, ("Max", "Whitfield Homes")),
        ({"company": "Whitfield Homes"}, ("Dana Whitfield", "Whitfield Homes")),
    ):
        number = create(owner, branding_fields=branding).json()["id"]
        sender = run(container, read_sender, Caller(owner.id, "test"), number)
        house = run(container, read_sender, Caller(owner.id, "test"), None)
        assert (sender.name, sender.company) == expected
        assert (house.name, house.company) == ("Dana Whitfield", None)


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
    return execute(container, sa.select(table).where(whose == branch))


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


def test_an_order_keeps_its_sub_account_only_while_it_is_held_back(owner: Account, container: Container) -> None:
    """Also a test token removes what has mailed for real, without its history."""
    for status, mode in (("reviewing", "test"), ("paused", "test"), ("reviewing", "live"), ("paused", "live")):
        branch = make_sub_account(container, owner)
        order = give(container, owner, branch, "orders", status=status, mode=mode)
        held = f"Order {order} is still held back for this sub account: cancel first, or wait."
        assert refusal(owner, branch) == held
        others = [give(container, owner, branch, "orders", status=status, mode=mode) for _ in range(5)]
        named = ", ".join(map(str, [order, *others[:4]]))
        assert refusal(owner, branch).startswith(f"Orders {named} and others are still held back")
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
        run_as(container, Tenant(owner.id), remove_sub_account, branch, now=container.clock())

    with ThreadPoolExecutor(1) as pool:
        with container.db.transaction(Tenant(owner.id)) as using:
            require_sub_account(using, branch)
            removal = pool.submit(remove_it)
            wait_until(lambda: is_lock_awaited(container))
            known: dict[str, object] = {"account_id": owner.id, "sub_account_id": branch}
            insert_least(using, metadata.tables["mailing_lists"], known)
        with pytest.raises(Refused, match="still has 1 mailing list"):
            removal.result()
