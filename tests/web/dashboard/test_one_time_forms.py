"""A form whose answer shows a secret is sent again by whoever loads that page again: it is not done again."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest

from quillpost.app.container import Container
from support.account_pages import OWNER, AccountPages
from support.browser_sessions import Browser, turn_on_second_factor

ONCE = re.compile(r'name="once" value="([^"]+)"')
TOKEN: dict[str, Any] = {"name": "Zapier", "mode": "test", "limits": "all", "lasts": "never"}
BACK = "https://app.example/back"
CLIENT: dict[str, Any] = {"name": "Letterhead", "redirect_uris": BACK, "kind": "confidential", "limits": "all"}
GUEST: dict[str, Any] = {"email": "guest@example.com", "role": "member"}


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def with_client(house: AccountPages) -> str:
    house.owner.post("/settings/clients/new", **CLIENT)
    [number] = set(re.findall(r"/settings/clients/(\d+)", house.owner.get("/settings/clients").text))
    return f"/settings/clients/{number}/secret"


def with_codes(house: AccountPages) -> str:
    turn_on_second_factor(house.parts, OWNER)
    return "/settings/second-factor/codes"


def with_guest(house: AccountPages) -> str:
    house.owner.post("/settings/people/invite", **GUEST)
    found = re.search(r"/settings/people/invitations/\d+/again", house.owner.get("/settings/people").text)
    assert found is not None
    return found[0]


ACTS: dict[str, tuple[Callable[[AccountPages], str], str, dict[str, Any], str]] = {
    "a token": (lambda _: "/settings/tokens/new", "/settings/tokens/new", TOKEN, "/settings/tokens"),
    "a client": (lambda _: "/settings/clients/new", "/settings/clients/new", CLIENT, "/settings/clients"),
    "a client's new secret": (with_client, "", {}, "/settings/clients/"),
    "recovery codes": (with_codes, "/settings/second-factor", {}, "/settings/second-factor"),
    "an invitation": (lambda _: "/settings/people/invite", "/settings/people/invite", GUEST, "/settings/people"),
    "an invitation again": (with_guest, "/settings/people", {}, "/settings/people"),
}
"""What comes first and tells the form's path, the page on which the form stands (its own), what is filled in,
and where whoever sends it again is led."""


def key_on(browser: Browser, page: str) -> str:
    found = ONCE.search(browser.get(page).text)
    assert found is not None, f"{page} has no form with a key"
    return unescape(found[1])


@pytest.mark.parametrize("act", ACTS)
def test_it_is_done_once_however_often_it_is_sent(house: AccountPages, act: str) -> None:
    begin, page, fields, leads_to = ACTS[act]
    path = begin(house)
    key = key_on(house.owner, page or path)
    first = house.owner.post(path, follow=False, **fields, once=key)
    assert first.status_code in (200, 303), first.text
    after = house.everything()
    log = house.owner.get("/settings/audit").text
    for _ in range(2):
        again = house.owner.post(path, follow=False, **fields, once=key)
        assert again.status_code == 409
        assert "This was done already." in again.text
        assert f'class="button first" href="{leads_to}' in again.text
    assert house.everything() == after
    assert house.owner.get("/settings/audit").text.count("<tr>") == log.count("<tr>")
    assert house.owner.post(path, follow=False, **fields, once=None).status_code == 403


def test_each_page_has_a_key_of_its_own(house: AccountPages) -> None:
    keys = {key_on(house.owner, "/settings/tokens/new") for _ in range(3)}
    assert len(keys) == 3
    for key in keys:
        assert house.owner.post("/settings/tokens/new", **TOKEN, once=key).status_code == 200


def test_what_was_refused_may_be_sent_again(house: AccountPages) -> None:
    key = key_on(house.owner, "/settings/tokens/new")
    refused = house.owner.post("/settings/tokens/new", **TOKEN | {"name": ""}, once=key)
    assert refused.status_code == 422
    assert ONCE.search(refused.text), "the form that comes back has a key as well"
    assert house.owner.post("/settings/tokens/new", **TOKEN, once=key).status_code == 200


@pytest.mark.parametrize("key", ["", "short", "x" * 23, "not a key of ours, yet", "é" * 22])
def test_what_is_no_key_does_nothing(house: AccountPages, key: str) -> None:
    before = house.everything()
    assert house.owner.post("/settings/tokens/new", **TOKEN, once=key).status_code == 403
    assert house.everything() == before


def test_anothers_key_is_in_nobodys_way(house: AccountPages) -> None:
    key = key_on(house.owner, "/settings/tokens/new")
    assert house.owner.post("/settings/tokens/new", **TOKEN, once=key).status_code == 200
    assert house.stranger.post("/settings/tokens/new", **TOKEN, once=key).status_code == 200


def test_of_two_at_once_one_is_done(house: AccountPages) -> None:
    key, csrf = key_on(house.owner, "/settings/tokens/new"), house.owner.csrf()
    before = house.everything()["tokens"]

    def send(_: int) -> int:
        return int(house.owner.post("/settings/tokens/new", **TOKEN, once=key, csrf=csrf).status_code)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(send, range(4))) == [200, 409, 409, 409]
    assert house.everything()["tokens"] == before + 1
