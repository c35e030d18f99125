"""Forms that are ours, sent once and where they belong: not those that another site sends in our reader's name,
that were begun in another account or mode, or that are sent again."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, sessions
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Invalid
from quillpost.core.tokens import mint_secret
from quillpost.web.forms import MAX_FIELDS, MAX_FORM_BYTES, Form
from support.pages import OWNER, AccountPages, assert_hides, assert_shows
from support.route_access import PAGE_NEEDS
from support.sign_in import ACCEPTS, CSRF, PASSWORD, Browser, sign_in_browser, turn_on_second_factor
from support.test_client import TestClient

FORM_TYPE = "application/x-www-form-urlencoded"
JSON = {"Accept": "application/json"}
BARE = {**JSON, "Content-Type": FORM_TYPE}
EXPLICIT = {"/session/switch", "/oauth/authorize"}
"""Forms that say by themselves for which account they are."""
POSTS = [re.sub(r"{\w+}", "1", path) for method, path in PAGE_NEEDS if method == "POST"]


def is_renamed(browser: Browser) -> bool:
    shown = browser.get("/settings").text
    assert ('value="Another"' in shown) != ('value="Dana Whitfield"' in shown)
    return 'value="Another"' in shown


def test_only_a_form_of_ours_with_the_word_of_its_session_is_taken(http: TestClient, browser: Browser) -> None:
    other = sign_in_browser(http)
    before_signing_in = other.csrf()
    other.sign_in(OWNER)
    for word in (None, "", "nonsense", "0" * 64, "é" * 20, before_signing_in, other.csrf()):
        refused = browser.post("/settings/name", name="Another", csrf=word)
        assert refused.status_code == 403, word
        assert_shows(refused, "Open the page anew")
    assert other.post("/sign-out", csrf=before_signing_in).status_code == 403
    refused = browser.client.post("/settings/name", content="name=Another", headers=BARE)
    assert (refused.status_code, set(refused.json())) == (403, {"message"}), "nor from who is no browser"
    assert not is_renamed(browser)
    assert browser.post("/settings/name", name="Another").status_code == 200
    assert is_renamed(browser)
    body = f"name=Third&csrf={browser.csrf()}"
    assert browser.client.post("/settings/name", content=body, headers=BARE, follow_redirects=False).status_code == 303


def test_a_form_that_another_site_sends_is_refused_whatever_it_holds(container: Container, browser: Browser) -> None:
    for origin in (
        "https://evil.example", "null", "http://quillpost.test.evil.example", "https://quillpost.test",
        "http://quillpost.test:8080", "",
    ):  # fmt: skip
        assert refuses(browser, {"Origin": origin}), origin
    for site in ("cross-site", "same-site"):
        assert refuses(browser, {"Sec-Fetch-Site": site}), site
    assert refuses(browser, {"Origin": "null", "Sec-Fetch-Site": "same-origin"})
    assert not is_renamed(browser)
    # Behind a proxy that ends https and is not trusted to say so, the request itself looks plain.
    assert browser.post("/settings/name", name="Another", headers={"Origin": container.base_url}).status_code == 200


def refuses(browser: Browser, headers: dict[str, str]) -> bool:
    refused = browser.post("/settings/name", name="Another", headers=headers)
    return (refused.status_code, "sent by another site" in refused.text) == (403, True)


def test_signed_out_visitors_are_refused_before_the_form_is_read(http: TestClient) -> None:
    assert len(POSTS) > 15
    for path in POSTS:
        response = http.post(path, content="{}", headers={"Content-Type": "application/json"})
        assert (response.status_code, response.json()) == (401, {"message": "Sign in first."}), path
        led = sign_in_browser(http).post(path, csrf=None, nothing="1", follow=False)
        assert (led.status_code, led.headers["Location"]) == (303, "/sign-in"), path


STALE = [
    ("/sign-in", None, "/sign-in"),
    ("/sign-in", "http://quillpost.test/sign-in?next=/settings/apps", "/sign-in?next=/settings/apps"),
    ("/sign-in", "http://elsewhere.example/forgot", "/sign-in"),
    ("/forgot", "http://quillpost.test/", "/forgot"),
    ("/join/qp_invitation_x", "http://quillpost.test/", "/join/qp_invitation_x"),
    ("/sign-out", "http://quillpost.test/docs", "/docs"),
    ("/sign-out", "http://quillpost.test/session/token", "/"),
]
"""Where a form was sent from which page, and where its reader is led to have a fresh one."""


def leads_to(page: Response, path: str) -> bool:
    words = "Go to the first page" if path == "/" else "Open the page"
    return f'<a class="button first" href="{path}">{words}</a>' in unescape(page.text)


def test_a_form_that_is_too_old_leads_to_a_fresh_one(http: TestClient, visitor: Browser) -> None:
    for path, referer, page in STALE:
        browser = sign_in_browser(http, base_url="http://quillpost.test")
        refused = browser.post(path, csrf="1.old", headers={} if referer is None else {"Referer": referer})
        assert (refused.status_code, leads_to(refused, page)) == (403, True), (path, referer)
        assert_shows(refused, "Open the page anew, and fill in the form once more.")
    # So does the way out of a lost cookie.
    word = visitor.csrf()
    visitor.client.cookies.clear()
    refused = visitor.post("/sign-in", email=OWNER, password=PASSWORD, csrf=word)
    assert (refused.status_code, leads_to(refused, "/sign-in")) == (403, True)
    assert visitor.sign_in(OWNER).url.path == "/"


FORMS_ONLY = {
    "/sign-out": "/", "/session/switch": "/", "/session/token": "/", "/settings/name": "/settings",
    "/settings/password": "/settings", "/settings/sessions/1/end": "/settings",
    "/settings/sessions/end-others": "/settings", "/settings/second-factor/off": "/settings/second-factor",
    "/settings/second-factor/codes": "/settings/second-factor",
    "/settings/people/invitations/1/again": "/settings/people", "/oauth/token": "/",
}  # fmt: skip


def test_an_address_that_only_takes_forms_is_a_page_for_people(house: AccountPages) -> None:
    for path, page in FORMS_ONLY.items():
        for browser in (house.owner, house.nobody()):
            shown = browser.get(path, follow=False)
            assert (shown.status_code, shown.headers["Allow"]) == (405, "POST, OPTIONS"), path
            assert shown.headers["Content-Type"].startswith("text/html")
            assert leads_to(shown, page), path
        assert_shows(house.owner.get(path), OWNER)  # whoever is signed in stays so on it
        response = house.http.get(path, headers=JSON)
        assert (response.status_code, response.headers["Allow"]) == (405, "POST, OPTIONS")
        assert response.json() == {"message": "This method is not allowed here."}
    # The API answers browsers as it answers programs.
    headers = {"Accept": "text/html", "Authorization": f"Bearer {house.account.token}"}
    response = house.owner.client.delete("/api/v2/ping", headers=headers)
    assert (response.status_code, response.json()) == (405, {"message": "This method is not allowed here."})


def test_a_secret_that_is_typed_where_it_does_not_belong_is_not_shown_again(browser: Browser, http: TestClient) -> None:
    secret = mint_secret("live", b"0" * 24)
    typed: dict[str, Any] = {
        "name": f"{secret} " + "x" * 400, "email": f"{secret}@example.com",
        "redirect_uris": f"{secret}\nhttp://{secret}/",
    }  # fmt: skip
    for page in ("/settings/tokens/new", "/settings/clients/new", "/settings/name", "/sign-in"):
        shown = (sign_in_browser(http) if page == "/sign-in" else browser).post(page, **typed)
        assert shown.status_code == 422
        assert "qp_live_[hidden]" in shown.text or page == "/settings/name"
        assert_hides(shown, secret)


def test_a_form_of_another_type_too_large_or_unreadable_is_refused(browser: Browser) -> None:
    word = browser.csrf()

    def send(body: str | bytes, kind: str = FORM_TYPE, accept: str = "application/json") -> Any:
        headers = {"Content-Type": kind, "Accept": accept, "X-CSRF-Token": word}
        return browser.client.post("/settings/name", content=body, headers=headers)

    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        answer = send(f"name=Another&csrf={word}", kind)
        assert (answer.status_code, FORM_TYPE in answer.json()["message"]) == (415, True), kind
    assert_shows(send(f"csrf={word}&name=" + "a" * MAX_FORM_BYTES, accept=ACCEPTS), "too much at once", status=413)
    too_many = "&".join(f"f{n}=1" for n in range(MAX_FIELDS + 1))
    for body, words in (
        ("name=%ff%fe", "UTF-8"), (b"name=\xff\xfe", "UTF-8"), (too_many, f"send {MAX_FIELDS} at most"),
    ):  # fmt: skip
        answer = send(body)
        assert (answer.status_code, words in answer.json()["errors"]["body"][0]) == (422, True), words
    assert_shows(browser.post("/settings/name", name="Da\x00na"), "cannot be stored", status=422)
    assert browser.post("/settings/name", name="a" * 301).status_code == 422


def test_fields_are_read_as_they_are_meant_and_not_too_much_of_anything() -> None:
    form = Form({"name": [" Dana "], "password": [" two  words "], "scopes": ["a", " b"], "id": ["12"], "no": [""]})
    assert (form.text("name"), form.text("missing"), form.secret("password")) == ("Dana", "", " two  words ")
    assert form.values("scopes") == ["a", "b"]
    assert (form.number("id"), form.number("no"), form.number("missing")) == (12, None, None)
    for written in ("-1", "0", "1.5", "one", "9" * 30, "1e3", "٣"):
        with pytest.raises(Invalid, match="on the list"):
            Form({"id": [written]}).number("id")
    with pytest.raises(Invalid, match="At most 5"):
        Form({"name": ["toolong"]}).text("name", max_length=5)
    with pytest.raises(Invalid, match="At most 2"):
        Form({"scopes": ["a", "b", "c"]}).values("scopes", max_count=2)


TOKEN: dict[str, Any] = {"name": "Zapier", "mode": "live", "limits": "all", "lasts": "never"}
CLIENT: dict[str, Any] = {
    "name": "Zapier", "redirect_uris": "https://app.example/back", "kind": "confidential", "limits": "all",
}  # fmt: skip
GUEST: dict[str, Any] = {"email": "kim@example.com", "role": "member"}
FORMS = {"/settings/tokens/new": TOKEN, "/settings/people/invite": GUEST, "/settings/clients/new": CLIENT}

Going = Callable[[AccountPages], None]


@pytest.fixture
def two_accounts(house: AccountPages) -> AccountPages:
    """Whose owner owns the others' account too, and looks at their own."""
    house.join(OWNER, house.others.id)
    return house


