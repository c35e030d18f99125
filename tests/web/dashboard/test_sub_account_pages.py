"""Sub accounts on pages: who may see and change them, how they look, and what keeps one."""

from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import sub_accounts
from support.account_pages import AccountPages
from support.factories import Build
from support.image_server import ImageServer
from support.test_client import TestClient

HOME: dict[str, Any] = {
    "return_name": "Dana",
    "return_address": "500 Congress Ave",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
}


@pytest.fixture
def container(build: Build) -> Container:
    """Pictures may be on loopback here."""
    return build(allow_private_urls=True)


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def acts(house: AccountPages) -> list[str]:
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        return [entry.act for entry in list_audit_entries(tx, house.account.id)]


def test_one_is_made_looked_at_changed_and_deleted(house: AccountPages) -> None:
    made = house.owner.post(
        "/sub-accounts/new", title="Austin", company="Whitfield Homes", accentColor="#1f4e79", **HOME
    )
    assert "The sub account is made." in made.text
    assert "500 Congress Ave" in made.text
    number = house.account.get("/sub-accounts").json()["data"][-1]["id"]
    house.account.put(f"/sub-accounts/{number}", {"branding_fields": {"set": 7}})
    address = f"/sub-accounts/{number}"
    form = house.owner.get(f"{address}/edit").text
    assert 'value="Whitfield Homes"' in form
    house.owner.post(f"{address}/edit", title="Waco", company="", accentColor="#1f4e79", **HOME)
    now = house.account.get(address).json()
    assert (now["title"], now["branding_fields"]["company"]) == ("Waco", None)
    assert now["branding_fields"]["set"] == 7  # a program's own mark, of which the form knows nothing
    assert "Delete “Waco”?" in house.owner.get(f"{address}/delete").text
    assert "The sub account is deleted." in house.owner.post(f"{address}/delete").text
    assert house.account.get(address).status_code == 404
    assert acts(house)[:2] == ["sub_account.deleted", "sub_account.created"]


def test_what_is_wrong_stands_beside_its_field_and_nothing_is_kept(house: AccountPages) -> None:
    before = house.everything()
    answer = house.owner.post(
        "/sub-accounts/new", title=" ", accentColor="mauve-ish", return_city="Austin", logo="ftp://x.example"
    )
    assert answer.status_code == 422
    for name in ("title", "accentColor"):
        assert f'id="{name}-fault"' in answer.text, name
    assert "write it as #1f4e79." in answer.text
    assert "rgba" not in answer.text + house.owner.post("/sub-accounts/preview", accentColor="mauve-ish").text
    later = house.owner.post(
        f"/sub-accounts/{house.branch}/edit", title="Dallas", return_city="Austin", logo="ftp://x.example"
    )
    assert later.status_code == 422
    for name in ("return_address", "logo"):
        assert f'id="{name}-fault"' in later.text, name
    assert 'value="ftp://x.example"' in later.text
    once = "c" * 22
    assert house.everything() == before
    assert house.owner.post("/sub-accounts/new", title="Waco", once=once).status_code == 200
    assert house.owner.post("/sub-accounts/new", title="Waco", once=once).status_code == 409


def test_its_front_is_drawn_as_it_would_print(house: AccountPages, art: ImageServer) -> None:
    part = {"HX-Request": "true"}
    bare = house.owner.post("/sub-accounts/preview", headers=part)
    named = house.owner.post("/sub-accounts/preview", company="Whitfield", headers=part)
    assert "data:image/png;base64," in named.text
    assert named.text != bare.text
    logo = house.owner.post("/sub-accounts/preview", logo=art.picture("teal"), headers=part)
    assert logo.text not in (named.text, bare.text)
    gone = house.owner.post("/sub-accounts/preview", logo=art.url("/gone"), headers=part)
    assert "could not be fetched" in gone.text
    odd = house.owner.post("/sub-accounts/preview", accentColor="mauve-ish", headers=part)
    assert "This is no color that we know." in odd.text
    whole = house.owner.post("/sub-accounts/preview", title="Kept", company="Whitfield")
    assert 'value="Kept"' in whole.text
    assert "data:image/png;base64," in whole.text

    address = f"/sub-accounts/{house.branch}/front.png"
    first = house.member.get(address)
    assert Image.open(BytesIO(first.content)).size == (900, 600)
    assert first.headers["Cache-Control"] == "private, no-cache"
    known = {"If-None-Match": first.headers["ETag"]}
    assert house.member.get(address, headers=known).status_code == 304
    house.account.put(f"/sub-accounts/{house.branch}", {"branding_fields": {"company": "Whitfield"}})
    assert house.member.get(address, headers=known).content != first.content


def test_what_it_still_has_keeps_it_and_the_page_says_so(house: AccountPages) -> None:
    house.account.post(
        "/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi", "sub_account_id": house.branch}
    )
    answer = house.owner.post(f"/sub-accounts/{house.branch}/delete")
    assert answer.status_code == 400
    assert "still has 1 message template" in answer.text
    assert house.account.get(f"/sub-accounts/{house.branch}").status_code == 200


def test_the_list_tells_what_each_has_sent(house: AccountPages) -> None:
    with house.parts.db.system_transaction() as tx:
        tx.execute(
            sa.insert(sub_accounts),
            [
                {
                    "account_id": house.account.id,
                    "title": f"Branch {n:02}",
                    "branding": {},
                    "backgrounds": {},
                    "created_at": house.parts.clock(),
                    "updated_at": house.parts.clock(),
                }
                for n in range(60)
            ],
        )
    for _ in range(3):
        assert house.account.send(sub_account_id=house.branch).status_code == 200
    page = house.owner.get("/sub-accounts?q=dALL").text
    assert f'<a href="/orders?sub_account={house.branch}">3</a>' in page
    assert "Branch 07" not in page
    assert "Branch 59" in house.owner.get("/sub-accounts?page=2").text
    assert "Dallas" in house.limited.get("/sub-accounts").text
    assert "Branch 07" not in house.limited.get("/sub-accounts").text
    assert "/sub-accounts/new" not in house.member.get("/sub-accounts").text


def test_owners_alone_change_them_and_strangers_find_nothing(house: AccountPages) -> None:
    number = house.branch
    house.refuses_others(
        f"GET /sub-accounts/{number}/edit",
        f"POST /sub-accounts/{number}/edit",
        f"GET /sub-accounts/{number}/delete",
        f"POST /sub-accounts/{number}/delete",
        "GET /sub-accounts/new",
        "POST /sub-accounts/new",
        "POST /sub-accounts/preview",
        another=number,
    )
    for page in ("", "/front.png"):
        assert house.is_as_if_unknown(house.stranger, f"/sub-accounts/{number}{page}", number)
    assert house.stranger.post("/sub-accounts/preview", sub_account_id=number).status_code == 404
