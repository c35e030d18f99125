"""What our pages say to whom: the way back from what went wrong, who is reading, and what no mail says."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.users import second_factor
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import people
from quillpost.core.database.tables.notifications import notices
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.web.application import create_app
from support.account_pages import MEMBER, OWNER, AccountPages
from support.browser_sessions import PASSWORD, Browser, make_user, sign_in_browser, turn_on_second_factor
from support.factories import Account, Build, count_rows, make_account
from support.test_client import TestClient

HERE = ("127.0.0.1", 50_000)
JOIN = re.compile(r"https?://[^/]+(/join/qp_invitation_\w+)")


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def mails(container: Container) -> list[tuple[str, str, str]]:
    c = notices.c
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(c.address, c.subject, c.words).order_by(c.id))
        return [(row.address, row.subject, row.words) for row in rows]


def test_only_an_owner_of_its_account_is_led_to_the_receiver(build: Build) -> None:
    container = build(receiver=True)
    http = TestClient(create_app(container), base_url="http://localhost", client=HERE)
    owner, stranger = (make_account(container, http, "o@example.com"), make_account(container, http, "s@example.com"))
    path = f"/receiver/{container.receiver_key}"
    subscribe(container, owner, f"http://127.0.0.1:8080{path}/hook")
    for email, account, role, is_led in (
        ("owner@example.com", owner, "owner", True),
        ("member@example.com", owner, "member", False),
        ("stranger@example.com", stranger, "owner", False),
    ):
        make_user(container, account.id, email, role=role)  # type: ignore[arg-type]
        browser = sign_in_browser(http, address="127.0.0.1")
        browser.sign_in(email)
        shown = browser.get("/").text
        assert (path in shown) is is_led, email
        assert ("Event receiver" in shown) is is_led, email
    assert path in sign_in_browser(http, address="127.0.0.1").get("/").text


def subscribe(container: Container, owner: Account, url: str) -> None:
    caller, _ = service.authenticate(container.db, owner.token, limit=120, now=container.clock())
    with container.db.transaction(Tenant(owner.id)) as tx:
        webhook_service.create_webhook(
            tx, caller, container.encryptor, url=url, type="*", description="x", now=container.clock()
        )


@pytest.mark.parametrize(
    ("path", "referer", "page"),
    [
        ("/sign-in", None, "/sign-in"),
        ("/sign-in", "http://quillpost.test/sign-in?next=/settings/apps", "/sign-in?next=/settings/apps"),
        ("/sign-in", "http://elsewhere.example/forgot", "/sign-in"),
        ("/forgot", "http://quillpost.test/", "/forgot"),
        ("/join/qp_invitation_x", "http://quillpost.test/", "/join/qp_invitation_x"),
        ("/sign-out", "http://quillpost.test/docs", "/docs"),
        ("/sign-out", "http://quillpost.test/session/token", "/"),
    ],
)
def test_a_form_that_is_too_old_leads_to_a_fresh_one(
    http: TestClient, path: str, referer: str | None, page: str
) -> None:
    browser = sign_in_browser(http, base_url="http://quillpost.test")
    refused = browser.post(path, csrf="1.old", headers={} if referer is None else {"Referer": referer})
    assert refused.status_code == 403
    assert "Open the page anew, and fill in the form once more." in refused.text
    words = "Go to the first page" if page == "/" else "Open the page"
    assert f'<a class="button first" href="{page}">{words}</a>' in unescape(refused.text)


def test_the_way_out_of_a_lost_cookie_is_a_form_that_works(
    container: Container, owner: Account, http: TestClient
) -> None:
    make_user(container, owner.id, OWNER)
    browser = sign_in_browser(http)
    word = browser.csrf()
    browser.client.cookies.clear()
    refused = browser.post("/sign-in", email=OWNER, password=PASSWORD, csrf=word)
    assert refused.status_code == 403
    assert 'href="/sign-in">Open the page</a>' in refused.text
    browser.get("/sign-in")
    assert browser.sign_in(OWNER).url.path == "/"


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/sign-out", "/"),
        ("/session/switch", "/"),
        ("/session/token", "/"),
        ("/settings/name", "/settings"),
        ("/settings/password", "/settings"),
        ("/settings/sessions/1/end", "/settings"),
        ("/settings/sessions/end-others", "/settings"),
        ("/settings/second-factor/off", "/settings/second-factor"),
        ("/settings/second-factor/codes", "/settings/second-factor"),
        ("/settings/people/invitations/1/again", "/settings/people"),
        ("/oauth/token", "/"),
    ],
)
def test_an_address_that_only_takes_forms_is_a_page_for_people(house: AccountPages, path: str, page: str) -> None:
    for browser in (house.owner, house.nobody()):
        shown = browser.get(path, follow=False)
        assert (shown.status_code, shown.headers["Allow"]) == (405, "POST, OPTIONS")
        assert shown.headers["Content-Type"].startswith("text/html")
        words = "Go to the first page" if page == "/" else "Open the page"
        assert f'<a class="button first" href="{page}">{words}</a>' in shown.text
    assert OWNER in house.owner.get(path).text, "whoever is signed in stays so on it"
    response = house.http.get(path, headers={"Accept": "application/json"})
    assert (response.status_code, response.headers["Allow"]) == (405, "POST, OPTIONS")
    assert response.json() == {"message": "This method is not allowed here."}


def test_the_api_answers_browsers_as_it_answers_programs(house: AccountPages) -> None:
    response = house.owner.client.delete(
        "/api/v2/ping", headers={"Accept": "text/html", "Authorization": f"Bearer {house.account.token}"}
    )
    assert (response.status_code, response.json()) == (405, {"message": "This method is not allowed here."})


def test_without_a_mail_server_whoever_invites_hands_the_link_over(house: AccountPages) -> None:
    text = house.owner.get("/settings/people/invite").text
    assert "This service sends no mail: you hand the link over yourself." in text
    shown = house.owner.post("/settings/people/invite", email="kim@example.com", role="member")
    assert shown.status_code == 200
    assert "on its way" not in shown.text
    assert "qp_invitation_" not in str(shown.url)
    [path] = JOIN.findall(shown.text)
    joined = house.nobody().post(path, name="Kim", password=PASSWORD, again=PASSWORD)
    assert "Welcome. You have joined Dana Whitfield." in joined.text


def test_one_that_is_invited_again_gets_another_link(house: AccountPages) -> None:
    first = house.owner.post("/settings/people/invite", email="kim@example.com", role="member").text
    page = house.owner.get("/settings/people").text
    [again] = re.findall(r'action="(/settings/people/invitations/\d+/again)"', page)
    second = house.owner.post(again).text
    assert len({*JOIN.findall(first), *JOIN.findall(second)}) == 2


def test_without_a_mail_server_nobody_waits_for_a_mail(container: Container, house: AccountPages) -> None:
    make_user(container, house.account.id, "known@example.com")
    known, unknown = (
        house.nobody().post("/forgot", email=email).text for email in ("known@example.com", "no@example.com")
    )
    assert known == unknown
    assert "This service sends no mail. Ask whoever runs it for a link." in known
    assert "Look into your mailbox" not in known
    assert "This service sends no mail" in house.nobody().get("/forgot").text


def test_a_removed_member_gets_an_email_and_a_leaving_one_does_not(container: Container, house: AccountPages) -> None:
    house.join(MEMBER, house.account.id, role="member")
    house.join("leaves@example.com", house.account.id)
    leaver = house.browser("leaves@example.com", house.others.id)
    for browser, email in ((house.owner, MEMBER), (leaver, "leaves@example.com")):
        page = browser.get("/settings/people").text
        [row] = [row for row in page.split("<tr>")[1:] if email in row]
        [path] = re.findall(r"/settings/people/\d+/remove", row)
        assert browser.post(path).status_code == 200
    [(address, subject, words)] = mails(container)
    assert (address, subject) == (MEMBER, "You are no longer in Dana Whitfield")
    assert "you were removed from the account Dana Whitfield" in words
    with container.db.system_transaction() as tx:
        left = tx.execute(sa.select(people.c.email)).scalars().all()
    assert MEMBER not in left, "forgotten, and told all the same"


def test_public_pages_show_the_signed_in_user(build: Build) -> None:
    container = build(receiver=True)
    http = TestClient(create_app(container), base_url="http://localhost", client=HERE)
    account = make_account(container, http, "o@example.com")
    make_user(container, account.id, OWNER, name="Robin Reader")
    browser, nobody = sign_in_browser(http), sign_in_browser(http)
    browser.sign_in(OWNER)
    for path in ("/docs", f"/receiver/{container.receiver_key}", "/forgot", "/"):
        mine, others = browser.get(path), nobody.get(path)
        assert "Robin Reader" in mine.text, path
        assert 'class="account">Dana Whitfield<' in mine.text, path
        assert 'action="/sign-out"' in mine.text
        assert mine.headers["Cache-Control"] == "no-store"
        assert mine.text.count("<header class=") == others.text.count("<header class=")
        assert "Robin Reader" not in others.text, path
        assert '<a href="/sign-in">Sign in</a>' in others.text
    assert "Robin" not in nobody.get("/docs").text
    assert browser.post("/sign-out").url.path == "/sign-in"


def test_the_docs_of_the_api_itself_know_nobody(house: AccountPages) -> None:
    shown = house.owner.get("/api/v2/docs", headers={"Authorization": f"Bearer {house.account.token}"})
    assert shown.status_code == 200
    assert 'class="me"' not in shown.text
    assert 'action="/sign-out"' not in shown.text


def test_the_present_password_is_no_other_one(container: Container, owner: Account, http: TestClient) -> None:
    make_user(container, owner.id, OWNER)
    browser = sign_in_browser(http)
    browser.sign_in(OWNER)
    before = count_rows(container)
    refused = browser.post("/settings/password", present=PASSWORD, password=PASSWORD, again=PASSWORD)
    assert refused.status_code == 422
    assert "That is your present password. Choose another." in refused.text
    assert "At least 10 characters." in refused.text
    assert count_rows(container) == before
    assert mails(container) == []


def test_a_used_recovery_code_is_reported_as_used(container: Container, owner: Account, http: TestClient) -> None:
    person_id = make_user(container, owner.id, OWNER)
    turn_on_second_factor(container, OWNER)
    with container.db.system_transaction() as tx:
        codes = second_factor.create_recovery_codes(
            tx, person_id, Actor(OWNER, person_id=person_id), now=container.clock()
        )
    first = half_in(http)
    assert first.post("/sign-in/code", code=codes[0]).url.path == "/"
    used = half_in(http)
    assert "none of your recovery codes, or it was used already" in used.post("/sign-in/code", code=codes[0]).text
    assert "That is not the code" in used.post("/sign-in/code", code="123456").text


def half_in(http: TestClient) -> Browser:
    browser = sign_in_browser(http)
    assert browser.sign_in(OWNER).url.path == "/sign-in/code"
    return browser


def test_an_invitation_for_a_sub_account_says_so(container: Container, house: AccountPages) -> None:
    shown = house.owner.post(
        "/settings/people/invite", email="kim@example.com", role="member", sub_account_id=house.branch
    )
    [(_, _, words)] = mails(container)
    assert "invites you to the account Dana Whitfield at Quillpost, for its sub account Dallas." in words
    [path] = JOIN.findall(shown.text)
    somebody = house.nobody()
    assert "<strong>Dallas</strong> alone" in somebody.get(path).text
    joined = somebody.post(path, name="Kim", password=PASSWORD, again=PASSWORD)
    assert "Welcome. You have joined Dana Whitfield, for Dallas." in joined.text