def place(house: AccountPages, account_id: int) -> int:
    of = (memberships.c.account_id == account_id) & (memberships.c.person_id == house.person(OWNER))
    return int(house.value(sa.select(memberships.c.id).where(of)))


def looked_at(house: AccountPages) -> int | None:
    of = sessions.c.person_id == house.person(OWNER)
    found: int | None = house.value(sa.select(sessions.c.membership_id).where(of))
    return found


def read_word(browser: Browser, page: str) -> str:
    """The word of the forms on this page, as it stands open in a tab."""
    found = CSRF.search(browser.get(page).text)
    assert found is not None
    return found[1]


def go_on(house: AccountPages) -> None:
    """To the other account, in another tab."""
    house.owner.post("/session/switch", membership=place(house, house.others.id))


def be_removed(house: AccountPages) -> None:
    """Taken out of the account that is looked at; the other is left."""
    house.owner.post("/session/switch", membership=place(house, house.account.id))
    house.execute(sa.delete(memberships).where(memberships.c.id == place(house, house.account.id)))


@pytest.mark.parametrize("leave", [go_on, be_removed])
def test_what_was_begun_in_one_account_is_not_finished_in_another(two_accounts: AccountPages, leave: Going) -> None:
    house = two_accounts
    words = {page: read_word(house.owner, page) for page in FORMS}
    leave(house)
    for page, fields in FORMS.items():
        with house.unchanged():
            refused = house.owner.post(page, csrf=words[page], **fields)
            assert refused.status_code == 409
            assert_shows(refused, "You are in another account now.", "You have gone on to another account meanwhile")
        before = house.everything()
        assert house.owner.post(page, csrf=read_word(house.owner, page), **fields).status_code == 200
        assert house.everything() != before, "the page of the account that they are in now is good"
    if leave is go_on:  # back in the account its page is good again
        house.owner.post("/session/switch", membership=place(house, house.account.id))
        assert house.owner.post("/settings/tokens/new", csrf=words["/settings/tokens/new"], **TOKEN).status_code == 200
    # Signing out is never refused.
    assert_shows(house.owner.post("/sign-out", csrf=words["/settings/tokens/new"]), "You are signed out.")


