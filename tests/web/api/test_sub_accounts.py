"""Sub accounts: made, read, changed, and whose they are."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import read_sender
from quillpost.accounts.sub_accounts.queries import BACKGROUND_FIELDS
from quillpost.accounts.sub_accounts.service import MAX_SUB_ACCOUNTS
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.base import sub_accounts
from quillpost.web.api.sub_accounts.schemas import Branding
from support.factories import Account, Clock, make_account, make_sub_account, make_teammate
from support.shared_service import shared_account
from support.traces import FORM

HOME = {
    "return_name": "Dana",
    "return_address": "9 Branch Rd",
    "return_address2": "Unit 2",
    "return_city": "Waco",
    "return_state": "TX",
    "return_postal_code": "76701",
}
HALF_AN_ADDRESS = "Give the street as well, or none of it: the account's is used then."
NOWHERE = ("127.0.0.1 is not a public address.", "The URL must start with http:// or https://.")


@pytest.fixture(scope="module")
def asker(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Has one sub account, and leaves nothing behind."""
    with shared_account(postgres, template, tmp_path_factory.mktemp("sub-accounts")) as (account, parts):
        make_sub_account(parts, account)
        yield account


def create(account: Account, **body: Any) -> Any:
    return account.post("/sub-accounts", {"title": "Branch"} | body)


def change(account: Account, sub_account: object, **body: Any) -> Any:
    return account.call("PUT", f"/sub-accounts/{sub_account}", json=body)


def count(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(sub_accounts)).scalar_one())


def test_a_title_is_enough_and_the_rest_is_null(owner: Account) -> None:
    made = create(owner)
    assert made.status_code == 201
    body = made.json()
    assert body == {
        "id": body["id"],
        "user_id": owner.id,
        "title": "Branch",
        "name": "Branch",
        **dict.fromkeys(HOME),
        **dict.fromkeys(BACKGROUND_FIELDS),
        "branding_fields": dict.fromkeys(Branding.model_fields),
        "created_at": "2026-05-04 12:00:00",
        "updated_at": "2026-05-04 12:00:00",
    }
    assert owner.get(f"/sub-accounts/{body['id']}").json() == body


def test_all_that_is_given_comes_back(owner: Account) -> None:
    order_request = {
        **HOME,
        **{name: f"https://example.com/{name}.png" for name in BACKGROUND_FIELDS},
        "branding_fields": {
            **{name: f"some {name}" for name in Branding.model_fields},
            "accentColor": "#1f4e79",
            "logo": "https://example.com/logo.png",
        },
    }
    made = create(owner, **order_request).json()
    assert {name: made[name] for name in order_request} == order_request
    assert owner.get("/sub-accounts").json() == {"data": [made]}


@pytest.mark.parametrize("mark", ["modern", "", True, False, 0, -7, 2**63 - 1, None])
def test_the_set_is_kept_as_it_came(owner: Account, mark: object) -> None:
    branding = create(owner, branding_fields={"set": mark}).json()["branding_fields"]
    assert branding["set"] == mark
    assert type(branding["set"]) is type(mark)


def test_some_fields_have_a_second_name_and_a_form_will_do(owner: Account) -> None:
    made = owner.call(
        "POST",
        "/sub-accounts",
        content=b"name=Branch&return_address=9+Branch+Rd&return_province=TX&colour=red",
        headers={"Content-Type": FORM},
    )
    assert made.status_code == 201
    assert (made.json()["title"], made.json()["return_state"]) == ("Branch", "TX")
    assert made.headers["X-Ignored-Fields"] == "colour"


def test_what_is_ignored_is_named_within_the_branding_too(owner: Account) -> None:
    made = create(owner, colour="red", branding_fields={"accent_color": "red", "logo": "a lion"})
    assert made.headers["X-Ignored-Fields"] == "branding_fields.accent_color, colour"
    assert made.json()["branding_fields"]["logo"] == "a lion"
    changed = change(owner, made.json()["id"], branding_fields={"font": "Arial"})
    assert changed.headers["X-Ignored-Fields"] == "branding_fields.font"
    assert changed.json()["branding_fields"] == made.json()["branding_fields"]


