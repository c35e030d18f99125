"""Sub accounts: made, read, changed, and whose they are."""

from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import read_sender
from quillpost.accounts.sub_accounts.queries import BACKGROUND_FIELDS
from quillpost.accounts.sub_accounts.service import MAX_SUB_ACCOUNTS
from quillpost.app.container import Container
from quillpost.web.api.sub_accounts.schemas import Branding
from support.factories import Account, Clock, make_teammate
from support.traces import FORM, unchanged

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
    with container.db.system_transaction() as tx:
        tx.execute(sa.text(many), {"account": owner.id, "most": MAX_SUB_ACCOUNTS})
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
        with container.db.system_transaction() as tx:
            sender = read_sender(tx, Caller(owner.id, "test"), number)
            house = read_sender(tx, Caller(owner.id, "test"), None)
        assert (sender.name, sender.company) == expected
        assert (house.name, house.company) == ("Dana Whitfield", None)