def test_no_form_of_any_page_is_finished_in_another_account_or_mode(two_accounts: AccountPages) -> None:
    house = two_accounts
    house.execute(sa.update(accounts).values(is_operator=True))  # so that the print room is there, too
    word = read_word(house.owner, "/automations/new")
    house.owner.post("/session/switch", mode="live")
    filled: dict[str, Any] = {
        "name": "Welcome", "message": "Hi %FIRST_NAME%,\nthank you <all>!", "password": "plum orchard",
    }  # fmt: skip
    with house.unchanged():
        refused = house.owner.post("/automations/new", csrf=word, **filled)
        assert refused.status_code == 409
        assert_shows(
            refused, "You are in live mode now.", "opened in test mode", "Nothing was done", "thank you &lt;all"
        )
        assert_hides(refused, "plum orchard")
        assert_refuses_all(house, word, "live mode")
        go_on(house)
        assert_refuses_all(house, word, "another account")
    house.owner.post("/session/switch", membership=place(house, house.account.id))
    house.owner.post("/session/switch", csrf=word, mode="test")
    assert house.owner.post("/settings/name", csrf=word, name="Another").status_code == 200


def assert_refuses_all(house: AccountPages, word: str, words: str) -> None:
    for path in POSTS:
        if path not in EXPLICIT:
            response = house.owner.post(path, csrf=word, follow=False, headers=JSON)
            assert (response.status_code, set(response.json())) == (409, {"message"}), path
            assert words in response.json()["message"], path