@pytest.mark.parametrize(
    ("body", "field_errors"),
    [
        ({"title": None}, {"title": ["This must be a string."]}),
        ({"title": "  "}, {"title": ["Give the sub account a title."]}),
        ({"title": 5}, {"title": ["This must be a string."]}),
        ({"title": "x" * 301}, {"title": ["At most 300 characters, please."]}),
        ({"return_name": ["Dana"]}, {"return_name": ["This must be a string."]}),
        *(
            ({name: text}, {"return_address": [HALF_AN_ADDRESS]})
            for name, text in HOME.items()
            if name not in ("return_name", "return_address")
        ),
        *(({name: "http://127.0.0.1/x.png"}, {name: [NOWHERE[0]]}) for name in BACKGROUND_FIELDS),
        ({"message_background_url": "x.png"}, {"message_background_url": [NOWHERE[1]]}),
        ({"branding_fields": "red"}, {"branding_fields": None}),
        ({"branding_fields": {"accentColor": "mauve-ish"}}, {"branding_fields.accentColor": None}),
        ({"branding_fields": {"set": 1.5}}, {"branding_fields.set": None}),
        ({"branding_fields": {"set": 2**63}}, {"branding_fields.set": None}),
        ({"branding_fields": {"set": "x" * 301}}, {"branding_fields.set": None}),
        ({"branding_fields": {"set": []}}, {"branding_fields.set": None}),
        ({"branding_fields": {"name": "a\x00b"}}, {"branding_fields.name": None}),
        *(
            ({"branding_fields": {name: "http://127.0.0.1/x.png"}}, {f"branding_fields.{name}": [NOWHERE[0]]})
            for name in ("symbol", "logo", "headshot")
        ),
        (
            {"return_city": "Waco", "notecard_background_url": "x.png", "branding_fields": {"logo": "ftp://x"}},
            {"notecard_background_url": None, "branding_fields.logo": None, "return_address": None},
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_field(
    asker: Account, body: dict[str, Any], field_errors: dict[str, list[str] | None]
) -> None:
    """`None` stands for any sentence."""
    before = asker.get("/sub-accounts").json()
    [known] = before["data"]
    for refused in (create(asker, **body), change(asker, known["id"], **body)):
        assert refused.status_code == 422
        errors = refused.json()["errors"]
        assert set(errors) == set(field_errors)
        assert all(errors[name] == sentences for name, sentences in field_errors.items() if sentences)
    assert asker.get("/sub-accounts").json() == before


def test_a_new_one_needs_a_title(owner: Account, container: Container) -> None:
    refused = owner.post("/sub-accounts", HOME)
    assert (refused.status_code, refused.json()["errors"]) == (422, {"title": ["This field is required."]})
    assert count(container) == 0


def test_a_change_touches_what_it_names_alone(owner: Account, clock: Clock) -> None:
    made = create(
        owner,
        **HOME,
        message_background_url="https://example.com/a.png",
        notecard_background_url="https://example.com/b.png",
        branding_fields={"company": "Whitfield Homes", "phone": "555-0100", "set": False},
    ).json()
    clock.advance(minutes=1)
    changed = change(
        owner,
        made["id"],
        name="New name",
        return_address2=None,
        return_province="OK",
        message_background_url=None,
        windowedletter_background_url="https://example.com/c.png",
        branding_fields={"phone": None, "email": "b@example.com"},
    )
    assert changed.status_code == 200
    assert changed.json() == made | {
        "title": "New name",
        "name": "New name",
        "return_address2": None,
        "return_state": "OK",
        "message_background_url": None,
        "windowedletter_background_url": "https://example.com/c.png",
        "branding_fields": made["branding_fields"] | {"phone": None, "email": "b@example.com"},
        "updated_at": "2026-05-04 12:01:00",
    }
    assert owner.get(f"/sub-accounts/{made['id']}").json() == changed.json()
    cleared = change(owner, made["id"], branding_fields=None, return_name="").json()
    assert cleared["branding_fields"] == dict.fromkeys(Branding.model_fields)
    assert cleared["return_name"] is None


def test_a_return_address_is_checked_as_it_is_after_the_change(owner: Account) -> None:
    made = create(owner, **HOME).json()["id"]
    assert change(owner, made, return_city="Dallas").status_code == 200
    assert list(change(owner, made, return_address=None).json()["errors"]) == ["return_address"]
    assert change(owner, made, **dict.fromkeys(HOME)).status_code == 200
    assert list(change(owner, made, return_city="Dallas").json()["errors"]) == ["return_address"]


def test_another_accounts_sub_account_looks_like_none(owner: Account, stranger: Account) -> None:
    mine = create(owner).json()
    for method in ("GET", "PUT", "DELETE"):
        answers = [
            stranger.call(method, f"/sub-accounts/{n}", json={"title": "Mine"} if method == "PUT" else None)
            for n in (mine["id"], mine["id"] + 99, "x", 2**63, "9" * 5_000)
        ]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}
    assert stranger.get("/sub-accounts").json() == {"data": []}
    assert owner.get(f"/sub-accounts/{mine['id']}").json() == mine


def test_a_token_of_one_sub_account_sees_and_changes_that_one_alone(owner: Account, container: Container) -> None:
    mine, other = create(owner, title="Mine").json()["id"], create(owner, title="Other").json()["id"]
    teammate = make_teammate(container, owner, mine)
    assert [each["id"] for each in teammate.get("/sub-accounts").json()["data"]] == [mine]
    assert [each["id"] for each in owner.get("/sub-accounts").json()["data"]] == [mine, other]
    assert teammate.get(f"/sub-accounts/{other}").status_code == 404
    assert change(teammate, other, title="Taken").status_code == 404
    assert change(teammate, mine, title="Still mine").json()["title"] == "Still mine"
    refused = create(teammate, title="Third")
    assert refused.status_code == 403
    assert refused.json() == {"message": "This token is limited to one sub account: it cannot make others."}
    assert teammate.call("DELETE", f"/sub-accounts/{mine}").status_code == 403
    assert count(container) == 2


def test_reading_and_writing_are_scopes_of_the_account(owner: Account, container: Container) -> None:
    reader = make_account(container, owner.http, "r@example.com", scopes=["account:read"])
    writer = make_account(container, owner.http, "w@example.com", scopes=["account:write"])
    assert (reader.get("/sub-accounts").status_code, create(reader).status_code) == (200, 403)
    assert (writer.get("/sub-accounts").status_code, create(writer).status_code) == (403, 201)
    assert change(reader, 1, title="x").status_code == reader.call("DELETE", "/sub-accounts/1").status_code == 403


def test_an_account_has_so_many_and_no_more(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text(
                """insert into sub_accounts (account_id, title, created_at, updated_at)
                   select :account, 'Branch', now(), now() from generate_series(2, :most)"""
            ),
            {"account": owner.id, "most": MAX_SUB_ACCOUNTS},
        )
    assert create(owner).status_code == 201
    refused = create(owner)
    assert (refused.status_code, refused.json()["message"]) == (400, "An account has at most 10,000 sub accounts.")


def test_mail_is_from_the_name_and_company_of_the_branding(owner: Account, container: Container) -> None:
    caller = Caller(owner.id, "test")
    plain = create(owner).json()["id"]
    branded = create(owner, branding_fields={"name": "Max", "company": "Whitfield Homes"}).json()["id"]
    half = create(owner, branding_fields={"company": "Whitfield Homes"}).json()["id"]
    with container.db.system_transaction() as tx:
        senders = [read_sender(tx, caller, each) for each in (None, plain, branded, half)]
    assert [(sender.name, sender.company) for sender in senders] == [
        ("Dana Whitfield", None),
        ("Dana Whitfield", None),
        ("Max", "Whitfield Homes"),
        ("Dana Whitfield", "Whitfield Homes"),
    ]