def test_nobody_makes_a_word_for_another_account_and_a_switch_is_of_the_page_s_own(two_accounts: AccountPages) -> None:
    house = two_accounts
    word = read_word(house.owner, "/settings")
    about, _, mac = word.partition(".")
    here, other = place(house, house.account.id), place(house, house.others.id)
    assert about == f"{here}-test"
    go_on(house)
    for made_up in (f"{other}-test.{mac}", f"{here}-live.{mac}", f"{here}.{mac}", f".{mac}", mac):
        assert house.owner.post("/settings/name", name="Another", csrf=made_up).status_code == 403
    house.owner.post("/session/switch", csrf=word, mode="live")
    assert looked_at(house) == here
    word = read_word(house.owner, "/settings")
    be_removed(house)
    assert house.owner.post("/session/switch", csrf=word, mode="test").status_code == 409
    answer = house.owner.post("/session/switch", csrf=word, membership=other)
    assert (answer.status_code, looked_at(house)) == (200, other)
    # Forms that are for no account work for whoever is signed in.
    assert house.owner.post("/forgot", csrf=read_word(house.owner, "/forgot"), email=OWNER).status_code == 200


ONCE = re.compile(r'name="once" value="([^"]+)"')


def with_client(house: AccountPages) -> str:
    house.owner.post("/settings/clients/new", **CLIENT | {"name": "Letterhead"})
    number = max(map(int, re.findall(r"/settings/clients/(\d+)", house.owner.get("/settings/clients").text)))
    return f"/settings/clients/{number}/secret"


def with_codes(house: AccountPages) -> str:
    turn_on_second_factor(house.parts, OWNER)
    return "/settings/second-factor/codes"


def with_guest(house: AccountPages) -> str:
    house.owner.post("/settings/people/invite", **GUEST | {"email": "guest@example.com"})
    return str(re.findall(r"/settings/people/invitations/\d+/again", house.owner.get("/settings/people").text)[-1])


ACTS: dict[str, tuple[Callable[[AccountPages], str], str, dict[str, Any], str]] = {
    "a token": (lambda _: "/settings/tokens/new", "", TOKEN, "/settings/tokens"),
    "a client": (lambda _: "/settings/clients/new", "", CLIENT, "/settings/clients"),
    "a client's new secret": (with_client, "", {}, "/settings/clients/"),
    "recovery codes": (with_codes, "/settings/second-factor", {}, "/settings/second-factor"),
    "an invitation": (lambda _: "/settings/people/invite", "", GUEST, "/settings/people"),
    "an invitation again": (with_guest, "/settings/people", {}, "/settings/people"),
}
"""What comes first and tells the form's path, the page on which the form stands (its own), what is filled in,
and where whoever sends it again is led."""


def read_key(browser: Browser, page: str) -> str:
    found = ONCE.findall(browser.get(page).text)
    assert found, f"{page} has no form with a key"
    return unescape(found[-1])


def test_what_shows_a_secret_is_done_once_per_form(house: AccountPages, subtests: pytest.Subtests) -> None:
    for act, (begin, page, fields, leads_to) in ACTS.items():
        with subtests.test(act):
            path = begin(house)
            key = read_key(house.owner, page or path)
            first = house.owner.post(path, follow=False, **fields, once=key)
            assert first.status_code in (200, 303), first.text
            acts = house.acts()
            with house.unchanged():
                for _ in range(2):
                    again = house.owner.post(path, follow=False, **fields, once=key)
                    assert_shows(again, "This was done already.", f'class="button first" href="{leads_to}', status=409)
            assert house.acts() == acts
            assert house.owner.post(path, follow=False, **fields, once=None).status_code == 403


def test_each_page_has_a_key_of_its_own_that_is_good_for_one_deed_of_one_reader(house: AccountPages) -> None:
    page = "/settings/tokens/new"
    keys = [read_key(house.owner, page) for _ in range(3)]
    assert len(set(keys)) == 3
    refused = house.owner.post(page, **TOKEN | {"name": ""}, once=keys[0])
    assert refused.status_code == 422
    assert ONCE.search(refused.text), "the form that comes back has a key as well"
    assert [house.owner.post(page, **TOKEN, once=key).status_code for key in keys] == [200] * 3
    assert house.stranger.post(page, **TOKEN, once=keys[0]).status_code == 200
    with house.unchanged():
        for odd in ("", "short", "x" * 23, "not a key of ours, yet", "é" * 22):
            assert house.owner.post(page, **TOKEN, once=odd).status_code == 403, odd


def test_of_two_at_once_one_is_done(house: AccountPages) -> None:
    key, csrf = read_key(house.owner, "/settings/tokens/new"), house.owner.csrf()
    before = house.everything()["tokens"]

    def send(_: int) -> int:
        return int(house.owner.post("/settings/tokens/new", **TOKEN, once=key, csrf=csrf).status_code)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(send, range(4))) == [200, 409, 409, 409]
    assert house.everything()["tokens"] == before + 1
